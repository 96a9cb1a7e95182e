/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Was the side with shift protected? By the report of its shift-run: shift-report(5). Pure. */
#ifndef SHIFT_BENCH_PROTECTION_H
#define SHIFT_BENCH_PROTECTION_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct protection {
	long connections, protected; /* all there ever were that count, and those of them */
	double setup_ms;    /* from the process's first NIC until the last was; NAN: not told */
	const char *reason; /* NULL: all were; a name of shift(7), or ours */
};

/* report: NULL if there is none, which is a reason. It must outlive p. unknown_job: not a program
 * of ours, which may make queue pairs that it does not connect. */
struct protection protection_of(const cJSON *report, bool unknown_job);

/* How long each connection that is protected now took until it was, in ms, of the processes that
 * run: status is what shift-ctl says, or NULL. The caller frees it. */
double *protected_after_ms(const cJSON *status, size_t *count);

cJSON *protection_json(const struct protection *p);

#endif
