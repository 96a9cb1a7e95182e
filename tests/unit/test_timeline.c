/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Stragglers in timelines: two that were recorded, whose answers their authors give, and bad ones.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/timeline.h"

static struct timeline t;
static struct verdict v;

static int end(void **state)
{
	(void)state;
	verdict_free(&v);
	timeline_free(&t);
	return 0;
}

static int read_text(const char *text)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int status;

	assert_non_null(in);
	status = timeline_read(in, &t);
	fclose(in);
	return status;
}

static void read_data(const char *path)
{
	FILE *in = fopen(path, "r");

	assert_non_null(in);
	assert_int_equal(timeline_read(in, &t), 0);
	fclose(in);
	v = timeline_judge(&t);
}

static bool says(const char *text)
{
	for (size_t i = 0; i < v.evidence_n; i++)
		if (strstr(v.evidence[i], text))
			return true;
	return false;
}

/* One slow worker, PP 0 and DP 0. Its authors say 2.26 times the mean in forward; of the part that
 * is here it is 2.30: 549 of 239 ms. */
static void one_slow_worker(void **state)
{
	(void)state;
	read_data(DATA "/straggler/timeline-AR.json");
	assert_int_equal(t.workers, 16);
	assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	assert_string_equal(v.rule, "slow-worker");
	assert_int_equal(v.culprits_n, 1);
	assert_string_equal(v.culprits->what, "DP rank 0, PP rank 0, TP rank 0");
	assert_int_equal(v.component, COMPONENT_COMPUTATION);
	assert_true(says("forward takes 2.58 ") && says("2.30 times the mean of all"));
	assert_int_equal(v.evidence_n, 2);
}

/* The last stage has more to do; no worker is slow. */
static void a_long_last_stage(void **state)
{
	(void)state;
	read_data(DATA "/straggler/timeline-ST.json");
	assert_int_equal(t.workers, 8);
	assert_int_equal(v.class, CLASS_SLOW);
	assert_int_equal(v.culprits_n, 0);
	assert_int_equal(verdict_status(&v), EXIT_WARNING);
	assert_string_equal(v.rule, "long-stage");
	assert_true(says("PP rank 3: forward takes 2.14 "));
	assert_false(says("PP rank 0") || says("PP rank 1") || says("PP rank 2"));
}

/* Of dp x pp workers; one of them may need more. */
static char *made(int dp, int pp, int slow_dp, int slow_pp, int us, int events)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	fputs("{\"traceEvents\":[{}", out);
	for (int d = 0; d < dp; d++)
		for (int p = 0; p < pp; p++) {
			bool slow = d == slow_dp && p == slow_pp;

			for (int i = 0; i < events; i++)
				fprintf(out,
					",{\"ph\":\"X\",\"name\":\"forward-compute\",\"pid\":%d,"
					"\"tid\":%d,\"dur\":%d}",
					d, p, slow ? us : 1000 + i);
			fprintf(out,
				",{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
				"\"args\":{\"name\":\"PP rank %d, TP rank 0, compute\"}}",
				d, p, p);
		}
	fputs("]}", out);
	fclose(out);
	return text;
}

static void judge_made(int dp, int pp, int us, int events)
{
	char *text = made(dp, pp, 1, 1, us, events);

	end(NULL);
	assert_int_equal(read_text(text), 0);
	free(text);
	v = timeline_judge(&t);
}

static void the_threshold_is_a_fifth(void **state)
{
	(void)state;
	judge_made(4, 3, 1190, 3);
	assert_int_equal(v.class, CLASS_FINE);
	judge_made(4, 3, 1250, 3);
	assert_int_equal(v.culprits_n, 1);
	assert_string_equal(v.culprits->what, "DP rank 1, PP rank 1, TP rank 0");
	judge_made(2, 3, 1250, 3);
	assert_int_equal(v.culprits_n, 1);
}

static void who_is_not_seen_enough_is_not_fine(void **state)
{
	(void)state;
	judge_made(4, 3, 1000, 2);
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
	judge_made(1, 1, 1000, 5);
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
}

static void what_is_no_timeline(void **state)
{
	static const char *const bad[] = {
		"x",
		"[",
		"[]",
		"{}",
		"7",
		"[7,null,[]]",
		"{\"traceEvents\":7}",
		"[{\"ph\":\"M\",\"name\":\"thread_name\",\"args\":7}]",
		"[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":-1,\"tid\":1,\"args\":{\"name\":"
		"\"PP rank 0, TP rank 0, compute\"}}]",
		"[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"args\":{\"name\":"
		"\"PP rank 0, TP rank 0, compute\"}}]",
		"[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":"
		"\"PP rank 0, TP rank 0, compute, too\"}}]"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		print_message("%s\n", bad[i]);
		assert_int_equal(read_text(bad[i]), -EINVAL);
		timeline_free(&t);
	}
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_slow_worker),	     T(a_long_last_stage),
		T(the_threshold_is_a_fifth), T(who_is_not_seen_enough_is_not_fine),
		T(what_is_no_timeline),
	};

	cli_begin("test_timeline", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
