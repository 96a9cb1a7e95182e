/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Simulated jobs: volumes and times that can be computed by hand; and of all cases what must be
 * true of any record, and that the fault shows in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/collsim/scenario.h"

static const double RATE = 10; /* bytes/ns */

/* How many seeds of each case; a sanitized program is slow. */
static const int SEEDS = 1;

static void assert_near(double value, double wanted, double part)
{
	if (fabs(value - wanted) > part * fabs(wanted) + 1e-6)
		fail_msg("%.9g is not %.9g, within %g of it", value, wanted, part);
}

/* Ranks without delays of their own, each on a host at one switch, and one collective. */
static void run_one(struct job *j, int ranks, enum op_kind kind, enum op_algorithm algorithm,
		    double bytes, double slice)
{
	int members[16];

	job_init(j, 1, ranks, 1);
	j->jitter = j->launch_ns = j->take_ns = j->proxy_ns = 0;
	j->slice_bytes = slice;
	j->channels = 1;
	j->credits = 1000;
	for (int i = 0; i < ranks; i++) {
		j->rank[i].proxy_ns = 0;
		members[i] = i;
	}
	topology_build(&j->topology, TOPOLOGY_STAR, ranks, 1, RATE, false);
	job_all_take_part(
		j, job_op(j, job_comm(j, "world", members, ranks), kind, algorithm, bytes, 0));
	job_connect(j, NULL);
	job_run(j);
	assert_true(j->all_finished);
}

static void every_rank_sends(enum op_kind kind, enum op_algorithm algorithm, int ranks,
			     double wanted)
{
	struct job j;

	run_one(&j, ranks, kind, algorithm, 8e6, 1e6);
	for (int i = 0; i < ranks; i++) {
		assert_near(j.op[0].at[i].sent, wanted, 1e-9);
		assert_int_equal(j.op[0].at[i].wr, j.op[0].at[i].wc);
	}
	job_free(&j);
}

static void volumes_are_those_of_the_algorithm(void **state)
{
	(void)state;
	for (int s = 2; s <= 8; s++) {
		every_rank_sends(OP_ALLREDUCE, ALGO_RING, s, 2 * 8e6 * (s - 1) / s);
		every_rank_sends(OP_ALLGATHER, ALGO_RING, s, 8e6 * (s - 1));
		every_rank_sends(OP_REDUCESCATTER, ALGO_RING, s, 8e6 * (s - 1));
		every_rank_sends(OP_ALLTOALL, ALGO_MESH, s, 8e6 * (s - 1) / s);
	}
	every_rank_sends(OP_ALLREDUCE, ALGO_HALVING, 8, 2 * 8e6 * 7 / 8);
}

/* A tree has s - 1 edges, and all bytes go over each, up and down. */
static void trees_move_all_twice(void **state)
{
	(void)state;
	for (int s = 2; s <= 9; s++)
		for (int twice = 0; twice < 2; twice++) {
			struct job j;
			double sum = 0;

			run_one(&j, s, OP_ALLREDUCE, twice ? ALGO_DOUBLE_TREE : ALGO_TREE, 8e6,
				1e6);
			for (int i = 0; i < s; i++)
				sum += j.op[0].at[i].sent;
			assert_near(sum, 2 * (s - 1) * 8e6, 1e-9);
			job_free(&j);
		}
}

static void a_ring_takes_what_the_formula_says(void **state)
{
	(void)state;
	for (int s = 2; s <= 8; s++) {
		struct job j;
		double alone, latency;

		run_one(&j, s, OP_ALLREDUCE, ALGO_RING, 8e6, INFINITY);
		latency = 2 * j.topology.net.link_ns;
		alone = 8e6 / s / RATE + latency;
		/* Each step after the one before has come; the last is acknowledged. */
		assert_near(j.ended, 2 * (s - 1) * alone + latency, 1e-4);
		job_free(&j);
	}
}

static void halving_takes_what_the_formula_says(void **state)
{
	struct job j;
	double latency, sum = 0;

	(void)state;
	run_one(&j, 8, OP_ALLREDUCE, ALGO_HALVING, 8e6, INFINITY);
	latency = 2 * j.topology.net.link_ns;
	for (int i = 2; i <= 8; i *= 2)
		sum += 2 * (8e6 / i / RATE + latency);
	assert_near(j.ended, sum + latency, 1e-4);
	job_free(&j);
}

/* Slices follow one another from rank to rank: a chain takes the time of all, and of one slice for
 * each further rank. */
static void slices_are_passed_on_at_once(void **state)
{
	struct job j;

	(void)state;
	run_one(&j, 5, OP_BROADCAST, ALGO_RING, 8e6, 1e5);
	assert_near(j.ended, 8e6 / RATE + 3 * 1e5 / RATE, 0.05);
	job_free(&j);
}

