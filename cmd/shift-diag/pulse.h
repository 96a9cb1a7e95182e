/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pulse: who stops or slows down a job, found in the traffic of its queue pairs. After
 * "Fine-grained and Non-intrusive LLM Training Monitoring via Microsecond-level Traffic
 * Measurement" (ASPLOS '26).
 *
 * Pure: records in, verdict out. One thread; no state of its own. Ends the process if there is no
 * memory. A member is a rank counted in its communicator, a rank one of the whole job.
 */
#ifndef SHIFT_DIAG_PULSE_H
#define SHIFT_DIAG_PULSE_H

#include "cmd/shift-diag/records.h"
#include "cmd/shift-diag/verdict.h"

struct pulse_options {
	double kappa;	      /* so many times what is usual is slow */
	uint64_t delta_ns;    /* silence between two operations; a tenth of it is noise */
	uint64_t hang_ns;     /* what is silent for so long stands still */
	uint64_t slice_bytes; /* a collective sends and waits by slices of so many */
	unsigned int repeat;  /* slow operations, of PULSE_WINDOW, that are more than a hiccup */
};

/* Successive operations that are looked at together; the rates of so many custom collectives are
 * averaged, as the paper does. */
enum { PULSE_WINDOW = 10 };

struct pulse_options pulse_defaults(void);

/* ---- Algorithm 1 (pulse_segments.c) --------------------------------------------------------- */

/* What was sent in an epoch; in order of time, and none of 0 bytes. */
struct pulse_sample {
	uint64_t t_ns; /* when the epoch began */
	uint64_t bytes;
	int rank; /* to whom; REC_NONE: not known */
};

/* An operation, as the traffic shows it. */
struct pulse_segment {
	uint64_t start_ns, end_ns; /* when its first and last epoch began */
	uint64_t bytes;
	size_t epochs;
	bool complete; /* it has sent at least what was expected */
};

/*
 * Cuts n samples of one rank into operations; size[i] is the least that the ith sends, and the
 * operations behind the last of sizes are as that one. An operation ends when it has sent that
 * much, and nothing for delta_ns. *segments is to be freed. Returns how many.
 */
size_t pulse_segment(const struct pulse_sample *s, size_t n, const uint64_t *size, size_t sizes,
		     uint64_t delta_ns, struct pulse_segment **segments);

/* ---- what a collective sends (pulse_algorithms.c) ------------------------------------------- */

enum pulse_algorithm {
	ALGORITHM_UNKNOWN,
	ALGORITHM_RING,
	ALGORITHM_TREE,
	ALGORITHM_DOUBLE_TREE,
	ALGORITHM_HALVING,
	ALGORITHM_MESH,
};

const char *pulse_algorithm_name(enum pulse_algorithm a);

/* active[i * size + j]: member i has sent to j. A member without records sends to nobody there. */
enum pulse_algorithm pulse_match(const bool *active, int size);

/* The least that each member sends. bytes: of the elements that the program gave. 0: not known, or
 * it is not the same for all. */
uint64_t pulse_expected_bytes(const char *op, enum pulse_algorithm a, uint64_t bytes, int size);

/* All its members send at once when they start, and none waits for another's first data. */
bool pulse_is_symmetric(const char *op, enum pulse_algorithm a);

/* ---- traffic (pulse_traffic.c) -------------------------------------------------------------- */

/* What a process has sent, over all its queue pairs. */
struct pulse_curve {
	struct pulse_sample *sample; /* one for each epoch and rank to which something was sent */
	size_t n;
	uint64_t epoch_ns;
	double rate_max; /* of one queue pair: bytes in a ns */
};

struct pulse_curve pulse_curve(const struct records *r, const struct rec_file *f);
void pulse_curve_free(struct pulse_curve *c);

/* What a rank has sent within a time. */
struct pulse_traffic {
	uint64_t act_ns; /* actual communication time: epochs in which something was sent; of the
			  * first and last ones without a gap, the part that was used */
	uint64_t cv;	 /* communication volume, in bytes */
	uint64_t full;	 /* bytes of an epoch in the midst of sending */
	uint64_t first_ns, last_ns;
};

/* To those ranks r with to[r], r < ranks (to NULL, or a rank not known: to all), in epochs that
 * have begun in from_ns .. to_ns. */
struct pulse_traffic pulse_traffic(const struct pulse_curve *c, const bool *to, int ranks,
				   uint64_t from_ns, uint64_t to_ns);

/* Has this process posted a work request meanwhile, as its epochs tell? */
bool pulse_posted(const struct rec_file *f, uint64_t from_ns, uint64_t to_ns);

/* The same samples, those of an epoch as one. To be freed. */
struct pulse_sample *pulse_curve_to(const struct pulse_curve *c, const bool *to, int ranks,
				    size_t *n);

