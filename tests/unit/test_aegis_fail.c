/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Why did the job fail? Algorithm 1 of Aegis, with its misprints corrected; and lines of logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/diag.h"
#include "tests/unit/diag_job.h"

static const struct aegis_options options = {.window_ns = 600000000000u};
static const uint64_t s_ns = 1000000000u;
static struct job j;
static struct logs logs;
static struct verdict v;

/* Hosts with a rank each. */
static void begin(int hosts)
{
	j = job_make(hosts, 1, hosts);
}

static void log_text(const char *host, const char *text)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	assert_non_null(in);
	logs_read_stream(in, host, &logs);
	fclose(in);
}

static void judge(void)
{
	job_read(&j, JOB_MS);
	v = aegis_fail(&j.r, &logs, &options);
}

static int end(void **state)
{
	(void)state;
	verdict_free(&v);
	logs_free(&logs);
	job_free(&j);
	return 0;
}

static struct rec_async *event(int rank, const char *name, const char *nic, uint64_t t_ns)
{
	struct rec_async *a = rec_add_async(job_rank(&j, rank));

	assert_non_null(a);
	a->t_ns = job_rank(&j, rank)->began_ns + t_ns;
	strcpy(a->event, name);
	strcpy(a->nic, nic);
	return a;
}

static bool is_blamed(const char *host)
{
	for (size_t i = 0; i < v.culprits_n; i++)
		if (!strcmp(v.culprits[i].host, host))
			return true;
	return false;
}

static void assert_culprits(const char *rule, size_t n)
{
	assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	assert_int_equal(v.class, CLASS_FAILED);
	assert_string_equal(v.rule, rule);
	assert_int_equal(v.culprits_n, n);
	assert_non_null(v.action);
}

static void assert_undecided(void)
{
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
	assert_int_equal(v.culprits_n, 0);
	assert_non_null(v.action);
}

/* "If a machine encounters critical errors, it is isolated", whatever others report. */
static void a_critical_error_comes_first(void **state)
{
	(void)state;
	begin(6);
	for (int i = 1; i < 5; i++)
		job_error(&j, i, "RETRY_EXC_ERR", "h0", s_ns);
	event(5, "DEVICE_FATAL", "mlx5_3", 2 * s_ns);
	judge();
	assert_culprits("critical-error", 1);
	assert_true(is_blamed("h5"));
	assert_string_equal(v.culprits->nic, "mlx5_3");
	assert_int_equal(v.level, LEVEL_NIC);
}

static void all_critical_hosts_are_named_the_first_one_first(void **state)
{
	(void)state;
	begin(4);
	event(1, "PORT_ERR", "mlx5_0", 5 * s_ns);
	event(2, "PORT_ERR", "mlx5_0", 3 * s_ns);
	event(2, "PORT_ERR", "mlx5_0", 4 * s_ns);
	judge();
	assert_culprits("critical-error", 2);
	assert_string_equal(v.culprits[0].host, "h2");
	assert_string_equal(v.culprits[1].host, "h1");
	assert_true(v.first_seen_ns == j.r.file->began_ns + 3 * s_ns);
}

static void a_link_that_came_back_is_not_down(void **state)
{
	(void)state;
	begin(2);
	event(1, "PORT_ERR", "mlx5_0", 3 * s_ns);
	event(1, "PORT_ACTIVE", "mlx5_0", 4 * s_ns);
	judge();
	assert_int_equal(v.culprits_n, 0);
	verdict_free(&v);
	event(1, "PORT_ERR", "mlx5_0", 5 * s_ns); /* down again */
	event(1, "PORT_ACTIVE", "mlx5_1", 6 * s_ns);
	judge();
	assert_culprits("critical-error", 1);
}

