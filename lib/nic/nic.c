/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The NICs of this process: opened in the background, and tried again until it works. */
#include "lib/nic/nic.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/ctrl_link_int.h"
#include "lib/nic/nic_int.h"
#include "lib/stats/layout.h"

enum { LISTENERS_MAX = 8, VENDOR_RXE = 0xffffff };

#define RETRY_FIRST_NS 100000000ull
#define RETRY_LAST_NS  10000000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to add a NIC or a listener */
static struct nic_own *_Atomic nics[NICS_MAX];
static void (*_Atomic listeners[LISTENERS_MAX])(struct nic *nic);

/* ---- on the worker ------------------------------------------------------------------------- */

static struct ibv_context *open_by_name(const char *name, int *err)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int n = 0;

	*err = -ENODEV;
	list = real.get_device_list(&n);
	for (int i = 0; list && i < n; i++) {
		if (strcmp(list[i]->name, name))
			continue;
		errno = 0;
		ctx = real.open_device(list[i]);
		*err = ctx ? 0 : -(errno ? errno : EIO);
		break;
	}
	if (list)
		real.free_device_list(list);
	return ctx;
}

static int query_port(const struct nic *nic, struct ibv_port_attr *attr)
{
	/* An older libibverbs fills in less of it. */
	memset(attr, 0, sizeof(*attr));
	return -real.query_port(nic->ctx, nic->port, (struct _compat_ibv_port_attr *)attr);
}

/* Soft-RoCE's RESET may run the responder while a packet runs it, too, and the NIC may be lost by
 * that (doc/soft-roce.md). In ERR no packet does. */
int nic_reset_qp(const struct nic *nic, struct ibv_qp *qp)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	/* In RESET already it is refused, and not needed. */
	if (nic->is_rxe)
		real.modify_qp(qp, &err, IBV_QP_STATE);
	return real.modify_qp(qp, &reset, IBV_QP_STATE);
}

static int nic_describe(struct nic *nic)
{
	struct ibv_device_attr device;
	int err = -real.query_device(nic->ctx, &device);

	if (!err)
		err = query_port(nic, &nic->port_attr);
	if (err)
		return err;
	nic->is_rxe = device.vendor_id == VENDOR_RXE;
	nic->atomic_cap = (uint8_t)(nic->is_rxe ? IBV_ATOMIC_GLOB : device.atomic_cap);
	nic->psn = nic->is_rxe ? STATS_PSN_LIVE : STATS_PSN_UNMEASURED;
	nic->mtu_bytes = 128u << nic->port_attr.active_mtu;
	nic->pd = real.alloc_pd(nic->ctx);
	return nic->pd ? 0 : -(errno ? errno : EIO);
}

int nic_open_verbs(struct nic *nic)
{
	int err;

	nic->ctx = open_by_name(nic->name, &err);
	if (err)
		return err;
	err = nic_describe(nic);
	if (!err)
		return 0;
	real.close_device(nic->ctx);
	nic->ctx = NULL;
	return err;
}

void nic_close_verbs(struct nic *nic)
{
	real.dealloc_pd(nic->pd);
	real.close_device(nic->ctx);
	nic->pd = NULL;
	nic->ctx = NULL;
}

static int nic_open(struct nic *nic)
{
	int err = nic_open_verbs(nic);

	if (err)
		return err;
	err = ctrl_link_open(nic);
	if (err)
		nic_close_verbs(nic);
	return err;
}

static int nic_query(struct nic_own *own)
{
	struct ibv_port_attr attr;
	int err = query_port(&own->nic, &attr);

	if (err)
		return err;
	own->port_active = attr.state == IBV_PORT_ACTIVE;
	own->address_changed = ctrl_link_refresh(&own->nic);
	own->lid_found = attr.lid;
	own->ifindex_found = nic_ifindex(&own->nic);
	own->gids_found_n = nic_gid_table(&own->nic, &own->gids_found);
	return 0;
}

static void nic_job(struct job *job)
{
	struct nic_own *own = (struct nic_own *)((char *)job - offsetof(struct nic_own, job));
	struct nic *nic = &own->nic;

	own->err = nic->ctx ? 0 : nic_open(nic);
	if (!own->err)
		own->err = nic_query(own);
	if (!own->err && !nic->ready) {
		nic->link_up = own->port_active;
		nic->ready = true;
	}
	bg_call(&own->done);
}

/* ---- on the background thread -------------------------------------------------------------- */

void nic_notify_change(struct nic *nic)
{
	for (unsigned int i = 0; i < LISTENERS_MAX && listeners[i]; i++)
		listeners[i](nic);
}

void nic_refresh(struct nic_own *own)
{
	if (own->job_busy) {
		own->refresh_again = true;
		return;
	}
	own->job_busy = true;
	own->refresh_again = false;
	own->asked_at = own->events;
	worker_submit(own->nic.worker, &own->job);
}

