/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The options of faults: each takes some of them, by its table in faultinject/faults.c. */
#include <arpa/inet.h>
#include <ctype.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cmd/shift-inject/command.h"

/* --- options --------------------------------------------------------------------------------- */

enum {
	LETTER_PERIOD = 256,
	LETTER_COUNT,
	LETTER_DUTY,
	LETTER_JITTER,
	LETTER_RATE,
	LETTER_BURST,
	LETTER_DIRECTION,
	LETTER_TIME,
	LETTER_LIMIT,
	LETTER_SHARE,
	LETTER_PID,
	LETTER_CPUS,
	LETTER_QPN,
	LETTER_PEER,
	LETTER_FOR,
	LETTER_AFTER,
	LETTER_SEED,
	LETTER_DRY_RUN,
	LETTER_SURE,
	LETTER_EOF,
	LETTER_HOST,
	OPTIONS_MAX = 32,
};

static const struct {
	struct option option;
	unsigned int bits; /* any of them; 0: of every fault */
} all[] = {
	{{"nic", required_argument, NULL, 'n'}, OPT_NIC},
	{{"period", required_argument, NULL, LETTER_PERIOD}, OPT_PERIOD},
	{{"count", required_argument, NULL, LETTER_COUNT}, OPT_PERIOD},
	{{"duty", required_argument, NULL, LETTER_DUTY}, OPT_PERIOD},
	{{"jitter", optional_argument, NULL, LETTER_JITTER}, OPT_JITTER | OPT_TIME_JITTER},
	{{"rate", required_argument, NULL, LETTER_RATE}, OPT_RATE},
	{{"burst", optional_argument, NULL, LETTER_BURST}, OPT_BURST},
	{{"direction", required_argument, NULL, LETTER_DIRECTION}, OPT_DIRECTION},
	{{"time", required_argument, NULL, LETTER_TIME}, OPT_TIME},
	{{"limit", required_argument, NULL, LETTER_LIMIT}, OPT_LIMIT},
	{{"share", required_argument, NULL, LETTER_SHARE}, OPT_SHARE},
	{{"pid", required_argument, NULL, LETTER_PID}, OPT_PID},
	{{"cpus", required_argument, NULL, LETTER_CPUS}, OPT_CPUS},
	{{"qpn", required_argument, NULL, LETTER_QPN}, OPT_FLOW | OPT_QPN},
	{{"peer", required_argument, NULL, LETTER_PEER}, OPT_FLOW | OPT_PEER},
	{{"for", required_argument, NULL, LETTER_FOR}, 0},
	{{"after", required_argument, NULL, LETTER_AFTER}, 0},
	{{"seed", required_argument, NULL, LETTER_SEED}, 0},
	{{"json", no_argument, NULL, 'j'}, 0},
	{{"dry-run", no_argument, NULL, LETTER_DRY_RUN}, 0},
	{{"yes-i-mean-it", no_argument, NULL, LETTER_SURE}, 0},
	{{"host", required_argument, NULL, LETTER_HOST}, 0},
	{{"until-eof", no_argument, NULL, LETTER_EOF}, 0},
	{{"help", no_argument, NULL, 'h'}, 0},
};

static const char common[] =
	"  --for TIME      undo it after TIME (10s, 500ms); default: when interrupted\n"
	"  --after TIME    wait before it begins\n"
	"  --seed N        for everything random; the same number, the same choices\n"
	"  -j, --json      what happens, for a program: one object per line\n"
	"  --dry-run       show what would be changed, and change nothing\n"
	"  --yes-i-mean-it  even if this host is reached by that NIC\n"
	"  --host HOST     on that host of a testbed (b, NAME/b), or that ssh reaches\n"
	"  --until-eof     undo it when standard input ends\n"
	"  --help          this text\n";

static _Noreturn void fault_help(const struct fault *f)
{
	printf("usage: shift-inject %s%s%s [options]\n"
	       "%c%s.\n\n",
	       f->name, *f->usage ? " " : "", f->usage, toupper((unsigned char)*f->summary),
	       f->summary + 1);
	if (f->options & OPT_NIC)
		fputs("  -n, --nic NIC   an RDMA device (mlx5_0, mlx5_0:1) or network interface\n",
		      stdout);
	fputs(f->text, stdout);
	fputs(common, stdout);
	exit(fflush(stdout) ? INJECT_FAILED : INJECT_OK);
}

static _Noreturn void bad_value(const struct fault *f, const char *option, const char *value,
				const char *wanted)
{
	die(INJECT_BAD_USAGE, "%s: --%s %s: not %s", f->name, option, value, wanted);
}

static int64_t take_ms(const struct fault *f, const char *option, int64_t min_ms)
{
	int64_t us;

	if (parse_us(optarg, &us) || us / 1000 < min_ms)
		bad_value(f, option, optarg,
			  min_ms > 1 ? "a time of at least 20 ms (2s, 500ms)"
				     : "a time (10s, 500ms)");
	return us / 1000;
}

