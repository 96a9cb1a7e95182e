/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What made a collective slow: the steps that it had to wait for, and what the network did to them
 * (after Vedrfolnir). The engine reads no files and prints nothing. One thread, no state of its
 * own. Functions end the process when there is no memory, as common/cli.h says.
 *
 * Times are ns of one clock: since the Unix epoch, or since a simulation began.
 */
#ifndef SHIFT_DIAG_PATH_H
#define SHIFT_DIAG_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/shift-diag/records.h"

enum { PATH_NONE = -1, PATH_NAME_BYTES = 64 };

/* ---- steps and the waiting graph ------------------------------------------------------------ */

/* What a rank has sent to another in one step of an algorithm. */
struct path_step {
	int rank, step; /* step from 1 */
	int peer;	/* to whom */
	int wait_rank;	/* whose data its start waited for; PATH_NONE: its own step before */
	int wait_step;
	uint64_t bytes, start_ns, end_ns;
	uint64_t expected_ns;	    /* alone in the network; 0: not known */
	char flow[PATH_NAME_BYTES]; /* as the telemetry names it */
};

struct path_steps {
	struct path_step *step; /* sorted by rank and step by path_graph_build() */
	size_t n;
	char what[2 * REC_NAME_BYTES + 32]; /* of which collective, for messages */
	char comm[REC_NAME_BYTES];	    /* its communicator, as records name it; "" */
	int ranks_expected;		    /* PATH_NONE: not known */
	size_t unfinished;		    /* steps without an end, which are left out */
	uint64_t dropped;
	int64_t clock_error_ns; /* PATH_NONE: not known */
};

/* A zeroed one whose wait_rank is PATH_NONE. It moves with the next one. */
struct path_step *path_step_add(struct path_steps *s);
void path_steps_free(struct path_steps *s);

struct path_graph {
	size_t *critical; /* indices into the steps, first to last */
	size_t critical_n;
	bool *kept; /* by step: not pruned, as somebody waited for it or it is a last one */
	size_t kept_n;
	uint64_t total_ns;    /* of the critical path: the sum of its steps */
	uint64_t makespan_ns; /* first start to last end */
	uint64_t gap_ns;      /* on the path, between a step and what it waited for */
	int gap_rank;	      /* who has the largest part of it; PATH_NONE: there is none */
	size_t missing;	      /* waits for steps that are not there */
	size_t visits;	      /* of steps and edges: what it cost */
};

/*
 * Sorts the steps, prunes those that nobody waited for, and finds the critical path: the longest by
 * the duration of steps, in ns. A step waits for the data that its record names, or else, and if
 * that is as long, for the rank's own step before it. Returns 0; -ENODATA: no steps; -EEXIST: a
 * step is there twice; -ELOOP: steps wait for each other. bad_rank and bad_step name it. The caller
 * frees g with path_graph_free().
 */
int path_graph_build(struct path_steps *s, struct path_graph *g, int *bad_rank, int *bad_step);
void path_graph_free(struct path_graph *g);

/* Steps without an expected_ns get that of the fastest step, by bytes. Returns how many. */
size_t path_steps_expect(struct path_steps *s);

/* By how much a step took longer than expected; never negative. */
uint64_t path_step_excess_ns(const struct path_step *s);

/* ---- what switches have measured ------------------------------------------------------------- */

struct tele_flow {
	char name[PATH_NAME_BYTES]; /* SOURCE:PORT>DESTINATION:PORT */
	bool is_collective;
	uint64_t start_ns; /* 0: not known */
};

/* An egress port of a switch or a host. */
struct tele_port {
	char name[PATH_NAME_BYTES]; /* for people: "switch 3 port 1" */
	char node[PATH_NAME_BYTES];
	bool is_host;
	int peer;  /* port at the other end of the link; PATH_NONE: not known */
	int group; /* of equal-cost ports, from 0; PATH_NONE */
};

/* A flow at a port. flow PATH_NONE: packets that belong to nobody, as acknowledgements. */
struct tele_line {
	int flow;
	uint32_t packets, paused;
	uint64_t depth; /* the sum of what its packets have found in front, but for paused ones */
};

/* A port, in the epoch that a report is of. */
struct tele_sample {
	uint64_t t_ns;
	int port;
	bool before;	/* of the epoch before the one in which the switch was asked */
	uint64_t depth; /* the sum over its packets of what they have found in front */
	uint64_t packets, paused;
	size_t first_line, lines; /* of telemetry.line */
};