/* shift has moved what was there; what fails after that has another reason. */
static void a_link_that_was_survived_is_no_failure(void **state)
{
	struct rec_move *m;

	(void)state;
	begin(2);
	event(1, "PORT_ERR", "mlx5_0", 3 * s_ns);
	m = rec_add_move(job_rank(&j, 1));
	strcpy(m->from, "mlx5_1");
	strcpy(m->outcome, "committed");
	m->t_ns = m->end_ns = job_rank(&j, 1)->began_ns + 4 * s_ns;
	judge();
	assert_culprits("critical-error", 1);
	verdict_free(&v);
	strcpy(m->from, "mlx5_0");
	judge();
	assert_int_equal(v.culprits_n, 0);
	verdict_free(&v);
	strcpy(m->outcome, "given up");
	judge();
	assert_culprits("critical-error", 1);
}

static void xids_are_told_apart(void **state)
{
	(void)state;
	begin(2);
	log_text("h0", "kernel: NVRM: Xid (PCI:0000:41:00): 63, pid=1, Row Remapper\n"
		       "kernel: NVRM: Xid (PCI:0000:41:00): 64, pid=1, Row Remapper\n"
		       "kernel: NVRM: Xid (PCI:0000:41:00): 13, pid=1, Graphics Exception\n");
	judge();
	assert_int_equal(v.culprits_n, 0);
	verdict_free(&v);
	for (const char *const *xid = (const char *const[]){"48", "94", "95", NULL}; *xid; xid++) {
		char line[80];

		snprintf(line, sizeof(line), "NVRM: Xid (PCI:0000:41:00): %s, pid=1\n", *xid);
		log_text("h1", line);
		judge();
		assert_culprits("critical-error", 1);
		assert_true(is_blamed("h1"));
		verdict_free(&v);
		logs_free(&logs);
	}
	judge();
}

static void lines_of_logs(void **state)
{
	static const struct {
		const char *line;
		enum log_severity severity;
	} lines[] = {
		{"[12.3] Out of memory: Killed process 12 (python) total-vm:1kB", LOG_CRITICAL},
		{"Memory cgroup out of memory: Killed process 12 (python)", LOG_CRITICAL},
		{"mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 1", LOG_CRITICAL},
		{"mce: [Hardware Error]: Machine check events logged", LOG_BENIGN},
		{"CPU1: Package temperature above threshold, cpu clock throttled", LOG_CRITICAL},
		{"mlx5_core 0000:41:00.0: device's health compromised - reached miss count",
		 LOG_CRITICAL},
		{"pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=x",
		 LOG_CRITICAL},
		{"pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=x", LOG_BENIGN},
		{"mlx5_core 0000:41:00.0 eth2: Link down", LOG_CRITICAL},
		{"h0:1:2 NCCL WARN Connection reset by peer", LOG_DISTRIBUTED},
		{"NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0",
		 LOG_DISTRIBUTED},
		{"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL",
		 LOG_DISTRIBUTED},
	};

	(void)state;
	j = job_make(0, 1, 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct log_hit h = log_line_judge(lines[i].line);

		print_message("%s\n", lines[i].line);
		assert_non_null(h.means);
		assert_int_equal(h.severity, lines[i].severity);
	}
	assert_null(log_line_judge("step 12: loss 0.3, temperature of sampling 0.7").means);
	assert_null(log_line_judge("").means);
	assert_null(log_line_judge("NVRM: Xid (PCI:0000:41:00): x").means);
}

static void times_of_lines(void **state)
{
	(void)state;
	j = job_make(0, 1, 0);
	assert_true(log_line_judge("2026-11-28T08:46:48,123456+00:00 a: Link down").t_ns ==
		    1795855608123456000u);
	assert_true(log_line_judge("2026-11-28T10:46:48.5+02:00 a: Link down").t_ns ==
		    1795855608500000000u);
	assert_true(log_line_judge("2026-11-28T03:16:48-05:30 a: Link down").t_ns ==
		    1795855608000000000u);
	assert_true(log_line_judge("2026-11-28T08:46:48Z a: Link down").t_ns ==
		    1795855608000000000u);
	assert_true(log_line_judge("2026-11-28T08:46:48 a: Link down").t_ns == 0);
	assert_true(log_line_judge("[  12.5] a: Link down").t_ns == 0);
}