static void nic_retry(void *arg)
{
	nic_refresh(arg);
}

/* The longer it has failed, the later. */
static void nic_retry_later(struct nic_own *own)
{
	uint64_t delay = RETRY_FIRST_NS << (own->tries < 8 ? own->tries : 8);

	own->tries++;
	bg_timer_set(&own->retry, now_ns() + (delay < RETRY_LAST_NS ? delay : RETRY_LAST_NS));
}

static void nic_open_failed(struct nic_own *own)
{
	if (!own->tries)
		log_warn("%s: cannot be used yet: %s; trying again", own->nic.name,
			 strerror(-own->err));
	nic_retry_later(own);
}

static void nic_refreshed(struct nic_own *own)
{
	bool other_gids = nic_gids_take(own), other_lid = own->lid_found != own->nic.port_attr.lid;

	if (own->asked_at == own->events)
		own->port_err = !own->port_active;
	own->ifindex = own->ifindex_found;
	own->nic.port_attr.lid = own->lid_found;
	own->nic.looks++;
	own->tries = 0;
	if (!own->watched) {
		own->watched = true;
		nic_watch(own);
		log_info("%s: ready, link %s", own->nic.name, own->nic.link_up ? "up" : "down");
		nic_notify_change(&own->nic);
	} else if (own->address_changed || other_lid || other_gids) {
		ctrl_link_take_lid(&own->nic);
		nic_notify_change(&own->nic);
	}
	nic_update(own);
	nic_measure_psn(own);
}

static void nic_job_done(void *arg)
{
	struct nic_own *own = arg;

	own->job_busy = false;
	if (!own->err)
		nic_refreshed(own);
	else if (!own->nic.ready)
		nic_open_failed(own);
	else if (!own->fatal)
		nic_retry_later(own); /* what it was to find out is not known yet */
	if (own->refresh_again && own->nic.ready)
		nic_refresh(own);
}

/* ---- public -------------------------------------------------------------------------------- */

static struct worker *nic_worker(const struct nic *nic, const char *what, unsigned int threads)
{
	char thread[16];

	snprintf(thread, sizeof(thread), "shift%s %.7s", what, nic->name);
	return worker_new(thread, threads);
}

/* No thread starts yet. false: no memory. */
static bool nic_workers_make(struct nic *nic)
{
	nic->worker = nic_worker(nic, "", 1);
	nic->resolver = nic_worker(nic, "-r", 1);
	nic->memory = nic_worker(nic, "-m", 1);
	nic->fences = nic_worker(nic, "-f", 2);
	nic->arms = nic_worker(nic, "-a", 2);
	return nic->worker && nic->resolver && nic->memory && nic->fences && nic->arms;
}

static void nic_workers_free(struct nic *nic)
{
	free(nic->worker);
	free(nic->resolver);
	free(nic->memory);
	free(nic->fences);
	free(nic->arms);
}

static struct nic_own *nic_new(const char *name, uint8_t port, unsigned int index)
{
	struct nic_own *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	snprintf(own->nic.name, sizeof(own->nic.name), "%s", name);
	own->nic.port = port;
	own->nic.index = (uint8_t)index;
	own->job.fn = nic_job;
	own->done = (struct bg_call){.fn = nic_job_done, .arg = own};
	own->retry = (struct bg_timer){.fn = nic_retry, .arg = own};
	nic_measure_psn_init(own);
	if (!nic_workers_make(&own->nic)) {
		nic_workers_free(&own->nic);
		free(own);
		return NULL;
	}
	return own;
}

static struct nic *nic_get_locked(const char *name, uint8_t port)
{
	unsigned int i;

	for (i = 0; i < NICS_MAX && nics[i]; i++)
		if (!strcmp(nics[i]->nic.name, name) && nics[i]->nic.port == port)
			return &nics[i]->nic;
	if (i == NICS_MAX)
		return NULL;
	nics[i] = nic_new(name, port, i);
	if (!nics[i])
		return NULL;
	nics[i]->job_busy = true; /* written here, as no other thread knows the NIC yet */
	worker_submit(nics[i]->nic.worker, &nics[i]->job);
	return &nics[i]->nic;
}

struct nic *nic_get(const char *name, uint8_t port)
{
	struct nic *nic;

	if (bg_start())
		return NULL;
	pthread_mutex_lock(&lock);
	nic = nic_get_locked(name, port);
	pthread_mutex_unlock(&lock);
	return nic;
}

struct nic *nic_at(unsigned int index)
{
	struct nic_own *own = index < NICS_MAX ? nics[index] : NULL;

	return own ? &own->nic : NULL;
}

void nic_on_change(void (*fn)(struct nic *nic))
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < LISTENERS_MAX; i++) {
		if (listeners[i] == fn)
			break;
		if (!listeners[i]) {
			listeners[i] = fn;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}
