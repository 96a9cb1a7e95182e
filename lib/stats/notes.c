/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Notes of queue pairs: their error completions, asynchronous events and lives. */
#include <stdlib.h>
#include <string.h>

#include "lib/stats/stats_file.h"

#define F (&stats_file)

enum { BUCKETS = 1024 };

/* An error completion within so long after the last one of its kind is of the same run. */
static const uint64_t run_gap_ns = 1000000000;

/* The newest run of error completions, of one fate. */
struct run {
	uint64_t number; /* of its note, + 1; 0: none */
	uint32_t status, epoch;
};

/* A QP of the program, from its creation on. */
struct known_qp {
	struct known_qp *next;
	uint64_t id;
	int slot;
	uint32_t qpn, peer_qpn;
	uint8_t state, unprotected;
	uint8_t peer_gid[16];
	char nic[STATS_NIC_BYTES];
	struct run run[STATS_FATE_COUNT];
};

static struct known_qp *known[BUCKETS]; /* by QPN; under the lock of the file */

void stats_forget_qps(void)
{
	for (int i = 0; i < BUCKETS; i++) {
		struct known_qp *q;

		while ((q = known[i])) {
			known[i] = q->next;
			free(q);
		}
	}
}

/* Where the QP hangs; *where is NULL if it is not known. nic as it is kept: cut. */
static struct known_qp **find_known(const char *nic, uint32_t qpn)
{
	struct known_qp **at = known + qpn % BUCKETS;

	while (*at && ((*at)->qpn != qpn || strcmp((*at)->nic, nic)))
		at = &(*at)->next;
	return at;
}

static struct known_qp *find_qp(const char *nic, uint32_t qpn)
{
	char name[STATS_NIC_BYTES];

	stats_copy_name(name, sizeof(name), nic);
	return *find_known(name, qpn);
}

static bool is_protected(const struct known_qp *q)
{
	return q->slot >= 0 && F->conns[q->slot].id == q->id && F->conns[q->slot].is_protected;
}

static uint8_t why_unprotected(const struct known_qp *q)
{
	if (q->slot >= 0 && F->conns[q->slot].id == q->id)
		return F->conns[q->slot].unprotected;
	return q->unprotected;
}

/* What a note says of a QP; q: NULL, it is not known. */
static struct stats_note note_of(const struct known_qp *q, const char *nic, uint32_t qpn,
				 uint64_t now_ns)
{
	struct stats_note n = {
		.time_ns = now_ns, .last_ns = now_ns, .qpn = qpn, .opcode = STATS_OPCODE_UNKNOWN};

	stats_copy_name(n.nic, sizeof(n.nic), nic);
	if (!q)
		return n;
	n.qp = q->id;
	n.peer_qpn = q->peer_qpn;
	memcpy(n.peer_gid, q->peer_gid, sizeof(n.peer_gid));
	n.is_protected = is_protected(q);
	n.unprotected = n.is_protected ? STATS_UNPROTECTED_NONE : why_unprotected(q);
	return n;
}