static void a_link_in_a_log_that_came_back(void **state)
{
	(void)state;
	begin(2);
	log_text("h1", "mlx5_core 0000:41:00.0 eth2: Link down\n"
		       "mlx5_core 0000:41:00.0 eth2: Link up\n");
	judge();
	assert_int_equal(v.culprits_n, 0);
	verdict_free(&v);
	log_text("h1", "mlx5_core 0000:41:00.1 eth12: Link down\n"
		       "mlx5_core 0000:41:00.0 eth2: Link up\n");
	judge();
	assert_culprits("critical-error", 1);
}

static void an_error_of_yesterday_is_left_out(void **state)
{
	(void)state;
	begin(2);
	job_enter(&j, "world", 0, 1, s_ns);
	log_text("h1", "2026-11-27T08:46:48+00:00 Out of memory: Killed process 12 (python)\n");
	judge();
	assert_int_equal(v.culprits_n, 0);
	verdict_free(&v);
	log_text("h1", "2026-11-28T08:40:48+00:00 Out of memory: Killed process 12 (python)\n");
	judge();
	assert_culprits("critical-error", 1);
}

/* "If distributed errors appear on only two hosts", these are isolated. */
static void two_hosts_are_both_named(void **state)
{
	(void)state;
	begin(6);
	job_error(&j, 1, "RETRY_EXC_ERR", "h2", s_ns);
	job_error(&j, 2, "RETRY_EXC_ERR", "h1", s_ns);
	judge();
	assert_culprits("few-hosts", 2);
	assert_true(is_blamed("h1") && is_blamed("h2"));
	assert_int_equal(v.component, COMPONENT_COMMUNICATION);
}

static void what_was_kept_from_the_program_is_no_failure(void **state)
{
	(void)state;
	begin(6);
	job_error(&j, 1, "RETRY_EXC_ERR", "h2", s_ns)->hidden = true;
	judge();
	assert_int_equal(v.culprits_n, 0);
}

static void one_host_is_named(void **state)
{
	(void)state;
	begin(6);
	log_text("h3", "connection reset by peer\n");
	judge();
	assert_culprits("few-hosts", 1);
	assert_true(is_blamed("h3"));
}

/* |DE| <= 2 also matches none: the misprint would isolate nothing, and call it a fix. */
static void no_error_is_no_culprit(void **state)
{
	(void)state;
	begin(4);
	judge();
	assert_int_equal(v.class, CLASS_FINE);
	assert_int_equal(v.culprits_n, 0);
}

/* "Connections from Gi and connections to Gi crash first": h0 died silently, others report. */
static void the_common_host_is_the_root(void **state)
{
	(void)state;
	begin(6);
	for (int i = 1; i < 6; i++)
		job_error(&j, i, "RETRY_EXC_ERR", "h0", s_ns + (uint64_t)i * JOB_MS);
	/* the cascade comes later */
	for (int i = 1; i < 6; i++)
		for (int k = 1; k < 6; k++) {
			char peer[16];

			snprintf(peer, sizeof(peer), "h%d", k);
			if (i != k)
				job_error(&j, i, "RETRY_EXC_ERR", peer, 5 * s_ns);
		}
	judge();
	assert_culprits("common-host", 1);
	assert_string_equal(v.culprits->host, "h0");
	assert_true(v.culprits->score == 1);
	assert_int_equal(v.level, LEVEL_MACHINE);
}

static void a_source_is_a_root_too(void **state)
{
	(void)state;
	begin(6);
	for (int i = 1; i < 5; i++) {
		char peer[16];

		snprintf(peer, sizeof(peer), "h%d", i);
		job_error(&j, 0, "RETRY_EXC_ERR", peer, s_ns);
	}
	judge();
	assert_culprits("common-host", 1);
	assert_string_equal(v.culprits->host, "h0");
}

/* Of ten, one is another's: 90 % are enough, 80 % are not. */
static void nine_of_ten_make_a_root(void **state)
{
	(void)state;
	begin(12);
	for (int i = 1; i < 10; i++)
		job_error(&j, i, "RETRY_EXC_ERR", "h0", s_ns);
	job_error(&j, 10, "RETRY_EXC_ERR", "h11", s_ns);
	judge();
	assert_culprits("common-host", 1);
	assert_string_equal(v.culprits->host, "h0");
	verdict_free(&v);
	job_error(&j, 11, "RETRY_EXC_ERR", "h10", s_ns);
	judge();
	assert_undecided();
}