/* Bytes that have come from one port to another, of the next switch. */
struct tele_meter {
	uint64_t t_ns, bytes;
	int from, to;
	bool halted; /* from was, then; else pauses tell it */
};

/* A port was halted by its link's other end. */
struct tele_pause {
	uint64_t t_ns, end_ns; /* UINT64_MAX: it still is */
	int port;
};

struct telemetry {
	struct tele_flow *flow;
	struct tele_port *port;
	struct tele_sample *sample;
	struct tele_line *line;
	struct tele_meter *meter;
	struct tele_pause *pause;
	size_t flow_n, port_n, sample_n, line_n, meter_n, pause_n;
	int groups;
	/* Of several lines of a flow in one sample the last counts; else their sum. */
	bool last_line_counts;
	/* By name, for tele_flow_find() and tele_port_find(). */
	int *flow_slot, *port_slot;
	size_t flow_slots, port_slots;
};

enum { TELE_FLOWS_MAX = 1 << 20, TELE_PORTS_MAX = 1 << 14, TELE_LINES_MAX = 1024 };

/* The index of a flow or port of that name, which is added if need be. PATH_NONE: there are too
 * many. Names that are too long are cut. */
int tele_flow_find(struct telemetry *t, const char *name);
int tele_port_find(struct telemetry *t, const char *node, const char *port, bool is_host);

/* At the end; zeroed but for what is given. */
struct tele_sample *tele_sample_add(struct telemetry *t, uint64_t t_ns, int port);
void tele_line_add(struct telemetry *t, struct tele_line line); /* to the last sample */
void tele_meter_add(struct telemetry *t, struct tele_meter meter);
void tele_pause_add(struct telemetry *t, struct tele_pause pause);
void telemetry_free(struct telemetry *t);

/* ---- provenance: who waits for whom, in one window of time ----------------------------------- */

/* w(f,p), w(p,f) and the sample that they are of. */
struct prov_flow_port {
	int flow, port;
	uint64_t t_ns;
	bool waits;	   /* e(f,p) exists: packets waited in its queue, or were halted */
	double flow_waits; /* w(f,p) */
	double port_waits; /* w(p,f) */
};

/* w(f_i,f_j) at a port. */
struct prov_flow_flow {
	int waits, for_flow, port;
	double weight;
};

/* w(p_i,p_j): p_i was halted, and its traffic goes to p_j. */
struct prov_port_port {
	int from, to;
	double weight;
};

struct provenance {
	uint64_t from_ns, to_ns;
	struct prov_flow_port *fp; /* sorted by port, then flow */
	struct prov_flow_flow *ff; /* sorted by port, then waits, for_flow */
	struct prov_port_port *pp; /* sorted by from, to */
	size_t fp_n, ff_n, pp_n;
	bool *halted;	/* by port of the telemetry */
	bool *paused;	/* by port: so it is now; a halt may be of the epoch before */
	bool *queued;	/* by port: a sample of it had packets in its queue */
	int *sample_of; /* by port: of the telemetry; PATH_NONE: none */
};

/*
 * x_j by replay: packets of the lines enter the queue mixed in proportion, and each finds as many
 * in front as its line says. weight[i * n + j] = w(line i, line j). Long ones are scaled down.
 */
void prov_replay(const struct tele_line *line, size_t n, double *weight);

/* The graph of [from_ns, to_ns): the first sample of each port in it counts, and none of the epoch
 * before, as the paper's authors do. t's samples, meters and pauses are sorted by time with
 * telemetry_sort(). The caller frees g. */
void telemetry_sort(struct telemetry *t);
void provenance_build(const struct telemetry *t, uint64_t from_ns, uint64_t to_ns,
		      struct provenance *g);
void provenance_free(struct provenance *g);

/*
 * The graph of one round of reports, from that sample on: all until a port is asked again, nothing
 * comes for a tenth of window_ns, or window_ns are over; of both epochs. Returns the sample with
 * which the next round begins.
 */
size_t provenance_round(const struct telemetry *t, size_t from, uint64_t window_ns,
			struct provenance *g);

/* The first sample not before t_ns. */
size_t provenance_sample_at(const struct telemetry *t, uint64_t t_ns);

/* When the first window at or behind from_ns with a sample in it begins; UINT64_MAX: none. */
uint64_t provenance_next(const struct telemetry *t, uint64_t from_ns, uint64_t window_ns);

/* ---- rating -----------------------------------------------------------------------------------
 */

/* R(f, cf) of each flow f of the telemetry is added to r[f], times factor, for what cf has waited
 * for in g in [from_ns, to_ns). Cycles among ports are cut. */
