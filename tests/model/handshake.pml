/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The SWITCH handshake of doc/protocol.md, for spin 6.5: rules 1-20. Timers and triggers are a START at
 * any step. Rule 21 is in planned.pml, several lives of a QP are in lives.pml.
 *
 * Two peers, R rails, N WRs of one packet in each direction, epochs 0..E. Every packet and every
 * SWITCH ever sent may arrive at any time, any number of times, or never, so the network is not a set
 * of channels but the set of everything that was sent: loss, duplication, reordering and delay without
 * bound come for free. A failure is a START at any step. ACKs may never arrive. A receiver executes
 * data until its QP is fenced, and its program may close the connection at any step.
 *
 * What must hold: the WR executed is always the next one (no duplicate, no loss, no reordering); what is
 * completed was executed; both peers agree on epoch and rail before data; the peer's report names
 * exactly what it executed; nothing is executed after a close; nobody is stuck.
 *
 * -DPENDING lets a peer enter an epoch in two steps: fenced and announced with SWITCH(PENDING), which the
 * other may join but not commit, and only later armed (7.2: a dirty rail as the target).
 * -DLEAVING lets a peer announce an epoch before it has fenced anything, and enter it later, or never
 * (SWITCH(LEAVING), 7.32); the other may join at once. -DNO_RULE_LEAVING lets it commit on that word, too.
 * With both, an epoch may be announced by LEAVING, then by PENDING, and only then be proved.
 *
 * -DQUARANTINE makes rails dirty (rule 18, 7.2, 7.5), and any rail may be a target, the one in use, too.
 * The PSNs of two epochs may be the same here, so the quarantine alone must keep old packets away: data of
 * an older arming must be dead when a rail is armed, and its ACKs when data is sent there.
 *
 * -DUNSURE lets a fence find no PSN that can be trusted; then the count of receives decides (rule 11, 7.4).
 * -DLOSTCQE lets a NIC lose the completion of the last receive that it consumed (A4, rule 12).
 *
 * -DNO_RULE_x takes one rule away; spin must then find a counterexample (tests/model/run does it).
 * -DLOSSY is the liveness variant: one SWITCH in flight per direction, it may be lost, timers retransmit;
 * at any moment the network may become calm, and then few retransmissions must bring both peers home.
 */
#ifndef N
#define N 3 /* WRs each way */
#endif
#ifndef E
#define E 3 /* last epoch: 0 is the connection as it was set up */
#endif
#ifndef R
#define R 3 /* rails */
#endif
#define NEP (E + 1)
#ifdef QUARANTINE
#define PENDING
#define NO_CLOSE
#endif
#if defined(UNSURE) || defined(LOSTCQE)
#define COUNTS
#endif

#define ACTIVE	  0
#define SWITCHING 1
#define DEAD	  2 /* closed by its program or by the peer's CLOSED */
#define ENTERED	  3 /* fenced, the new rail's QP not armed yet; with -DPENDING only */

/* -- peer p ----------------------------------------------------------------- */
byte e[2];     /* epoch entered last */
byte r[2];     /* its rail */
byte ph[2];    /* phase */
byte lastc[2]; /* last epoch committed */
byte repe[2];  /* rep: newest epoch in which p executed a packet of the peer ... */
byte repn[2];  /* ... and the final rq_psn there, relative to the epoch's first PSN */
byte comp[2];  /* WRs of p completed to p's program */
byte nexec[2]; /* WRs of p executed by the peer's NIC: the reference */

/* -- p's QP on rail r: index p * R + rail ------------------------------------ */
byte qtag[6]; /* epoch it was armed for */
byte qn[6];   /* rq_psn relative to that epoch's first PSN */
byte qacc[6]; /* 1: accepts packets; 2: accepts one more (a fence that is no barrier) */

/* -- everything p ever sent in epoch t: index p * NEP + t -------------------- */
byte txr[2 * NEP];  /* rail */
byte base[2 * NEP]; /* first WR */
byte cnt[2 * NEP];  /* packets given to the NIC */
byte mset[2 * NEP]; /* SWITCH(t) was sent */
byte mr[2 * NEP];   /* its rail */
byte mre[2 * NEP];  /* its rep_epoch */
byte mrn[2 * NEP];  /* its rep_psn */
#ifdef PENDING
byte pset[2 * NEP]; /* SWITCH(t, PENDING) was sent */
byte pr[2 * NEP];   /* its rail */
#endif
#ifdef LEAVING
byte lset[2 * NEP]; /* SWITCH(t, LEAVING) was sent */
byte lr[2 * NEP];   /* its rail */
byte plan[2];       /* the newest epoch that p announced so, or entered */
#endif
byte clo[2];   /* CLOSED was sent; its rep is repe/repn, which no longer change */

