/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the programs of measurements on the null provider share. */
#ifndef SHIFT_BENCH_ENDS_H
#define SHIFT_BENCH_ENDS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "lib/base/run_dir.h"
#include "lib/stats/read.h"

static inline uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000;
}

static inline void must(bool holds, const char *what)
{
	if (!holds)
		die(EXIT_FAILURE, "%s: %s", what, strerror(errno));
}

/* To RTS, by the GID of index 1 of its port 1. */
static inline void connect_qp(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .grh = {.dgid = *gid, .sgid_index = 1}, .port_num = 1}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};

	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	must(!ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	must(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

/* How many connections of this process are protected, in that state, on that rail; of that QP, or
 * all (0). By the library's own statistics. */
static inline size_t count_connections(uint8_t state, uint8_t rail, uint32_t qpn)
{
	char path[4096];
	struct stats_copy copy;
	size_t n = 0;

	must(!run_dir_of_job(path, sizeof(path) - 32, getenv("SHIFT_JOB")), "SHIFT_JOB");
	sprintf(path + strlen(path), "/%d.stats", getpid());
	if (stats_read(path, &copy))
		return 0;
	for (size_t i = 0; i < copy.conn_count; i++) {
		const struct stats_conn *c = &copy.conns[i];

		n += c->is_protected && c->state == state && c->rail == rail &&
		     (!qpn || c->qpn == qpn);
	}
	stats_free(&copy);
	return n;
}

static inline void await_connections(size_t n, uint8_t state, uint8_t rail, uint32_t qpn)
{
	time_t end = time(NULL) + 60;

	while (count_connections(state, rail, qpn) < n) {
		if (time(NULL) > end)
			die(EXIT_FAILURE, "%zu connections, not %zu, are in state %u on rail %u",
			    count_connections(state, rail, qpn), n, state, rail);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

/* They are made in the background, and nothing says when they are there. Who breaks a QP that has
 * none sees it come back on its own NIC. */
static inline void await_twins(void)
{
	sleep(1);
}

#endif
