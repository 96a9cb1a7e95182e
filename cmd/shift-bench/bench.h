/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-bench: exit statuses, the options that all its commands know, and the commands. */
#ifndef SHIFT_BENCH_H
#define SHIFT_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli.h"

/* Documented in shift-bench(1). */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* a run failed; what was measured before is kept */
	EXIT_BAD_USAGE = 2,
	EXIT_HOST = 3,	   /* a host or the testbed is not up */
	EXIT_WORSE = 4,	   /* compare: something became worse; a control: a difference was shown */
	EXIT_MISSING = 5,  /* a program that is needed is not installed */
	EXIT_VERSIONS = 6, /* the hosts have different versions of something */
	EXIT_INTERRUPTED = 130,
};

/* Of any command that measures. */
struct bench_options {
	const char *testbed;	    /* an existing one, or NULL */
	const char *layout;	    /* of an own one: pair (default) or single */
	const char *kernel;	    /* of an own one, or NULL */
	long rails;		    /* of an own one; 0: 2 */
	const char *hosts, *config; /* real machines, or NULL */
	const char *json;	    /* file, or NULL */
	const char *html;	    /* file, or NULL */
	const char **environment;   /* K=V for the runs with shift; NULL at the end */
	long repetitions, warmup;
	long quick_repetitions; /* with --quick, unless --repetitions is given */
	uint64_t seed;
	double confidence;
	bool control; /* both sides are without shift */
	bool quick;
	bool repetitions_given, warmup_given, confidence_given;
};

/* An option of one command only. set() ends the process if the value is wrong; it is NULL for an
 * option without one. */
struct own_option {
	const char *name;
	bool has_value;
	void (*set)(const char *value);
};

/*
 * Whoever calls has put its defaults for repetitions and warmup into o. needs_hosts: false refuses
 * --testbed and its like. own: NULL or an array whose last name is NULL. Ends the process on --help
 * and on what it does not understand.
 */
void options_parse(struct bench_options *o, const char *help, bool needs_hosts,
		   const struct own_option *own, int argc, char **argv);

/* The common lines of a command's help. */
#define OPTIONS_HELP_HOSTS                                                                        \
	"      --testbed NAME     use this testbed, which is up; else one is started and ended\n" \
	"      --layout LAYOUT    of that one: pair (default) or single\n"                        \
	"      --kernel SERIES    of that one: 6.1 (default) or 6.12\n"                           \
	"      --hosts A,B        two real machines, by ssh\n"                                    \
	"      --config FILE      how to reach them, as for shift-testbed up\n"
#define OPTIONS_HELP                                                                       \
	"      --repetitions N    of either side\n"                                        \
	"      --warmup N         runs of either side before, which do not count\n"        \
	"      --confidence P     of the intervals, 0.5 to 0.9999 (default 0.99)\n"        \
	"      --seed N           of everything that is drawn at random\n"                 \
	"      --control          both sides without shift: there must be no difference\n" \
	"      --env K=V          for the side with shift; may be repeated\n"              \
	"      --quick            fewer cases and repetitions; 95 %\n"                     \
	"      --json FILE        everything that was measured; written after each run\n"  \
	"      --html FILE        a page with plots and tables; needs gnuplot\n"           \
	"      --help             this text\n"

/* A number from min to max, or ends the process. */
long option_number(const char *option, const char *s, long min, long max);

/* "1,4K,64K,1M", ascending or not. Ends the process if that is no list of numbers in min..max. The
 * caller frees it. */
long *parse_sizes(const char *option, const char *list, long min, long max, size_t *count);

/* "write,read", each one of those in allowed. The array is the caller's to free, its texts live as
 * long as the process. */
const char **parse_words(const char *option, const char *list, const char *allowed, size_t *count);

/* Ends the process if that is no number. */
uint64_t parse_seed(const char *s);

int cmd_latency(int argc, char **argv);
int cmd_bandwidth(int argc, char **argv);
int cmd_failover(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_setup(int argc, char **argv);
int cmd_training(int argc, char **argv);
int cmd_verbs(int argc, char **argv);
int cmd_all(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_report(int argc, char **argv);

#endif