#ifdef QUARANTINE
/* -- what keeps a rail from being armed again: index p * R + rail ------------- */
bit dirty[6];	    /* old packets of the peer may be about */
byte dtag[6];	    /* the epoch that p's fenced QP was armed for */
bit mine[6];	    /* p had sent in that epoch, so the peer's QP had data of p to answer */
bit sdata[6];	    /* data that p's fenced QPs sent is still in the network */
bit sack[6];	    /* answers that p's fenced QPs sent are */
bit late[2];	    /* they were when the peer, 1 - p, armed what it uses now */
byte pve[2];	    /* the newest epoch that the peer is proven to have entered ... */
byte pvc[2];	    /* ... and its `committed` then */
byte sente[2];	    /* the newest epoch before lastc in which p has sent (7.52) */
byte mco[2 * NEP];  /* `committed` of the messages of epoch t */
#endif
#ifdef COUNTS
byte rcv[2];	    /* receives of p whose completion it has */
bit uns[2];	    /* something newer than rep may have been executed */
byte mrc[2 * NEP];  /* recv_cum of SWITCH(t) */
bit mun[2 * NEP];   /* it is UNSURE */
byte how;	    /* of the fence: 1 UNSURE, 2 with a lost completion; zero between steps */
bit bad;	    /* the counts contradict each other; zero between steps */
#endif

#ifdef LOSSY
byte heard[2]; /* newest SWITCH p has seen */
byte air[2];   /* p's SWITCH(e) is in flight ... */
byte airh[2];  /* ... with this heard field */
bit calm;      /* no more loss, no more failures */
byte retx;     /* retransmissions since then */
#endif

byte t, i; /* scratch, always zero between steps */

#define Q(p, rail) ((p) * R + (rail))
#define X(p, ep)   ((p) * NEP + (ep))

/* A broken rule may keep an old QP accepting or look at old messages: then forget nothing. */
#if defined(NO_RULE_5) || defined(NO_RULE_7) || defined(NO_RULE_9) || defined(NO_RULE_19) || \
	defined(NO_RULE_BARRIER)
#define FORGET 0
#else
#define FORGET 1
#endif

#ifdef QUARANTINE /* a message that p has no other use for may still prove something */
#define PROVES(p, t) (t > pve[p])
#define CLEAN(p, rail) (!dirty[Q(p, rail)] && !qacc[Q(p, rail)])
#define LATE(p, rail) (!CLEAN(p, rail))
#define LEARN(p, me)                                                    \
	if                                                              \
	:: me > pve[p] -> PROVED(p, me); pve[p] = me                     \
	:: else                                                         \
	fi
#else
#define PROVES(p, t) false
#define CLEAN(p, rail) true
#define LATE(p, rail) true
#define LEARN(p, me)
#endif

/*
 * State reduction, not protocol: packets that no QP can accept any more (all QPs with that tag are
 * fenced, tags only grow) and messages that rule 16 ignores are dropped from the sets. What lastc sent
 * stays, its sender still counts in it.
 */
inline forget()
{
	if
	:: FORGET ->
		i = 0;
		do
		:: i < 2 ->
			t = 0;
			do
			:: t < NEP ->
				if
				:: t < e[1 - i] && t != lastc[i] ->
					txr[X(i, t)] = 0; base[X(i, t)] = 0; cnt[X(i, t)] = 0
				:: else
				fi;
				if
				:: (ph[1 - i] == DEAD || t < e[1 - i] ||
				    (t == e[1 - i] && ph[1 - i] == ACTIVE)) && !PROVES(1 - i, t) ->
					mset[X(i, t)] = 0; mr[X(i, t)] = 0;
					mre[X(i, t)] = 0; mrn[X(i, t)] = 0;
#ifdef COUNTS
					mrc[X(i, t)] = 0; mun[X(i, t)] = 0
#endif
				:: else
				fi;
#ifdef PENDING
				if
				:: (ph[1 - i] == DEAD || t <= e[1 - i]) && !PROVES(1 - i, t) ->
					pset[X(i, t)] = 0; pr[X(i, t)] = 0
				:: else
				fi;
#endif
#ifdef QUARANTINE
				if
				:: t <= pve[1 - i] -> mco[X(i, t)] = 0
				:: else
				fi;
#endif
#ifdef LEAVING
				if
				:: (ph[1 - i] == DEAD || t <= e[1 - i]) &&
				   (ph[i] == DEAD || t <= e[i] || t < plan[i]) ->
					lset[X(i, t)] = 0; lr[X(i, t)] = 0
				:: else
				fi;
#endif
				t++
			:: else -> break
			od;
			i++
		:: else -> break
		od;
		i = 0; t = 0
	:: else
	fi
}

