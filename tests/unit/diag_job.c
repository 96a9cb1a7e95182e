/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/unit/diag_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t began_ns = 1795855608000000000u;

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

struct job job_make(int ranks, int per_host, int size)
{
	struct job j = {.ranks = ranks};

	for (int i = 0; i < ranks; i++) {
		struct rec_file *f = need(records_add(&j.r));
		struct rec_comm *c = need(rec_add_comm(f));

		snprintf(f->host, sizeof(f->host), "h%d", i / per_host);
		f->pid = 1000 + i;
		f->rank = i;
		f->began_ns = f->read_ns = j.now[i] = began_ns;
		f->clock_error_ns = 100000;
		strcpy(c->comm, "world");
		c->size = size;
		c->rank = i;
	}
	return j;
}

void job_free(struct job *j)
{
	records_free(&j->r);
}

struct rec_file *job_rank(struct job *j, int rank)
{
	return j->r.file + rank;
}

void job_comm(struct job *j, const char *name, const int *ranks, int n)
{
	for (int i = 0; i < n; i++) {
		struct rec_comm *c = need(rec_add_comm(job_rank(j, ranks[i])));

		snprintf(c->comm, sizeof(c->comm), "%s", name);
		c->size = n;
		c->rank = i;
	}
}

static uint64_t last_seq(const struct rec_file *f, const char *comm)
{
	uint64_t seq = 0;

	for (size_t i = 0; i < f->coll_n; i++)
		if (!strcmp(f->coll[i].comm, comm) && f->coll[i].seq > seq)
			seq = f->coll[i].seq;
	return seq;
}

struct rec_coll *job_enter(struct job *j, const char *comm, int rank, uint64_t seq,
			   uint64_t compute_ns)
{
	struct rec_coll *c = need(rec_add_coll(job_rank(j, rank)));

	j->now[rank] += compute_ns;
	snprintf(c->comm, sizeof(c->comm), "%s", comm);
	strcpy(c->op, "allreduce");
	c->seq = seq;
	c->bytes = c->sent_bytes = 1 << 20;
	c->launch_ns = j->now[rank];
	return c;
}

void job_round(struct job *j, const char *comm, const int *ranks, int n, const uint64_t *compute_ns,
	       uint64_t together_ns)
{
	uint64_t last = 0;
	int count = ranks ? n : j->ranks;

	for (int i = 0; i < count; i++) {
		int rank = ranks ? ranks[i] : i;
		uint64_t seq = last_seq(job_rank(j, rank), comm) + 1;
		struct rec_coll *c = job_enter(j, comm, rank, seq, compute_ns[i]);

		c->wr = c->wc = 8;
		last = c->launch_ns > last ? c->launch_ns : last;
	}
	for (int i = 0; i < count; i++) {
		struct rec_file *f = job_rank(j, ranks ? ranks[i] : i);

		f->coll[f->coll_n - 1].end_ns = last + together_ns;
		f->coll[f->coll_n - 1].first_wr_ns = last;
		j->now[ranks ? ranks[i] : i] = last + together_ns;
	}
}

void job_read(struct job *j, uint64_t after_ns)
{
	uint64_t last = 0;

	for (int i = 0; i < j->ranks; i++)
		last = j->now[i] > last ? j->now[i] : last;
	for (int i = 0; i < j->ranks; i++)
		job_rank(j, i)->read_ns = last + after_ns;
}

struct rec_wcerr *job_error(struct job *j, int rank, const char *status, const char *peer_host,
			    uint64_t t_ns)
{
	struct rec_wcerr *e = need(rec_add_wcerr(job_rank(j, rank)));

	e->t_ns = began_ns + t_ns;
	e->peer_rank = REC_NONE;
	snprintf(e->status, sizeof(e->status), "%s", status);
	snprintf(e->peer_host, sizeof(e->peer_host), "%s", peer_host);
	return e;
}

uint64_t job_random(uint64_t *state, uint64_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 32) % n;
}
