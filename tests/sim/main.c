/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The command line: one seed or many, traces, shrinking, coverage. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim.h"

#define TRACE_LINES 60

static struct options opt;
static uint64_t seed_from, seed_to;
static int jobs = 1;
static bool many, want_coverage, want_shrink, quiet, keep_going;
static uint32_t lines = TRACE_LINES;

static const char usage[] =
	"usage: sim --seed N [options]       one schedule\n"
	"       sim --seeds A..B [options]   many\n"
	"  --steps M         stop after M events\n"
	"  --trace           print everything as it happens\n"
	"  --lines N         trace lines after a violation (60)\n"
	"  --wrs N           at most N WRs per side\n"
	"  --no-fault NAME   without this kind of fault (repeat; --list-faults)\n"
	"  --no-op N         without this opcode of libibverbs (repeat)\n"
	"  --planned         each schedule moves the connection as planned, under atomics\n"
	"  --srq             in each schedule receives come from SRQs, shared by some connections\n"
	"  --conns N         at most N connections\n"
	"  --lives           in each schedule both programs use their QPs again\n"
	"  --one-nic         in each schedule the last rail is a second QP on the NICs of rail 0\n"
	"  --huge            in each schedule WRITEs have up to 2^21 packets\n"
	"  --shrink          look for a smaller schedule that fails too\n"
	"  --keep-going      one line per failing seed, and go on\n"
	"  --coverage        states, transitions, events and actions seen\n"
	"  --list-faults     kinds of fault\n"
	"  -j N              processes\n"
	"  -q                say nothing unless something fails\n"
	"exit: 0 all good, 1 a violation, 2 usage\n";

static void print_command(const struct options *o)
{
	uint32_t i;

	printf("replay: tests/sim/sim --seed %lu", (unsigned long)o->seed);
	if (o->wrs_max)
		printf(" --wrs %u", o->wrs_max);
	for (i = 0; i < FK_COUNT; i++)
		if (o->no_faults & 1u << i)
			printf(" --no-fault %s", fault_name(i));
	if (o->planned)
		printf(" --planned");
	if (o->huge)
		printf(" --huge");
	if (o->one_nic)
		printf(" --one-nic");
	if (o->lives)
		printf(" --lives");
	if (o->srq)
		printf(" --srq");
	if (o->conns_max)
		printf(" --conns %u", o->conns_max);
	for (i = 0; i < 32; i++)
		if (o->no_ops & 1u << i)
			printf(" --no-op %u", i);
	printf(" --trace\n");
}

static void print_failure(const struct options *o)
{
	char line[512];
	uint32_t h;

	if (!o->trace)
		tr_show(lines);
	for (h = 0; h < HOSTS * conns; h++) {
		const struct host *me = &worlds[h / HOSTS].host[h % HOSTS];

		if (me->c && shift_conn_dump(me->c, line, sizeof(line)) > 0)
			printf("%c%u: %s\n", 'A' + h % HOSTS, h / HOSTS, line);
	}
	srq_dump();
	printf("seed %lu: VIOLATION after %lu events: %s\n", (unsigned long)o->seed,
	       (unsigned long)worlds[0].steps, worlds[0].why);
	print_command(o);
}

/* A crash of the core is a finding as well: say which seed. */
static void on_crash(int sig)
{
	printf("seed %lu: CRASH, signal %d, after %lu events\n", (unsigned long)W.opt.seed, sig,
	       (unsigned long)W.steps);
	print_command(&W.opt);
	fflush(stdout);
	_exit(1);
}

/* --- shrinking -------------------------------------------------------------------------------- */

static bool fails(const struct options *o)
{
	struct options t = *o;

	t.trace = false;
	return !run_schedule(&t);
}

static void shrink(struct options *o)
{
	uint32_t i, n, best = WRS;

	for (i = 0; i < FK_COUNT; i++) {
		struct options t = *o;

		t.no_faults |= 1u << i;
		if (fails(&t))
			*o = t;
	}
	for (i = 0; i <= SHIFT_OP_FETCH_ADD; i++) {
		struct options t = *o;

		t.no_ops |= 1u << i;
		if (fails(&t))
			*o = t;
	}
	for (n = 1; conns > 1 && n < conns; n++) {
		struct options t = *o;

		t.conns_max = n;
		if (fails(&t))
			*o = t;
	}
	for (n = 1; n < 120 && best == WRS; n++) {
		struct options t = *o;

		t.wrs_max = n;
		if (fails(&t)) {
			*o = t;
			best = n;
		}
	}
	printf("shrunk:\n");
	fails(o);
	print_failure(o);
}

/* --- many seeds ------------------------------------------------------------------------------ */

static bool run_range(uint64_t from, uint64_t to, uint64_t step)
{
	struct options o = opt;
	bool good = true;

	for (o.seed = from; (good || keep_going) && o.seed <= to; o.seed += step)
		if (!run_schedule(&o)) {
			good = false;
			if (keep_going) {
				printf("seed %lu: %s\n", (unsigned long)o.seed, worlds[0].why);
				continue;
			}
			if (want_shrink)
				shrink(&o);
			else
				print_failure(&o);
			printf("after %lu schedules\n", (unsigned long)T.schedules + 1);
		}
	return good;
}

