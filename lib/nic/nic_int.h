/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the files of this room know of a NIC beyond nic.h. struct nic_own is of nic.c, nic_watch.c
 * and nic_psn.c alone; each group of functions names the file that defines it.
 */
#ifndef SHIFT_NIC_NIC_INT_H
#define SHIFT_NIC_NIC_INT_H

#include "lib/base/background.h"
#include "lib/nic/nic.h"

enum carrier { CARRIER_UNKNOWN, CARRIER_DOWN, CARRIER_UP };

struct nic_own {
	struct nic nic; /* first: the two are cast to each other */

	/* nic.c: opening the NIC, later refreshing what may change. One job at a time. */
	struct job job;
	struct bg_call done; /* the job has run */
	/* Written by the job, read by `done`. */
	int err;
	bool port_active;
	bool address_changed;
	unsigned int ifindex_found;
	uint16_t lid_found;
	struct ibv_gid_entry *gids_found; /* its table; `done` takes it */
	ssize_t gids_found_n;		  /* negative: it cannot be read */

	/* Background thread only. nic.c: */
	struct bg_timer retry;
	unsigned int tries;
	bool watched; /* the first job after `ready` is done, and nic_watch() was called */
	bool job_busy;
	bool refresh_again;	    /* asked for while the job was busy */
	uint32_t events;	    /* async events so far */
	struct ibv_gid_entry *gids; /* the table when it was read last; NULL: not yet */
	ssize_t gids_n;
	uint32_t asked_at; /* `events` when the job was submitted: later ones outdate it */
	/* nic_watch.c: */
	unsigned int ifindex;
	enum carrier carrier;
	struct bg_timer again; /* the GIDs follow an address that has changed a little later */
	bool port_err;	       /* PORT_ERR since the last PORT_ACTIVE */
	bool fatal;	       /* DEVICE_FATAL: our context is of no more use */
	/* nic_psn.c: */
	bool measuring, measured;
	unsigned int failed_measurements; /* in a row */
	struct bg_timer measure_timer;
};

static inline struct nic_own *nic_own(struct nic *nic)
{
	return (struct nic_own *)nic;
}

/* nic.c: RESET of a QP of ours that may have traffic. What it has outstanding may flush. 0 or an
 * errno. On a thread that may hang. */
int nic_reset_qp(const struct nic *nic, struct ibv_qp *qp);

/* nic.c, background thread */
void nic_refresh(struct nic_own *own);	 /* queries port, GID and netdev again, on the worker */
void nic_notify_change(struct nic *nic); /* calls the functions of nic_on_change() */

/* nic_watch.c, background thread */
void nic_watch(struct nic_own *own);  /* the NIC is ready: begins to watch its link */
void nic_update(struct nic_own *own); /* something has changed: is the link up now? */

/* nic_psn.c, background thread */
void nic_measure_psn_init(struct nic_own *own);
void nic_measure_psn(struct nic_own *own); /* if that is not done, and the link is up */

/* nic_gid.c, any thread: the GID that we publish as our own. Its index, or a negative errno. */
int nic_gid_own(const struct nic *nic, union ibv_gid *gid);

/* nic_gid.c, any thread: the table of the port. The number of its entries, which the caller frees,
 * or a negative errno. */
ssize_t nic_gid_table(const struct nic *nic, struct ibv_gid_entry **entries);

/* nic_gid.c, background thread: takes in the table that was read. true: it is another than before.
 */
bool nic_gids_take(struct nic_own *own);

/* nic_vlan.c, any thread: of a netdev; 0: it has none. */
uint16_t nic_vlan(uint32_t ifindex);

#endif
