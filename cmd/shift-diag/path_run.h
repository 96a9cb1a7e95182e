/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Vedrfolnir on a directory: reads what is there, and runs the engine. One thread. */
#ifndef SHIFT_DIAG_PATH_RUN_H
#define SHIFT_DIAG_PATH_RUN_H

#include "cmd/shift-diag/path_verdict.h"

struct path_request {
	const char *comm; /* NULL: any */
	uint64_t seq;	  /* 0: any */
	uint64_t window_ns;
	bool all_lines;
	/* These, not those that are in the directory, and ranks of the whole job, not of a
	 * communicator or nodes of a simulation. NULL: read them. */
	const struct records *records;
};

enum path_run {
	PATH_RUN_DONE,
	PATH_RUN_NOTHING, /* there are no steps of a collective */
	PATH_RUN_OPEN,	  /* there are, but none has ended */
	PATH_RUN_BAD,	  /* they cannot be used */
};

enum { PATH_WHY_BYTES = 256 };

/*
 * why: one line, unless it is PATH_RUN_DONE; "": it was said. To be freed with path_result_free()
 * in any case.
 */
enum path_run path_run(const char *dir, const struct path_request *o, struct path_result *r,
		       char why[PATH_WHY_BYTES]);

#endif
