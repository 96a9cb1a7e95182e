/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The command line: one seed or many. Each schedule runs in a process of its own. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/glue/glue.h"

enum { SECONDS_MAX = 60 };

struct options opt;
struct tally *tally;

static uint64_t seed_from, seed_to, random_state;
static bool quiet, keep_going, one;

static const char usage[] =
	"usage: glue --seed N [options]      one schedule\n"
	"       glue --seeds A..B [options]  many\n"
	"  --trace           print everything as it happens\n"
	"  --no-fault NAME   without this kind of fault (repeat; --list-faults)\n"
	"  --only NAME       with this kind of fault only (repeat)\n"
	"  --srq, --no-srq   every schedule has shared receive queues, or none (else: "
	"one in four)\n"
	"  --keep-going      one line per failing seed, and go on\n"
	"  --list-faults     kinds of fault\n"
	"  -q                say nothing unless something fails\n"
	"exit: 0 all good, 1 a violation, 2 usage\n";

/* --- random numbers --------------------------------------------------------------------------- */

uint64_t rnd(void)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint32_t rnd_below(uint32_t n)
{
	return n ? (uint32_t)(((rnd() >> 32) * n) >> 32) : 0;
}

uint64_t rnd_range(uint64_t lo, uint64_t hi)
{
	return lo + rnd() % (hi - lo + 1);
}

bool rnd_ppm(uint32_t ppm)
{
	return ppm && rnd_below(1000000) < ppm;
}

bool one_in(uint32_t n)
{
	return !rnd_below(n);
}

/* --- what is said ----------------------------------------------------------------------------- */

void trace_line(const char *format, ...)
{
	va_list ap;

	printf("%12.6f %-8s ", (double)now / 1e9, thread_name());
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
}

static void print_replay(void)
{
	printf("replay: tests/glue/glue --seed %lu", (unsigned long)opt.seed);
	for (unsigned int i = 0; i < FAULT_COUNT; i++)
		if (opt.without & 1u << i)
			printf(" --no-fault %s", fault_name(i));
	for (unsigned int i = 0; i < FAULT_COUNT; i++)
		if (opt.only & 1u << i)
			printf(" --only %s", fault_name(i));
	printf("%s%s --trace\n", opt.srq ? " --srq" : "", opt.no_srq ? " --no-srq" : "");
}

void violation(const char *format, ...)
{
	va_list ap;

	printf("seed %lu: VIOLATION at %.6f: ", (unsigned long)opt.seed, (double)now / 1e9);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	if (!keep_going)
		print_replay();
	fflush(stdout);
	_exit(1);
}

/* A crash of the library is a finding as well. */
static void on_crash(int sig)
{
	violation("signal %d in \"%s\"", sig, thread_name());
}

/* --- schedules -------------------------------------------------------------------------------- */

static void run_schedule(void)
{
	random_state = opt.seed * 0x2545f4914f6cdd1dull;
	sched_setup();
	wire_setup();
	nic_setup();
	session_setup();
	verbs_setup();
	fault_setup();
	prog_setup();
	sched_run(&prog_is_over);
	tally->schedules++;
}

static bool run_child(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(SECONDS_MAX);
		run_schedule();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status)) {
		printf("seed %lu: VIOLATION: signal %d\n", (unsigned long)opt.seed,
		       WTERMSIG(status));
		print_replay();
	}
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool run_all(void)
{
	bool good = true;

	for (opt.seed = seed_from; (good || keep_going) && opt.seed <= seed_to; opt.seed++)
		good &= run_child();
	return good;
}

static void report(double seconds)
{
	printf("%lu schedules, %.1f s\n", (unsigned long)tally->schedules, seconds);
#define PRINT(name) printf("%-22s %lu\n", #name, (unsigned long)tally->name);
	TALLY(PRINT)
#undef PRINT
}

/* --- options ---------------------------------------------------------------------------------- */

static bool fault_by_name(const char *name, uint32_t *mask)
{
	for (unsigned int i = 0; i < FAULT_COUNT; i++)
		if (!strcmp(name, fault_name(i))) {
			*mask |= 1u << i;
			return true;
		}
	fprintf(stderr, "glue: no fault is called %s; see --list-faults\n", name);
	return false;
}

static bool seeds(const char *s)
{
	char *end;

	seed_from = strtoull(s, &end, 0);
	if (strncmp(end, "..", 2))
		return false;
	seed_to = strtoull(end + 2, &end, 0);
	return !*end && seed_to >= seed_from;
}

static void list_faults(void)
{
	for (unsigned int i = 0; i < FAULT_COUNT; i++)
		printf("%-9s %s\n", fault_name(i), fault_text(i));
}

static bool one_option(int c)
{
	switch (c) {
	case 's': seed_from = seed_to = strtoull(optarg, NULL, 0); return one = true;
	case 'S': return seeds(optarg);
	case 't': return opt.trace = true;
	case 'f': return fault_by_name(optarg, &opt.without);
	case 'o': return fault_by_name(optarg, &opt.only);
	case 'R': return opt.srq = true;
	case 'N': return opt.no_srq = true;
	case 'K': return keep_going = true;
	case 'q': return quiet = true;
	case 'L': list_faults(); exit(0);
	case 'h': fputs(usage, stdout); exit(0);
	default: return false;
	}
}

static bool options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", 1, NULL, 's'},	       {"seeds", 1, NULL, 'S'}, {"trace", 0, NULL, 't'},
		{"no-fault", 1, NULL, 'f'},    {"only", 1, NULL, 'o'},	{"help", 0, NULL, 'h'},
		{"list-faults", 0, NULL, 'L'}, {"srq", 0, NULL, 'R'},	{"no-srq", 0, NULL, 'N'},
		{"keep-going", 0, NULL, 'K'},  {NULL, 0, NULL, 0},
	};
	int c;

	seed_from = seed_to = UINT64_MAX;
	while ((c = getopt_long(argc, argv, "qh", longs, NULL)) >= 0)
		if (!one_option(c))
			return false;
	return seed_from != UINT64_MAX && optind == argc;
}

/* Tables of the library hash addresses: with random ones, a seed would not be a schedule. */
static void fix_addresses(char **argv)
{
	int before = personality(0xffffffff);

	if (before & ADDR_NO_RANDOMIZE ||
	    personality((unsigned long)before | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
}

static double seconds_now(void)
{
	struct timespec t;

	timespec_get(&t, TIME_UTC);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double start = seconds_now();
	bool good = true;

	fix_addresses(argv);
	if (!options(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tally == MAP_FAILED)
		return 2;
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGFPE, on_crash);
	signal(SIGALRM, on_crash);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	good = run_all();
	if ((good || keep_going) && !quiet)
		report(seconds_now() - start);
	return good ? 0 : 1;
}
