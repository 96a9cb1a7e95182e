/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-bench: what it reads from a report, from the integrity client, and from counters of bytes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-bench/bins.h"
#include "cmd/shift-bench/outage.h"
#include "cmd/shift-bench/protection.h"

static struct protection protection_of_job(const char *text, bool unknown_job)
{
	static cJSON *report;

	cJSON_Delete(report);
	report = cJSON_Parse(text);
	return protection_of(report, unknown_job);
}

static struct protection protection_in(const char *text)
{
	return protection_of_job(text, false);
}

static void all_protected(void **state)
{
	struct protection p = protection_in(
		"{\"totals\":{\"connections\":2,\"protected\":2,\"unprotected\":{}},\"processes\":"
		"[{\"unix_s\":10,\"events\":[{\"from\":\"SETUP\",\"to\":\"ACTIVE\",\"unix_s\":10.5}"
		","
		"{\"from\":\"SWITCHING\",\"to\":\"ACTIVE\",\"unix_s\":12}]}]}");

	(void)state;
	assert_null(p.reason);
	assert_int_equal(p.connections, 2);
	assert_true(p.setup_ms == 500);
}

static void not_all_protected_is_told(void **state)
{
	(void)state;
	assert_string_equal(protection_in("{\"totals\":{\"connections\":2,\"protected\":1,"
					  "\"unprotected\":{\"NO_PEER\":1}}}")
				    .reason,
			    "NO_PEER");
	assert_non_null(protection_in("{\"totals\":{\"connections\":0,\"protected\":0}}").reason);
	assert_non_null(protection_in("{\"totals\":{\"connections\":1,\"protected\":0}}").reason);
	assert_non_null(protection_in("killed").reason);
	protection_in("0");
}

/* Open MPI over UCX: UD, a queue pair with itself, and two that were only tried out. */
static void what_does_not_count(void **state)
{
	static const char text[] =
		"{\"totals\":{\"connections\":5,\"protected\":1,\"unprotected\":{"
		"\"NOT_RC\":1,\"LOOPBACK\":1,\"SETUP\":2}}}";

	(void)state;
	assert_string_equal(protection_in(text).reason, "SETUP");
	assert_int_equal(protection_in(text).connections, 3);
	assert_null(protection_of_job(text, true).reason);
	assert_string_equal(protection_of_job("{\"totals\":{\"connections\":3,\"protected\":1,"
					      "\"unprotected\":{\"SETUP\":1,\"SRQ\":1}}}",
					      true)
				    .reason,
			    "SRQ");
	assert_non_null(protection_of_job("{\"totals\":{\"connections\":1,\"protected\":0,"
					  "\"unprotected\":{\"SETUP\":1}}}",
					  true)
				.reason);
}

/* shift-ctl keeps the record of a process that crashed. */
static void times_are_of_protected_connections_that_live(void **state)
{
	cJSON *status = cJSON_Parse(
		"{\"processes\":[{\"life\":\"crashed\",\"connections\":[{\"protected\":true,"
		"\"setup_us\":9000}]},{\"life\":\"running\",\"connections\":[{\"protected\":true,"
		"\"setup_us\":1500},{\"protected\":false,\"setup_us\":0},{\"protected\":true,"
		"\"setup_us\":500}]}]}");
	size_t count;
	double *ms = protected_after_ms(status, &count);

	(void)state;
	assert_int_equal(count, 2);
	assert_true(ms[0] == 1.5 && ms[1] == 0.5);
	free(ms);
	cJSON_Delete(status);
	free(protected_after_ms(NULL, &count));
	assert_int_equal(count, 0);
}

static const char client_text[] =
	"{\"exit\":0,\"started_unix_ms\":1000000,\"error\":null,"
	"\"found\":{\"lost\":1,\"duplicated\":0,\"reordered\":0},"
	"\"peer_found\":{\"lost\":2,\"duplicated\":3,\"reordered\":0},"
	"\"gaps\":[{\"ms\":90,\"at_ms\":9000,\"paused_ms\":80},{\"ms\":20,\"at_ms\":2995,"
	"\"paused_ms\":4},{\"ms\":12,\"at_ms\":2500,\"paused_ms\":0},"
	"{\"ms\":10,\"at_ms\":500,\"paused_ms\":0}]}";