#ifdef QUARANTINE
/* The newest epoch in which p has sent data. */
#ifdef NO_RULE_OLDER
#define SENT(p) (cnt[X(p, lastc[p])] > 0 -> lastc[p] : 0)
#else
#define SENT(p) (cnt[X(p, lastc[p])] > 0 -> lastc[p] : sente[p])
#endif

/* What p's QP has sent is on its way still; p may not arm it again. */
inline soil(p)
{
	if
	:: qacc[Q(p, r[p])] ->
		late[1 - p] = 0;
		dirty[Q(p, r[p])] = 1; dtag[Q(p, r[p])] = qtag[Q(p, r[p])];
		mine[Q(p, r[p])] = (SENT(p) == qtag[Q(p, r[p])]);
		if
		:: lastc[p] == qtag[Q(p, r[p])] && cnt[X(p, lastc[p])] > 0 -> sdata[Q(p, r[p])] = 1
		:: else
		fi;
		if
		:: qn[Q(p, r[p])] > 0 -> sack[Q(p, r[p])] = 1
		:: else
		fi
	:: else
	fi
}

/* Is p's QP on this rail alive, and of another arming than ep? */
#define ALIEN(p, rail, ep) (qacc[Q(p, rail)] && qtag[Q(p, rail)] != ep)

/*
 * Rule 18. The quarantine is over: what the peer's fenced QPs sent on this rail is dead, though not what
 * a live one sends. There is none where the peer sent no data under the tag; nor did p, so that there
 * was nothing to answer (7.5, 7.52).
 */
inline settle(p, rail)
{
	dirty[Q(p, rail)] = 0;
	if
#ifdef NO_RULE_18_TIME
	:: true
#endif
#ifdef NO_RULE_ANSWERS
	:: pvc[p] < dtag[Q(p, rail)]
#else
	:: pvc[p] < dtag[Q(p, rail)] && !mine[Q(p, rail)]
#endif
	:: else -> sdata[Q(1 - p, rail)] = 0; sack[Q(1 - p, rail)] = 0
	fi;
	dtag[Q(p, rail)] = 0; mine[Q(p, rail)] = 0
}
#endif

/* Rules 5 and 6: fence the QP on p's rail r, read rq_psn, update rep. */
inline fence(p)
{
#ifdef QUARANTINE
	soil(p);
#endif
	if
#ifdef NO_RULE_5
	:: ph[p] == SWITCHING -> skip /* "it never became ACTIVE, nothing can have come" */
#endif
	:: else ->
#ifdef NO_RULE_2_NEWEST
		/* "the QP just left": forgets that it may have executed nothing */
		repe[p] = e[p]; repn[p] = qn[Q(p, r[p])];
#else
#ifdef NO_RULE_2_COMMITTED
		/* "the last committed rail": forgets what was executed while SWITCHING */
		if
		:: ph[p] == ACTIVE && qn[Q(p, r[p])] > 0 ->
			repe[p] = e[p]; repn[p] = qn[Q(p, r[p])]
		:: else
		fi;
#else
		if
#ifdef COUNTS
		:: how == 1 -> uns[p] = 1
		:: how != 1 && qn[Q(p, r[p])] > 0 ->
			rcv[p] = rcv[p] - (how == 2);
			uns[p] = 0; repe[p] = e[p]; repn[p] = qn[Q(p, r[p])]
#ifdef NO_RULE_DOUBT
		:: else -> uns[p] = 0 /* "this fence was sure" */
#else
		:: else
#endif
#else
		:: qn[Q(p, r[p])] > 0 -> repe[p] = e[p]; repn[p] = qn[Q(p, r[p])]
		:: else
#endif
		fi;
#endif
#endif
#ifdef NO_RULE_BARRIER
		qacc[Q(p, r[p])] = 2
#else
		qacc[Q(p, r[p])] = 0; qtag[Q(p, r[p])] = 0; qn[Q(p, r[p])] = 0
#endif
	fi
}

