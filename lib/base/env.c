/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/env.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/rail_list.h"
#include "lib/base/sysfs.h"

#define DEVICES_MAX	   64
#define TRACE_EPOCH_US_MAX 10000
#define GIVE_UP_MS_MAX	   (UINT64_C(1000) * 3600 * 24 * 365)

/* Valid before the environment is read, because the log may be needed at any time. */
struct env env = {
	.rails = "auto",
	.log_level = LOG_WARN,
	.summary = true,
	.exactly_once = true,
	.probes = true,
	.link_events = true,
};

/* Unset and empty are the same. A privileged program ignores the environment of its caller. */
static const char *value_of(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

static void env_malformed(const char *name, const char *value, const char *expected)
{
	log_warn("%s=%s is not understood (expected: %s); the default is used", name, value,
		 expected);
}

static void read_text(const char *name, char *text, size_t size)
{
	const char *value = value_of(name);

	if (!value)
		return;
	if (strlen(value) < size)
		strcpy(text, value);
	else
		log_warn("%s=%.40s... is too long; the default is used", name, value);
}

/* The value is the index of the word. */
static unsigned int read_word(const char *name, const char *const *words, unsigned int n,
			      unsigned int preset, const char *expected)
{
	const char *value = value_of(name);

	if (!value)
		return preset;
	for (unsigned int i = 0; i < n; i++) {
		if (strcmp(value, words[i]) == 0)
			return i;
	}
	env_malformed(name, value, expected);
	return preset;
}

static void read_switch(const char *name, bool *on)
{
	static const char *const words[] = {"0", "1"};

	*on = read_word(name, words, 2, *on, "0 or 1");
}

static void read_giveup(void)
{
	const char *name = "SHIFT_GIVE_UP_MS";
	const char *value = value_of(name);
	unsigned long long ms;
	char *end;

	if (!value)
		return;
	if (strcmp(value, "never") == 0) {
		env.giveup_ns = UINT64_C(1) << 62;
		return;
	}
	errno = 0;
	ms = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || ms > GIVE_UP_MS_MAX)
		env_malformed(name, value, "milliseconds, or never");
	else
		env.giveup_ns = ms * 1000000;
}

/* "off", "epochs", "epochs,NUMBERus". */
static void read_trace(void)
{
	const char *name = "SHIFT_TRACE", *value = value_of(name), *us = "32us";
	unsigned long n;
	char *end;

	if (!value || !strcmp(value, "off"))
		return;
	if (!strncmp(value, "epochs,", 7))
		us = value + 7;
	n = isdigit((unsigned char)*us) ? strtoul(us, &end, 10) : 0;
	if (strncmp(value, "epochs", 6) || (value[6] && value[6] != ',') || !n ||
	    n > TRACE_EPOCH_US_MAX || strcmp(end, "us"))
		env_malformed(name, value, "off, epochs, or epochs,32us");
	else
		env.trace_epoch_ns = n * 1000;
}

static void read_rails(void)
{
	const char *value;

	read_text("SHIFT_RAILS", env.rails, sizeof(env.rails));
	value = env.rails;
	if (rails_valid(value))
		return;
	env_malformed("SHIFT_RAILS", value, "auto, or mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0");
	strcpy(env.rails, "auto");
}

static void read_all(void)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	static const char *const failbacks[] = {"auto", "manual", "never"};
	static const char *const lost[] = {"error", "continue"};
	static const char *const atomics[] = {"stay", "move"};
	int saved = errno;

	/* First the log's own: what follows may have to warn. */
	read_text("SHIFT_LOG_FILE", env.log_file, sizeof(env.log_file));
	env.log_level = read_word("SHIFT_LOG", levels, 4, LOG_WARN, "error, warn, info or debug");
	read_text("SHIFT_JOB", env.job, sizeof(env.job));
	read_rails();
	read_giveup();
	read_trace();
	env.failback = read_word("SHIFT_FAILBACK", failbacks, 3, FAILBACK_AUTO,
				 "auto, manual or never");
	read_text("SHIFT_REPORT_DIR", env.report_dir, sizeof(env.report_dir));
	read_switch("SHIFT_SUMMARY", &env.summary);
	read_switch("SHIFT_EXACTLY_ONCE", &env.exactly_once);
	env.lost_atomic_continue = read_word("SHIFT_LOST_ATOMIC", lost, 2, 0, "error or continue");
	env.atomics_move = read_word("SHIFT_ATOMICS", atomics, 2, 0, "stay or move");
	read_switch("SHIFT_PROBES", &env.probes);
	read_switch("SHIFT_LINK_EVENTS", &env.link_events);
	errno = saved;
}

void env_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_all);
}

bool env_rails_are_auto(void)
{
	return !strcmp(env.rails, "auto");
}

unsigned int env_backups(const char *device, char (*backups)[64], unsigned int max)
{
	struct rail_device devices[DEVICES_MAX];
	unsigned int n;

	if (!env_rails_are_auto())
		return rails_listed(env.rails, device, backups, max);
	n = sysfs_devices("/sys/class/infiniband", devices, DEVICES_MAX);
	return rails_auto(devices, n, device, backups, max);
}
