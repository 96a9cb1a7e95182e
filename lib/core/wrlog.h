/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The log of work requests (doc/protocol.md, section 5): enough of every outstanding WR to repost
 * it on another NIC, and to map a PSN to it. Indices are 64-bit counts since connect and never
 * wrap; slots are index & mask. Memory is the caller's; nothing allocates. The log of sends may
 * begin with a part of its memory, and takes more when more is outstanding. The caller serialises,
 * except that in untracked mode sends may be logged by one thread while another counts completions:
 * the two write different cache lines.
 */
#ifndef SHIFT_CORE_WRLOG_H
#define SHIFT_CORE_WRLOG_H

#include "lib/core/types.h"

enum shift_wr_state {
	SHIFT_WR_PENDING = 0, /* posted or held; not known to be done */
	SHIFT_WR_DONE,	      /* executed and its result is here; not posted again */
	SHIFT_WR_LOST,	      /* an atomic that was executed, its result lost */
};

#define SHIFT_SECRET_MAX (1u << 22) /* packets that may go unsignaled (A8) */
#define SHIFT_F_SECRET	 0x40 /* signaled by us, not by the program: its completion is swallowed */

#define SHIFT_UNALIGNED __attribute__((packed, aligned(4)))

/* One cache line. SGEs beyond the first, and inline payload, live in the slot's side storage. */
struct shift_wr_entry {
	uint64_t wr_id;
	uint64_t cum; /* packets since the epoch's commit, this WR included */
	uint64_t addr;
	uint32_t length; /* of all SGEs */
	uint32_t lkey;
	uint32_t imm;			      /* atomics: low half of compare_add */
	uint64_t remote_addr SHIFT_UNALIGNED; /* after imm as in libibverbs (fast.h) */
	uint32_t rkey;
	uint8_t opcode;
	uint8_t flags;
	uint8_t num_sge;
	uint8_t state; /* enum shift_wr_state */
	uint32_t trim; /* bytes placed in earlier epochs (WRITE); atomics: high half */
	uint64_t swap; /* of atomics */
};

_Static_assert(sizeof(struct shift_wr_entry) == 64, "a logged WR must fill one cache line");

struct shift_sendlog {
	/* Written when posting. */
	struct shift_wr_entry *ring;
	uint8_t *side;
	uint64_t head;	     /* index of the next WR to be logged */
	uint64_t sent;	     /* index after the newest WR handed to the NIC; head unless held */
	uint64_t cum;	     /* packets since the epoch's commit */
	uint64_t cum_signal; /* ... up to the newest signaled WR */
	uint64_t sig_posted; /* WRs logged that generate a completion */
	uint64_t two_posted; /* WRs logged that consume a receive */
	uint64_t turns;	     /* runs that were begun (fast.h); head waits until they end */
	uint64_t kept;	     /* all before it is done; the ring shows nothing older */
	uint64_t room_end;   /* before head is here, no entry is stored over one that is kept */
	uint32_t mask;	     /* slots in use, less one */
	uint32_t mask_max;   /* of the memory */
	uint32_t cap;
	uint32_t mtu;
	uint32_t side_stride;
	uint32_t sge_max;
	uint32_t inline_max;
	bool sig_all;
	bool held; /* what is logged is not posted */

	uint64_t *sig_done; /* shift_hot.sends_done */

	/* Written around a switch. */
	_Alignas(64) uint64_t cum_sent; /* while held: packets up to sent */
	uint64_t tail;			/* oldest WR not delivered; stale while untracked */
	uint64_t ready;	      /* tail <= ready: [tail, ready) is DONE and may be delivered */
	uint64_t scan;	      /* where to look for the WR of the next completion */
	uint64_t special_end; /* index after the newest WR that must be tracked */
	uint64_t lost;	      /* index of a LOST atomic, or UINT64_MAX */
	bool tracked;	      /* each completion is matched with its WR */
};

/* For counters that another thread may read (shift_conn_activity()) while one posts or polls. */
static inline void shift_count_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* And for one who then reads, or writes, the entries that it counts. */
static inline void shift_count_publish(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* The same two of the data path: has it gone on, so that its entries may be read; and one more.
 * Where the processor keeps loads and stores in order only the compiler has to be told, and each is
 * one instruction. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
static inline bool shift_count_is_beyond(const uint64_t *counter, uint64_t value)
{
	if (__builtin_expect(*counter <= value, 0))
		return false;
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return true;
}

static inline void shift_count_next(uint64_t *counter)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
	++*counter;
}
#else
static inline bool shift_count_is_beyond(const uint64_t *counter, uint64_t value)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE) > value;
}

