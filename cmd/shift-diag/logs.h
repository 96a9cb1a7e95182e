/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Logs of the kernel, NCCL or an application, searched for what is known to end a job. A file is
 * HOST.log. One thread.
 */
#ifndef SHIFT_DIAG_LOGS_H
#define SHIFT_DIAG_LOGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/shift-diag/records.h"

enum log_severity {
	LOG_BENIGN,	 /* looks like an error, and ends no job */
	LOG_DISTRIBUTED, /* somebody's: this host may only have noticed */
	LOG_CRITICAL,	 /* a root by itself */
};

struct log_hit {
	uint64_t t_ns; /* 0: the line has no time of the year */
	enum log_severity severity;
	const char *means; /* static */
	char host[REC_NAME_BYTES];
	char *line; /* cut */
};

struct logs {
	struct log_hit *hit;
	size_t hits;
	size_t files;
};

/* What a line says; means: NULL if that is nothing. A link that came up takes back its going down
 * in logs_read(). */
struct log_hit log_line_judge(const char *line);

/* As records_read(), of a file or a directory's *.log. A directory without any: 0. */
int logs_read(const char *path, struct logs *l);
void logs_read_stream(FILE *in, const char *host, struct logs *l);
void logs_free(struct logs *l);

#endif