/* Returns the number of the note, + 1. */
static uint64_t write_note(enum stats_note_kind kind, const struct stats_note *note)
{
	struct stats_table *t = &F->h->table[TABLE_NOTES + kind];
	uint64_t n = t->written;
	struct stats_note *to = F->notes[kind] + n % stats_note_room[kind];

	__atomic_store_n(&to->seq, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* before any of what follows */
	memcpy((uint8_t *)to + sizeof(to->seq), (const uint8_t *)note + sizeof(note->seq),
	       sizeof(*to) - sizeof(to->seq));
	__atomic_store_n(&to->seq, n + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&t->written, n + 1, __ATOMIC_RELEASE);
	return n + 1;
}

/* --- lives ------------------------------------------------------------------------------------ */

static void note_life(struct known_qp *q, uint32_t what, uint64_t now_ns)
{
	struct stats_note n = note_of(q, q->nic, q->qpn, now_ns);

	n.what = what;
	n.from = q->state;
	write_note(STATS_NOTE_LIFE, &n);
}

/* A new one. The thread that has destroyed the one that had this number may not have said so yet.
 */
static struct known_qp *know_qp(const char *nic, uint32_t qpn, uint64_t now_ns)
{
	struct known_qp **at = find_known(nic, qpn), *q = *at;

	if (q) {
		note_life(q, STATS_QP_DESTROYED, now_ns);
		*at = q->next;
	} else {
		q = malloc(sizeof(*q));
	}
	if (!q)
		return NULL;
	*q = (struct known_qp){.next = *at, .qpn = qpn, .state = STATS_QP_CREATED};
	stats_copy_name(q->nic, STATS_NIC_BYTES, nic);
	*at = q;
	return q;
}

void stats_qp_created(const char *nic, uint32_t qpn, int slot, enum stats_unprotected why,
		      uint64_t now_ns)
{
	char name[STATS_NIC_BYTES];
	struct known_qp *q;

	stats_copy_name(name, sizeof(name), nic);
	if (!stats_lock())
		return;
	q = know_qp(name, qpn, now_ns);
	if (q) {
		q->id = slot >= 0 ? F->conns[slot].id : ++F->last_id;
		q->slot = slot;
		q->unprotected = (uint8_t)why;
		note_life(q, STATS_QP_CREATED, now_ns);
		q->state = 0; /* IBV_QPS_RESET */
	}
	stats_unlock();
}

void stats_qp_state(const char *nic, uint32_t qpn, uint8_t state, const struct stats_peer *peer,
		    uint64_t now_ns)
{
	struct known_qp *q;

	if (!stats_lock())
		return;
	q = find_qp(nic, qpn);
	if (q && peer) {
		q->peer_qpn = peer->peer_qpn;
		if (peer->peer_gid)
			memcpy(q->peer_gid, peer->peer_gid, sizeof(q->peer_gid));
	}
	if (q) {
		note_life(q, state, now_ns);
		q->state = state;
		if (!state) { /* another life */
			q->peer_qpn = 0;
			memset(q->peer_gid, 0, sizeof(q->peer_gid));
			memset(q->run, 0, sizeof(q->run));
		}
	}
	stats_unlock();
}

uint64_t stats_qp_number(const char *nic, uint32_t qpn)
{
	const struct known_qp *q;
	uint64_t number;

	if (!stats_lock())
		return 0;
	q = find_qp(nic, qpn);
	number = q ? q->id : 0;
	stats_unlock();
	return number;
}

void stats_qp_destroyed(const char *nic, uint32_t qpn, uint64_t number, uint64_t now_ns)
{
	char name[STATS_NIC_BYTES];
	struct known_qp **at, *q;

	stats_copy_name(name, sizeof(name), nic);
	if (!stats_lock())
		return;
	at = find_known(name, qpn);
	q = *at && (*at)->id == number ? *at : NULL;
	if (q) {
		note_life(q, STATS_QP_DESTROYED, now_ns);
		*at = q->next;
	}
	stats_unlock();
	free(q);
}

/* --- error completions ------------------------------------------------------------------------ */

/* It is of the run whose note this is. */
static bool continues(const struct run *run, const struct stats_note *first,
		      const struct stats_error *e, uint64_t now_ns)
{
	return run->number && first->seq == run->number && run->epoch == e->epoch &&
	       (e->is_flush || run->status == e->status) &&
	       stats_since(now_ns, first->last_ns) <= run_gap_ns;
}

/* In place: a reader gets the old or the new number, and either is true. */
static void count_in(struct stats_note *first, bool is_flush, uint64_t now_ns)
{
	uint32_t *count = is_flush ? &first->flushed : &first->more;

	if (*count < UINT32_MAX)
		__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&first->last_ns, now_ns, __ATOMIC_RELAXED);
}

static uint64_t write_error(const struct known_qp *q, const struct stats_error *e, uint64_t now_ns)
{
	struct stats_note n = note_of(q, e->at ? e->at : e->nic, e->qpn, now_ns);

	n.what = e->status;
	n.vendor_err = e->vendor_err;
	n.epoch = e->epoch;
	n.rail = e->rail;
	n.fate = (uint8_t)e->fate;
	n.queue = (uint8_t)e->queue;
	n.opcode = e->opcode;
	return write_note(STATS_NOTE_ERROR, &n);
}

static void note_error(struct known_qp *q, const struct stats_error *e, uint64_t now_ns)
{
	struct run *run = q ? q->run + e->fate : NULL;
	struct stats_note *first = run ? F->notes[STATS_NOTE_ERROR] +
						   (run->number - 1) % STATS_ERRORS
				       : NULL;

	if (run && continues(run, first, e, now_ns)) {
		count_in(first, e->is_flush, now_ns);
		return;
	}
	if (run)
		*run = (struct run){write_error(q, e, now_ns), e->status, e->epoch};
	else
		write_error(q, e, now_ns);
}

void stats_wc_error(const struct stats_error *e, uint64_t now_ns)
{
	struct stats_now *now;
	struct known_qp *q;

	if (!stats_lock())
		return;
	q = find_qp(e->nic, e->qpn);
	note_error(q, e, now_ns);
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	now->errors[e->fate]++;
	now->flushes[e->fate] += e->is_flush;
	now->errors_unprotected += !q || !is_protected(q);
	stats_write_end(&now->sequence);
	stats_unlock();
}

/* --- asynchronous events ---------------------------------------------------------------------- */

void stats_async_event(const struct stats_async *e, uint64_t now_ns)
{
	const struct known_qp *q;
	struct stats_note n;
	struct stats_now *now;

	if (!stats_lock())
		return;
	q = e->qpn ? find_qp(e->nic, e->qpn) : NULL;
	n = note_of(q, e->nic, e->qpn, now_ns);
	n.what = e->event;
	n.port = e->port;
	n.fate = (uint8_t)e->fate;
	write_note(STATS_NOTE_ASYNC, &n);
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	now->asyncs[e->fate]++;
	stats_write_end(&now->sequence);
	stats_unlock();
}
