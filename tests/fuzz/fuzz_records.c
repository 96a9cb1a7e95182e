/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of the reader of shift-records(5): what it gives keeps what records.h promises. Usage
 * without libFuzzer: fuzz_records [runs [seed]]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/records.h"
#include "common/cli.h"
#include "tests/fuzz/mutate_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int said;

static void listen(const char *line)
{
	said++;
	if (!strstr(line, "fuzz"))
		abort();
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check(const struct rec_file *f)
{
	for (size_t i = 0; i < f->comm_n; i++) {
		const struct rec_comm *c = f->comm + i;

		require(c->size > 0 && c->rank >= 0 && c->rank < c->size);
		for (int j = 0; c->hosts && j < c->size; j++)
			require(strlen(c->hosts[j]) < REC_NAME_BYTES);
	}
	for (size_t i = 0; i < f->coll_n; i++)
		require(f->coll[i].seq &&
			(!f->coll[i].end_ns || f->coll[i].end_ns >= f->coll[i].launch_ns));
	for (size_t i = 0; i < f->step_n; i++)
		require(f->step[i].step > 0 && f->step[i].peer >= 0);
	for (size_t i = 0; i < f->epochs_n; i++) {
		uint32_t sum = 0;

		require(f->epoch_ns && f->epochs[i].n);
		for (size_t j = 0; j < f->epochs[i].n; j++)
			sum += f->epochs[i].bytes[j] + (f->epochs[i].wr ? f->epochs[i].wr[j] : 0) +
			       (f->epochs[i].wc ? f->epochs[i].wc[j] : 0);
		(void)*(volatile uint32_t *)&sum;
	}
	for (size_t i = 0; i < f->counter_n; i++)
		require(isfinite(f->counter[i].value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *in = fmemopen((void *)(uintptr_t)data, size ? size : 1, "r");
	struct records r = {0};
	int status;

	require(in);
	cli_messages_to(listen);
	said = 0;
	status = records_read_stream(in, "fuzz", &r);
	fclose(in);
	require(status == 0 || status == 1);
	require(r.files == (size_t)status);
	/* One line if something is left out, else none. */
	require(said == (!status || r.file->bad_lines));
	if (status)
		check(r.file);
	records_free(&r);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
static const char good[] =
	"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"job\":\"j\",\"host\":"
	"\"a\",\"pid\":1,\"rank\":0,\"began\":\"1795855608123456789\",\"epoch_ns\":32000}\n"
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2,\"rank\":0,\"hosts\":[\"a\",\"b\"]}\n"
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1,\"op\":\"allreduce\",\"launch_ns\":12,"
	"\"end_ns\":90,\"wr\":4,\"wc\":4}\n"
	"{\"record\":\"p2p\",\"comm\":\"w\",\"peer\":1,\"direction\":\"send\",\"launch_ns\":7}\n"
	"{\"record\":\"step\",\"comm\":\"w\",\"seq\":1,\"step\":2,\"peer\":1,\"start_ns\":8,"
	"\"end_ns\":9,\"wait_rank\":0}\n"
	"{\"record\":\"epochs\",\"qp\":9,\"t_ns\":0,\"bytes\":[1,2,3],\"wr\":[0,0,1]}\n"
	"{\"record\":\"counter\",\"t_ns\":1,\"name\":\"n\",\"value\":0.5}\n";

static const char *const words[] = {
	"{",	      "}",    "[",    "]",	   "\"",	",",
	":",	      "null", "-1",   "1e99",	   "\"\"",	"\n",
	"\"end_ns\"", "\\",   "true", "\"hosts\"", "\"size\":", "9007199254740993",
	NULL};

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 100000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static char text[4096];

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	LLVMFuzzerTestOneInput((const uint8_t *)good, sizeof(good) - 1);
	require(!said);
	for (uint32_t i = 0; i < runs; i++) {
		size_t len = sizeof(good) - 1;

		memcpy(text, good, len);
		for (uint32_t n = 1 + rnd(4); n; n--)
			len = mutate_text(text, len, sizeof(text), words);
		LLVMFuzzerTestOneInput((const uint8_t *)text, len);
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated files of records, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
