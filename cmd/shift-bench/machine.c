/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-bench/machine.h"
#include "cmd/shift-bench/sample.h"
#include "common/cli.h"

enum { SLEEP_MS = 5 };

static atomic_long pause_max_us, pause_sum_us; /* since the latest watch_begin() */
static double clock_began_ms;

static double clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- pauses --------------------------------------------------------------------------------- */

static void *notice_pauses(void *unused)
{
	const struct timespec nap = {0, SLEEP_MS * 1000000L};
	double before = clock_ms(), now;

	(void)unused;
	for (;; before = now) {
		nanosleep(&nap, NULL);
		now = clock_ms();
		if (now - before - SLEEP_MS < PAUSE_MS)
			continue;
		long late_us = (long)((now - before - SLEEP_MS) * 1e3);

		if (late_us > atomic_load(&pause_max_us))
			atomic_store(&pause_max_us, late_us);
		atomic_fetch_add(&pause_sum_us, late_us);
	}
	return NULL;
}

void machine_begin(void)
{
	static bool begun;
	sigset_t all, before;
	pthread_t thread;

	if (begun)
		return;
	begun = true;
	clock_began_ms = clock_ms();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, notice_pauses, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- stolen time ---------------------------------------------------------------------------- */

bool processor_time_parse(struct processor_time *t, const char *line)
{
	double v[8];

	memset(t, 0, sizeof(*t));
	if (sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3], &v[4],
		   &v[5], &v[6], &v[7]) != 8)
		return false;
	for (int i = 0; i < 8; i++)
		t->total += v[i];
	t->steal = v[7];
	return true;
}

struct processor_time processor_time_here(void)
{
	struct processor_time t = {0};
	char line[512];
	FILE *f = fopen("/proc/stat", "re");

	if (f && fgets(line, sizeof(line), f))
		processor_time_parse(&t, line);
	if (f)
		fclose(f);
	return t;
}

static double steal_share(struct processor_time before, struct processor_time after)
{
	if (before.total <= 0 || after.total <= before.total)
		return NAN;
	return (after.steal - before.steal) / (after.total - before.total);
}

/* ---- one run -------------------------------------------------------------------------------- */

void watch_begin(struct watch *w, const struct processor_time places[PLACES])
{
	memset(w, 0, sizeof(*w));
	if (places)
		memcpy(w->before, places, sizeof(w->before));
	w->before[PLACE_HERE] = processor_time_here();
	atomic_store(&pause_max_us, 0);
	atomic_store(&pause_sum_us, 0);
	w->began_ms = clock_ms();
}

struct away watch_end(const struct watch *w)
{
	struct away a = {.at_ms = w->began_ms - clock_began_ms,
			 .span_ms = clock_ms() - w->began_ms};

	for (int i = 0; i < PLACES; i++)
		a.steal_share[i] = NAN;
	a.steal_share[PLACE_HERE] = steal_share(w->before[PLACE_HERE], processor_time_here());
	a.pause_max_ms = (double)atomic_load(&pause_max_us) / 1e3;
	a.pause_ms = (double)atomic_load(&pause_sum_us) / 1e3;
	return a;
}

void watch_guests(struct away *a, const struct watch *w, const struct processor_time places[PLACES])
{
	for (int i = PLACE_A; i < PLACES; i++)
		a->steal_share[i] = steal_share(w->before[i], places[i]);
}

cJSON *away_json(const struct away *a)
{
	static const char *const names[PLACES] = {"here", "a", "b"};
	cJSON *o = check_alloc(cJSON_CreateObject()), *steal;

	cJSON_AddItemToObject(o, "at_ms", json_round(a->at_ms));
	cJSON_AddItemToObject(o, "span_ms", json_round(a->span_ms));
	steal = cJSON_AddObjectToObject(o, "steal_share");
	for (int i = 0; i < PLACES; i++)
		cJSON_AddItemToObject(steal, names[i], json_round(a->steal_share[i]));
	cJSON_AddItemToObject(o, "pause_max_ms", json_round(a->pause_max_ms));
	cJSON_AddItemToObject(o, "pause_ms", json_round(a->pause_ms));
	return o;
}

const char *away_text(const struct away *a)
{
	static char text[64];
	double steal = 0;
	int n = 0;

	for (int i = 0; i < PLACES; i++)
		if (a->steal_share[i] > steal)
			steal = a->steal_share[i];
	*text = 0;
	if (steal >= 0.01)
		n = snprintf(text, sizeof(text), "stolen %.0f %%", steal * 100);
	if (a->pause_max_ms >= PAUSE_MS)
		snprintf(text + n, sizeof(text) - (size_t)n, "%spause %.0f ms", n ? ", " : "",
			 a->pause_max_ms);
	return text;
}

/* ---- what it is ----------------------------------------------------------------------------- */

static const char *processor_name(void)
{
	static char line[512];
	char *name = NULL;
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && !name && fgets(line, sizeof(line), f))
		if (!strncmp(line, "model name", 10) && (name = strchr(line, ':')))
			name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	return name ? name + 1 + strspn(name + 1, " ") : "?";
}

cJSON *machine_json(void)
{
	cJSON *o = check_alloc(cJSON_CreateObject());
	struct utsname u;

	uname(&u);
	cJSON_AddStringToObject(o, "kernel", u.release);
	cJSON_AddStringToObject(o, "architecture", u.machine);
	cJSON_AddStringToObject(o, "processor", processor_name());
	cJSON_AddNumberToObject(o, "processors", (double)sysconf(_SC_NPROCESSORS_ONLN));
	return o;
}
