/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The inner side of collsim.h: cases, their programs and faults. */
#ifndef SHIFT_TESTS_COLLSIM_SCENARIO_H
#define SHIFT_TESTS_COLLSIM_SCENARIO_H

#include "tests/collsim/collsim.h"
#include "tests/collsim/job.h"

enum { SCENARIO_FAULTS = 64, SCENARIO_PARTS = 8 };

enum fault_kind {
	FAULT_PORT_RATE, /* of a port to a factor */
	FAULT_UNSTEADY,	 /* a port's rate goes up and down */
	FAULT_NIC_DEAD,
	FAULT_SLOW_CPU,	    /* of a host: factor of what its proxies need */
	FAULT_PROCESS_GONE, /* of a rank */
	FAULT_STORM,	    /* at a port, until */
	FAULT_LOOP,	    /* of a connection */
	FAULT_DEADLOCK,
};

struct fault {
	enum fault_kind kind;
	double t, until;
	int target; /* port, NIC, host, rank or connection */
	double factor;
};

struct collsim {
	struct collsim_options options;
	const struct scenario *scenario;
	struct rng rng; /* of what is chosen before it runs */
	struct job job;
	struct collsim_truth truth;
	struct fault fault[SCENARIO_FAULTS];
	int faults;
	double healthy_ns; /* of the same program without the fault */
	double hold_ns, retry_ns;
	bool step_by_step; /* whole transfers, as the recorded simulations have them */
	int hot_rank;	   /* of the expert that gets more tokens */
	bool dead_nic[JOB_RANKS];
	char **telemetry; /* text of each switch */
	size_t *telemetry_bytes;
};

/* The seed, after the case was chosen, decides all that a function of these draws. */
struct scenario {
	const char *name, *text;
	/* The communicators, operations and programs. */
	void (*program)(struct collsim *s);
	/* What goes wrong, and the truth of it. */
	void (*fault)(struct collsim *s);
	enum topology_kind topology;
	int ranks, gpus;     /* ranks of a host */
	int least, multiple; /* ranks must be at least so many, and a multiple of so many */
	bool telemetry;
};

extern const struct scenario scenarios[];

/* Programs; programs.c. */
void program_gpt(struct collsim *s);
void program_moe(struct collsim *s);
void program_hot_expert(struct collsim *s);
void program_neighbors(struct collsim *s);
void program_all_to_one(struct collsim *s);
void program_one_to_all(struct collsim *s);
void program_data_parallel(struct collsim *s);
void program_gather_ring(struct collsim *s);
void program_halving(struct collsim *s);

/* Faults; faults.c and faults_net.c. */
void fault_none(struct collsim *s);
void fault_congestion(struct collsim *s);
void fault_cpu(struct collsim *s);
void fault_nic_down(struct collsim *s);
void fault_hot_expert(struct collsim *s);
void fault_slow_nic(struct collsim *s);
void fault_slow_nic_both(struct collsim *s);
void fault_slow_gpu(struct collsim *s);
void fault_stopped(struct collsim *s);
void fault_gone(struct collsim *s);
void fault_numa(struct collsim *s);
void fault_alignment(struct collsim *s);
void fault_slow_link(struct collsim *s);
void fault_contention(struct collsim *s);
void fault_incast(struct collsim *s);
void fault_storm(struct collsim *s);
void fault_backpressure(struct collsim *s);
void fault_imbalance(struct collsim *s);
void fault_loop(struct collsim *s);
void fault_deadlock(struct collsim *s);

/* Adds one; it happens at t. */
void fault_add(struct collsim *s, enum fault_kind kind, double t, int target, double factor,
	       double until);
/* When it happens: EVENT_FAULT. */
void fault_happens(struct job *j, int which, int part, int unused);

/* The truth: what it is, and who is to blame. */
void truth_is(struct collsim *s, const char *kind, const char *class, const char *component,
	      const char *level, double onset);
struct collsim_culprit *truth_blame(struct collsim *s);
void truth_blame_rank(struct collsim *s, int rank);
void truth_blame_flow(struct collsim *s, int flow);
void truth_blame_port(struct collsim *s, int port);

/* SOURCE:PORT>DESTINATION:PORT, with addresses as the recorded data have them: node 12 is
 * 11.0.12.1. */
void flow_name(const struct flow *f, char *to, size_t bytes);

/* Asks switches, if a message takes longer than it should; EVENT_POLL. began: the message does. */
void telemetry_poll(struct job *j, int conn, int message, int began);

/* It has arrived: how often it could still have asked, another may. */
void telemetry_step_over(struct job *j, int conn, int message);

/* A moment in which some of the program's middle is under way. */
double scenario_moment(struct collsim *s);

#endif
