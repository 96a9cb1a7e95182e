/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Does each NIC tell truly what it has received? Measured as the library does when it starts. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/nics.h"
#include "lib/base/background.h"
#include "lib/base/worker.h"
#include "lib/nic/rq_psn.h"

static const char help[] =
	"usage: shift-diag rq-psn [options] [DEVICE...]\n"
	"Is the rq_psn of these NICs (default: all) live? Exactly-once rests on it.\n"
	"\n"
	"  -t, --timeout TIME   wait so long for a NIC that does not answer (10s)\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { TIMEOUT_MS = 10000 };

struct measured {
	enum stats_psn answer;
	const char *why;
	bool done;
};

/* One NIC is measured at a time. The rest is written on the background thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct measured result;

static void measured(struct nic *nic, enum stats_psn answer, const char *why)
{
	(void)nic;
	pthread_mutex_lock(&lock);
	result = (struct measured){answer, why, true};
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static struct measured wait_measured(int64_t timeout_ms)
{
	struct timespec until;
	struct measured got;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&lock);
	while (!result.done && !pthread_cond_timedwait(&changed, &lock, &until))
		;
	got = result;
	pthread_mutex_unlock(&lock);
	return got;
}

/* After a timeout nothing else may be measured: the answer could still come. */
static struct measured measure(struct diag_nic *n, int64_t timeout_ms)
{
	static bool hangs;
	struct measured m = {.answer = STATS_PSN_UNMEASURED, .done = true};

	m.why = hangs ? "another NIC did not answer" : diag_nic_trouble(n);
	if (m.why)
		return m;
	result.done = false;
	n->nic.resolver = worker_new("shift-r", 1);
	if (!n->nic.resolver || rq_psn_measure(&n->nic, measured))
		die(EXIT_FAILED, "out of memory");
	m = wait_measured(timeout_ms);
	if (m.done)
		return m;
	hangs = true;
	return (struct measured){STATS_PSN_UNMEASURED, "the NIC does not answer in time", false};
}

static int verdict_of(const struct measured *m)
{
	switch (m->answer) {
	case STATS_PSN_LIVE: return EXIT_FINE;
	case STATS_PSN_STALE: return EXIT_CULPRIT;
	case STATS_PSN_UNMEASURED: break;
	}
	return EXIT_UNDECIDED;
}

static void show(cJSON *nics, const struct diag_nic *n, const struct measured *m)
{
	cJSON *o;

	if (!nics) {
		printf("%-10s %s%s%s\n", n->rail.name, stats_psn_name(m->answer),
		       m->why ? ": " : "", m->why ? m->why : "");
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddItemToArray(nics, o);
	cJSON_AddStringToObject(o, "device", n->rail.name);
	cJSON_AddStringToObject(o, "rq_psn", stats_psn_name(m->answer));
	if (m->why)
		cJSON_AddStringToObject(o, "why", m->why);
	else
		cJSON_AddNullToObject(o, "why");
}

static void take_timeout(void *arg, int letter, const char *value)
{
	int64_t *ms = arg;

	(void)letter;
	*ms = parse_ms(value);
	if (*ms <= 0)
		die(EXIT_BAD_USAGE, "rq-psn: --timeout %s: not a time", value);
}

static bool is_asked(const struct diag_nic *n, int argc, char **argv)
{
	for (int i = optind; i < argc; i++)
		if (!strcmp(argv[i], n->rail.name))
			return n->nic.port == 1;
	return optind == argc && n->nic.port == 1;
}

static void check_devices(const struct diag_nics *nics, int argc, char **argv)
{
	for (int i = optind; i < argc; i++)
		if (!diag_nic_find(nics, argv[i]))
			die(EXIT_BAD_USAGE, "rq-psn: %s: no such RDMA device; see rdma link",
			    argv[i]);
}

static void prepare(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	if (bg_start())
		die(EXIT_FAILED, "no thread can be started: %s", strerror(errno));
}

int cmd_rq_psn(int argc, char **argv)
{
	int64_t timeout_ms = TIMEOUT_MS;
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"timeout", 't', true}},
					   .take = take_timeout,
					   .arg = &timeout_ms};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	static struct diag_nics nics; /* see the end */
	cJSON *o = format == FORMAT_JSON ? diag_json() : NULL;
	cJSON *array = o ? cJSON_AddArrayToObject(o, "nics") : NULL;
	int verdict;

	nics = diag_nics_open();
	verdict = nics.count ? EXIT_FINE : EXIT_UNDECIDED;
	check_devices(&nics, argc, argv);
	prepare();
	if (!nics.count)
		say("rq-psn: there is no RDMA device here; see rdma link");
	for (unsigned int i = 0; i < nics.count; i++) {
		struct measured m;

		if (!is_asked(nics.nic + i, argc, argv))
			continue;
		m = measure(nics.nic + i, timeout_ms);
		show(array, nics.nic + i, &m);
		verdict = diag_worse(verdict, verdict_of(&m));
	}
	if (o)
		diag_print_json(o);
	/* Threads, and perhaps a NIC that hangs, still have the devices: they are not closed. */
	return fflush(stdout) ? EXIT_FAILED : verdict;
}
