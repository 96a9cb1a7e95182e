/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The NICs of this host: what sysfs says of them, and what the device says when it is opened. One
 * thread. */
#ifndef SHIFT_DIAG_NICS_H
#define SHIFT_DIAG_NICS_H

#include <cjson/cJSON.h>

#include "lib/base/rail_list.h"
#include "lib/nic/nic.h"

enum { DIAG_NICS_MAX = 64, DIAG_TEXT_BYTES = 64 };

/* A port of a device. Texts are empty where the kernel says nothing. */
struct diag_nic {
	struct nic nic; /* opened by nic_open_verbs(), if err is 0 */
	int err;	/* else a negative errno */
	struct rail_device rail;
	struct ibv_device_attr attr;	  /* if err is 0 */
	char state[DIAG_TEXT_BYTES];	  /* ACTIVE */
	char phys_state[DIAG_TEXT_BYTES]; /* LinkUp */
	char rate[DIAG_TEXT_BYTES];	  /* 100 Gb/sec (4X EDR) */
	double rate_gbps;		  /* 0: not known */
	char netdev[DIAG_TEXT_BYTES];
	char driver[DIAG_TEXT_BYTES]; /* mlx5_core; rdma_rxe */
	char driver_version[DIAG_TEXT_BYTES];
	char firmware[DIAG_TEXT_BYTES];
	char board[DIAG_TEXT_BYTES];
	int gid_index;	    /* of the GID that shift uses as its own; negative: none */
	struct nic_gid gid; /* if there is one */
};

struct diag_nics {
	struct diag_nic *nic; /* in the order of names, then of ports */
	unsigned int count;
};

/* Finds and opens all, or only finds them, which cannot hang: err is -ENODEV then. Ends the process
 * if there is no memory. */
struct diag_nics diag_nics_open(void);
struct diag_nics diag_nics_list(void);
void diag_nics_close(struct diag_nics *nics);

/* The first port of a device; NULL: there is none of that name. */
struct diag_nic *diag_nic_find(const struct diag_nics *nics, const char *device);

/* 10.0.1.2 or fe80::1; valid until the eighth call after this one. */
const char *diag_gid_text(const union ibv_gid *gid);
const char *diag_gid_type(const struct nic_gid *gid); /* RoCE v2 */

bool diag_nic_is_active(const struct diag_nic *n);

/* What makes the NIC unusable, as a static text or of format_text(); NULL: nothing. */
const char *diag_nic_trouble(const struct diag_nic *n);

/* As an object. */
cJSON *diag_nic_json(const struct diag_nic *n);

#endif
