/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/deaths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/job.h"
#include "lib/session/peer_paths.h"

#define LOOK_NS	     10000000ull
#define LOOK_LATE_NS 100000000ull
#define ASK_NS	     25000000ull
#define ASK_LATE_NS  1000000000ull
#define LATE_NS	     1000000000ull /* a trial that is older looks and asks at these times */
#define UNHEARD_NS   150000000ull  /* without probes: an answer may take so long */

enum { SILENT_PROBES = 3 };

/*
 * A report of a death that is neither believed nor refuted yet. The NIC of a dead process may
 * answer probes until the kernel has closed its QPs, and that of a stopped one answers for ever. So
 * an answered probe only puts off the verdict: a process is refuted to be dead by its own answer
 * to a number that nobody knew before.
 */
struct trial {
	struct trial *next;
	uint64_t nonce, challenge;
	uint64_t since, ask_ns;
};

static void trials_run(void *arg);

static struct bg_timer trial_timer = {.fn = trials_run};
static struct trial *trials;
static unsigned long refuted;

static struct trial **trial_of(uint64_t nonce)
{
	struct trial **at = &trials;

	while (*at && (*at)->nonce != nonce)
		at = &(*at)->next;
	return at;
}

static void trial_end(struct trial **at)
{
	struct trial *t = *at;

	*at = t->next;
	free(t);
}

static void conn_peer_died(struct vqp *v, void *arg)
{
	struct shift_event ev = {.type = SHIFT_EV_PEER_DIED};

	if (v->setup.met && v->setup.peer_nonce == *(uint64_t *)arg)
		vqp_event(v, &ev);
}

static void death_believed(uint64_t nonce)
{
	vqp_each(conn_peer_died, &nonce);
}

/* Is it as silent as the dead? */
static bool trial_is_over(const struct trial *t, uint64_t now)
{
	enum peer_silence silence;
	unsigned int missed;

	silence = peer_paths_silence(t->nonce, &missed);
	if (silence == SILENCE_PROBED)
		return missed >= SILENT_PROBES;
	return silence == SILENCE_NO_PATH || now - t->since >= UNHEARD_NS;
}

static void trial_ask(struct trial *t, uint64_t now)
{
	struct session_alive ask = {.kind = SESSION_ALIVE, .challenge = t->challenge};
	struct shift_msg m = session_msg(&ask, sizeof(ask));

	if (now < t->ask_ns)
		return;
	t->ask_ns = now + (now - t->since < LATE_NS ? ASK_NS : ASK_LATE_NS);
	peer_paths_send(t->nonce, &m);
}

static void trials_run(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	struct trial **at = &trials;

	(void)arg;
	while (*at) {
		struct trial *t = *at;
		uint64_t look = now + (now - t->since < LATE_NS ? LOOK_NS : LOOK_LATE_NS);

		if (trial_is_over(t, now)) {
			uint64_t nonce = t->nonce;

			trial_end(at);
			death_believed(nonce);
			continue;
		}
		trial_ask(t, now);
		next = look < next ? look : next;
		at = &t->next;
	}
	bg_timer_set(&trial_timer, next);
}

void death_reported(uint64_t nonce)
{
	struct trial *t = *trial_of(nonce);

	if (t)
		return;
	t = calloc(1, sizeof(*t));
	if (!t ||
	    getrandom(&t->challenge, sizeof(t->challenge), GRND_NONBLOCK) != sizeof(t->challenge)) {
		free(t);
		death_believed(nonce); /* it cannot be tried */
		return;
	}
	t->nonce = nonce;
	t->since = now_ns();
	t->next = trials;
	trials = t;
	peer_paths_listen(nonce);
	trials_run(NULL);
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
	job_refute_death(nonce);
	log_info("a peer's process (nonce %016" PRIx64 ") was reported dead, but answers: not "
		 "believed (%lu such reports so far)",
		 nonce, ++refuted);
}
