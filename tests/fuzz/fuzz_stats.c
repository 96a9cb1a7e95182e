/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of the statistics reader: files of other processes, in any state. Their content
 * must be safe to print: it is turned into JSON. Usage without libFuzzer: fuzz_stats [runs [seed]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/stats/json.h"
#include "tests/fuzz/rnd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct stats_copy *copy)
{
	cJSON *o = stats_json_process(copy), *events = stats_json_events(copy);
	char *text;
	const struct stats_notes *notes[] = {&copy->errors, &copy->asyncs, &copy->lives};

	stats_json_add_notes(o, copy);
	text = cJSON_PrintUnformatted(o);
	for (int kind = 0; kind < 3; kind++)
		for (size_t i = 0; i < notes[kind]->count; i++) {
			const struct stats_note *n = notes[kind]->note + i;

			if (n->rail >= SHIFT_RAILS_MAX || n->fate >= STATS_FATE_COUNT ||
			    n->nic[STATS_NIC_BYTES - 1] || (i && n->seq <= n[-1].seq))
				abort();
		}

	for (size_t i = 0; i < copy->conn_count; i++)
		if (!copy->conns[i].id || copy->conns[i].rail >= SHIFT_RAILS_MAX)
			abort();
	for (size_t i = 0; i < copy->srq_count; i++)
		if (!copy->srqs[i].id || copy->srqs[i].rails > SHIFT_RAILS_MAX)
			abort();
	for (size_t i = 1; i < copy->event_count; i++)
		if (copy->events[i].seq <= copy->events[i - 1].seq)
			abort();
	free(text);
	cJSON_Delete(o);
	cJSON_Delete(events);
}

static void read_one(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct stats_copy copy;

	if (fd < 0)
		fd = memfd_create("stats", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (!stats_read_fd(fd, &copy)) {
		check(&copy);
		stats_free(&copy);
	}
}

enum { CONNS = 8, EVENTS = 16, SWITCHES = 8, SRQS = 4, NOTES = 8 };

struct file {
	struct stats_header h;
	struct stats_event event[EVENTS];
	struct stats_switch sw[SWITCHES];
	struct stats_conn conn[CONNS];
	struct stats_srq srq[SRQS];
	struct stats_note note[3][NOTES];
};

static void scribble(void *at, size_t bytes)
{
	uint8_t *p = at;

	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)rnd(256);
}

/* A file that a reader accepts, with random content; its tables are smaller than real ones. */
static void good(struct file *f)
{
	struct stats_header *h = &f->h;
	uint32_t rings = rnd(40);

	scribble(f, sizeof(*f));
	memcpy(h->magic, STATS_MAGIC, sizeof(STATS_MAGIC));
	h->version = STATS_VERSION;
	h->header_bytes = sizeof(*h);
	h->shape = stats_shape();
	h->tables = 7;
	h->table[0] = (struct stats_table){STATS_TABLE_EVENTS, sizeof(*f->event),
					   offsetof(struct file, event), EVENTS, rings};
	h->table[1] = (struct stats_table){STATS_TABLE_SWITCHES, sizeof(*f->sw),
					   offsetof(struct file, sw), SWITCHES, rings};
	h->table[2] = (struct stats_table){STATS_TABLE_CONNS, sizeof(*f->conn),
					   offsetof(struct file, conn), CONNS, 0};
	h->table[3] = (struct stats_table){STATS_TABLE_SRQS, sizeof(*f->srq),
					   offsetof(struct file, srq), SRQS, 0};
	for (uint32_t kind = 0; kind < 3; kind++) {
		h->table[4 + kind] = (struct stats_table){
			STATS_TABLE_ERRORS + kind, sizeof(**f->note),
			offsetof(struct file, note) + kind * sizeof(*f->note), NOTES, rings};
		for (uint32_t n = rings > NOTES ? rings - NOTES : 0; n < rings; n++)
			f->note[kind][n % NOTES].seq = n + 1;
	}
	h->now.sequence = rnd(50) ? 2 : 1; /* an odd one costs a thousand tries */
	h->now.slots_used = rnd(CONNS + 2);
	h->now.srq_slots_used = rnd(SRQS + 2);
	for (uint32_t n = rings > EVENTS ? rings - EVENTS : 0; n < rings; n++)
		f->event[n % EVENTS].seq = n + 1;
	for (uint32_t n = rings > SWITCHES ? rings - SWITCHES : 0; n < rings; n++)
		f->sw[n % SWITCHES].seq = n + 1;
	for (int i = 0; i < CONNS; i++) {
		f->conn[i].sequence &= ~1ull;
		f->conn[i].id = rnd(3);
	}
	for (int i = 0; i < SRQS; i++) {
		f->srq[i].sequence &= ~1ull;
		f->srq[i].id = rnd(3);
	}
}

/* As it is, and as changes of a good file, whose tables are hard to guess: offset, value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct file f;

	read_one(data, size);
	rng = size + 1;
	good(&f);
	for (size_t i = 0; i + 3 <= size; i += 3)
		((uint8_t *)&f)[(data[i] | (size_t)data[i + 1] << 8) % sizeof(f)] = data[i + 2];
	read_one((uint8_t *)&f, sizeof(f));
	return 0;
}

#ifndef SHIFT_LIBFUZZER
static size_t mutate(uint8_t *buf, size_t len)
{
	for (uint32_t n = rnd(5); n; n--) {
		/* Mostly where the structure is. */
		uint32_t at = rnd(rnd(3) ? offsetof(struct stats_header, now) : (uint32_t)len);

		if (at >= offsetof(struct stats_header, job) && rnd(2))
			at = offsetof(struct stats_header, table) +
			     rnd(8 * sizeof(struct stats_table));
		if (rnd(2))
			buf[at] ^= (uint8_t)(1u << rnd(8));
		else
			buf[at] = (uint8_t)rnd(256);
	}
	return rnd(8) ? len : rnd((uint32_t)len + 1);
}

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 10000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static struct file f;

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	for (uint32_t i = 0; i < runs; i++) {
		good(&f);
		read_one((uint8_t *)&f, mutate((uint8_t *)&f, sizeof(f)));
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated files, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
