/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/deaths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/disconnects.h"
#include "lib/session/job.h"
#include "lib/session/peer_paths.h"

#define LOOK_NS	     10000000ull
#define LOOK_LATE_NS 100000000ull
#define ASK_NS	     25000000ull
#define ASK_LATE_NS  1000000000ull

/* Questions are counted, and not the time: if we did not run, nobody could answer us. */
enum {
	SILENT_PROBES = 3,
	UNHEARD_ASKS = 5, /* without probes: 150 ms */
	EARLY_ASKS = 40,  /* a trial that has asked more often is late: it looks and asks seldom */
	ASKS_MAX = EARLY_ASKS + 60, /* whatever its NICs say: a minute */
	BUCKETS = 256,
};

/*
 * A report of a death that is neither believed nor refuted yet. The NIC of a dead process may
 * answer probes until the kernel has closed its QPs, and that of a stopped one answers for ever. So
 * an answered probe only puts off the verdict, and not for ever: a process is refuted to be dead by
 * its own answer to a number that nobody knew before.
 */
struct trial {
	struct trial *next;
	uint64_t nonce, challenge;
	uint64_t ask_ns; /* when the next question is due */
	unsigned int asked;
	bool believed; /* its connections are to be told, then it ends */
};

static void trials_run(void *arg);

static struct bg_timer trial_timer = {.fn = trials_run};
static struct trial *trials[BUCKETS]; /* by nonce */
static unsigned long refuted;

static struct trial **trial_of(uint64_t nonce)
{
	struct trial **at = &trials[nonce % BUCKETS];

	while (*at && (*at)->nonce != nonce)
		at = &(*at)->next;
	return at;
}

/* Whatever it has come to, the next report is tried again: a process that was believed dead by
 * mistake dies one day, and what was told too early had no connections to end. */
static void trial_end(struct trial **at)
{
	struct trial *t = *at;

	*at = t->next;
	job_refute_death(t->nonce);
	free(t);
}

static void conn_peer_died(struct vqp *v)
{
	struct shift_event ev = {.type = SHIFT_EV_PEER_DIED};

	disconnect_follows(v);
	vqp_event(v, &ev);
}

static void conn_of_untried(struct vqp *v, void *arg)
{
	if (v->setup.met && v->setup.peer_nonce == *(uint64_t *)arg)
		conn_peer_died(v);
}

static void conn_of_believed(struct vqp *v, void *arg)
{
	const struct trial *t = v->setup.met ? *trial_of(v->setup.peer_nonce) : NULL;

	(void)arg;
	if (t && t->believed)
		conn_peer_died(v);
}

/* All at once: if a host goes down, there are many of them. */
static void believed_end(void)
{
	vqp_each(conn_of_believed, NULL);
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct trial **at = &trials[i]; *at;)
			if ((*at)->believed)
				trial_end(at);
			else
				at = &(*at)->next;
}

/* Is it as silent as the dead? A question is unanswered when the next one is due. */
static bool trial_is_over(const struct trial *t, uint64_t now)
{
	unsigned int missed, unanswered = t->asked - (now < t->ask_ns);
	enum peer_silence silence = peer_paths_silence(t->nonce, &missed);

	if (silence == SILENCE_PROBED)
		return missed >= SILENT_PROBES || unanswered >= ASKS_MAX;
	return silence == SILENCE_NO_PATH || unanswered >= UNHEARD_ASKS;
}

static bool trial_is_late(const struct trial *t)
{
	return t->asked > EARLY_ASKS;
}

static void trial_ask(struct trial *t, uint64_t now)
{
	struct session_alive ask = {.kind = SESSION_ALIVE, .challenge = t->challenge};
	struct shift_msg m = session_msg(&ask, sizeof(ask));

	if (now < t->ask_ns)
		return;
	t->asked++;
	t->ask_ns = now + (trial_is_late(t) ? ASK_LATE_NS : ASK_NS);
	peer_paths_send(t->nonce, &m);
}

static void trials_run(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	bool any_believed = false;

	(void)arg;
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct trial *t = trials[i]; t; t = t->next) {
			uint64_t look = now + (trial_is_late(t) ? LOOK_LATE_NS : LOOK_NS);

			t->believed = trial_is_over(t, now);
			any_believed |= t->believed;
			if (t->believed)
				continue;
			trial_ask(t, now);
			next = look < next ? look : next;
		}
	if (any_believed)
		believed_end();
	bg_timer_set(&trial_timer, next);
}

/* A report looks at no trial. One look at all of them follows, however many reports there are. */
static void trials_look_soon(uint64_t now)
{
	if (!trial_timer.heap_at || trial_timer.at_ns > now + LOOK_NS)
		bg_timer_set(&trial_timer, now + LOOK_NS);
}

void death_reported(uint64_t nonce)
{
	struct trial **at = trial_of(nonce), *t = *at;
	uint64_t now = now_ns();

	if (t)
		return;
	t = calloc(1, sizeof(*t));
	if (!t ||
	    getrandom(&t->challenge, sizeof(t->challenge), GRND_NONBLOCK) != sizeof(t->challenge)) {
		free(t);
		vqp_each(conn_of_untried, &nonce);
		job_refute_death(nonce);
		return;
	}
	t->nonce = nonce;
	*at = t;
	peer_paths_listen(nonce);
	trial_ask(t, now);
	trials_look_soon(now);
}

static void alive_answer(uint64_t nonce, const struct session_alive *question)
{
	struct session_alive answer = *question;
	struct shift_msg m = session_msg(&answer, sizeof(answer));

	answer.answer = 1;
	peer_paths_send(nonce, &m);
}

void alive_heard(uint64_t nonce, const struct session_alive *m)
{
	struct trial **at = trial_of(nonce);

	if (!m->answer) {
		alive_answer(nonce, m);
		return;
	}
	if (!*at || (*at)->challenge != m->challenge)
		return;
	trial_end(at);
	log_info("a peer's process (nonce %016" PRIx64 ") was reported dead, but answers: not "
		 "believed (%lu such reports so far)",
		 nonce, ++refuted);
}
