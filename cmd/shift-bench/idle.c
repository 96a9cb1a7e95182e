/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/idle.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/protection.h"

enum {
	PORT = 18517,
	WORDS = 16,
	CONNECT_MS = 30000,
	CONNECT_EACH_MS = 100,
	PROTECTED_MS = 20000,
	PROTECTED_EACH_MS = 100,
	LOOK_MS = 200,
	LOOK_EACH_MS = 2, /* the answer is long, and is made while they are set up */
};

static bool start(struct idle *i, const struct hosts *h, const struct bench_options *o,
		  enum host host, long qps, bool with_shift)
{
	const char *own[WORDS] = {h->idle_qps,
				  "--device",
				  h->nic[host],
				  "--gid-index",
				  format_text("%ld", h->gid_index[host]),
				  "--port",
				  format_text("%d", PORT),
				  "--qps",
				  format_text("%ld", qps),
				  host == HOST_A ? h->peer : NULL};
	const char **words = words_under(h, o->environment, with_shift, NULL, own);
	bool started = run_start(&i->runs[host], h, host, words, RUN_FOR_EVER_MS);

	free(words);
	return started;
}

static const char *reason_of(const struct idle *i, enum host host)
{
	char *err = run_errors(&i->runs[host]);
	const char *reason;

	err[strcspn(err, "\n")] = 0;
	reason = format_text("host %s: idle-qps ended with status %d: %s", host_name(host),
			     i->runs[host].status, err);
	free(err);
	return reason;
}

static bool has_connected(const struct run *run)
{
	char *said = run_output(run);
	bool connected = strstr(said, " connected\n") != NULL;

	free(said);
	return connected;
}

/* If one ends, the other one, which waits for it, is not to blame. */
static const char *wait_for_connections(struct idle *i, long qps)
{
	int64_t until = now_ms() + CONNECT_MS + qps * CONNECT_EACH_MS;

	while (!interrupted()) {
		int connected = 0;

		for (int host = 0; host < HOSTS; host++)
			if (has_connected(&i->runs[host]))
				connected++;
			else if (!run_alive(&i->runs[host]))
				return reason_of(i, host);
		if (connected == HOSTS)
			break;
		if (now_ms() > until)
			return format_text("%ld idle QPs were not connected in time", qps);
		wait_ms(LOOK_MS);
	}
	return NULL;
}

static const char *wait_for_protection(struct idle *i, const struct hosts *h, long qps)
{
	int64_t until = now_ms() + PROTECTED_MS + qps * PROTECTED_EACH_MS;

	for (int host = 0; host < HOSTS; host++)
		for (;;) {
			cJSON *status = job_status(h, host);
			size_t count;

			free(protected_after_ms(status, &count));
			cJSON_Delete(status);
			if (count >= (size_t)qps || interrupted())
				break;
			if (!run_alive(&i->runs[host]))
				return reason_of(i, host);
			if (now_ms() > until)
				return format_text("host %s: only %zu of %ld idle QPs were "
						   "protected in time",
						   host_name(host), count, qps);
			wait_ms(LOOK_MS + qps * LOOK_EACH_MS);
		}
	return NULL;
}

const char *idle_begin(struct idle *i, const struct hosts *h, const struct bench_options *o,
		       long qps, bool with_shift)
{
	const char *failure;

	memset(i, 0, sizeof(*i));
	/* The client tries until the server listens. */
	if (!start(i, h, o, HOST_B, qps, with_shift) || !start(i, h, o, HOST_A, qps, with_shift))
		return "idle-qps could not be started";
	failure = wait_for_connections(i, qps);
	if (!failure && with_shift)
		failure = wait_for_protection(i, h, qps);
	return failure;
}

const char *idle_end(struct idle *i)
{
	const char *failure = NULL;

	for (int host = 0; host < HOSTS; host++)
		if (i->runs[host].pid && !run_alive(&i->runs[host]) && !failure)
			failure = reason_of(i, host);
	for (int host = 0; host < HOSTS; host++)
		run_free(&i->runs[host]);
	return failure;
}