/* ---- operations (pulse_ops.c, pulse_infer.c) ------------------------------------------------ */

enum pulse_kind {
	KIND_COLLECTIVE, /* one of the library's own */
	KIND_GROUP,	 /* a custom collective: messages in one group */
	KIND_P2P,	 /* one message */
	KIND_TRAFFIC,	 /* there are no hooks: bursts of ranks that belong together */
};

/* What one member did of an operation. */
struct pulse_part {
	bool takes_part;
	bool started, ended;
	uint64_t launch_ns; /* 0: not known */
	uint64_t start_ns, end_ns;
	struct pulse_traffic sent;
	uint64_t expected;
	int64_t gap_ns; /* from the end of its operation before to this start; -1: not known */
};

/* Messages from one member to another in a group. */
struct pulse_message {
	int from, to;
	bool sent, awaited; /* which of the ends has begun with them */
	bool unfinished;
	uint64_t expected, actual;
};

struct pulse_op {
	size_t comm;
	enum pulse_kind kind;
	uint64_t seq, bytes;
	char op[REC_NAME_BYTES];
	enum pulse_algorithm algorithm;
	bool symmetric;		 /* see pulse_is_symmetric() */
	uint64_t start_ns;	 /* of the first of its members */
	struct pulse_part *part; /* of each member */
	struct pulse_message *message;
	size_t messages;
};

struct pulse_comm {
	char name[REC_NAME_BYTES];
	int size;
	int *file; /* of each member, an index into the records' files; REC_NONE */
	int *rank; /* of each member, in the job; REC_NONE */
	char (*host)[REC_NAME_BYTES];
	bool *has_rank;			 /* is this rank of the job a member? pulse.ranks of them */
	enum pulse_algorithm cached[16]; /* by op, algorithms of an earlier one of this size */
	uint64_t cached_key[16];
};

struct pulse {
	const struct records *records;
	struct pulse_options options;
	struct pulse_curve *curve; /* of each file */
	int ranks;		   /* the largest rank that is known, and 1 */
	struct pulse_comm *comm;
	size_t comms;
	struct pulse_op *op; /* in the order of their start */
	size_t ops;
	bool inferred;			/* there was no hook */
	size_t compared, disagreements; /* operations by hooks and by Algorithm 1 */
	struct coverage coverage;
	uint64_t silent_ranks; /* files, without any record of use */
};

/* The operations of these records, which must outlive the result. */
struct pulse pulse_read(const struct records *r, const struct pulse_options *o);
void pulse_free(struct pulse *p);

/* For pulse_read(): a communicator, found or made; an operation, empty. They move with the next. */
size_t pulse_comm_find(struct pulse *p, const char *name, int size);
struct pulse_op *pulse_op_add(struct pulse *p, size_t comm, enum pulse_kind kind);
void pulse_ops_hooks(struct pulse *p);
void pulse_ops_infer(struct pulse *p);

/* How many operations Algorithm 1 finds elsewhere than the hooks (pulse_segments.c). */
void pulse_cross_check(struct pulse *p);

/* ---- verdicts ------------------------------------------------------------------------------- */

/*
 * The first thing that went wrong, or that all is fine; by the rules "process-gone",
 * "missing-start", "smallest-volume", "unfinished-p2p", "silence", "late-start", "act", "rate",
 * "duration", "no-records" or "none". The caller frees it.
 */
struct verdict pulse_judge(struct pulse *p);

/* Its parts: what stands still; what is slow, and by how many times. False: nothing. */
bool pulse_stopped(const struct pulse *p, struct verdict *v);
bool pulse_slow(const struct pulse *p, struct verdict *v, double *times);

/* Blames a member: who it is, and the NIC if it has but one. */
struct culprit *pulse_blame(const struct pulse *p, const struct pulse_comm *c, int member,
			    struct verdict *v);

/* "rank 3 of world (node2)", for a sentence. Valid until the fourth call after it. */
const char *pulse_who(const struct pulse *p, const struct pulse_comm *c, int member);

/* The longest epoch with which slowness by p times shows, in ns; 0: not known. */
uint64_t pulse_epoch_max(const struct pulse *p, double times);

/* The longest epoch of the records; 0: none was recorded. */
uint64_t pulse_epoch(const struct pulse *p);

/* ---- parallelism (pulse_parallelism.c) ------------------------------------------------------ */

enum pulse_parallelism {
	PARALLEL_NONE,
	PARALLEL_DP, /* data */
	PARALLEL_TP, /* tensor */
	PARALLEL_PP, /* pipeline */
	PARALLEL_EP, /* expert */
	PARALLEL_UNKNOWN,
};

const char *pulse_parallelism_name(enum pulse_parallelism p);

/* What each communicator is for: p->comms of them. */
void pulse_parallelism(const struct pulse *p, enum pulse_parallelism *result);

#endif