void rate_step(const struct telemetry *t, const struct provenance *g, int cf, uint64_t from_ns,
	       uint64_t to_ns, double factor, double *r);

/* R(f), by flow of the telemetry; the caller frees it. window_ns: length of a graph. */
double *rate_flows(const struct telemetry *t, const struct path_steps *s,
		   const struct path_graph *g, uint64_t window_ns);

/* ---- signatures -------------------------------------------------------------------------------
 */

enum anomaly {
	ANOMALY_CONTENTION,	/* a flow and one of the collective's wait at the same port */
	ANOMALY_OWN_CONTENTION, /* two of the collective's flows do */
	ANOMALY_INCAST,		/* many flows to one host */
	ANOMALY_BACKPRESSURE,	/* a port is halted, and contention elsewhere is the root */
	ANOMALY_STORM,		/* a port is halted, and no contention explains it */
	ANOMALY_LOAD_IMBALANCE, /* one of several equal ports carries most */
	ANOMALY_LOOP,		/* a flow comes back to a port */
	ANOMALY_DEADLOCK,	/* halted ports wait for each other */
};

enum { ANOMALIES = ANOMALY_DEADLOCK + 1 };

struct finding {
	enum anomaly anomaly;
	int port;  /* the root: where it comes from */
	int at;	   /* where a flow of the collective has met it */
	int *flow; /* of others; sorted */
	size_t flow_n;
	int windows;		    /* in how many it was seen */
	uint64_t first_ns, last_ns; /* the windows' beginnings */
	double weight;		    /* packets waited for */
};

struct findings {
	struct finding *finding;
	size_t n;
};

struct signature_limits {
	uint64_t window_ns;	/* of one graph */
	uint64_t together_ns;	/* flows of an incast begin within it */
	int incast_flows;	/* at least so many */
	double imbalance_ratio; /* max/mean above it */
};

#define SIGNATURE_LIMITS                                                           \
	{                                                                          \
		.window_ns = 10000000, .together_ns = 10000000, .incast_flows = 3, \
		.imbalance_ratio = 1.5                                             \
	}

const char *anomaly_name(enum anomaly a);

/* One graph's findings are added to those of the graphs before. seen_ns: of each flow, when it
 * began, or was first seen. */
void signatures_find(const struct telemetry *t, const struct provenance *g,
		     const struct signature_limits *limits, const uint64_t *seen_ns,
		     struct findings *f);

/* Of all graphs of [from_ns, to_ns). */
void signatures_find_all(const struct telemetry *t, const struct signature_limits *limits,
			 uint64_t from_ns, uint64_t to_ns, struct findings *f);
void findings_free(struct findings *f);

/* ---- readers ----------------------------------------------------------------------------------
 */

/*
 * What cannot be used is said in one line, which begins with the name that is given; a negative
 * errno is returned then. Texts are changed while they are read.
 */

/* Steps and flows of the authors' simulator: fct.txt. Of several collectives the one that took
 * longest is kept. */
int path_parse_fct(const char *name, char *text, struct path_steps *s, struct telemetry *t);

/* Nodes by number, with their ports. The caller frees it. */
struct sim_topology;
int sim_topology_parse(const char *name, char *text, struct telemetry *t,
		       struct sim_topology **topology);
void sim_topology_free(struct sim_topology *topology);

/* pfc.txt, and a switch's blocks of telemetry; topology may be NULL. */
int path_parse_pfc(const char *name, char *text, const struct sim_topology *topology,
		   struct telemetry *t);
int path_parse_blocks(const char *name, char *text, unsigned int sw,
		      const struct sim_topology *topology, struct telemetry *t);

/* DIR/out/fct.txt or DIR/fct.txt, and beside it what else there is of these files. 1; 0: there is
 * no such file. */
int path_read_simulator(const char *dir, struct path_steps *s, struct telemetry *t);

/* Steps of *.records, of a communicator's collective if these are given (else NULL, 0), or of the
 * one that took longest. 1; 0: none. Flows of all steps become the collective's in t. */
int path_take_records(const struct records *r, const char *comm, uint64_t seq, struct path_steps *s,
		      struct telemetry *t);

/* shift-telemetry(5): one text, or all DIR/NAME.telemetry; then how many there are. */
int path_parse_telemetry(const char *name, char *text, struct telemetry *t);
int path_read_telemetry(const char *dir, struct telemetry *t);

/* A whole file, ended by a zero; NULL: errno says why. At most 256 MB. The caller frees it. */
char *path_read_file(const char *path);

#endif