static inline void shift_count_next(uint64_t *counter)
{
	shift_count_publish(counter, *counter + 1);
}
#endif

/* Bytes for the ring and its side storage, a multiple of 64. Capacities as accepted. */
size_t shift_sendlog_size(uint32_t cap, uint32_t sge_max, uint32_t inline_max);

/* mem: shift_sendlog_size() bytes, 64-byte aligned, borrowed for the log's life; as is sig_done,
 * which begins at 0. */
void shift_sendlog_init(struct shift_sendlog *l, void *mem, uint64_t *sig_done, uint32_t cap,
			uint32_t sge_max, uint32_t inline_max, uint32_t mtu, bool sig_all);

/* Of an empty log: only so many slots are used, a power of 2, until more are needed. */
void shift_sendlog_begin_with(struct shift_sendlog *l, uint32_t slots);

/* Nothing of it is ever posted again: from now on it has room for all. */
void shift_sendlog_end(struct shift_sendlog *l);

/* How many may be stored from head on before one must ask again. 0: all of its memory holds what
 * may be outstanding. Here the log takes more slots, so no entry may be in use meanwhile. */
uint64_t shift_sendlog_room(struct shift_sendlog *l);

/* 0; 1: post it with SHIFT_F_SIGNALED, in secret; -ENOMEM, -EINVAL. Full it is with cap WRs when
 * held or tracked. Else the provider knows better, as long as there is room. */
int shift_sendlog_post(struct shift_sendlog *l, const struct shift_wr *wr);

/* From now on what is logged is not posted; and back. */
/* While held: those before `end` are posted to the NIC. */
void shift_sendlog_send(struct shift_sendlog *l, uint64_t end);

void shift_sendlog_hold(struct shift_sendlog *l);
void shift_sendlog_release(struct shift_sendlog *l);

/* Held: the newest n WRs of those sent were refused by the NIC after all. */
void shift_sendlog_unsend(struct shift_sendlog *l, uint32_t n);

/* Packets handed to the NIC since the epoch's commit. */
static inline uint64_t shift_sendlog_cum_sent(const struct shift_sendlog *l)
{
	return l->held ? l->cum_sent : l->cum;
}

/* Forget the newest n WRs, which the provider refused. */
void shift_sendlog_unpost(struct shift_sendlog *l, uint32_t n);

static inline struct shift_wr_entry *shift_sendlog_at(const struct shift_sendlog *l, uint64_t i)
{
	return &l->ring[i & l->mask];
}

static inline bool shift_wr_two_sided(uint8_t opcode)
{
	return opcode == SHIFT_OP_SEND || opcode == SHIFT_OP_SEND_IMM ||
	       opcode == SHIFT_OP_WRITE_IMM || opcode == SHIFT_OP_SEND_INV;
}

static inline bool shift_wr_atomic(uint8_t opcode)
{
	return opcode == SHIFT_OP_CMP_SWAP || opcode == SHIFT_OP_FETCH_ADD;
}

static inline uint8_t *shift_sendlog_side(const struct shift_sendlog *l,
					  const struct shift_wr_entry *e)
{
	return l->side + (size_t)(e - l->ring) * l->side_stride;
}

/* The same for an inline WR: its payload. */
uint64_t shift_sendlog_store_inline(const struct shift_sendlog *l, struct shift_wr_entry *e,
				    const struct shift_sge *sge, uint32_t n);

/* Stores the SGEs of a WR that is not inline in an entry that nothing needs any more. Their bytes;
 * UINT64_MAX: more than can be logged. */
static inline uint64_t shift_sendlog_store(const struct shift_sendlog *l, struct shift_wr_entry *e,
					   const struct shift_sge *sge, uint32_t n)
{
	struct shift_sge *side = (struct shift_sge *)(void *)shift_sendlog_side(l, e);
	uint64_t length = 0;

	if (n > l->sge_max)
		return UINT64_MAX;
	e->num_sge = (uint8_t)n;
	if (!n)
		return 0;
	e->addr = sge->addr;
	e->lkey = sge->lkey;
	if (n == 1)
		return sge->length;
	for (const struct shift_sge *end = sge + n; sge != end; sge++) {
		*side++ = *sge;
		length += sge->length;
	}
	return length;
}