/* Rule 7: arm the twin, send SWITCH(e). */
inline arm(p)
{
	ph[p] = SWITCHING;
	qtag[Q(p, r[p])] = e[p]; qn[Q(p, r[p])] = 0; qacc[Q(p, r[p])] = 1;
	mset[X(p, e[p])] = 1; mr[X(p, e[p])] = r[p];
	mre[X(p, e[p])] = repe[p]; mrn[X(p, e[p])] = repn[p];
#ifdef COUNTS
	mrc[X(p, e[p])] = rcv[p]; mun[X(p, e[p])] = uns[p];
#endif
#ifdef QUARANTINE
	mco[X(p, e[p])] = SENT(p);
	/* Nothing that the peer sent for an older arming could be executed now. */
	assert(!sdata[Q(1 - p, r[p])]);
	assert(!(ALIEN(1 - p, r[p], e[p]) && lastc[1 - p] == qtag[Q(1 - p, r[p])] &&
		 cnt[X(1 - p, lastc[1 - p])] > 0));
	late[1 - p] = (sack[Q(1 - p, r[p])] ||
		       (ALIEN(1 - p, r[p], e[p]) && qn[Q(1 - p, r[p])] > 0))
#endif
}

#ifdef PENDING
/* Rules 5 and 6 alone: leave the old rail, announce the new one. */
inline announce(p, ne, nr)
{
	fence(p);
	e[p] = ne; r[p] = nr; ph[p] = ENTERED; /* ne is text that reads e[p]: not again below */
#ifdef LEAVING
	if
	:: plan[p] < e[p] -> plan[p] = e[p]
	:: else
	fi;
#endif
	pset[X(p, e[p])] = 1; pr[X(p, e[p])] = r[p];
#ifdef QUARANTINE
	mco[X(p, e[p])] = SENT(p);
#endif
	forget()
}
#endif

/* Rules 5-7: leave the old rail, arm the twin on the new one, send SWITCH(ne). */
inline enter(p, ne, nr)
{
	fence(p);
	e[p] = ne; r[p] = nr; /* ne is text that reads e[p]: not again below */
#ifdef LEAVING
	if
	:: plan[p] < e[p] -> plan[p] = e[p]
	:: else
	fi;
#endif
	arm(p);
#ifdef LOSSY
	air[p] = 1; airh[p] = heard[p];
#endif
	forget()
}

/* Rules 10 and 11: K in WRs, from the peer's report (re, rn). */
#ifdef COUNTS
#define RULE_12(p, rc, un)                                          \
	if                                                          \
	:: un -> t = rc /* rule 11: the count alone decides */       \
	:: !un && t != rc -> bad = BAD; assert(LOSES) /* rule 12 */  \
	:: else                                                     \
	fi;
#ifdef LOSTCQE /* without a fault the counts never contradict each other */
#define LOSES true
#else
#define LOSES false
#endif
#ifdef NO_RULE_12
#define BAD 0
#else
#define BAD 1
#endif
#else
#define RULE_12(p, rc, un)
#endif
#ifdef COUNTS
#define RECKON(p, re, rn, rc, un) reckon(p, re, rn, rc, un)
inline reckon(p, re, rn, rc, un)
#else
#define RECKON(p, re, rn, rc, un) reckon(p, re, rn)
inline reckon(p, re, rn)
#endif
{
#ifdef NO_RULE_10
	t = base[X(p, lastc[p])] + rn;
#else
	assert(re <= lastc[p]); /* executed in an epoch I never sent in: protocol error */
	if
	:: re == lastc[p] -> t = base[X(p, lastc[p])] + rn
	:: else -> t = base[X(p, lastc[p])]
	fi;
#endif
	RULE_12(p, rc, un)
#ifdef COUNTS
	if
	:: bad
	:: else ->
#endif
	assert(comp[p] <= t);						/* acked <= K */
	assert(t <= base[X(p, lastc[p])] + cnt[X(p, lastc[p])]);	/* K <= posted */
	assert(t == nexec[p]);						/* and it is the truth */
	comp[p] = t;
#ifdef COUNTS
	fi;
#endif
	t = 0
}

