/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The reader of shift-records(5). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/shift-diag/records.h"
#include "common/cli.h"

#define HEADER                                                                             \
	"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"job\":\"j\"," \
	"\"host\":\"node1\",\"pid\":4711,\"rank\":3,\"began\":\"1795855608123456789\","    \
	"\"epoch_ns\":32000,\"read_ns\":60000000000,\"dropped\":2}\n"
#define COLL(more) "{\"record\":\"coll\",\"comm\":\"world\",\"seq\":1,\"launch_ns\":1200" more "}\n"

static const uint64_t began_ns = 1795855608123456789u;
static struct records r;
static char said[4096];
static int lines_said;

static void listen(const char *line)
{
	snprintf(said, sizeof(said), "%s", line);
	lines_said++;
}

static int fresh(void **state)
{
	(void)state;
	*said = 0;
	lines_said = 0;
	cli_messages_to(listen);
	return 0;
}

static int done(void **state)
{
	(void)state;
	records_free(&r);
	cli_messages_to(NULL);
	return 0;
}

static int read_bytes(const char *text, size_t n)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, n, "r");
	int status;

	assert_non_null(in);
	status = records_read_stream(in, "x.records", &r);
	fclose(in);
	return status;
}

static int read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static void all_types_are_read(void **state)
{
	const struct rec_file *f;

	(void)state;
	assert_int_equal(
		read_text(
			HEADER
			"{\"record\":\"qp\",\"t_ns\":1,\"qp\":9,\"qpn\":282,\"peer_qpn\":283,"
			"\"nic\":\"mlx5_0\",\"state\":\"RTS\",\"peer_host\":\"b\",\"peer_rank\":1}"
			"\n"
			"{\"record\":\"wcerr\",\"t_ns\":2,\"qp\":9,\"status\":\"RETRY_EXC_ERR\","
			"\"vendor_err\":129}\n"
			"{\"record\":\"async\",\"t_ns\":3,\"event\":\"PORT_ERR\",\"nic\":\"mlx5_"
			"0\"}\n"
			"{\"record\":\"move\",\"t_ns\":4,\"end_ns\":5,\"from\":\"a\",\"to\":\"b\"}"
			"\n"
			"{\"record\":\"comm\",\"comm\":\"world\",\"size\":2,\"rank\":1,\"hosts\":["
			"\"a\","
			"\"b\"]}\n" COLL(
				",\"wr\":4,\"wc\":3,\"bytes\":4096") "{\"record\":\"p2p\",\"comm\":"
								     "\"world\",\"peer\":1,"
								     "\"direction\":\"send\","
								     "\"launch_ns\":7}\n"
								     "{\"record\":\"step\","
								     "\"comm\":\"world\",\"seq\":1,"
								     "\"step\":2,\"peer\":1,"
								     "\"start_ns\":8,\"end_ns\":9,"
								     "\"wait_rank\":0,\"wait_"
								     "step\":1}\n"
								     "{\"record\":\"epochs\","
								     "\"qp\":9,\"t_ns\":0,"
								     "\"bytes\":[1,2,3],\"wc\":[0,"
								     "0,"
								     "1]}\n"
								     "{\"record\":\"counter\",\"t_"
								     "ns\":1,\"name\":\"n\","
								     "\"value\":-0.5}\n"),
		1);
	assert_int_equal(lines_said, 0);
	f = r.file;
	assert_string_equal(f->host, "node1");
	assert_int_equal(f->pid, 4711);
	assert_int_equal(f->rank, 3);
	assert_true(f->began_ns == began_ns);
	assert_true(f->read_ns == began_ns + 60000000000u);
	assert_true(f->ended_ns == 0 && !f->died && f->dropped == 2);
	assert_true(f->clock_error_ns == REC_NONE);
	assert_int_equal(f->qp->qpn, 282);
	assert_true(f->qp->t_ns == began_ns + 1 && f->qp->id == 9);
	assert_int_equal(f->wcerr->peer_rank, REC_NONE);
	assert_int_equal(f->wcerr->vendor_err, 129);
	assert_string_equal(f->async->event, "PORT_ERR");
	assert_true(f->move->end_ns - f->move->t_ns == 1);
	assert_string_equal(f->comm->hosts[1], "b");
	assert_true(f->coll->launch_ns == began_ns + 1200 && !f->coll->end_ns);
	assert_true(f->coll->wr == 4 && f->coll->wc == 3 && f->coll->bytes == 4096);
	assert_int_equal(f->coll->root, REC_NONE);
	assert_true(f->p2p->is_send);
	assert_int_equal(f->step->send_index, REC_NONE);
	assert_int_equal(f->step->wait_rank, 0);
	assert_true(f->epochs->n == 3 && f->epochs->bytes[2] == 3);
	assert_true(!f->epochs->wr && f->epochs->wc[2] == 1);
	assert_true(f->counter->value == -0.5 && !*f->counter->nic);
}