static bool write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool read_all(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static void child(int j, int fd)
{
	bool good = run_range(seed_from + (uint64_t)j, seed_to, (uint64_t)jobs);

	fflush(stdout);
	if (!write_all(fd, &T, sizeof(T)))
		_exit(2);
#ifdef SHIFT_CHECKED
	if (!write_all(fd, &shift_coverage, sizeof(shift_coverage)))
		_exit(2);
#endif
	_exit(good ? 0 : 1);
}

static bool collect(int fd)
{
	static struct tally t;

	if (!read_all(fd, &t, sizeof(t)))
		return false;
	report_add_tally(&t);
#ifdef SHIFT_CHECKED
	static struct shift_coverage c;

	if (!read_all(fd, &c, sizeof(c)))
		return false;
	report_add_coverage(&c);
#endif
	return true;
}

static bool run_jobs(void)
{
	int fds[64][2], j, status;
	bool good = true;

	fflush(stdout);
	for (j = 0; j < jobs; j++) {
		if (pipe(fds[j])) {
			perror("sim: pipe");
			return false;
		}
		if (fork() == 0)
			child(j, fds[j][1]);
		close(fds[j][1]);
	}
	for (j = 0; j < jobs; j++)
		good &= collect(fds[j][0]);
	while (wait(&status) > 0)
		good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return good;
}

/* --- options
 * -------------------------------------------------------------------------------------- */

static bool fault_by_name(const char *name)
{
	uint32_t i;

	for (i = 0; i < FK_COUNT; i++)
		if (!strcmp(name, fault_name(i))) {
			opt.no_faults |= 1u << i;
			return true;
		}
	fprintf(stderr, "sim: no fault is called %s; see --list-faults\n", name);
	return false;
}

static bool seeds(const char *s)
{
	char *end;

	seed_from = strtoull(s, &end, 0);
	if (strncmp(end, "..", 2))
		return false;
	seed_to = strtoull(end + 2, &end, 0);
	many = true;
	return !*end && seed_to >= seed_from;
}

static int list_faults(void)
{
	uint32_t i;

	for (i = 0; i < FK_COUNT; i++)
		printf("%-9s %s\n", fault_name(i), fault_text(i));
	return 0;
}

static bool one_option(int c)
{
	switch (c) {
	case 's': seed_from = seed_to = strtoull(optarg, NULL, 0); return true;
	case 'S': return seeds(optarg);
	case 'm': opt.steps = strtoull(optarg, NULL, 0); return true;
	case 't': opt.trace = true; return true;
	case 'l': lines = (uint32_t)strtoul(optarg, NULL, 0); return true;
	case 'w': opt.wrs_max = (uint32_t)strtoul(optarg, NULL, 0); return true;
	case 'f': return fault_by_name(optarg);
	case 'o': opt.no_ops |= 1u << (strtoul(optarg, NULL, 0) & 31); return true;
	case 'p': opt.planned = true; return true;
	case 'H': opt.huge = true; return true;
	case 'O': opt.one_nic = true; return true;
	case 'i': opt.lives = true; return true;
	case 'r': opt.srq = true; return true;
	case 'n': opt.conns_max = (uint32_t)strtoul(optarg, NULL, 0); return true;
	case 'k': want_shrink = true; return true;
	case 'c': want_coverage = true; return true;
	case 'q': quiet = true; return true;
	case 'K': keep_going = true; return true;
	case 'j': jobs = atoi(optarg); return jobs > 0 && jobs <= 64;
	case 'L': exit(list_faults());
	case 'h': fputs(usage, stdout); exit(0);
	default: return false;
	}
}

static bool options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", 1, NULL, 's'},	      {"seeds", 1, NULL, 'S'},
		{"steps", 1, NULL, 'm'},      {"trace", 0, NULL, 't'},
		{"lines", 1, NULL, 'l'},      {"wrs", 1, NULL, 'w'},
		{"no-fault", 1, NULL, 'f'},   {"no-op", 1, NULL, 'o'},
		{"planned", 0, NULL, 'p'},    {"lives", 0, NULL, 'i'},
		{"huge", 0, NULL, 'H'},	      {"one-nic", 0, NULL, 'O'},
		{"shrink", 0, NULL, 'k'},     {"coverage", 0, NULL, 'c'},
		{"help", 0, NULL, 'h'},	      {"list-faults", 0, NULL, 'L'},
		{"srq", 0, NULL, 'r'},	      {"conns", 1, NULL, 'n'},
		{"keep-going", 0, NULL, 'K'}, {NULL, 0, NULL, 0},
	};
	int c;

	seed_from = seed_to = UINT64_MAX;
	while ((c = getopt_long(argc, argv, "j:qh", longs, NULL)) >= 0)
		if (!one_option(c))
			return false;
	return seed_from != UINT64_MAX && optind == argc;
}

int main(int argc, char **argv)
{
	struct timespec a, b;
	double secs;
	bool good;

	if (!options(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	signal(SIGSEGV, on_crash);
	signal(SIGFPE, on_crash);
	signal(SIGABRT, on_crash);
	clock_gettime(CLOCK_MONOTONIC, &a);
	good = many && jobs > 1 ? run_jobs() : run_range(seed_from, seed_to, 1);
	clock_gettime(CLOCK_MONOTONIC, &b);
	secs = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	if ((good || keep_going) && !quiet)
		report_tally(secs);
	/* Measured with SRQs: 19 and 0 of 90,000. */
	if (T.limits[LIMIT_TWICE] > 2 + T.schedules / 2000 ||
	    T.limits[LIMIT_FETCH] > 2 + T.schedules / 10000) {
		printf("too many schedules end where nothing is promised: %lu, %lu\n",
		       (unsigned long)T.limits[LIMIT_TWICE], (unsigned long)T.limits[LIMIT_FETCH]);
		good = false;
	}
	if (want_coverage)
		report_coverage();
	return good ? 0 : 1;
}
