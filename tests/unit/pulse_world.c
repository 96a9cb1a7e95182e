// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "tests/unit/pulse_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

static uint64_t at(uint64_t us)
{
	return WORLD_BEGAN + us * 1000;
}

static void add_qps(struct rec_file *f, int rank, int ranks)
{
	for (int i = 0; i < ranks; i++) {
		struct rec_qp *q;

		if (i == rank)
			continue;
		q = check_alloc(rec_add_qp(f));
		*q = (struct rec_qp){.t_ns = WORLD_BEGAN,
				     .id = (uint64_t)i + 1,
				     .qpn = (uint32_t)(100 * rank + i + 1),
				     .peer_qpn = (uint32_t)(100 * i + rank + 1),
				     .peer_rank = i};
		strcpy(q->state, "RTS");
		strcpy(q->nic, "mlx5_0");
		snprintf(q->peer_host, sizeof(q->peer_host), "node%d", i + 1);
	}
}

struct world world_make(int ranks)
{
	struct world w = {.ranks = ranks};

	for (int i = 0; i < ranks; i++) {
		struct rec_file *f = check_alloc(records_add(&w.r));

		f->path = check_alloc(strdup("a test"));
		snprintf(f->host, sizeof(f->host), "node%d", i + 1);
		f->pid = 1000 + i;
		f->rank = i;
		f->began_ns = WORLD_BEGAN;
		f->epoch_ns = WORLD_EPOCH_US * 1000;
		f->clock_error_ns = 10000;
		add_qps(f, i, ranks);
	}
	return w;
}

void world_free(struct world *w)
{
	records_free(&w->r);
}

void world_comm(struct world *w, const char *name, const int *rank, int size)
{
	for (int i = 0; i < size; i++) {
		struct rec_comm *c = check_alloc(rec_add_comm(w->r.file + rank[i]));

		snprintf(c->comm, sizeof(c->comm), "%s", name);
		c->size = size;
		c->rank = i;
	}
}

void world_sends(struct world *w, int from, int to, uint64_t start_us, uint64_t us, uint32_t rate,
		 unsigned int active, unsigned int period)
{
	struct rec_epochs *e = check_alloc(rec_add_epochs(w->r.file + from));

	e->qp = (uint64_t)to + 1;
	e->t_ns = at(start_us);
	e->n = us / WORLD_EPOCH_US;
	e->bytes = check_alloc(calloc(e->n + 1, sizeof(*e->bytes)));
	for (size_t i = 0; i < e->n; i++)
		e->bytes[i] = !period || i % period < active ? rate : 0;
}

struct rec_coll *world_coll(struct world *w, int rank, const char *comm, uint64_t seq,
			    const char *op, uint64_t bytes, uint64_t start_us, uint64_t end_us)
{
	struct rec_coll *k = check_alloc(rec_add_coll(w->r.file + rank));

	snprintf(k->comm, sizeof(k->comm), "%s", comm);
	snprintf(k->op, sizeof(k->op), "%s", op);
	k->seq = seq;
	k->bytes = bytes;
	k->launch_ns = k->first_wr_ns = at(start_us);
	k->end_ns = end_us ? at(end_us) : 0;
	k->wr = 1;
	return k;
}

static void side(struct world *w, int rank, struct rec_p2p k, const char *comm)
{
	struct rec_p2p *p = check_alloc(rec_add_p2p(w->r.file + rank));

	*p = k;
	snprintf(p->comm, sizeof(p->comm), "%s", comm);
}

void world_message(struct world *w, const char *comm, const int *rank, uint64_t group, int from,
		   int to, uint64_t expected, uint64_t done, uint64_t send_us, uint64_t recv_us,
		   uint64_t end_us)
{
	struct rec_p2p k = {.group = group,
			    .expected_bytes = expected,
			    .actual_bytes = done,
			    .end_ns = end_us ? at(end_us) : 0};

	k.launch_ns = at(send_us);
	k.peer = to;
	k.is_send = true;
	if (send_us)
		side(w, rank[from], k, comm);
	k.launch_ns = at(recv_us);
	k.peer = from;
	k.is_send = false;
	if (recv_us)
		side(w, rank[to], k, comm);
}

void world_until(struct world *w, uint64_t us, bool ended)
{
	for (size_t i = 0; i < w->r.files; i++) {
		w->r.file[i].read_ns = at(us);
		w->r.file[i].ended_ns = ended ? at(us) : 0;
	}
}

struct verdict world_verdict(struct world *w)
{
	struct pulse_options o = pulse_defaults();
	struct pulse p = pulse_read(&w->r, &o);
	struct verdict v = pulse_judge(&p);

	pulse_free(&p);
	verdict_print(&v);
	fflush(stdout);
	return v;
}