static struct collsim *run_case(const char *name, uint64_t seed, bool healthy, struct records *r)
{
	struct collsim_options o = {
		.name = name, .seed = seed, .healthy = healthy, .clock_ns = REC_NONE};
	struct collsim *s = collsim_run(&o);

	assert_non_null(s);
	*r = (struct records){0};
	collsim_records(s, r);
	return s;
}

static void check_colls(const struct rec_file *f)
{
	for (size_t i = 0; i < f->coll_n; i++) {
		const struct rec_coll *c = f->coll + i;

		assert_true(c->wc <= c->wr);
		assert_true(c->launch_ns >= f->began_ns && c->launch_ns <= f->read_ns);
		assert_true(!c->first_wr_ns || c->first_wr_ns >= c->launch_ns);
		assert_true(!c->end_ns || c->end_ns > c->launch_ns);
		assert_true(!c->end_ns || c->wc == c->wr);
	}
	for (size_t i = 0; i < f->p2p_n; i++) {
		const struct rec_p2p *p = f->p2p + i;

		assert_true(!p->end_ns || p->end_ns >= p->launch_ns);
		assert_true(p->actual_bytes <= p->expected_bytes);
		assert_true(!p->end_ns || p->actual_bytes == p->expected_bytes);
	}
	for (size_t i = 0; i < f->step_n; i++) {
		const struct rec_step *t = f->step + i;

		assert_true(!t->end_ns || t->end_ns > t->start_ns);
		/* Timers of the simulation are exact; a time is rounded to 1 ns. */
		assert_true(!t->end_ns || t->end_ns - t->start_ns + 2 >= t->bytes / 50);
		assert_true(t->recv_index >= t->send_index || t->send_index > t->recv_index);
	}
}

/* All that QPs have carried is what operations have sent. */
static void check_epochs(struct collsim *s, const struct rec_file *f)
{
	double carried = 0, wr = 0, wc = 0, sent = 0, posted = 0;
	struct job *j = &s->job;

	for (size_t i = 0; i < f->epochs_n; i++)
		for (size_t k = 0; k < f->epochs[i].n; k++) {
			carried += f->epochs[i].bytes[k];
			wr += f->epochs[i].wr[k];
			wc += f->epochs[i].wc[k];
			/* Not more than a NIC can. */
			assert_true(f->epochs[i].bytes[k] <= 50.1 * f->epoch_ns);
		}
	for (int i = 0; i < j->ops; i++) {
		int member = job_member(j->comm + j->op[i].comm, f->rank);

		if (member == NET_NONE)
			continue;
		sent += j->op[i].at[member].sent;
		posted += j->op[i].at[member].wr;
	}
	assert_true(wc <= wr);
	assert_near(wr, posted, 0);
	if (s->job.all_finished && !s->scenario->telemetry)
		assert_near(carried, sent, 1e-3);
	assert_true(carried <= sent * 1.001 + 1);
}

static void check_names(const struct rec_file *f)
{
	assert_true(f->rank >= 0 && f->pid > 0 && *f->host && *f->job);
	assert_true(f->began_ns < f->read_ns);
	for (size_t i = 0; i < f->qp_n; i++)
		assert_true(*f->qp[i].nic && *f->qp[i].state && *f->qp[i].peer_host);
	for (size_t i = 0; i < f->wcerr_n; i++)
		assert_true(f->wcerr[i].t_ns <= f->read_ns);
}

static void check_truth(const struct collsim *s, bool healthy)
{
	const struct collsim_truth *t = collsim_truth(s);

	assert_true(t->healthy_ns > 0);
	if (healthy) {
		assert_string_equal(t->class, "fine");
		assert_int_equal(t->culprits, 0);
		assert_int_equal(t->onset_ns, 0);
		assert_true(t->took_ns > 0);
		return;
	}
	assert_true(t->culprits > 0);
	assert_true(t->onset_ns >= t->zero_ns);
	if (!strcmp(t->class, "stopped"))
		assert_int_equal(t->took_ns, 0);
	else if (!(t->took_ns > 0.99 * t->healthy_ns))
		fail_msg("%s: took %.0f of %.0f", t->name, (double)t->took_ns,
			 (double)t->healthy_ns);
}

static void records_of_all_cases_make_sense(void **state)
{
	(void)state;
	for (int i = 0; collsim_case_name(i); i++)
		for (int seed = 1; seed <= SEEDS; seed++)
			for (int healthy = 0; healthy < 2; healthy++) {
				struct records r;
				struct collsim *s = run_case(collsim_case_name(i), seed, healthy,
							     &r);

				assert_int_equal(r.files, s->job.ranks);
				check_truth(s, healthy);
				for (size_t k = 0; k < r.files; k++) {
					check_names(r.file + k);
					check_colls(r.file + k);
					check_epochs(s, r.file + k);
				}
				records_free(&r);
				collsim_free(s);
			}
}