/* Else it would look as if it were under way for ever. */
static void what_was_only_launched_has_ended(void **state)
{
	(void)state;
	assert_int_equal(read_text(HEADER COLL(",\"launch_only\":true") COLL("")), 1);
	assert_int_equal(lines_said, 0);
	assert_int_equal(r.file->coll_n, 2);
	assert_true(r.file->coll[0].launch_only);
	assert_int_equal(r.file->coll[0].end_ns, r.file->coll[0].launch_ns);
	assert_false(r.file->coll[1].launch_only);
	assert_int_equal(r.file->coll[1].end_ns, 0);
}

static void times_keep_all_digits(void **state)
{
	(void)state;
	read_text(HEADER "{\"record\":\"async\",\"t_ns\":9007199254740991,\"event\":\"x\"}\n");
	assert_true(r.file->async->t_ns == began_ns + 9007199254740991u);
}

static void what_is_new_is_skipped(void **state)
{
	(void)state;
	assert_int_equal(read_text(HEADER "{\"record\":\"gpu\",\"t_ns\":\"soon\"}\n"
					  "\n" COLL(",\"colour\":[1]")),
			 1);
	assert_int_equal(lines_said, 0);
	assert_true(r.file->coll_n == 1 && !r.file->bad_lines);
}

static void a_null_is_as_missing(void **state)
{
	(void)state;
	read_text(HEADER COLL(",\"end_ns\":null,\"root\":null"));
	assert_true(r.file->coll_n == 1 && !r.file->coll->end_ns);
	assert_int_equal(r.file->coll->root, REC_NONE);
}

static void a_line_that_is_written_is_no_error(void **state)
{
	(void)state;
	assert_int_equal(read_text(HEADER COLL("") "{\"record\":\"coll\",\"comm\":\"wor"), 1);
	assert_int_equal(lines_said, 0);
	assert_true(r.file->coll_n == 1 && !r.file->bad_lines);
}

static void a_whole_last_line_needs_no_newline(void **state)
{
	(void)state;
	read_text(HEADER "{\"record\":\"async\",\"t_ns\":1,\"event\":\"x\"}");
	assert_int_equal(r.file->async_n, 1);
}

static void a_cut_line_amid_others_is_one(void **state)
{
	(void)state;
	read_text(HEADER "{\"record\":\"coll\",\"comm\":\"wor\n" COLL(""));
	assert_int_equal(lines_said, 1);
	assert_non_null(strstr(said, "line 2"));
	assert_true(r.file->coll_n == 1 && r.file->bad_lines == 1);
}