static uint64_t take_uint64(const struct fault *f, const char *option, uint64_t min, uint64_t max,
			    const char *wanted)
{
	uint64_t n;

	if (parse_uint64(optarg, min, max, &n))
		bad_value(f, option, optarg, wanted);
	return n;
}

static double take_share(const struct fault *f, const char *option, const char *value, double max,
			 const char *wanted)
{
	double share;

	if (parse_share(value, &share) || share <= 0 || share > max)
		bad_value(f, option, value, wanted);
	return share;
}

static void take_peer(const struct fault *f, struct inject_options *o)
{
	const char *s = optarg;

	/* ::ffff:10.0.0.1 is how GIDs and sockets write what IPv4 carries on the wire. */
	if (inet_pton(AF_INET6, s, &o->peer) == 1 && IN6_IS_ADDR_V4MAPPED(&o->peer))
		s = inet_ntop(AF_INET, o->peer.s6_addr + 12, o->peer_text, sizeof(o->peer_text));
	if (inet_pton(AF_INET, s, &o->peer) == 1)
		o->peer_family = AF_INET;
	else if (inet_pton(AF_INET6, s, &o->peer) == 1)
		o->peer_family = AF_INET6;
	else
		bad_value(f, "peer", optarg, "an IP address");
	inet_ntop(o->peer_family, &o->peer, o->peer_text, sizeof(o->peer_text));
}

static void take_direction(const struct fault *f, struct inject_options *o)
{
	static const char *const names[] = {"in", "out", "both"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(optarg, names[i]))
			o->direction = (enum direction)(i + 1);
	if (!o->direction)
		bad_value(f, "direction", optarg, "in, out or both");
}

/* The value of an option that may have none: behind "=", or the next word if it looks like one. */
static const char *optional_value(int argc, char **argv)
{
	if (!optarg && optind < argc && isdigit((unsigned char)*argv[optind]))
		optarg = argv[optind++];
	return optarg;
}

static void take_jitter(const struct fault *f, struct inject_options *o, const char *value)
{
	if (f->options & OPT_JITTER)
		o->jitter = value ? take_share(f, "jitter", value, 0.99, "a share up to 99%") : 0.2;
	else if (!value)
		o->time_jitter_us = -1; /* when --time is known */
	else if (parse_us(value, &o->time_jitter_us))
		bad_value(f, "jitter", value, "a time (5ms)");
}

static void take_burst(const struct fault *f, struct inject_options *o, const char *value)
{
	uint64_t n = 5;

	if (value && parse_uint64(value, 1, 1000000, &n))
		bad_value(f, "burst", value, "a number of packets");
	o->burst = (double)n;
}

static void take_time(const struct fault *f, struct inject_options *o)
{
	int64_t most = f->wire ? 60000000 : 10000000;

	if (parse_us(optarg, &o->time_us) || o->time_us < 1 || o->time_us > most)
		bad_value(f, "time", optarg,
			  f->wire ? "a time up to 60s (5ms)" : "a time up to 10s");
}

static void take_fault_option(const struct fault *f, struct inject_options *o, int c, int argc,
			      char **argv)
{
	switch (c) {
	case 'n': o->nic = optarg; break;
	case 'j': o->json = true; break;
	case LETTER_PERIOD: o->period_ms = take_ms(f, "period", 20); break;
	case LETTER_COUNT: o->count = take_uint64(f, "count", 1, UINT32_MAX, "a number"); break;
	case LETTER_DUTY:
		o->duty = take_share(f, "duty", optarg, 0.99, "a share of 1% to 99%");
		break;
	case LETTER_JITTER: take_jitter(f, o, optional_value(argc, argv)); break;
	case LETTER_RATE:
		o->rate = take_share(f, "rate", optarg, 1, "a share of more than 0% up to 100%");
		break;
	case LETTER_BURST: take_burst(f, o, optional_value(argc, argv)); break;
	case LETTER_DIRECTION: take_direction(f, o); break;
	case LETTER_TIME: take_time(f, o); break;
	case LETTER_LIMIT:
		if (parse_bits(optarg, &o->limit_bits))
			bad_value(f, "limit", optarg, "a rate (1gbit, 200mbit)");
		break;
	case LETTER_SHARE:
		o->share = take_share(f, "share", optarg, 1, "a share of 1% to 100%");
		if (o->share < 0.01)
			bad_value(f, "share", optarg, "a share of 1% to 100%");
		break;
	case LETTER_PID:
		o->pid = (pid_t)take_uint64(f, "pid", 1, INT32_MAX, "a process number");
		break;
	case LETTER_CPUS:
		o->cpus = (unsigned int)take_uint64(f, "cpus", 1, 4096, "1 to 4096");
		break;
	case LETTER_QPN: o->qpn = (int64_t)take_uint64(f, "qpn", 0, 0xffffff, "a QP number"); break;
	case LETTER_PEER: take_peer(f, o); break;
	case LETTER_FOR: o->for_ms = take_ms(f, "for", 1); break;
	case LETTER_AFTER: o->after_ms = take_ms(f, "after", 0); break;
	case LETTER_SEED: o->seed = take_uint64(f, "seed", 0, 1ull << 53, "a number"); break;
	case LETTER_DRY_RUN: o->dry_run = true; break;
	case LETTER_SURE: o->sure = true; break;
	case LETTER_EOF: o->until_eof = true; break;
	case LETTER_HOST: o->host = optarg; break;
	default: break;
	}
}

