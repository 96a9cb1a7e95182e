/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of the device: driver, PCI link, queue pairs, load on it. */
#ifndef SHIFT_INJECT_DEVICE_H
#define SHIFT_INJECT_DEVICE_H

#include "faultinject/inject.h"

int driver_check(struct injection *in, struct problem *p);
int driver_begin(struct injection *in, struct problem *p);
int driver_undo(const struct cJSON *step, struct problem *p);

int pcie_check(struct injection *in, struct problem *p);
int pcie_begin(struct injection *in, struct problem *p);
int pcie_undo(const struct cJSON *step, struct problem *p);

int qp_error_begin(struct injection *in, struct problem *p);

int congest_check(struct injection *in, struct problem *p);
int congest_begin(struct injection *in, struct problem *p);

/*
 * Starts a process that runs work(arg), which does not return, until this process ends (also if it
 * is killed). The journal has it, and undo ends it.
 */
int child_start(struct injection *in, void (*work)(void *arg), void *arg, struct problem *p);

/* Writes text into a file of sysfs or of a cgroup, in one piece. 0 or -errno. */
int write_text(const char *path, const char *text);

#endif
