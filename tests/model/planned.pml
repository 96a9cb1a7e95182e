/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The planned switch of doc/protocol.md (rule 21, 7.13, 7.35), for spin 6.5: PREPARE, READY and the promise.
 *
 * Two peers, one atomic at a time in each direction, epochs 0..E, at most S attempts of each peer. Every
 * message ever sent may arrive at any time, any number of times, or never. There is no fault: a switch is
 * planned, or it is the answer to one. A timeout may come at any step, unless a rule forbids it.
 *
 * What must hold: no planned switch loses the result of an atomic that was executed. So no QP is fenced
 * while an atomic is executed and its result is not back, and none is executed when its poster's QP is.
 *
 * Time goes in ticks, the same at both ends. The asker believes until BELIEF ticks after it first asked with
 * that serial, not after READY came, as READY may be late. The promise ends PROMISE ticks after the first
 * PREPARE of that serial came. A fence takes up to FENCE ticks from START on, and until its end the QP may
 * execute. So PROMISE >= BELIEF + FENCE, and as no PREPARE comes before it is sent, the promise outlasts
 * whatever the asker does in its belief.
 *
 * -DNO_SERIAL: a READY of another attempt counts.  -DFROM_READY: belief begins when READY arrives.
 * -DPROMISE=n: a shorter promise.  -DNO_DRAIN: the one who promises does not wait for its atomic.
 * -DNO_STARTER_DRAIN: nor does the one who asked.
 */
#ifndef E
#define E 2 /* last epoch */
#endif
#ifndef S
#define S 2 /* attempts of each peer */
#endif
#ifndef BELIEF
#define BELIEF 3
#endif
#ifndef FENCE
#define FENCE 1
#endif
#ifndef PROMISE
#define PROMISE (BELIEF + FENCE)
#endif
#define NEP (E + 1)
#define NSE (S + 1)

#define ACTIVE	 0
#define ASKING	 1 /* PREPARE is sent; data flows */
#define DRAIN	 2 /* the peer promised; posts are held */
#define FOLLOW	 3 /* the peer asked; posts are held */
#define PROMISED 4 /* READY is sent; posts are held */
#define FENCING	 5 /* the QP may still execute */
#define ARMED	 6 /* SWITCH is sent */

byte st[2];
byte e[2];	/* epoch entered last */
byte to[2];	/* the one being entered */
byte ser[2];	/* serial of p's newest PREPARE */
byte fser[2];	/* the newest serial of the peer that p followed, or that was withdrawn */
byte bel[2];	/* ticks of belief left */
byte prom[2];	/* ticks of the promise left */
byte fen[2];	/* ticks that the fence may still take */
byte at[2];	/* p's atomic: 0 none, 1 posted, 2 executed and its result not back */
byte ae[2];	/* the epoch it was posted in */
bit live[2];	/* p's QP of epoch e accepts packets */
byte prep[2 * NSE];  /* PREPARE(serial) of p: 1 + its epoch; 0: not sent */
bit gone[2 * NSE];   /* p withdrew PREPARE(serial) */
byte ready[2 * NSE]; /* READY(serial of the peer) of p: likewise */
bit said[2 * NEP];   /* p named epoch t: LEAVING */
bit proof[2 * NEP];  /* p sent SWITCH(t) */

#define PS(p, s) ((p) * NSE + (s))
#define PE(p, t) ((p) * NEP + (t))
#define NEXT(p)	 (e[p] + 1 + ((e[p] + 1 + (p)) & 1)) /* rule 3 */
#define HELD(p)	 (st[p] != ACTIVE && st[p] != ASKING)

/* Nothing but what counts: deadlines of an attempt that is over are zero. */
inline quiet(p)
{
	bel[p] = 0; prom[p] = 0
}

/* If both asked, side 0 leads. */
inline follow(p, s)
{
	if
	:: st[p] == ASKING -> gone[PS(p, ser[p])] = 1
	:: else
	fi;
	bel[p] = 0;
	fser[p] = s; st[p] = FOLLOW; prom[p] = PROMISE
}

inline give_up(p)
{
	if
	:: st[p] == ASKING || st[p] == DRAIN -> gone[PS(p, ser[p])] = 1
	:: else
	fi;
	quiet(p);
	st[p] = ACTIVE /* what was held is posted */
}

/* START or JOIN: the fence begins. */
inline leave(p, ne)
{
	to[p] = ne; said[PE(p, to[p])] = 1;
	quiet(p);
	st[p] = FENCING; fen[p] = FENCE
}

/* Is q's QP, for the atomics of p, what p's QP is connected to? */
#define JOINED(p, q) (live[q] && e[q] == ae[p])

inline fenced(p)
{
	assert(at[p] != 2);				/* my atomic has its result, */
	assert(!(at[1 - p] == 2 && ae[1 - p] == e[p])); /* and so has the peer's, that I executed */
	e[p] = to[p]; to[p] = 0; fen[p] = 0;
	live[p] = 1; /* armed for the new epoch */
	proof[PE(p, e[p])] = 1;
	st[p] = ARMED
}