/* Packets this WR takes when posted (again) at path MTU mtu. */
uint32_t shift_wr_packets(const struct shift_wr_entry *e, uint32_t mtu);

/* Does the NIC generate a completion for it? */
bool shift_sendlog_signaled(const struct shift_sendlog *l, const struct shift_wr_entry *e);

/* Does the program get a completion for it? */
bool shift_sendlog_visible(const struct shift_sendlog *l, const struct shift_wr_entry *e);

/* Packets of the WRs behind the newest one that is signaled, in a log that shows such a one. */
uint64_t shift_sendlog_unsignaled(const struct shift_sendlog *l);

/* Sets `cum` of the newest n entries, as far as the log shows them: that of the newest is the
 * log's.
 */
void shift_sendlog_number(struct shift_sendlog *l, uint64_t n);

/* Index after the newest WR whose completion was seen: nothing older is outstanding. */
uint64_t shift_sendlog_done_by_signal(const struct shift_sendlog *l);

/* Packets executed for certain when everything before index i is. */
uint64_t shift_sendlog_cum_before(const struct shift_sendlog *l, uint64_t i);

/* Match completions with WRs from now on, until everything logged so far is delivered. */
void shift_sendlog_track(struct shift_sendlog *l);

/* A successful completion in tracked mode: its WR, and all before it, are DONE. */
void shift_sendlog_complete(struct shift_sendlog *l);

/* Move ready over what is DONE. */
void shift_sendlog_advance(struct shift_sendlog *l);

/*
 * After the fence: what the NIC acknowledged is DONE. flushed: error and flush completions seen
 * from the fenced QP; exact: it was drained, so they are all. Enters tracked mode. Returns the
 * index of the oldest WR that was not acknowledged.
 */
uint64_t shift_sendlog_settle(struct shift_sendlog *l, uint64_t flushed, bool exact);

/* Renumber what is PENDING for a new epoch at path MTU mtu; everything counts as sent, up to end.
 * Returns how many of them are signaled in secret from now on. */
uint32_t shift_sendlog_renumber(struct shift_sendlog *l, uint32_t mtu, uint64_t end);

/* The WR at an index as it must be posted now; sge: room for sge_max elements (at least 1). */
void shift_sendlog_repost(const struct shift_sendlog *l, uint64_t i, struct shift_wr *wr,
			  struct shift_sge *sge);

/* --- receives -------------------------------------------------------------------------------- */

struct shift_recv_entry {
	uint64_t wr_id;
	struct shift_sge sge; /* the only one; more are in the side storage */
	uint32_t num_sge;
};

struct shift_recvlog {
	struct shift_recv_entry *ring;
	uint64_t posted; /* 0 with an SRQ */
	/* Where the next one goes, and where shift_recvlog_post has to look for room again; or
	 * equal. */
	struct shift_recv_entry *next, *stop;
	uint64_t done; /* consumed by a message, since connect */
	uint32_t mask;
	uint32_t cap;
	struct shift_sge *side;
	uint32_t sge_max;
};

/* What each completion and each receive reads and writes. */
struct shift_hot {
	struct shift_recvlog recvs;
	uint64_t sends_done; /* completions seen (untracked) or delivered (tracked) */
};

/* One thread may poll the completions of sends while another one receives. In a QP, whose `hot`
 * begins a cache line, this keeps the two apart. */
_Static_assert(offsetof(struct shift_hot, sends_done) == 64 || sizeof(void *) < 8,
	       "sends and receives write different cache lines");

size_t shift_recvlog_size(uint32_t cap, uint32_t sge_max);
void shift_recvlog_init(struct shift_recvlog *l, void *mem, uint32_t cap, uint32_t sge_max);

/* Forget the newest n, which are outstanding. */
void shift_recvlog_unpost(struct shift_recvlog *l, uint64_t n);

/* 0, -ENOMEM, -EINVAL. */
int shift_recvlog_post(struct shift_recvlog *l, const struct shift_recv_wr *wr);

static inline struct shift_recv_entry *shift_recvlog_at(const struct shift_recvlog *l, uint64_t i)
{
	return &l->ring[i & l->mask];
}

#endif
