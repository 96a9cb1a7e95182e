/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What other tools tell, as users have it: ncclras -f json, and rdma -j statistic. A file is known
 * by what is in it. One thread; memory that runs out ends the process.
 *
 * Formats: NCCL 2.28.7 to 2.30, src/ras/client_support.cc (jsonWriteHeader() and what follows);
 * iproute2 6.1 to 7.1, rdma/stat.c (stat_show_parse_cb()).
 */
#ifndef SHIFT_DIAG_FOREIGN_H
#define SHIFT_DIAG_FOREIGN_H

#include <cjson/cJSON.h>

#include "cmd/shift-diag/records.h"
#include "cmd/shift-diag/verdict.h"

/* The whole of a job, as NCCL's RAS saw it at one time. */
struct ras_snapshot {
	uint64_t t_ns; /* by the clock of the host that was asked, in its zone */
	cJSON *json;
};

struct foreign {
	struct ras_snapshot *ras; /* by time, after foreign_finish() */
	size_t ras_n;
};

/*
 * Adds what path is or has: a file, or a directory with files NAME.json. Counters of NICs are added
 * to r: of the host after which the file HOST.rdma.json or HOST.rdma.SECONDS.json is named; SECONDS
 * since 1970 say when it was written, else the file's time does. Says on standard error, one line
 * each, which files could not be used. Returns how many were, or a negative errno if path cannot be
 * read.
 */
int foreign_read(const char *path, struct foreign *f, struct records *r);

/* The same of a text; host and t_ns are of counters. 1 or 0. */
int foreign_read_text(const char *text, const char *path, const char *host, uint64_t t_ns,
		      struct foreign *f, struct records *r);

/* When all is read: where processes have left no records themselves, those of RAS are added to r.
 */
void foreign_finish(struct foreign *f, struct records *r);

/*
 * What RAS says of ranks that do not answer, is evidence; if nobody is blamed yet, it blames them.
 * class: CLASS_STOPPED or CLASS_FAILED, of such a verdict.
 */
void foreign_tell(const struct foreign *f, enum verdict_class class, struct verdict *v);

void foreign_free(struct foreign *f);

#endif