/* Three errors of one connection are one connection. */
static void repeated_errors_count_once(void **state)
{
	(void)state;
	begin(6);
	for (int i = 0; i < 40; i++)
		job_error(&j, 0, "RETRY_EXC_ERR", "", s_ns);
	job_error(&j, 2, "RETRY_EXC_ERR", "h3", s_ns);
	judge();
	assert_undecided();
}

static void two_that_have_all_in_common_are_no_root(void **state)
{
	(void)state;
	begin(6);
	job_error(&j, 0, "RETRY_EXC_ERR", "h1", s_ns);
	job_error(&j, 1, "RETRY_EXC_ERR", "h0", s_ns);
	job_error(&j, 2, "RETRY_EXC_ERR", "h3", 9 * s_ns);
	judge();
	assert_undecided();
}

static void a_line_without_a_time_counts_less(void **state)
{
	(void)state;
	begin(2);
	job_enter(&j, "world", 0, 1, s_ns);
	log_text("h1", "[ 12.5] Out of memory: Killed process 12 (python)\n");
	judge();
	assert_culprits("critical-error", 1);
	assert_true(v.confidence < 0.8);
}

static void errors_without_a_pattern_are_undecided(void **state)
{
	(void)state;
	begin(6);
	job_error(&j, 0, "RETRY_EXC_ERR", "h1", s_ns);
	job_error(&j, 2, "RETRY_EXC_ERR", "h3", s_ns);
	job_error(&j, 4, "RETRY_EXC_ERR", "h5", s_ns);
	judge();
	assert_undecided();
	assert_non_null(strstr(v.action, "shift-diag ping"));
	assert_non_null(strstr(v.action, "precheck"));
}

/* Errors that say nothing of the other end prove no root. */
static void errors_without_a_peer_have_no_root(void **state)
{
	(void)state;
	begin(4);
	log_text("h0", "connection reset by peer\n");
	log_text("h1", "connection reset by peer\n");
	log_text("h2", "connection reset by peer\n");
	judge();
	assert_undecided();
}

static void a_flushed_request_says_nothing(void **state)
{
	(void)state;
	begin(4);
	job_error(&j, 0, "WR_FLUSH_ERR", "h1", s_ns);
	job_error(&j, 2, "LOC_PROT_ERR", "h1", s_ns);
	judge();
	assert_int_equal(v.culprits_n, 0);
}

static void an_error_that_was_survived_is_none(void **state)
{
	struct rec_wcerr *e;
	struct rec_move *m;

	(void)state;
	begin(4);
	e = job_error(&j, 0, "RETRY_EXC_ERR", "h1", s_ns);
	e->qp = 7;
	m = rec_add_move(job_rank(&j, 0));
	m->qp = 7;
	m->t_ns = e->t_ns;
	m->end_ns = e->t_ns + JOB_MS;
	strcpy(m->outcome, "committed");
	judge();
	assert_int_equal(v.class, CLASS_FINE);
	verdict_free(&v);
	strcpy(m->outcome, "given up");
	judge();
	assert_culprits("few-hosts", 2);
}

static void the_peer_is_taken_from_the_queue_pair(void **state)
{
	struct rec_wcerr *e;
	struct rec_qp *qp;

	(void)state;
	begin(4);
	e = job_error(&j, 0, "RETRY_EXC_ERR", "", s_ns);
	e->qp = 7;
	qp = rec_add_qp(job_rank(&j, 0));
	qp->id = 7;
	strcpy(qp->peer_host, "h3");
	judge();
	assert_culprits("few-hosts", 2);
	assert_true(is_blamed("h3"));
}