inline die(p)
{
	/* Rule 19: before the first error completion, fence every QP on every rail. */
#ifndef NO_RULE_19
	fence(p);
#endif
	ph[p] = DEAD; clo[p] = 1;
	forget()
}

/* Rules 9-13. */
inline commit(p, me)
{
#if !defined(NO_RULE_9) && !defined(NO_RULE_3)
	assert(lastc[p] < e[p]);
#endif
	RECKON(p, mre[X(1 - p, me)], mrn[X(1 - p, me)], mrc[X(1 - p, me)], mun[X(1 - p, me)]);
#ifdef COUNTS
	if
	:: bad -> bad = 0; die(p) /* visibly, and nothing was completed */
	:: else ->
#endif
#ifdef QUARANTINE
	sente[p] = SENT(p);
#endif
	lastc[p] = e[p];
	txr[X(p, e[p])] = r[p]; base[X(p, e[p])] = comp[p]; cnt[X(p, e[p])] = 0;
	ph[p] = ACTIVE;
#ifdef COUNTS
	fi;
#endif
	forget()
}

/* p's NIC executes packet i of epoch ep of the peer. */
inline execute(p, rail, ep)
{
#if FORGET
	/* Both are on this epoch and rail. Not where a rule is missing that lets an old QP live:
	 * there the consequence shall be found. */
	assert(e[p] == ep && r[p] == rail);
#endif
	assert(ph[p] != DEAD); /* nothing touches memory that the program got back */
	assert(base[X(1 - p, ep)] + qn[Q(p, rail)] == nexec[1 - p]); /* exactly the next WR */
#ifdef COUNTS
	assert(rcv[p] == nexec[1 - p]); /* and in its own receive */
	rcv[p]++;
#endif
	nexec[1 - p]++;
	qn[Q(p, rail)]++;
	if
	:: qacc[Q(p, rail)] == 2 -> qacc[Q(p, rail)] = 0
	:: else
	fi
}

/* The packet with the PSN that the QP on `rail` expects was sent in epoch ep, on that rail. */
#ifdef NO_RULE_7
#define MATCH(p, rail, ep) \
	(qacc[Q(p, rail)] && txr[X(1 - (p), ep)] == rail && qn[Q(p, rail)] < cnt[X(1 - (p), ep)])
#else
#define MATCH(p, rail, ep) \
	(qacc[Q(p, rail)] && txr[X(1 - (p), ep)] == rail && qn[Q(p, rail)] < cnt[X(1 - (p), ep)] && \
	 qtag[Q(p, rail)] == ep)
#endif

#ifdef LEAVING /* what p has announced belongs to the rail that it named */
#define LAST(p) plan[p]
#else
#define LAST(p) e[p]
#endif
#ifdef NO_RULE_3
#define NEXT(p) (e[p] + 1)
#else
#define NEXT(p) (LAST(p) + 1 + ((LAST(p) + 1 + (p)) & 1)) /* side 0 even, side 1 odd */
#endif

#ifdef LOSSY
#define MAYFAIL (!calm)
#else
#define MAYFAIL true
#endif

#ifdef QUARANTINE /* the rail in use may be the only one left */
#define OTHER(p, nr) true
#else
#define OTHER(p, nr) (r[p] != nr)
#endif

#define START(p, nr) \
	d_step { MAYFAIL && ph[p] != DEAD && NEXT(p) <= E && OTHER(p, nr) && CLEAN(p, nr) -> \
		enter(p, NEXT(p), nr) }

#ifdef LOSSY
#define JOIN(p, me)
#define COMMIT(p) d_step { false -> skip }
#else
#define JOIN(p, me) \
	:: d_step { ph[p] != DEAD && me > e[p] && mset[X(1 - (p), me)] && \
		    CLEAN(p, mr[X(1 - (p), me)]) -> LEARN(p, me); enter(p, me, mr[X(1 - (p), me)]) }
#ifdef NO_RULE_9
#define COMMIT(p) \
	d_step { ph[p] == SWITCHING && mset[X(1 - (p), e[p])] -> commit(p, e[p]) } \
	:: d_step { ph[p] == SWITCHING && e[p] > 1 && mset[X(1 - (p), e[p] - 1)] -> \
		commit(p, e[p] - 1) }
