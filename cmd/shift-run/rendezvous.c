/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The rendezvous of the job. The daemons that are started here are detached, serve all processes of
 * the job on this host, and end by themselves: shift-kvd when no process of the job is left, etcd
 * when no shift-kvd is.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-run/run.h"
#include "kv/client.h"
#include "kv/etcd.h"

enum {
	START_MS = 10000, /* a daemon may end just when it is found */
	POLL_MS = 50,
	PATIENCE_MS = 3000, /* then it says what it waits for */
	NONSENSE_MS = 1000, /* a proxy may lead to an etcd a moment later */
};

static const char grace[] = "2s"; /* of shift-kvd: the program's own process holds it */

static char *start_etcd(const struct meeting *m, const char *job)
{
	const char *here[] = {"etcd", "--job", job, "--grace", "1s", NULL};
	const char *host[] = {"etcd",	 "--job",	job,	 "--listen",
			      m->listen, "--advertise", m->urls, NULL};

	return kvd_run(m->kind == MEET_START ? host : here);
}

static void start_kvd(const struct meeting *m, const struct options *o, const char *job)
{
	const char *arguments[] = {"--kv", m->urls, "--job", job, "--grace",
				   grace,  NULL,    NULL,    NULL};

	if (o->key_file) {
		arguments[6] = "--key-file";
		arguments[7] = o->key_file;
	}
	free(kvd_run(arguments));
}

/* Its pid is that of its own namespace. */
static void end_kvd(int pid)
{
	char path[64], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f) && !strcmp(name, "shift-kvd\n"))
		kill(pid, SIGTERM);
	if (f)
		fclose(f);
}

/*
 * True: the shift-kvd uses the etcd that is wanted. Otherwise, with other users it stays, and this
 * process ends; without any it is left over from an earlier run, and is told to end.
 */
static bool is_right_kvd(const struct kvd_state *s, struct meeting *m, const struct options *o,
			 const char *job)
{
	if (!*m->urls && strlen(s->endpoints) < sizeof(m->urls))
		strcpy(m->urls, s->endpoints);
	if (!strcmp(s->endpoints, m->urls) && (!o->key_file || s->has_key_file))
		return true;
	if (s->users > 0 && strcmp(s->endpoints, m->urls))
		die(EXIT_OURS, "job %s meets at %s already, not at %s; another --job is needed",
		    job, s->endpoints, m->urls);
	if (s->users > 0)
		die(EXIT_OURS, "job %s runs here already without --key-file", job);
	end_kvd(s->pid);
	return false;
}

static void start_missing(struct meeting *m, const struct options *o, const char *job)
{
	char *url = *m->urls ? NULL : start_etcd(m, job);

	if (url)
		snprintf(m->urls, sizeof(m->urls), "%s", url);
	free(url);
	start_kvd(m, o, job);
}

/* *s is to be freed afterwards. */
static void get_kvd(struct kvd_state *s, struct meeting *m, const struct options *o,
		    const char *job)
{
	for (int64_t end = now_ms() + START_MS; now_ms() < end; poll(NULL, 0, POLL_MS)) {
		int err = kvd_hold(job, s);

		if (err == -ENOENT || err == -ECONNREFUSED) {
			start_missing(m, o, job);
			err = kvd_hold(job, s);
		}
		if (!err && is_right_kvd(s, m, o, job))
			return;
		if (!err)
			kvd_state_free(s);
		if (err == -EPERM)
			die(EXIT_OURS, "the shift-kvd of job %s here is another user's", job);
		if (err == -EACCES)
			die(EXIT_OURS,
			    "job %s runs here already, as another user's; another --job or "
			    "SHIFT_RUN_DIR is needed",
			    job);
		/* else it is about to end, or too busy */
	}
	die(EXIT_OURS, "shift-kvd of job %s ends again and again; see the system's log", job);
}

/* The last part of "URL: what is wrong". */
static bool is_no_etcd(const struct kvd_state *s)
{
	return strstr(s->error, ETCD_NO_JSON);
}

static void wait_for_etcd(struct kvd_state *s, struct meeting *m, const struct options *o,
			  const char *job)
{
	int64_t begun = now_ms(), waited;
	bool told = false;

	while (!s->up) {
		waited = now_ms() - begun;
		if (is_no_etcd(s) && waited > NONSENSE_MS)
			die(EXIT_OURS, "%s is no etcd; another port is needed", m->urls);
		if (waited >= o->wait_ms)
			die(EXIT_OURS, "no etcd after %g s: %s", o->wait_ms / 1e3,
			    *s->error ? s->error : m->urls);
		if (waited > PATIENCE_MS && !told)
			say("waiting up to %g s for etcd: %s", o->wait_ms / 1e3,
			    *s->error ? s->error : m->urls);
		told |= waited > PATIENCE_MS;
		poll(NULL, 0, POLL_MS);
		kvd_state_free(s);
		get_kvd(s, m, o, job);
	}
}

/* Is that the address of an etcd of this job whose guard was killed? The guard leaves the address
 * behind. */
static bool had_guard(const char *job, const char *url)
{
	char path[PATH_MAX], found[600] = "";
	FILE *f;

	if (kv_socket_path(path, sizeof(path), job))
		return false;
	strcpy(strrchr(path, '/') + 1, "etcd.url");
	f = fopen(path, "re");
	if (f && !fgets(found, sizeof(found), f))
		*found = 0;
	if (f)
		fclose(f);
	return f && !strcmp(found, url);
}

static void revive_etcd(const struct meeting *m, const char *job)
{
	struct meeting again = *m;

	again.kind = MEET_START;
	snprintf(again.listen, sizeof(again.listen), "%s", m->urls + strlen("http://"));
	free(start_etcd(&again, job));
}

static bool is_private(const char *urls)
{
	return !strncmp(urls, "http://127.", 11);
}

void rendezvous_join(struct meeting *m, const struct options *o, const char *job)
{
	struct kvd_state s;

	if (m->kind == MEET_START && m->is_host)
		free(start_etcd(m, job));
	get_kvd(&s, m, o, job);
	if (m->kind == MEET_HERE && is_private(m->urls))
		say("no --kv: protecting only connections inside this host");
	if (m->kind == MEET_HERE && is_private(m->urls) && *s.error && had_guard(job, m->urls))
		revive_etcd(m, job);
	wait_for_etcd(&s, m, o, job);
	kvd_state_free(&s);
}