/* Each of them is a line of its own, behind a header; none may leave a record. */
static const char *const bad[] = {
	"[]",
	"1",
	"{}",
	"{\"record\":1}",
	"{\"record\":\"coll\"} x",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1}",
	"{\"record\":\"coll\",\"comm\":7,\"seq\":1,\"launch_ns\":1}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":0,\"launch_ns\":1}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":-1,\"launch_ns\":1}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1.5,\"launch_ns\":1}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1e30,\"launch_ns\":1}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1,\"launch_ns\":\"1\"}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1,\"launch_ns\":5,\"end_ns\":4}",
	"{\"record\":\"coll\",\"comm\":\"w\",\"seq\":1,\"launch_ns\":5,\"root\":2147483648}",
	"{\"record\":\"coll\",\"seq\":1,\"launch_ns\":5,\"comm\":"
	"\"0123456789012345678901234567890123456789012345678901234567890123\"}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":0,\"rank\":0}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2,\"rank\":2}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2147483647,\"rank\":2}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2,\"rank\":0,\"hosts\":[\"a\"]}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2,\"rank\":0,\"hosts\":[\"a\",2]}",
	"{\"record\":\"comm\",\"comm\":\"w\",\"size\":2,\"rank\":0,\"hosts\":{}}",
	"{\"record\":\"p2p\",\"comm\":\"w\",\"peer\":0,\"launch_ns\":1}",
	"{\"record\":\"p2p\",\"comm\":\"w\",\"peer\":0,\"launch_ns\":1,\"direction\":\"up\"}",
	"{\"record\":\"step\",\"comm\":\"w\",\"seq\":1,\"step\":0,\"peer\":1,\"start_ns\":1}",
	"{\"record\":\"move\",\"t_ns\":2,\"end_ns\":1}",
	"{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1}",
	"{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1,\"bytes\":[]}",
	"{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1,\"bytes\":[1,\"2\"]}",
	"{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1,\"bytes\":[1,2],\"wr\":[1]}",
	"{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1,\"bytes\":[4294967296]}",
	"{\"record\":\"counter\",\"t_ns\":1,\"name\":\"n\",\"value\":1e999}",
	"{\"record\":\"counter\",\"t_ns\":1,\"name\":\"n\",\"value\":null}",
	"{\"record\":\"qp\",\"t_ns\":1,\"qp\":1,\"qpn\":4294967296}",
	HEADER,
};

static void bad_lines_are_counted_and_told_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char text[2048];
		const struct rec_file *f;

		fresh(NULL);
		snprintf(text, sizeof(text), "%s%s\n%s\n%s", HEADER, bad[i], bad[i],
			 COLL(",\"op\":\"allreduce\""));
		print_message("%s\n", bad[i]);
		assert_int_equal(read_text(text), 1);
		f = r.file;
		assert_int_equal(lines_said, 1);
		assert_non_null(strstr(said, "line 2"));
		assert_true(f->bad_lines == 2 && f->coll_n == 1);
		assert_true(!f->comm_n && !f->p2p_n && !f->step_n && !f->move_n && !f->epochs_n &&
			    !f->counter_n && !f->qp_n);
		records_free(&r);
	}
}

static void no_epochs_without_their_length(void **state)
{
	(void)state;
	read_text(
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"host\":\"a\","
		"\"began\":\"1\"}\n{\"record\":\"epochs\",\"qp\":1,\"t_ns\":1,\"bytes\":[1]}\n");
	assert_true(r.file->bad_lines == 1 && !r.file->epochs_n);
}

static void no_file_without_a_header(void **state)
{
	static const char *const headers[] = {
		"",
		"\n",
		"\x7f"
		"ELF\x02\x01",
		COLL(""),
		"{\"record\":\"header\",\"format\":\"shift-report\",\"version\":1,\"host\":\"a\","
		"\"began\":\"1\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":2,\"host\":\"a\","
		"\"began\":\"1\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"host\":\"a\",\"began\":"
		"\"1\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"began\":"
		"\"1\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"host\":\"a\"}"
		"\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"host\":\"a\","
		"\"began\":\"-1\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"host\":\"a\","
		"\"began\":\"99999999999999999999\"}\n",
		"{\"record\":\"header\",\"format\":\"shift-records\",\"version\":1,\"host\":\"a\","
		"\"began\":\"1\",\"dropped\":-1}\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
		char text[512];

		fresh(NULL);
		print_message("%s\n", headers[i]);
		snprintf(text, sizeof(text), "%s%s", headers[i], i ? COLL("") : "");
		assert_int_equal(*text ? read_text(text) : read_bytes("", 1), 0);
		assert_int_equal(lines_said, 1);
		assert_non_null(strstr(said, "x.records: not used: "));
		assert_int_equal(r.files, 0);
	}
}