static char *all_text(struct collsim *s, struct records *r)
{
	char *text = NULL, *part;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	for (size_t i = 0; i < r->files; i++) {
		part = collsim_file_text(r->file + i);
		fputs(part, out);
		free(part);
	}
	part = collsim_truth_text(collsim_truth(s));
	fputs(part, out);
	free(part);
	fclose(out);
	return text;
}

static void a_seed_gives_the_same_each_time(void **state)
{
	static const char *const names[] = {"pulse-cross-numa", "vedrfolnir-backpressure", NULL};

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *text[3];

		for (int k = 0; k < 3; k++) {
			struct records r;
			struct collsim *s = run_case(names[i], k < 2 ? 7 : 8, false, &r);

			text[k] = all_text(s, &r);
			records_free(&r);
			collsim_free(s);
		}
		assert_string_equal(text[0], text[1]);
		assert_string_not_equal(text[0], text[2]);
		for (int k = 0; k < 3; k++)
			free(text[k]);
	}
}

/* The last collective that anybody has launched, and how many have. */
static int launched(const struct rec_file *f)
{
	return (int)f->coll_n;
}

static const struct rec_file *file_of(const struct records *r, int rank)
{
	for (size_t i = 0; i < r->files; i++)
		if (r->file[i].rank == rank)
			return r->file + i;
	fail_msg("no file of rank %d", rank);
	return NULL;
}

static void a_stopped_rank_launches_less(void **state)
{
	(void)state;
	for (int seed = 1; seed <= 10; seed++) {
		struct records r;
		struct collsim *s = run_case("dp-stopped", seed, false, &r);
		int culprit = collsim_truth(s)->culprit[0].rank;

		/* Who gives data only, as the root of a broadcast does, runs further ahead. */
		for (size_t i = 0; i < r.files; i++)
			assert_true(r.file[i].rank == culprit ||
				    launched(r.file + i) > launched(file_of(&r, culprit)));
		records_free(&r);
		collsim_free(s);
	}
}

static void a_dead_nic_is_told_by_both_ends(void **state)
{
	(void)state;
	for (int seed = 1; seed <= 10; seed++) {
		struct records r;
		struct collsim *s = run_case("dp-nic-down", seed, false, &r);
		int culprit = collsim_truth(s)->culprit[0].rank, errors = 0;

		assert_int_equal(file_of(&r, culprit)->async_n, 1);
		for (size_t i = 0; i < r.files; i++)
			for (size_t k = 0; k < r.file[i].wcerr_n; k++) {
				errors++;
				assert_true(r.file[i].rank == culprit ||
					    r.file[i].wcerr[k].peer_rank == culprit);
			}
		assert_true(errors > 0);
		records_free(&r);
		collsim_free(s);
	}
}

static void a_process_that_is_gone_says_so(void **state)
{
	struct records r;
	struct collsim *s = run_case("pulse-cuda-error", 3, false, &r);

	(void)state;
	for (size_t i = 0; i < r.files; i++) {
		const struct rec_file *f = r.file + i;
		bool culprit = f->rank == collsim_truth(s)->culprit[0].rank;

		assert_int_equal(f->died, culprit);
		assert_int_equal(f->ended_ns, 0);
	}
	records_free(&r);
	collsim_free(s);
}

/* Files are read by the reader of shift-diag as they were meant. */
static void files_can_be_read(void **state)
{
	char dir[] = "collsim-XXXXXX", command[64];
	struct records r, read = {0};
	struct collsim *s = run_case("pulse-nic-down", 5, false, &r);
	char *one, *other;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(collsim_write(s, dir), 0);
	assert_int_equal(records_read(dir, &read), r.files);
	for (size_t i = 0; i < read.files; i++) {
		assert_int_equal(read.file[i].bad_lines, 0);
		one = collsim_file_text(read.file + i);
		other = collsim_file_text(file_of(&r, read.file[i].rank));
		assert_string_equal(one, other);
		free(one);
		free(other);
	}
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
	records_free(&read);
	records_free(&r);
	collsim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(volumes_are_those_of_the_algorithm),
		cmocka_unit_test(trees_move_all_twice),
		cmocka_unit_test(a_ring_takes_what_the_formula_says),
		cmocka_unit_test(halving_takes_what_the_formula_says),
		cmocka_unit_test(slices_are_passed_on_at_once),
		cmocka_unit_test(records_of_all_cases_make_sense),
		cmocka_unit_test(a_seed_gives_the_same_each_time),
		cmocka_unit_test(a_stopped_rank_launches_less),
		cmocka_unit_test(a_dead_nic_is_told_by_both_ends),
		cmocka_unit_test(a_process_that_is_gone_says_so),
		cmocka_unit_test(files_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
