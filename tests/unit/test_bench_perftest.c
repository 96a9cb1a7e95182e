/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What perftest prints, as shift-bench reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-bench/perftest.h"

int pair_run(struct hosts *h, const struct pair_words *w, struct pair_outcome *out)
{
	(void)h;
	(void)w;
	(void)out;
	fail();
	return 1;
}

static void every_latency_in_its_order(void **state)
{
	size_t count;
	double *us = perftest_latencies(" local address: LID 0000 QPN 0x0011 PSN 0x3c\n"
					"#, usec\n1, 12.50\n2,  3.25\n3, 7\n"
					" #bytes #iterations    t_min[usec]\n"
					" 8       4          3.25           12.50  \n",
					&count);

	(void)state;
	assert_int_equal(count, 3);
	assert_true(us[0] == 12.5 && us[1] == 3.25 && us[2] == 7);
	free(us);
}

static void a_clock_of_rate_0_is_no_latency(void **state)
{
	size_t count;

	(void)state;
	free(perftest_latencies("1, inf\n2, -nan\n3, 0.00\n", &count));
	assert_int_equal(count, 0);
	free(perftest_latencies("", &count));
	assert_int_equal(count, 0);
}

static void the_row_of_the_bandwidth(void **state)
{
	struct bandwidth b;

	(void)state;
	assert_true(perftest_bandwidth(
		" Mtu             : 4096[B]\n"
		" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "
		"MsgRate[Mpps]\n"
		" 4096       1000             15.51              12.80  		   "
		"0.003277\n"
		"-----\n",
		&b));
	assert_true(b.mib_per_s == 12.8);
	assert_true(b.messages_per_s == 12.8 * 256);
	assert_false(perftest_bandwidth("Couldn't connect to b:18515\n", &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_latency_in_its_order),
		cmocka_unit_test(a_clock_of_rate_0_is_no_latency),
		cmocka_unit_test(the_row_of_the_bandwidth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