/* Undecided so far: then who keeps the others waiting? Here h4 did not come. */
static void the_procedure_decides_then(void **state)
{
	(void)state;
	begin(6);
	job_error(&j, 0, "RETRY_EXC_ERR", "h1", s_ns);
	job_error(&j, 2, "RETRY_EXC_ERR", "h3", s_ns);
	for (int i = 0; i < 6; i++)
		if (i != 4)
			job_enter(&j, "world", i, 1, s_ns);
	job_read(&j, 60 * s_ns);
	v = aegis_fail(&j.r, NULL, &options);
	assert_culprits("fewer-launches", 1);
	assert_int_equal(v.culprits->rank, 4);
	assert_int_equal(v.component, COMPONENT_COMPUTATION);
}

static void unseen_ranks_lower_the_confidence(void **state)
{
	double before;

	(void)state;
	begin(5);
	for (int i = 1; i < 5; i++)
		job_error(&j, i, "RETRY_EXC_ERR", "h0", s_ns);
	judge();
	assert_culprits("common-host", 1);
	before = v.confidence;
	end(NULL);
	j = job_make(5, 1, 10);
	for (int i = 1; i < 5; i++)
		job_error(&j, i, "RETRY_EXC_ERR", "h0", s_ns);
	judge();
	assert_culprits("common-host", 1);
	assert_true(v.confidence < 0.6 * before);
	assert_int_equal(v.coverage.ranks_expected, 10);
}

static void nothing_is_undecided(void **state)
{
	(void)state;
	j = job_make(0, 1, 0);
	judge();
	assert_undecided();
	verdict_free(&v);
	log_text("h0", "all is well\n"); /* of no rank anything is known */
	judge();
	assert_undecided();
}

static void healthy_jobs_have_no_culprit(void **state)
{
	static const char *const harmless[] = {
		"NVRM: Xid (PCI:0000:41:00): 63, pid=1, Row Remapper\n", "step 7 error 0.3\n",
		"mce: [Hardware Error]: Machine check events logged\n"};

	(void)state;
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15u, compute[16];
		int ranks = 2 + (int)job_random(&x, 15);

		j = job_make(ranks, 1 + (int)job_random(&x, 4), ranks);
		for (uint64_t i = job_random(&x, 20); i; i--) {
			for (int k = 0; k < ranks; k++)
				compute[k] = (100 + job_random(&x, 500)) * JOB_MS;
			job_round(&j, "world", NULL, 0, compute, job_random(&x, 90) * JOB_MS);
		}
		for (uint64_t i = job_random(&x, 3); i; i--)
			log_text("h0", harmless[job_random(&x, 3)]);
		if (job_random(&x, 2))
			job_error(&j, 0, "WR_FLUSH_ERR", "h1", s_ns);
		judge();
		if (v.class != CLASS_FINE)
			fail_msg("seed %llu: %s", (unsigned long long)seed, v.rule);
		end(NULL);
	}
	j = job_make(0, 1, 0);
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_critical_error_comes_first),
		T(all_critical_hosts_are_named_the_first_one_first),
		T(a_link_that_came_back_is_not_down),
		T(a_link_that_was_survived_is_no_failure),
		T(xids_are_told_apart),
		T(lines_of_logs),
		T(times_of_lines),
		T(a_link_in_a_log_that_came_back),
		T(an_error_of_yesterday_is_left_out),
		T(two_hosts_are_both_named),
		T(what_was_kept_from_the_program_is_no_failure),
		T(one_host_is_named),
		T(no_error_is_no_culprit),
		T(the_common_host_is_the_root),
		T(a_source_is_a_root_too),
		T(nine_of_ten_make_a_root),
		T(repeated_errors_count_once),
		T(two_that_have_all_in_common_are_no_root),
		T(a_line_without_a_time_counts_less),
		T(errors_without_a_pattern_are_undecided),
		T(errors_without_a_peer_have_no_root),
		T(a_flushed_request_says_nothing),
		T(an_error_that_was_survived_is_none),
		T(the_peer_is_taken_from_the_queue_pair),
		T(the_procedure_decides_then),
		T(unseen_ranks_lower_the_confidence),
		T(nothing_is_undecided),
		T(healthy_jobs_have_no_culprit),
	};

	cli_begin("test_aegis_fail", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