static unsigned int bits_of(int letter)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].option.val == letter)
			return all[i].bits;
	return 0;
}

/* The word that is being read, for fault_options_word(). */
static const char *reading;

const char *fault_options_word(void)
{
	return reading;
}

bool fault_options_has(const struct fault *f, const char *name)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].option.name, name))
			return !all[i].bits || all[i].bits & f->options;
	return false;
}

static void require_option(const struct fault *f, const struct inject_options *o, unsigned int bit,
			   const char *what)
{
	if (f->required & ~o->given & bit)
		die(INJECT_BAD_USAGE, "%s: %s is needed; see shift-inject %s --help", f->name, what,
		    f->name);
}

static void complete_options(const struct fault *f, struct inject_options *o)
{
	reading = NULL;
	require_option(f, o, OPT_SIZE, "a size in bytes");
	require_option(f, o, OPT_NIC, "--nic");
	require_option(f, o, OPT_PERIOD, "--period");
	require_option(f, o, OPT_RATE, "--rate");
	require_option(f, o, OPT_TIME, "--time");
	require_option(f, o, OPT_LIMIT, "--limit");
	require_option(f, o, OPT_PID, "--pid");
	require_option(f, o, OPT_QPN, "--qpn");
	if (!strcmp(f->name, "reorder") && !o->time_us)
		o->time_us = 1000;
	if (o->time_jitter_us < 0)
		o->time_jitter_us = o->time_us / 4;
}

static void take_words(const struct fault *f, struct inject_options *o, int argc, char **argv)
{
	uint64_t n;

	reading = argv[optind];
	if (optind < argc && f->options & OPT_SIZE) {
		if (parse_uint64(argv[optind], 1, 65535, &n))
			die(INJECT_BAD_USAGE, "%s %s: not a size in bytes", f->name, argv[optind]);
		o->size = (unsigned int)n;
		o->given |= OPT_SIZE;
		optind++;
	}
	if (optind < argc)
		die(INJECT_BAD_USAGE, "%s: unexpected argument %s", f->name, argv[optind]);
}

/* While options are only tried, what would end the process ends the trying. */
static struct {
	jmp_buf back;
	char *text;
	size_t bytes;
} trial;

static _Noreturn void trial_failed(const char *line)
{
	snprintf(trial.text, trial.bytes, "%s", line);
	longjmp(trial.back, 1);
}

/* After getopt's own message, which is not there while options are only tried. */
static _Noreturn void bad_option(void)
{
	if (trial.text)
		trial_failed("not an option of this fault, or without a value");
	exit(INJECT_BAD_USAGE);
}

void fault_options_parse(const struct fault *f, struct inject_options *o, int argc, char **argv)
{
	struct option options[OPTIONS_MAX] = {0};
	int c, n = 0;

	*o = (struct inject_options){.for_ms = -1, .qpn = -1, .duty = 0.5, .share = 0.1};
	if (getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed))
		o->seed = 1;
	o->seed &= 0xffffffff; /* short enough to be typed */
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!all[i].bits || all[i].bits & f->options)
			options[n++] = all[i].option;
	optind = 0;
	while ((c = getopt_long(argc, argv, f->options & OPT_NIC ? "n:j" : "j", options, NULL)) !=
	       -1) {
		reading = argv[optind - 1];
		if (c == 'h')
			fault_help(f);
		if (c == '?')
			bad_option();
		take_fault_option(f, o, c, argc, argv);
		o->given |= bits_of(c);
	}
	take_words(f, o, argc, argv);
	complete_options(f, o);
}

bool fault_options_try(const struct fault *fault, int argc, char **argv, char *wrong, size_t bytes)
{
	cli_line_fn *before = cli_messages_to(trial_failed);
	struct inject_options o;

	trial.text = wrong;
	trial.bytes = bytes;
	opterr = 0;
	if (!setjmp(trial.back)) {
		fault_options_parse(fault, &o, argc, argv);
		*wrong = 0;
	}
	cli_messages_to(before);
	trial.text = NULL;
	opterr = 1;
	return !*wrong;
}
