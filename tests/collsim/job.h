/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A job: ranks that compute and take part in collective operations, over a network. Each rank has a
 * program, a list of computations and operations, done one after the other. An operation is a set
 * of transfers between two ranks, each in slices; a slice is sent as one work request when
 *  - its rank has launched the operation,
 *  - the slices that it is made of have come and been taken (ring: that of the step before),
 *  - the receiver has a buffer: it takes a slice only after it has launched the operation too.
 *
 * Times are ns since the simulation began. Ends the process if there is no memory. One thread.
 */
#ifndef SHIFT_TESTS_COLLSIM_JOB_H
#define SHIFT_TESTS_COLLSIM_JOB_H

#include "tests/collsim/rng.h"
#include "tests/collsim/topology.h"

enum { XFER_DEPS = 3, JOB_RANKS = 512 };

enum op_kind { OP_ALLREDUCE, OP_ALLGATHER, OP_REDUCESCATTER, OP_ALLTOALL, OP_BROADCAST, OP_P2P };
enum op_algorithm { ALGO_RING, ALGO_TREE, ALGO_DOUBLE_TREE, ALGO_HALVING, ALGO_MESH };

struct xfer {
	int src, dst; /* members of the communicator */
	double bytes;
	int step;	    /* of its sender, from 1 */
	int channel;	    /* a QP of its own each */
	int dep[XFER_DEPS]; /* transfers to its sender that it is made of; in order of use */
	int deps;
	bool whole; /* it waits for the last slice of these, not for the one of the same number */
	int slices, posted, arrived, taken, acked;
	double start, end; /* first post, last completion; 0: not yet */
	double took;	   /* when the receiver took the last slice; 0: not yet */
	int polls;	   /* how often it still may ask switches */
};

/* An operation as one member sees it. */
struct op_end {
	double launch, first_wr, end; /* -1: not yet */
	uint64_t wr, wc;
	double sent;
	int left; /* transfers of it that are not complete */
};

struct op {
	enum op_kind kind;
	enum op_algorithm algorithm;
	int comm, root;
	uint64_t seq, group; /* group: of P2P */
	double bytes;	     /* of count elements, as the program gave it */
	struct xfer *xfer;
	int xfers;
	struct op_end *at; /* of each member */
};

struct comm {
	char name[32];
	int size, *rank; /* of its members, in the job */
	uint64_t seqs, groups;
	bool quiet; /* within a host: no NIC carries it */
};

struct message {
	double end; /* of the flow's bytes */
	double posted;
	int op, xfer;
};

/* A queue pair that sends, and the one that receives. */
struct conn {
	int src, dst, channel, flow;
	bool inside, posting;
	int credits; /* slices that the receiver still has buffers for */
	struct message *message;
	int messages, delivered, acked;
	struct message *todo; /* transfers, in the order in which they are sent */
	int todos, done;
	uint32_t *epoch_bytes, *epoch_wr, *epoch_wc;
	size_t epochs;
	double last_post;
};

struct instruction {
	int op; /* NET_NONE: compute */
	double ns;
};

struct rank {
	int host, nic;
	struct instruction *todo;
	int todos, done;
	int *conn, conns;
	double slow;	 /* factor of its computations, once it is slow */
	double slow_at;	 /* INFINITY: never */
	double proxy_ns; /* of its CPU, for each slice */
	double stop_at;	 /* its first computation that ends later never does; INFINITY: never */
	double died;	 /* INFINITY: not */
	bool stopped, finished;
};

struct background {
	int flow;
	double start, bytes, end; /* end 0: not yet */
	int src_nic, dst_nic;
};

enum event_kind {
	EVENT_RANK,  /* go on with its program */
	EVENT_POST,  /* of a connection */
	EVENT_COME,  /* a slice */
	EVENT_TAKEN, /* a slice, by the receiver's program */
	EVENT_ACK,   /* a slice */
	EVENT_BACKGROUND,
	EVENT_FAULT,
	EVENT_POLL, /* switches */
};

struct event {
	double t;
	uint64_t order;
	enum event_kind kind;
	int a, b, c;
};

struct job {
	struct topology topology;
	struct rng rng; /* of what happens while it runs */
	struct rank *rank;
	int ranks, gpus; /* ranks of a host */
	struct comm *comm;
	int comms;
	struct op *op;
	int ops;
	struct conn *conn;
	int conns;
	int *conn_of_flow, conn_flows;
	struct background *background;
	int backgrounds;
	struct event *event;
	size_t events;
	uint64_t event_order;
	/* Of all. */
	double slice_bytes; /* INFINITY: a transfer is one work request */
	int channels, credits;
	double jitter; /* of computations: relative standard deviation */
	double launch_ns, proxy_ns, take_ns;
	double epoch_ns; /* 0: no epochs */
	double epoch_zero;
	double stalled_ns; /* it ends after so much time in which nothing has come on */
	double limit_ns;   /* it ends then in any case */
	double progress;   /* when something last came on */
	double ended;	   /* when all had finished, or the last progress */
	bool all_finished;
	double wanted_rate; /* of a NIC, without faults */
	void (*fault)(struct job *j, int a, int b, int c);
	/* Of whole transfers, or NULL: how they come on, and when they are over. */
	void (*poll)(struct job *j, int conn, int message, int began);
	void (*step_over)(struct job *j, int conn, int message);
	void *arg;
};

void job_init(struct job *j, uint64_t seed, int ranks, int gpus);
void job_free(struct job *j);

/* A communicator of these ranks; its index. */
int job_comm(struct job *j, const char *name, const int *ranks, int size);

/* An operation on it, by algorithm; its index. bytes: what the call names, as NCCL does. */
int job_op(struct job *j, int comm, enum op_kind kind, enum op_algorithm algorithm, double bytes,
	   int root);

/* An empty group of sends and receives; and another message in it. */
int job_group(struct job *j, int comm);
void job_send(struct job *j, int op, int src, int dst, double bytes);

/* To the end of a rank's program. */
void job_compute(struct job *j, int rank, double ns);
void job_takes_part(struct job *j, int rank, int op);

/* The same for all members of an operation. */
void job_all_take_part(struct job *j, int op);

void job_at(struct job *j, double t, enum event_kind kind, int a, int b, int c);

/* A flow that is no collective's. */
int job_background(struct job *j, int src_nic, int dst_nic, double start, double bytes,
		   uint64_t choice);

/* Makes the queue pairs, each over a path that the seed chooses, or choose() if it is not NULL. */
void job_connect(struct job *j, uint64_t (*choose)(struct job *j, int src, int dst));

/* Runs it. */
void job_run(struct job *j);

/* The process of a rank is gone: nothing of its traffic arrives, in both directions. */
void job_kill_rank(struct job *j, int rank);

/* Fills in the transfers of an operation; job_algorithms.c. */
void job_plan(struct job *j, struct op *op);

/* What a transfer takes alone. */
double job_alone_ns(const struct job *j, const struct conn *c, double bytes);

struct conn *job_conn(struct job *j, int src, int dst, int channel);
int job_member(const struct comm *c, int rank);

#endif
