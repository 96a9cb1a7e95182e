// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* When to probe, and what silence means (lib/nic/probe.c): one probe over one NIC; verbs, timers
 * and the clock are the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/nic/probe_int.h"
#include "lib/nic/ctrl_link.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"

#define MS 1000000ull

struct real_verbs real;
static struct nic nic = {.name = "mlx5_0", .link_up = true};
static struct ibv_context ctx;
static struct ibv_cq cq = {.context = &ctx};
static struct probe_cq probe_cq = {.cq = &cq};
static struct ibv_comp_channel channel;
static struct ibv_mr mr;
static struct ibv_qp requester = {.qp_num = 17}, responder = {.qp_num = 18};
static struct probe *p;

static uint64_t clock_ns;
static unsigned int armed, posted, completions, answers, misses;

/* --- the rest of the library ----------------------------------------------------------------- */

/* Time passes while somebody works. */
uint64_t now_ns(void)
{
	return clock_ns += 1000;
}

int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg)
{
	(void)fd;
	(void)events;
	(void)fn;
	(void)arg;
	return 0;
}

void bg_unwatch(int fd)
{
	(void)fd;
}

void bg_timer_set(struct bg_timer *timer, uint64_t at_ns)
{
	timer->at_ns = at_ns;
}

void nic_on_change(void (*fn)(struct nic *nic))
{
	(void)fn;
}

void nic_on_event(void (*fn)(struct nic *nic, const struct ibv_async_event *event))
{
	(void)fn;
}

void ctrl_link_address(const struct nic *n, struct ctrl_link_addr *addr)
{
	(void)n;
	memset(addr, 0, sizeof(*addr));
	addr->mtu_bytes = 1024;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

void probe_job(struct job *job)
{
	(void)job;
}

/* The resolver is quick. */
void worker_submit(struct worker *w, struct job *job)
{
	struct probe *of = (struct probe *)((char *)job - offsetof(struct probe, job));

	(void)w;
	of->shared->mr = &mr;
	of->shared->channel = &channel;
	of->shared->memory = (uint8_t *)&mr;
	of->cq = &probe_cq;
	of->requester = &requester;
	of->responder = &responder;
	armed += of->task.requester;
	of->task.err = 0;
	of->done.fn(of->done.arg);
}

int probe_post(struct probe *of, unsigned int n)
{
	(void)of;
	posted += n;
	return 0;
}

static int poll_cq(struct ibv_cq *from, int room, struct ibv_wc *wc)
{
	int n = 0;

	(void)from;
	for (; n < room && completions; completions--, n++)
		wc[n] = (struct ibv_wc){.wr_id = (uint64_t)p->slot << 32 | p->incarnation};
	return n;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	(void)status;
	return "";
}

static void result(void *arg, bool answered)
{
	(void)arg;
	answers += answered;
	misses += !answered;
}

static int setup(void **state)
{
	struct probe_addr peer = {.requester_qpn = 1, .responder_qpn = 2, .mtu_bytes = 1024};

	(void)state;
	ctx.ops.poll_cq = poll_cq;
	armed = posted = completions = answers = misses = 0;
	clock_ns = 1000 * MS;
	p = probe_new(&nic, result, NULL);
	probe_connect(p, &peer);
	assert_int_equal(armed, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	probe_free(p);
	return 0;
}

/* The timers that are due by then; unanswered, those waiting are answered every rtt_ns. */
static void pass(uint64_t ns, uint64_t rtt_ns)
{
	uint64_t end = clock_ns + ns;

	while (p->timer.at_ns < end) {
		if (clock_ns < p->timer.at_ns)
			clock_ns = p->timer.at_ns;
		if (rtt_ns && p->out && clock_ns - p->sent[0].at_ns >= rtt_ns)
			completions = 1;
		p->timer.fn(p->timer.arg);
	}
	clock_ns = end;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void answers_keep_it_going(void **state)
{
	(void)state;
	pass(1000 * MS, 10 * MS);
	assert_in_range(answers, 30, 41);
	assert_int_equal(misses, 0);
	assert_int_equal(armed, 1);
}

/* The answer is seen by the timer, a moment after it has read the clock, while another is
 * outstanding. */
static void an_answer_that_the_timer_finds_is_no_hang(void **state)
{
	(void)state;
	pass(40 * MS, 0);
	assert_int_equal(p->out, 2);
	for (int i = 0; i < 100; i++) {
		completions = 1;
		pass(25 * MS, 0);
	}
	assert_in_range(answers, 50, 101);
	assert_int_equal(armed, 1);
	assert_int_equal(p->state, PROBE_LIVE);
}

static void silence_is_missed_and_later_armed_anew(void **state)
{
	(void)state;
	pass(500 * MS, 10 * MS);
	pass(150 * MS, 0);
	assert_in_range(misses, 3, 6);
	assert_int_equal(armed, 1);
	pass(3000 * MS, 0);
	assert_int_equal(armed, 2);
	posted = 0;
	pass(1000 * MS, 10 * MS);
	assert_int_equal(p->failures, 0);
	assert_in_range(posted, 30, 42);
}

static void a_slow_path_is_given_time(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		pass(25 * MS, (uint64_t)(30 + i) * MS); /* ever slower */
	misses = 0;
	pass(2000 * MS, 130 * MS);
	assert_int_equal(misses, 0);
	assert_in_range(probe_rtt_ns(p), 100 * MS, 160 * MS);
	/* But not for ever. */
	pass(1000 * MS, 0);
	assert_true(misses > 10);
}

/* Each time later than a period, as on a machine that has too much to do. */
static void silence_counts_where_the_timer_is_late(void **state)
{
	uint64_t end;

	(void)state;
	for (int i = 0; i < 100; i++)
		pass(25 * MS, (uint64_t)(30 + i) * MS); /* a deadline of hundreds of ms */
	misses = 0;
	for (end = clock_ns + 4000 * MS; clock_ns < end;) {
		clock_ns = p->timer.at_ns + 30 * MS;
		p->timer.fn(p->timer.arg);
	}
	assert_true(misses >= 3);
}

static void a_stop_is_no_silence(void **state)
{
	(void)state;
	pass(500 * MS, 10 * MS);
	clock_ns += 10000 * MS; /* stopped, and the answers wait */
	completions = p->out;
	pass(1000 * MS, 10 * MS);
	assert_int_equal(misses, 0);
	assert_int_equal(armed, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(answers_keep_it_going),
		T(an_answer_that_the_timer_finds_is_no_hang),
		T(silence_is_missed_and_later_armed_anew),
		T(a_slow_path_is_given_time),
		T(silence_counts_where_the_timer_is_late),
		T(a_stop_is_no_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
