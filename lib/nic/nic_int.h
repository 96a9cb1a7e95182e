/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What nic.c, nic_watch.c, nic_psn.c, gid.c, link, probe and live know of a NIC beyond nic.h. */
#ifndef SHIFT_NIC_NIC_INT_H
#define SHIFT_NIC_NIC_INT_H

#include "lib/base/background.h"
#include "lib/nic/nic.h"

enum carrier { CARRIER_UNKNOWN, CARRIER_DOWN, CARRIER_UP };

struct nic_own {
	struct nic nic; /* first: the two are cast to each other */

	struct job job;	     /* opens, later looks again; one at a time */
	struct bg_call done; /* ... and has done so */
	/* Written by the job, read by done. */
	int err;
	bool port_active;
	bool address_changed;
	unsigned int ifindex_found;

	/* Background thread only. */
	struct bg_timer retry;
	unsigned int tries;
	bool watched; /* the first done after ready has been seen */
	bool job_busy;
	bool refresh_again; /* wanted while the job was busy */
	uint32_t events;    /* async events so far */
	uint32_t asked_at; /* ... when the job was submitted: its answer is older than later ones */
	unsigned int ifindex;
	enum carrier carrier;
	bool port_err;		  /* PORT_ERR since the last PORT_ACTIVE */
	bool fatal;		  /* DEVICE_FATAL: our context is of no more use */
	bool measuring, measured; /* rq_psn */
	unsigned int failed_measurements;
	struct bg_timer measure_timer;
};

static inline struct nic_own *nic_own(struct nic *nic)
{
	return (struct nic_own *)nic;
}

/* nic.c */
void nic_refresh(struct nic_own *own);	 /* port and GID, on the worker. Background thread. */
void nic_notify_change(struct nic *nic); /* call the listeners. Background thread. */

/* nic_watch.c, background thread */
void nic_watch(struct nic_own *own);  /* ready: begin to watch */
void nic_update(struct nic_own *own); /* something changed: is the link up? */

/* nic_psn.c, background thread */
void nic_measure_psn_init(struct nic_own *own);
void nic_measure_psn(struct nic_own *own); /* rq_psn, if that is to be done and can be */

/* gid.c: the GID that we publish as our own. Index or negative errno. */
int nic_gid_own(const struct nic *nic, union ibv_gid *gid);

#endif
