/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Deliberate breakage for the mutation check (tests/mutants). In a normal build MUTANT() is the
 * constant 0 and every hook folds away. With -DSHIFT_MUTANTS it tests the global shift_mutant,
 * which a test sets to one number of the table below. A script iterates over the table:
 *
 *	sed -n 's/^\tX(\([0-9]*\), \([A-Z_]*\), "\(.*\)").*$/\1 \2 \3/p' lib/core/mutants.h
 */
#ifndef SHIFT_CORE_MUTANTS_H
#define SHIFT_CORE_MUTANTS_H

/* clang-format off */
#define SHIFT_MUTANT_TABLE(X) \
	X(1, SKIP_FENCE, "move to the new rail without fencing the old QP (rule 5)") \
	X(2, SKIP_BARRIER, "ask for a fence without its barrier: the NIC may still execute (rule 24)") \
	X(3, PSN_OFF_BY_ONE, "map a PSN to a WR one packet further (rule 11)") \
	X(4, FORGET_TAG, "accept completions of an earlier arming of the rail (rule 26)") \
	X(5, SEND_BEFORE_SWITCH, "become ACTIVE as soon as the own SWITCH is sent (rules 9, 14)") \
	X(6, RECV_ORDER, "post the receives on the new rail out of order (rule 7)") \
	X(7, LOSE_HELD, "drop the posts held during a switch (rule 13)") \
	X(8, READ_EARLY, "complete a READ of the prefix without its data (rule 13)") \
	X(9, REPLAY_ATOMIC, "replay an atomic that was executed (rule 13)") \
	X(10, NO_HOLD_DOWN, "fail back at the first answered probe, without the hold-down (T9)") \
	X(11, STALE_EPOCH, "commit on the SWITCH of an older epoch (rule 9)") \
	X(12, REP_QP_JUST_LEFT, "report the QP just left, not the newest executed epoch (rule 2)") \
	X(13, WRONG_PARITY, "start the next epoch without regard to its parity (rule 3)") \
	X(14, COMMIT_OTHER_EPOCH, "commit on the SWITCH of a newer epoch without entering it (rule 9)") \
	X(15, FAILED_UNFENCED, "hand over errors before the fences are done (rule 19)") \
	X(16, NO_TRIM, "replay a WRITE whole although its first packets were placed (rule 13)") \
	X(17, DUP_CQE, "deliver a completion for an unsignaled WR of the prefix (rule 13)") \
	X(18, SKIP_RECV_REPOST, "do not post the outstanding receives on the new rail (rule 7)") \
	X(19, REP_LAST_COMMITTED, "take rep_psn whatever epoch it is of (rule 10)") \
	X(20, NO_FENCE_IF_NOT_ACTIVE, "do not fence a rail that never became ACTIVE (rule 5)") \
	X(21, MUTABLE_SWITCH, "recompute recv_cum at each retransmission (rule 2)") \
	X(22, NO_QUARANTINE, "re-arm a rail that is still dirty (rule 18)") \
	X(23, REPLAY_ALL, "replay everything that was not acknowledged, as the papers do (rule 13)") \
	X(24, NEVER_ANSWER, "do not answer a peer that has not heard my SWITCH (rule 8)") \
	X(25, LOSE_RECVS, "drop the receives posted while the switch runs (rule 7)") \
	X(26, CLOSED_UNFENCED, "answer CLOSED before the fences are done (rule 19)") \
	X(27, TRUST_LEAVING, "commit on the word of a peer that is not fenced yet (rule 9)")
/* clang-format on */

enum shift_mutants {
#define SHIFT_MUTANT_ENUM(n, name, what) SHIFT_MUTANT_##name = n,
	SHIFT_MUTANT_TABLE(SHIFT_MUTANT_ENUM)
#undef SHIFT_MUTANT_ENUM
		SHIFT_MUTANT_END
};

#ifdef SHIFT_MUTANTS
extern int shift_mutant; /* 0: none; set before the first connection, by tests only */
#define MUTANT(name) (__builtin_expect(shift_mutant == SHIFT_MUTANT_##name, 0))
#else
#define MUTANT(name) 0
#endif

#endif
