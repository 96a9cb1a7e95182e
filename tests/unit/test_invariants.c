/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The checks of lib/core/invariants.c can fail: each, once something is wrong, ends the process and
 * says what. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

/* Breaks it in a child, whose next call must end it. */
static void must_abort(void (*spoil)(struct shift_conn *), const char *what)
{
	struct shift_event ev = {.type = SHIFT_EV_PSN, .epoch = UINT32_MAX}; /* says nothing */
	char text[1024] = "";
	int fd[2], status;
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		dup2(fd[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		if (spoil)
			spoil(w.h[0].c);
		shift_conn_event(w.h[0].c, &ev, w.now);
		_exit(0);
	}
	close(fd[1]);
	for (size_t n = 0; n < sizeof(text) - 1;) {
		ssize_t got = read(fd[0], text + n, sizeof(text) - 1 - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!what) {
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		return;
	}
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (!strstr(text, what))
		fail_msg("no \"%s\" in: %s", what, text);
}

#define SPOIL(name, statement)                 \
	static void name(struct shift_conn *c) \
	{                                      \
		statement;                     \
	}                                      \
	_Static_assert(1, "a semicolon is to follow")

SPOIL(scan_ahead, c->sq.scan = c->sq.sent + 1);
SPOIL(sent_ahead, c->sq.sent = c->sq.head + 1);
SPOIL(sent_behind, c->sq.sent--);
SPOIL(done_ahead, *c->sq.sig_done = c->sq.sig_posted + 1);
SPOIL(signal_ahead, c->sq.cum_signal = c->sq.cum + 1);
SPOIL(cum_backwards, shift_sendlog_at(&c->sq, c->sq.tail)->cum += 100);
SPOIL(received_ahead, c->rq->done = c->rq->posted + 1);
SPOIL(logged_of_an_srq, (c->cfg.srq = true, c->rq->posted = 1));
SPOIL(two_rails, (c->rail[2].armed = true, c->rail[2].dirty_until = NEVER));
SPOIL(fence_of_nothing, c->rail[2].fencing = true);
SPOIL(hung_and_armed, c->rail[c->r].hung = true);
SPOIL(lastc_ahead, c->lastc = c->e + 1);
SPOIL(proof_unseen, c->proved_e = c->seen_e + 1);
SPOIL(report_ahead, c->rep_epoch = c->e + 1);
SPOIL(wrong_tag, c->rail[c->r].tag--);
SPOIL(no_timer, c->check_at = NEVER);
SPOIL(held_in_active, (c->holding = true, shift_sendlog_hold(&c->sq)));
SPOIL(silent_in_active, c->silent = true);
SPOIL(not_offered, (shift_sendlog_at(&c->sq, c->sq.tail)->state = SHIFT_WR_DONE,
		    c->sq.ready = c->sq.scan = c->sq.tail + 1));
SPOIL(posts_unplanned, (c->state = SHIFT_ST_SWITCHING, conn_emit(c, SHIFT_ACT_POST_SEND, c->r)));
SPOIL(posts_elsewhere, conn_emit(c, SHIFT_ACT_POST_RECV, 2));

static void a_broken_invariant_ends_the_process(void **state)
{
	static const struct {
		void (*spoil)(struct shift_conn *);
		const char *what;
	} row[] = {
		{NULL, NULL},
		{scan_ahead, "l->scan <= l->sent"},
		{sent_ahead, "l->sent <= l->head"},
		{sent_behind, "l->sent == l->head"},
		{done_ahead, "*l->sig_done <= l->sig_posted"},
		{signal_ahead, "l->cum_signal <= l->cum"},
		{cum_backwards, "e->cum >= before"},
		{received_ahead, "c->rq->done <= c->rq->posted"},
		{logged_of_an_srq, "!c->cfg.srq || !c->rq->posted"},
		{two_rails, "open <= 1"},
		{fence_of_nothing, "!r->fencing || r->armed"},
		{hung_and_armed, "!(r->hung || r->unaccounted)"},
		{lastc_ahead, "c->lastc <= c->e"},
		{proof_unseen, "c->proved_e <= c->seen_e"},
		{report_ahead, "c->rep_epoch <= c->e"},
		{wrong_tag, "r->tag == c->e"},
		{no_timer, "c->check_at != NEVER"},
		{held_in_active, "c->holding == "},
		{silent_in_active, "!c->silent || over"},
		{not_offered, "!due"},
		{posts_unplanned, "c->state == SHIFT_ST_ACTIVE"},
		{posts_elsewhere, "rail == c->r"},
	};

	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 20));
	for (int i = 0; i < 3; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		must_abort(row[i].spoil, row[i].what);
}

SPOIL(rail_unnoticed, c->rail[2].down = false);
SPOIL(no_giveup_time, c->plan.trouble = 0);

static void a_hang_ends_the_process(void **state)
{
	(void)state;
	for (int i = 1; i < W_RAILS; i++)
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, i);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	must_abort(NULL, NULL);
	must_abort(no_giveup_time, "c->plan.trouble");
	must_abort(rail_unnoticed, "!any_rail_possible(c)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(a_broken_invariant_ends_the_process),
		WORLD_TEST(a_hang_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