#else
#define COMMIT(p) \
	d_step { ph[p] == SWITCHING && mset[X(1 - (p), e[p])] && mr[X(1 - (p), e[p])] == r[p] -> \
		LEARN(p, e[p]); commit(p, e[p]) }
#endif
#endif

#ifdef NO_RULE_14
#define MAYSEND(p) (ph[p] != DEAD)
#else
#define MAYSEND(p) (ph[p] == ACTIVE)
#endif

/* Rule 14 without the rule: data goes out on the new rail before the peer's SWITCH told where to begin. */
inline send(p)
{
#ifdef QUARANTINE
	/* No answer of an older arming could be taken for one to this, */
	assert(!late[1 - p]);
	/* and no older arming could execute this, nor answer it. */
	assert(!ALIEN(1 - p, r[p], e[p]));
#endif
#ifdef NO_RULE_14
	if
	:: ph[p] == SWITCHING && cnt[X(p, e[p])] == 0 ->
		txr[X(p, e[p])] = r[p]; base[X(p, e[p])] = comp[p]
	:: else
	fi;
#endif
	cnt[X(p, e[p])]++
}

#define RX(p, rail, ep) :: d_step { MATCH(p, rail, ep) -> execute(p, rail, ep) }
#if E > 5
#error "extend RXALL and JOINALL"
#endif
#if E >= 5
#define RX5(p, rail) RX(p, rail, 5)
#define JOIN5(p)     JOIN(p, 5)
#else
#define RX5(p, rail)
#define JOIN5(p)
#endif
#if E >= 4
#define RX4(p, rail) RX(p, rail, 4)
#define JOIN4(p)     JOIN(p, 4)
#else
#define RX4(p, rail)
#define JOIN4(p)
#endif
#if E >= 3
#define RX3(p, rail) RX(p, rail, 3)
#define JOIN3(p)     JOIN(p, 3)
#else
#define RX3(p, rail)
#define JOIN3(p)
#endif
#define RXALL(p, rail) \
	RX(p, rail, 0) RX(p, rail, 1) RX(p, rail, 2) RX3(p, rail) RX4(p, rail) RX5(p, rail)
#define JOINALL(p) JOIN(p, 1) JOIN(p, 2) JOIN3(p) JOIN4(p) JOIN5(p)
#if R >= 3
#define THIRD(x) x
#else
#define THIRD(x)
#endif

#ifdef LOSSY
/* Rule 8, and rules 4, 9, 16: p gets the SWITCH of its peer that is in flight. */
inline deliver(p)
{
	i = airh[1 - p];
	air[1 - p] = 0; airh[1 - p] = 0;
	heard[p] = (heard[p] < e[1 - p] -> e[1 - p] : heard[p]);
	if
	:: ph[p] != DEAD && e[1 - p] > e[p] ->
		enter(p, e[1 - p], r[1 - p])
	:: else
	fi;
	if
	:: ph[p] == SWITCHING && e[1 - p] == e[p] && r[1 - p] == r[p] -> commit(p, e[p]);
	:: else
	fi;
	if
#ifndef NO_RULE_8
	:: ph[p] != DEAD && (i < e[p] || e[1 - p] < e[p]) -> air[p] = 1; airh[p] = heard[p]
#endif
	:: else
	fi;
	i = 0
}
#define LOSSYSTEPS(p) \
	:: d_step { air[1 - (p)] -> deliver(p) } \
	:: d_step { !calm && air[p] -> air[p] = 0; airh[p] = 0 } \
	:: d_step { ph[p] == SWITCHING && !air[p] && !(calm && air[1 - (p)]) -> \
		air[p] = 1; airh[p] = heard[p]; retx = retx + calm; assert(retx <= 6) }
#else
#define LOSSYSTEPS(p)
#endif

#ifdef COUNTS
#define UNBAD bad = 0
#else
#define UNBAD
#endif
#if defined(NO_CLOSE) || defined(LOSSY)
#define CLOSING(p)
#else
#define CLOSING(p) \
	/* Rule 19: give-up, or the program destroys its QP */ \
	:: d_step { ph[p] != DEAD -> die(p) } \
	/* Rule 20: the peer's CLOSED completes a prefix, the rest is flushed */ \
	:: d_step { ph[p] != DEAD && clo[1 - (p)] -> die(p); \
		RECKON(p, repe[1 - (p)], repn[1 - (p)], rcv[1 - (p)], uns[1 - (p)]); UNBAD }