static const char report_text[] =
	"{\"processes\":[{\"switches\":[{\"kind\":\"migration\",\"outcome\":\"committed\","
	"\"unix_s\":1},{\"kind\":\"failover\",\"outcome\":\"committed\",\"unix_s\":1003.0,"
	"\"phases_us\":{\"detect\":1000,\"prepare\":null,\"fence\":2000,\"repost\":500}}]}]}";

static void the_gap_around_the_failover(void **state)
{
	cJSON *client = cJSON_Parse(client_text), *report = cJSON_Parse(report_text);
	struct outage o = outage_of(client, report);
	static const char *const repair[] = {"fence", "wait", "repost", NULL};

	(void)state;
	assert_true(o.ms == 20 && o.paused_ms == 4 && o.heard_ms == 15 && o.quiet_ms == 12);
	assert_false(o.ended);
	assert_true(o.lost == 3 && o.duplicated == 3 && o.reordered == 0);
	assert_true(phases_ms(first_failover(report), repair) == 2.5);
	assert_true(isnan(phases_ms(NULL, repair)));
	cJSON_Delete(client);
	cJSON_Delete(report);
}

static void without_a_failover_the_longest_gap(void **state)
{
	cJSON *client = cJSON_Parse(client_text);
	struct outage o = outage_of(client, NULL);

	(void)state;
	assert_true(o.ms == 90);
	assert_true(isnan(o.heard_ms) && isnan(o.quiet_ms));
	cJSON_Delete(client);
}

static void a_program_that_ended_has_no_outage(void **state)
{
	cJSON *error = cJSON_Parse("{\"exit\":3,\"error\":{\"code\":12},\"gaps\":[]}");
	cJSON *stalled = cJSON_Parse("{\"exit\":4,\"error\":null,\"gaps\":[]}");

	(void)state;
	assert_true(outage_of(error, NULL).ended && isnan(outage_of(error, NULL).ms));
	assert_true(outage_of(stalled, NULL).ended);
	cJSON_Delete(error);
	cJSON_Delete(stalled);
}

static void counters_become_rates(void **state)
{
	struct counts c;
	size_t count;
	double *rates;

	(void)state;
	counts_parse(&c, "100.000 0 5\n100.050 1048576 5\nrubbish\n100.250 5242880 5\n100.2 0 5\n"
			 "100.350 5242880 5\n");
	assert_int_equal(c.lines, 4);
	assert_int_equal(c.columns, 2);
	rates = counts_rates(&c, 0, &count);
	assert_int_equal(count, 3);
	assert_true(fabs(rates[0] - 20) < 1e-6); /* 1 MiB, and a quarter of 4 MiB, in 100 ms */
	assert_true(fabs(rates[1] - 20) < 1e-6);
	assert_true(fabs(rates[2] - 10) < 1e-6);
	free(rates);
	rates = counts_rates(&c, 1, &count);
	assert_true(rates[0] == 0);
	free(rates);
	counts_free(&c);
	counts_parse(&c, "");
	free(counts_rates(&c, 0, &count));
	assert_int_equal(count, 0);
	counts_free(&c);
}

static void medians_and_gaps_of_rates(void **state)
{
	const double rates[] = {10, 12, 11, 0, 0.5, 0, 9, 0, 10};

	(void)state;
	assert_true(rates_median(rates, 9, 0, 300) == 11);
	assert_true(rates_median(rates, 9, 50, 250) == 12);
	assert_true(isnan(rates_median(rates, 9, 900, 2000)));
	assert_true(rates_gap_ms(rates, 9, 11, 0.1) == 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_protected),
		cmocka_unit_test(not_all_protected_is_told),
		cmocka_unit_test(what_does_not_count),
		cmocka_unit_test(times_are_of_protected_connections_that_live),
		cmocka_unit_test(the_gap_around_the_failover),
		cmocka_unit_test(without_a_failover_the_longest_gap),
		cmocka_unit_test(a_program_that_ended_has_no_outage),
		cmocka_unit_test(counters_become_rates),
		cmocka_unit_test(medians_and_gaps_of_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