static void a_line_may_hold_anything(void **state)
{
	static const char text[] = HEADER "\0\xff\xfe\0{}\n{\"record\":\0}\n" COLL("");

	(void)state;
	assert_int_equal(read_bytes(text, sizeof(text) - 1), 1);
	assert_true(r.file->bad_lines == 2 && r.file->coll_n == 1);
}

static void deep_nesting_is_a_bad_line(void **state)
{
	size_t n = strlen(HEADER), deep = 1000000;
	char *text = malloc(n + deep + 1);

	(void)state;
	assert_non_null(text);
	memcpy(text, HEADER, n);
	memset(text + n, '[', deep);
	text[n + deep] = '\n';
	assert_int_equal(read_bytes(text, n + deep + 1), 1);
	assert_true(r.file->bad_lines == 1);
	free(text);
}

static void a_huge_line_is_left_out(void **state)
{
	size_t n = strlen(HEADER), huge = 20 << 20, m = strlen(COLL(""));
	char *text = malloc(n + huge + m);

	(void)state;
	assert_non_null(text);
	memcpy(text, HEADER, n);
	memset(text + n, ' ', huge);
	text[n + huge - 1] = '\n';
	memcpy(text + n + huge, COLL(""), m);
	assert_int_equal(read_bytes(text, n + huge + m), 1);
	assert_non_null(strstr(said, "longer than"));
	assert_true(r.file->bad_lines == 1 && r.file->coll_n == 1);
	free(text);
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void a_directory_gives_its_files(void **state)
{
	char dir[] = "/tmp/test_records.XXXXXX", path[256];

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "b.records", HEADER COLL(""));
	write_file(dir, "a.records", HEADER);
	write_file(dir, "bad.records", "no\n");
	write_file(dir, "notes.txt", HEADER);
	snprintf(path, sizeof(path), "%s/fifo.records", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(records_read(dir, &r), 2);
	assert_int_equal(r.files, 2);
	assert_non_null(strstr(r.file[1].path, "/b.records"));
	assert_int_equal(lines_said, 2);
	unlink(path);
	for (const char *const *name = (const char *const[]){"a.records", "b.records",
							     "bad.records", "notes.txt", NULL};
	     *name; name++) {
		snprintf(path, sizeof(path), "%s/%s", dir, *name);
		unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void a_path_that_is_not_there(void **state)
{
	(void)state;
	assert_int_equal(records_read("/nonexistent/x.records", &r), -ENOENT);
	assert_int_equal(r.files, 0);
}

static void many_records_are_kept(void **state)
{
	struct rec_file *f;

	(void)state;
	for (unsigned int i = 0; i < 10; i++)
		assert_non_null(records_add(&r));
	f = r.file + 9;
	assert_int_equal(f->rank, REC_NONE);
	for (unsigned int i = 0; i < 1000; i++) {
		struct rec_coll *c = rec_add_coll(f);

		assert_non_null(c);
		assert_true(c->seq == 0);
		c->seq = i + 1;
	}
	for (unsigned int i = 0; i < 1000; i++)
		assert_true(f->coll[i].seq == i + 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fresh, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(all_types_are_read),
		T(what_was_only_launched_has_ended),
		T(times_keep_all_digits),
		T(what_is_new_is_skipped),
		T(a_null_is_as_missing),
		T(a_line_that_is_written_is_no_error),
		T(a_whole_last_line_needs_no_newline),
		T(a_cut_line_amid_others_is_one),
		T(bad_lines_are_counted_and_told_once),
		T(no_epochs_without_their_length),
		T(no_file_without_a_header),
		T(a_line_may_hold_anything),
		T(deep_nesting_is_a_bad_line),
		T(a_huge_line_is_left_out),
		T(a_directory_gives_its_files),
		T(a_path_that_is_not_there),
		T(many_records_are_kept),
	};

	cli_begin("test_records", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
