/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One run of the client of `shift-bench verbs`, with shift or without it, by itself or under
 * callgrind. Everything is on this machine. */
#ifndef SHIFT_BENCH_VERBS_RUN_H
#define SHIFT_BENCH_VERBS_RUN_H

#include "cmd/shift-bench/bench.h"
#include "cmd/shift-bench/machine.h"

struct verbs_place {
	const char *nic;	  /* NULL: the null provider */
	const char *gid_index;	  /* of that NIC, or NULL */
	const char *library;	  /* libshift.so */
	const char **environment; /* --env */
	const char *client, *null_directory;
	const char *valgrind;  /* NULL: there is none */
	const char *directory; /* a temporary one */
};

/* What the client is, where the library is: ends the process if something is missing. library:
 * the user's, or NULL. */
void verbs_place_find(struct verbs_place *p, const char *library);

/* Removes what verbs_place_find() has made. */
void verbs_place_leave(struct verbs_place *p);

enum verbs_call { CALL_POST_SEND, CALL_POST_RECV, CALL_POST_SRQ_RECV, CALL_POLL, CALLS };

struct verbs_outcome {
	char *text;		    /* lines of a name and a number */
	double instructions[CALLS]; /* of all its calls; under callgrind only */
	const char *failure;	    /* or NULL; lives as long as the process */
	struct away away;
};

/*
 * words: the client's own options. Returns EXIT_OK (though the client may have failed), or
 * EXIT_INTERRUPTED.
 */
int verbs_run(const struct verbs_place *p, bool with_shift, bool counting, const char *const *words,
	      struct verbs_outcome *out);
void verbs_outcome_free(struct verbs_outcome *out);

/* NAN: there is no line of that name. */
double verbs_number(const struct verbs_outcome *out, const char *name);

/*
 * Adds up what callgrind has written of the calls of each collect_ function. False: that is not a
 * file of callgrind, or none of them was called.
 */
bool callgrind_read(const char *path, double instructions[CALLS]);

#endif
