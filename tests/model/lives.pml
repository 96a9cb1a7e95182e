/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two lives of one connection, for spin 6.5: both programs may RESET their QPs and bring them up again with
 * the same QPNs and PSNs (doc/protocol.md, 4.3 *Checked*).
 *
 * Two peers, two rails (0 is the program's QP, 1 a twin), N0 and N1 WRs of one packet in each life,
 * epochs 0..E of each life. Every message and packet ever sent, of either life, may arrive at any time,
 * any number of times, or never. A switch starts at any step, and each end RESETs when it likes.
 *
 * Each life has an id of its own. An id is found in the peer's record, which may be an old one; HELLO
 * carries both ids, and so does every message. PSNs of an epoch are a hash of both ids and the epoch, so the
 * packets of an older life match no window of a newer one. Twins are armed in a new life only after HELLO
 * matched, as that proves the peer's older lives fenced (rule 19), and the quarantine. Either of the last
 * two would do: -DNO_PSN_IDS or -DNO_QUARANTINE alone must hold, both together must not.
 *
 * Left to the programs, as with stock verbs: packets of life 1 that reach the QP of life 2 on rail 0 in
 * epoch 0, with the PSNs that the programs themselves chose.
 *
 * What must hold: what a life executes was sent by the life that it is paired with, and is the next WR of it;
 * what a life completes was executed in it; its end is told by its own peer.
 *
 * -DNO_SWITCH_IDS, -DNO_CLOSED_IDS, -DNO_HELLO_IDS: such a message of any life counts.
 */
#ifndef N0
#define N0 1 /* WRs of side 0 */
#endif
#ifndef N1
#define N1 1 /* of side 1 */
#endif
#define WRS(p) ((1 - (p)) * N0 + (p) * N1)
#ifndef E
#define E 1
#endif
#define R   2
#define L   2 /* lives */
#define NEP (E + 1)

#define SETUP	  0
#define ACTIVE	  1
#define SWITCHING 2
#define OVER	  3 /* every QP of this life is fenced, and the peer may hear CLOSED */

/* -- peer p, in the life it has now ------------------------------------------ */
byte life[2];
byte pair[2];	/* the peer's life that p is paired with, or found in its record; 0: not yet */
byte ph[2];
byte e[2], r[2], lastc[2];
byte repe[2], repn[2];
byte comp[2];	/* WRs of p that were completed */
bit dirty[2];	/* the twin may not be armed yet */

/* -- p's QP on a rail: index p * R + rail ------------------------------------- */
bit qacc[4];
byte qtag[4];
byte qn[4];

/* -- everything that p sent in life l, epoch t: X(p, l, t) --------------------- */
#define X(p, l, t) ((((p) * L) + (l) - 1) * NEP + (t))
#define Y(p, l)	   (((p) * L) + (l) - 1)
#define Z	   (2 * L)
byte nexec[Z];	     /* WRs of p's life l that the peer executed: the reference */
byte sto[Z];	     /* the life of the peer that p's life l is or was paired with */
byte hello[Z];	     /* HELLO was sent, to this id; a bit for each */
bit clo[Z];	     /* CLOSED was sent ... */
byte cloe[Z];	     /* ... with this rep */
byte clon[Z];
bit mset[Z * NEP];   /* SWITCH was sent */
byte mr[Z * NEP];    /* its rail */
byte mre[Z * NEP];   /* its rep */
byte mrn[Z * NEP];
byte txr[Z * NEP];   /* rail of the data */
byte base[Z * NEP];  /* first WR */
byte cnt[Z * NEP];   /* packets */
bit dead[Z * NEP];   /* none of them is in the network any more */

byte t; /* scratch, always zero between steps */

#define Q(p, rail) ((p) * R + (rail))
#define EVER(p)	   (sto[Y(p, life[p])])

#define OURS(p, l) (pair[p] == l && sto[Y(1 - (p), l)] == life[p])

/* Is a message that the peer's life l said for p? */
#ifdef NO_SWITCH_IDS
#define FOR(p, l) (pair[p] != 0)
#else
#define FOR(p, l) OURS(p, l)
#endif
#ifdef NO_CLOSED_IDS
#define CLOSED_FOR(p, l) (pair[p] != 0)
#else
#define CLOSED_FOR(p, l) OURS(p, l)
#endif

/* Has a packet of the peer's life l, epoch ep, the PSN that p's QP on its rail waits for? Rail 0 in epoch
 * 0 has the programs' own PSNs, the same in each life; an older life's packets there are not ours. */
#ifdef NO_PSN_IDS
#define SAME(p, l, ep) (qtag[Q(p, txr[X(1 - (p), l, ep)])] == ep && (ep > 0 || OURS(p, l)))
#else
#define SAME(p, l, ep) (qtag[Q(p, txr[X(1 - (p), l, ep)])] == ep && OURS(p, l))
#endif
#define MATCH(p, l, ep) \
	(qacc[Q(p, txr[X(1 - (p), l, ep)])] && !dead[X(1 - (p), l, ep)] && \
	 qn[Q(p, txr[X(1 - (p), l, ep)])] < cnt[X(1 - (p), l, ep)] && SAME(p, l, ep))

/* The peer's life l executes what life[1 - p] of the peer sent in epoch ep. */
inline execute(p, l, ep)
{
	assert(ph[p] != OVER);
	assert(pair[p] == l && sto[Y(1 - p, l)] == life[p]); /* the right life, */
	assert(e[p] == ep && r[p] == txr[X(1 - p, l, ep)]); /* epoch and rail, */
	assert(base[X(1 - p, l, ep)] + qn[Q(p, r[p])] == nexec[Y(1 - p, l)]); /* and the next WR */
	nexec[Y(1 - p, l)]++;
	qn[Q(p, r[p])]++
}

/* Packets of p's older lives on a rail are dead. */
inline kill_older(p, rail)
{
	if
	:: life[p] == 2 ->
		t = 0;
		do
		:: t < NEP ->
			if
			:: txr[X(p, 1, t)] == rail && cnt[X(p, 1, t)] > 0 -> dead[X(p, 1, t)] = 1
			:: else
			fi;
			t++
		:: else -> break
		od;
		t = 0
	:: else
	fi
}

inline fence(p)
{
	if
	:: qn[Q(p, r[p])] > 0 -> repe[p] = e[p]; repn[p] = qn[Q(p, r[p])]
	:: else
	fi;
	qacc[Q(p, r[p])] = 0; qtag[Q(p, r[p])] = 0; qn[Q(p, r[p])] = 0
}

inline enter(p, ne, nr)
{
	fence(p);
	e[p] = ne; r[p] = nr; ph[p] = SWITCHING; /* ne is text that reads e[p]: not again below */
	qacc[Q(p, r[p])] = 1; qtag[Q(p, r[p])] = e[p];
	mset[X(p, life[p], e[p])] = 1; mr[X(p, life[p], e[p])] = r[p];
	mre[X(p, life[p], e[p])] = repe[p]; mrn[X(p, life[p], e[p])] = repn[p];
	/* Rule 18: rail 0 is armed again only when what is older there is dead. */
	if
	:: r[p] == 0 -> kill_older(1 - p, 0)
	:: else
	fi
}

inline reckon(p, re, rn)
{
	t = base[X(p, life[p], lastc[p])] + (re == lastc[p] -> rn : 0);
	assert(re <= lastc[p]);
	assert(comp[p] <= t);
	assert(t <= base[X(p, life[p], lastc[p])] + cnt[X(p, life[p], lastc[p])]);
	assert(t == nexec[Y(p, life[p])]);
	comp[p] = t;
	t = 0
}

inline commit(p, l)
{
	reckon(p, mre[X(1 - p, l, e[p])], mrn[X(1 - p, l, e[p])]);
	lastc[p] = e[p]; ph[p] = ACTIVE;
	txr[X(p, life[p], e[p])] = r[p]; base[X(p, life[p], e[p])] = comp[p]
}

/* The program ends this life: fence all (rule 19), and answer CLOSED from now on. */
inline close(p)
{
	fence(p);
	ph[p] = OVER;
	if
	:: EVER(p) -> clo[Y(p, life[p])] = 1; cloe[Y(p, life[p])] = repe[p]; clon[Y(p, life[p])] = repn[p]
	:: else
	fi
}

/* RESET, and to RTS again, with the same QPN and PSNs. */
inline reborn(p)
{
	life[p]++; pair[p] = 0; ph[p] = SETUP;
	e[p] = 0; r[p] = 0; lastc[p] = 0; repe[p] = 0; repn[p] = 0; comp[p] = 0;
	qacc[Q(p, 0)] = 1;
#ifdef NO_QUARANTINE
	dirty[p] = 0
#else
	dirty[p] = 1
#endif
}

/* The peer's HELLO matches: it says that its life l is paired with mine. */
inline match(p)
{
	ph[p] = ACTIVE; sto[Y(p, life[p])] = pair[p]
}
#ifdef NO_HELLO_IDS
#define HEARD(p) (hello[Y(1 - (p), 1)] || hello[Y(1 - (p), 2)])
#else
#define HEARD(p) (hello[Y(1 - (p), pair[p])] & (1 << life[p]))
#endif

#define NEXT(p) (e[p] + 1 + ((e[p] + 1 + (p)) & 1))
#define CLEAN(p, rail) (rail == 0 || !dirty[p])

#define ON_LIFE(p, l) \
	/* the record of the peer's life l, perhaps an old one. With data there it is too late */ \
	:: d_step { ph[p] == SETUP && l > pair[p] && l <= life[1 - (p)] && qn[Q(p, 0)] == 0 -> \
		pair[p] = l; hello[Y(p, life[p])] = hello[Y(p, life[p])] | (1 << l) } \
	:: d_step { ph[p] != SETUP && ph[p] != OVER && clo[Y(1 - (p), l)] && CLOSED_FOR(p, l) -> \
		assert(OURS(p, l)); close(p); reckon(p, cloe[Y(1 - (p), l)], clon[Y(1 - (p), l)]) } \
	ON_EPOCH(p, l, 0) ON_EPOCH(p, l, 1) ON_EPOCH_2(p, l)
#if E == 2
#define ON_EPOCH_2(p, l) ON_EPOCH(p, l, 2)
#elif E == 1
#define ON_EPOCH_2(p, l)
#else
#error "extend ON_LIFE"
#endif
#define ON_EPOCH(p, l, t) \
	:: d_step { MATCH(p, l, t) -> execute(p, l, t) } \
	:: d_step { t > e[p] && mset[X(1 - (p), l, t)] && FOR(p, l) && ph[p] != SETUP && ph[p] != OVER && \
		    CLEAN(p, mr[X(1 - (p), l, t)]) -> enter(p, t, mr[X(1 - (p), l, t)]) } \
	:: d_step { t > 0 && t == e[p] && ph[p] == SWITCHING && mset[X(1 - (p), l, t)] && FOR(p, l) && \
		    mr[X(1 - (p), l, t)] == r[p] -> commit(p, l) }

#define START(p, nr) \
	:: d_step { (ph[p] == ACTIVE || ph[p] == SWITCHING) && NEXT(p) <= E && r[p] != nr && CLEAN(p, nr) -> \
		enter(p, NEXT(p), nr) }

#define PEER(p) \
	ON_LIFE(p, 1) ON_LIFE(p, 2) \
	:: d_step { ph[p] == SETUP && pair[p] && HEARD(p) -> match(p) } \
	START(p, 0) START(p, 1) \
	/* the quarantine after HELLO: what the peer's older lives sent is dead */ \
	:: d_step { dirty[p] && ph[p] != SETUP && ph[p] != OVER -> \
		dirty[p] = 0; kill_older(1 - (p), 0); kill_older(1 - (p), 1) } \
	:: d_step { ph[p] == ACTIVE && \
		    base[X(p, life[p], e[p])] + cnt[X(p, life[p], e[p])] < WRS(p) -> cnt[X(p, life[p], e[p])]++ } \
	:: d_step { ph[p] == ACTIVE && comp[p] < nexec[Y(p, life[p])] -> comp[p]++ } \
	:: d_step { ph[p] != OVER -> close(p) } \
	:: d_step { ph[p] == OVER && life[p] < L -> reborn(p) }

init
{
	d_step {
		life[0] = 1; life[1] = 1;
		qacc[Q(0, 0)] = 1; qacc[Q(1, 0)] = 1
	}
	do
	PEER(0)
	PEER(1)
	:: else -> break
	od
}