#endif

#if E >= 4
#define FROM4(x) x
#else
#define FROM4(x)
#endif

#ifdef PENDING
#define START_LATE(p, nr) \
	:: d_step { ph[p] != DEAD && NEXT(p) <= E && OTHER(p, nr) && LATE(p, nr) -> \
		announce(p, NEXT(p), nr) }
#define JOIN_PENDING(p, me) \
	:: d_step { me <= E && ph[p] != DEAD && me > e[p] && pset[X(1 - (p), me)] && \
		    CLEAN(p, pr[X(1 - (p), me)]) -> LEARN(p, me); enter(p, me, pr[X(1 - (p), me)]) } \
	:: d_step { me <= E && ph[p] != DEAD && me > e[p] && pset[X(1 - (p), me)] && \
		    LATE(p, pr[X(1 - (p), me)]) -> LEARN(p, me); announce(p, me, pr[X(1 - (p), me)]) } \
	JOIN_LATE(p, me)
#ifdef QUARANTINE
#define JOIN_LATE(p, me) \
	:: d_step { me <= E && me > e[p] && mset[X(1 - (p), me)] && LATE(p, mr[X(1 - (p), me)]) -> \
		LEARN(p, me); announce(p, me, mr[X(1 - (p), me)]) }
#else
#define JOIN_LATE(p, me)
#endif
#define PENDINGSTEPS(p) \
	START_LATE(p, 0) START_LATE(p, 1) THIRD(START_LATE(p, 2)) \
	JOIN_PENDING(p, 1) JOIN_PENDING(p, 2) JOIN_PENDING(p, 3) FROM4(JOIN_PENDING(p, 4)) \
	:: d_step { ph[p] == ENTERED && CLEAN(p, r[p]) -> arm(p); forget() }
#else
#define PENDINGSTEPS(p)
#endif

#ifdef LEAVING
#define ANNOUNCE(p, nr) \
	:: d_step { ph[p] != DEAD && NEXT(p) <= E && OTHER(p, nr) -> \
		plan[p] = NEXT(p); lset[X(p, plan[p])] = 1; lr[X(p, plan[p])] = nr; forget() }
#define JOIN_LEAVING(p, me) \
	:: d_step { me <= E && ph[p] != DEAD && me > e[p] && lset[X(1 - (p), me)] && \
		    CLEAN(p, lr[X(1 - (p), me)]) -> enter(p, me, lr[X(1 - (p), me)]) } \
	LEAVING_LATE(p, me > e[p] && lset[X(1 - (p), me)], me, lr[X(1 - (p), me)])
#ifdef PENDING
#define LEAVING_LATE(p, when, ne, nr) \
	:: d_step { ne <= E && ph[p] != DEAD && when && LATE(p, nr) -> announce(p, ne, nr) }
#else
#define LEAVING_LATE(p, when, ne, nr)
#endif
#ifdef NO_RULE_LEAVING
#define COMMIT_LEAVING(p) \
	:: d_step { ph[p] == SWITCHING && lset[X(1 - (p), e[p])] && lr[X(1 - (p), e[p])] == r[p] -> \
		mre[X(1 - (p), e[p])] = repe[1 - (p)]; mrn[X(1 - (p), e[p])] = repn[1 - (p)]; \
		commit(p, e[p]) }
#else
#define COMMIT_LEAVING(p)
#endif
#define LEAVINGSTEPS(p) \
	ANNOUNCE(p, 0) ANNOUNCE(p, 1) THIRD(ANNOUNCE(p, 2)) \
	JOIN_LEAVING(p, 1) JOIN_LEAVING(p, 2) JOIN_LEAVING(p, 3) FROM4(JOIN_LEAVING(p, 4)) \
	COMMIT_LEAVING(p) \
	LEAVING_LATE(p, plan[p] > e[p], plan[p], lr[X(p, plan[p])]) \
	:: d_step { ph[p] != DEAD && plan[p] > e[p] && CLEAN(p, lr[X(p, plan[p])]) -> \
		enter(p, plan[p], lr[X(p, plan[p])]) }