inline execute(p)
{
	assert(live[p] && e[p] == ae[p]); /* or the result could not come back any more */
	at[p] = 2
}

#ifdef NO_DRAIN
#define DRAINED(p) true
#else
#define DRAINED(p) (at[p] == 0)
#endif
#ifdef NO_STARTER_DRAIN
#define STARTER_DRAINED(p) true
#else
#define STARTER_DRAINED(p) (at[p] == 0)
#endif
#ifdef NO_SERIAL
#define ANSWERS(p, s) (ready[PS(1 - (p), s)] == e[p] + 1)
#else
#define ANSWERS(p, s) (s == ser[p] && ready[PS(1 - (p), s)] == e[p] + 1)
#endif
#ifdef FROM_READY
#define BELIEVE(p) bel[p] = BELIEF
#define ASKED(p)
#else
#define BELIEVE(p)
#define ASKED(p) bel[p] = BELIEF;
#endif

#define ON_PREPARE(p, s) \
	:: d_step { prep[PS(1 - (p), s)] == e[p] + 1 && s > fser[p] && \
		    (st[p] == ACTIVE || (st[p] == ASKING && p == 1) || \
		     st[p] == FOLLOW || st[p] == PROMISED) -> follow(p, s) } \
	:: d_step { gone[PS(1 - (p), s)] && prep[PS(1 - (p), s)] == e[p] + 1 && \
		    (s > fser[p] || (s == fser[p] && (st[p] == FOLLOW || st[p] == PROMISED))) -> \
		fser[p] = s; \
		if \
		:: st[p] == FOLLOW || st[p] == PROMISED -> give_up(p) \
		:: else \
		fi }
#define ON_READY(p, s) \
	:: d_step { st[p] == ASKING && ANSWERS(p, s) -> st[p] = DRAIN; BELIEVE(p) }
#define JOIN(p, t) \
	:: d_step { st[p] != FENCING && t > e[p] && said[PE(1 - (p), t)] -> leave(p, t) }
#if S > 3 || E > 3
#error "extend EACH"
#endif
#if S == 3
#define EACH(x, p) x(p, 1) x(p, 2) x(p, 3)
#elif S == 2
#define EACH(x, p) x(p, 1) x(p, 2)
#else
#define EACH(x, p) x(p, 1)
#endif
#if E == 3
#define EACHE(x, p) x(p, 1) x(p, 2) x(p, 3)
#else
#define EACHE(x, p) x(p, 1) x(p, 2)
#endif

#define PEER(p) \
	/* atomics: posted, executed, back */ \
	:: d_step { !HELD(p) && at[p] == 0 && !done -> at[p] = 1; ae[p] = e[p] } \
	:: d_step { at[p] == 1 && JOINED(p, 1 - (p)) -> execute(p) } \
	:: d_step { at[p] == 2 && live[p] && e[p] == ae[p] -> at[p] = 0; ae[p] = 0 } \
	/* an attempt */ \
	:: d_step { st[p] == ACTIVE && ser[p] < S && NEXT(p) <= E && !done -> \
		ser[p]++; prep[PS(p, ser[p])] = e[p] + 1; ASKED(p) st[p] = ASKING } \
	EACH(ON_PREPARE, p) \
	EACH(ON_READY, p) \
	:: d_step { st[p] == FOLLOW && DRAINED(p) && prom[p] > 0 -> \
		st[p] = PROMISED; ready[PS(p, fser[p])] = e[p] + 1 } \
	:: d_step { st[p] == DRAIN && STARTER_DRAINED(p) && bel[p] > 0 -> leave(p, NEXT(p)) } \
	:: d_step { st[p] == ASKING || st[p] == DRAIN || st[p] == FOLLOW || \
		    (st[p] == PROMISED && prom[p] == 0) -> give_up(p) } \
	/* the switch */ \
	EACHE(JOIN, p) \
	:: d_step { st[p] == FENCING -> fenced(p) } \
	:: d_step { st[p] == ARMED && proof[PE(1 - (p), e[p])] -> \
		st[p] = ACTIVE; ae[p] = (at[p] -> e[p] : 0) }

#define LATE(p) (st[p] == FENCING && fen[p] == 0)
#define LESS(x) x = (x > 0 -> x - 1 : 0)

bit done; /* the programs post no more, and nothing is planned */

init
{
	d_step {
		live[0] = 1; live[1] = 1
	}
	do
	PEER(0)
	PEER(1)
	:: d_step { !LATE(0) && !LATE(1) &&
		    bel[0] + bel[1] + prom[0] + prom[1] + fen[0] + fen[1] > 0 ->
		LESS(bel[0]); LESS(bel[1]); LESS(prom[0]); LESS(prom[1]); LESS(fen[0]); LESS(fen[1]) }
	:: d_step { !done -> done = 1 }
	:: else ->
		/* Nothing can move: all is executed, nobody holds posts, both agree. */
		assert(at[0] == 0 && at[1] == 0 && st[0] == ACTIVE && st[1] == ACTIVE && e[0] == e[1]);
		break
	od
}
