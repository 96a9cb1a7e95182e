/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What processes have recorded, as the analysers see it: read from files of shift-records(5), or
 * filled in by a test. Times are ns since the Unix epoch by the clock of the file's host; 0: it is
 * not known, or has not happened.
 *
 * One thread. No state of its own.
 */
#ifndef SHIFT_DIAG_RECORDS_H
#define SHIFT_DIAG_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RECORDS_VERSION = 1, REC_NAME_BYTES = 64 };

/* A rank, host, step or index that is not known. */
#define REC_NONE (-1)

struct rec_qp {
	uint64_t t_ns; /* of this state */
	uint64_t id;   /* unique in the process */
	uint32_t qpn, peer_qpn;
	int peer_rank;
	char nic[REC_NAME_BYTES], state[REC_NAME_BYTES], peer_host[REC_NAME_BYTES];
};

/* An error completion. */
struct rec_wcerr {
	uint64_t t_ns, qp;
	uint32_t vendor_err;
	int peer_rank;
	bool hidden; /* kept from the program: it was survived */
	char nic[REC_NAME_BYTES], status[REC_NAME_BYTES], opcode[REC_NAME_BYTES];
	char peer_host[REC_NAME_BYTES];
};

struct rec_async {
	uint64_t t_ns, qp; /* 0: of the NIC */
	char nic[REC_NAME_BYTES], event[REC_NAME_BYTES];
};

struct rec_move {
	uint64_t t_ns, end_ns, qp, outage_ns;
	char from[REC_NAME_BYTES], to[REC_NAME_BYTES], cause[REC_NAME_BYTES];
	char outcome[REC_NAME_BYTES];
};

struct rec_comm {
	char comm[REC_NAME_BYTES]; /* the same text at all its members */
	int size, rank;
	char **hosts; /* of its ranks, size of them; NULL: not told */
};

/* A collective, as one rank has seen it. */
struct rec_coll {
	char comm[REC_NAME_BYTES], op[REC_NAME_BYTES], dtype[REC_NAME_BYTES];
	uint64_t seq;	/* counts those of the communicator, from 1 */
	uint64_t count; /* elements, as the program gave it */
	uint64_t bytes; /* of these elements */
	uint64_t group; /* calls between group start and end; 0: none */
	int root;
	uint64_t launch_ns, first_wr_ns, end_ns; /* end_ns 0: it is under way */
	uint64_t wr, wc, sent_bytes;		 /* meanwhile, on all QPs of the process */
	bool launch_only; /* when it ended is not recorded; end_ns is that of its launch */
};

/* A message to or from one other rank. */
struct rec_p2p {
	char comm[REC_NAME_BYTES];
	uint64_t group, expected_bytes, actual_bytes, launch_ns, end_ns;
	int peer;
	bool is_send;
};

/* A step of a collective: what was sent to one other rank. */
struct rec_step {
	char comm[REC_NAME_BYTES];
	char flow[REC_NAME_BYTES]; /* SOURCE:PORT>DESTINATION:PORT, of the network; may be "" */
	uint64_t seq, bytes, start_ns, end_ns;
	uint64_t expected_ns; /* it would take alone */
	int step;	      /* from 1 */
	int peer;	      /* to whom */
	int wait_rank;	      /* whose data it waited for, and of which of its steps */
	int wait_step;
	int send_index, recv_index; /* equal: it had to wait */
};

/* Successive epochs of a QP. */
struct rec_epochs {
	uint64_t qp;
	uint64_t t_ns; /* when the first of them began */
	size_t n;
	uint32_t *bytes;   /* that its WRs carried */
	uint32_t *wr, *wc; /* posted, and retired; NULL: not recorded */
};

struct rec_counter {
	uint64_t t_ns;
	double value;
	char nic[REC_NAME_BYTES]; /* "": of the host */
	char name[REC_NAME_BYTES];
};

#define RECORDS_TYPES(X) \
	X(qp) X(wcerr) X(async) X(move) X(comm) X(coll) X(p2p) X(step) X(epochs) X(counter)

/* A file: of one process, or of a host (pid 0). */
struct rec_file {
	char *path;
	char job[REC_NAME_BYTES], host[REC_NAME_BYTES], boot_id[REC_NAME_BYTES];
	char command[REC_NAME_BYTES];
	int pid;
	int rank;		     /* in the whole job */
	uint64_t began_ns, ended_ns; /* ended_ns: it ended cleanly */
	bool died;		     /* it is gone, and did not end cleanly */
	uint64_t read_ns;	     /* up to when it was recorded */
	uint64_t epoch_ns;	     /* length of an epoch */
	int64_t clock_error_ns;	     /* against the other hosts, at most; REC_NONE */
	uint64_t dropped;	     /* records that were lost: a ring was full */
	uint64_t strangers;	     /* collectives of communicators that are not known */
	bool unobserved;	     /* it has QPs that post around libibverbs */
	uint64_t bad_lines;	     /* that could not be read */
#define RECORDS_ARRAY(type)      \
	struct rec_##type *type; \
	size_t type##_n;
	RECORDS_TYPES(RECORDS_ARRAY)
#undef RECORDS_ARRAY
};

struct records {
	struct rec_file *file;
	size_t files;
};

/*
 * Adds what path is or has: a file of shift-records(5), or a directory with files NAME.records.
 * Says on standard error, one line each, which files could not be used, and of which some lines
 * could not be. Returns how many files were added, or a negative errno if path itself cannot be
 * read. The caller frees r with records_free(), in any case.
 */
int records_read(const char *path, struct records *r);

/* The same of what is open; path is for messages. Returns 1, 0: it could not be used, or a negative
 * errno. */
int records_read_stream(FILE *in, const char *path, struct records *r);

/* An empty file in r, to be filled; rank and clock_error_ns are REC_NONE. NULL: out of memory. It
 * moves with the next one. */
struct rec_file *records_add(struct records *r);

/* A zeroed record at the end of a file's array: rec_add_coll(f) and so on, for each type. NULL: out
 * of memory. It moves with the next one of its type. */
#define RECORDS_ADD(type) struct rec_##type *rec_add_##type(struct rec_file *f);
RECORDS_TYPES(RECORDS_ADD)
#undef RECORDS_ADD

/* Free what a record or the last file has; for who reads them. */
void rec_comm_clear(struct rec_comm *c);
void rec_epochs_clear(struct rec_epochs *e);
void records_drop_last(struct records *r);

void records_free(struct records *r);

#endif