#else
#define LEAVINGSTEPS(p)
#endif

#ifdef QUARANTINE
#define PROVE(p, me, said) \
	:: d_step { me <= E && me > pve[p] && (said) -> PROVED(p, me); pve[p] = me; forget() }
#ifdef NO_RULE_COMMITTED
#define PROVED(p, me) pvc[p] = (pve[p] == 0 -> mco[X(1 - (p), me)] : pvc[p]) /* what it said once */
#else
#define PROVED(p, me) pvc[p] = mco[X(1 - (p), me)]
#endif
#ifdef NO_RULE_18_LEAVING
#define SAID(p, me) (mset[X(1 - (p), me)] || pset[X(1 - (p), me)] || lset[X(1 - (p), me)])
#else
#define SAID(p, me) (mset[X(1 - (p), me)] || pset[X(1 - (p), me)])
#endif
#ifdef NO_RULE_18_PROOF
#define PROVEN(p, rail) true
#else
#define PROVEN(p, rail) (pve[p] > dtag[Q(p, rail)])
#endif
#define SETTLE(p, rail) \
	:: d_step { dirty[Q(p, rail)] && !qacc[Q(p, rail)] && PROVEN(p, rail) -> settle(p, rail) }
#define QUARANTINESTEPS(p) \
	PROVE(p, 1, SAID(p, 1)) PROVE(p, 2, SAID(p, 2)) PROVE(p, 3, SAID(p, 3)) \
	FROM4(PROVE(p, 4, SAID(p, 4))) \
	SETTLE(p, 0) SETTLE(p, 1) THIRD(SETTLE(p, 2))
#else
#define QUARANTINESTEPS(p)
#endif

#ifdef COUNTS
#ifdef UNSURE
#define HOW 1
#define CAN(p) true
#else
#define HOW 2
#define CAN(p) (qacc[Q(p, r[p])] && qn[Q(p, r[p])] > 0)
#endif
#define START_BADLY(p, nr) \
	:: d_step { ph[p] != DEAD && NEXT(p) <= E && OTHER(p, nr) && CAN(p) -> \
		how = HOW; enter(p, NEXT(p), nr); how = 0 }
#define JOIN_BADLY(p, me) \
	:: d_step { me <= E && ph[p] != DEAD && me > e[p] && mset[X(1 - (p), me)] && CAN(p) -> \
		how = HOW; enter(p, me, mr[X(1 - (p), me)]); how = 0 }
#define COUNTSTEPS(p) \
	START_BADLY(p, 0) START_BADLY(p, 1) THIRD(START_BADLY(p, 2)) \
	JOIN_BADLY(p, 1) JOIN_BADLY(p, 2) JOIN_BADLY(p, 3) FROM4(JOIN_BADLY(p, 4)) \
	:: d_step { ph[p] != DEAD && CAN(p) -> how = HOW; die(p); how = 0 }
#else
#define COUNTSTEPS(p)
#endif

#define PEER(p) \
	PENDINGSTEPS(p) \
	LEAVINGSTEPS(p) \
	QUARANTINESTEPS(p) \
	COUNTSTEPS(p) \
	:: START(p, 0) \
	:: START(p, 1) \
	THIRD(:: START(p, 2)) \
	JOINALL(p) \
	:: COMMIT(p) \
	:: d_step { MAYSEND(p) && base[X(p, e[p])] + cnt[X(p, e[p])] < N -> send(p) } \
	:: d_step { ph[p] == ACTIVE && comp[p] < nexec[p] -> comp[p]++ } /* an ACK arrives */ \
	RXALL(p, 0) RXALL(p, 1) THIRD(RXALL(p, 2)) \
	CLOSING(p) \
	LOSSYSTEPS(p)

init
{
	d_step {
		qacc[Q(0, 0)] = 1; qacc[Q(1, 0)] = 1;
	}
	do
	PEER(0)
	PEER(1)
#ifdef LOSSY
	:: d_step { !calm -> calm = 1 }
#endif
	:: else ->
		/* Nothing can move: either closed, or all is done and both agree. */
		assert(ph[0] == DEAD || ph[1] == DEAD ||
		       (comp[0] == N && comp[1] == N && ph[0] == ACTIVE && ph[1] == ACTIVE &&
			e[0] == e[1] && r[0] == r[1]));
		break
	od
}
