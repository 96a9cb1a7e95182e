/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Checks of a host before a job starts. One thread. */
#ifndef SHIFT_DIAG_PRECHECK_H
#define SHIFT_DIAG_PRECHECK_H

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/nics.h"

enum check_result { CHECK_PASS, CHECK_WARN, CHECK_FAIL, CHECK_SKIP };

struct precheck {
	struct diag_nics nics;
	const char *kv; /* NULL: none was named */
	/* Tells a result: what was found and, if it is no pass, what to do. */
	void (*tell)(struct precheck *p, const char *check, enum check_result result,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
	void *arg; /* of tell */
};

/* What concerns the NICs (precheck_nics.c). */
void check_devices(struct precheck *p);
void check_backups(struct precheck *p);
void check_mtu(struct precheck *p);
void check_drivers(struct precheck *p);
void check_pcie(struct precheck *p);
void check_ecn(struct precheck *p);

/* What concerns the host (precheck_host.c). */
void check_memlock(struct precheck *p);
void check_descriptors(struct precheck *p);
void check_hugepages(struct precheck *p);
void check_clock(struct precheck *p);
void check_run_dir(struct precheck *p);
void check_library(struct precheck *p);
void check_kv(struct precheck *p);

#endif
