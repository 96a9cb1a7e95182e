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
#include <sys/pidfd.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"
#include "kv/client.h"
#include "kv/etcd.h"
#include "kv/job_key.h"

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

enum { FIXED_WORDS = 6 };

static void start_kvd(struct meeting *m, const struct options *o, const char *job)
{
	const char *arguments[FIXED_WORDS + 2 * ACCESS_FILES + 8] = {"--kv", m->urls,	"--job",
								     job,    "--grace", grace};
	int n = FIXED_WORDS, fd = -1;

	for (int f = 0; f < ACCESS_FILES; f++) {
		if (!access_value(f))
			continue;
		arguments[n++] = access_kvd_option(f);
		arguments[n++] = access_value(f);
	}
	if (m->kind == MEET_START)
		arguments[n++] = "--own-port";
	if (o->on_switch) {
		arguments[n++] = "--on-switch";
		arguments[n++] = o->on_switch;
	}
	if (o->on_switch_limit) {
		arguments[n++] = "--on-switch-limit";
		arguments[n++] = o->on_switch_limit;
	}
	if (access_job_key()) {
		fd = job_key_pipe(access_job_key(), EXIT_OURS);
		arguments[n++] = "--key-fd";
		arguments[n++] = format_text("%d", fd);
	}
	free(kvd_run(arguments));
	if (fd >= 0)
		close(fd);
	m->has_started_kvd = true;
}

/* The number may be another process's by now: the name is looked at while it is held. */
static void end_kvd(pid_t pid)
{
	int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	char path[64], name[32] = "";
	FILE *f;

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f) && !strcmp(name, "shift-kvd\n"))
		pidfd_send_signal(fd, SIGTERM, NULL, 0);
	if (f)
		fclose(f);
	close(fd);
}

/* NULL, or why it does not fit a process with that key. Without one it takes what there is. */
static const char *key_conflict(const struct kvd_state *s)
{
	char id[2 * JOB_KEY_ID_BYTES + 1];

	if (!access_job_key())
		return NULL;
	job_key_id_text(id, access_job_key());
	if (!strcmp(s->key_id, id))
		return NULL;
	return *s->key_id ? "with another job key" : "without --key-file";
}

/*
 * True: the shift-kvd uses the etcd that is wanted. Otherwise, with other users it stays, and this
 * process ends; without any it is left over from an earlier run, and is told to end. So is one that
 * has not reached etcd, if a certificate or a user may be what was wrong.
 */
static bool is_right_kvd(const struct kvd_state *s, struct meeting *m, const char *job)
{
	const char *conflict = key_conflict(s);
	bool is_stuck = !s->up && !m->has_started_kvd && access_is_needed(m);

	if (!*m->urls && strlen(s->endpoints) < sizeof(m->urls))
		strcpy(m->urls, s->endpoints);
	if (!strcmp(s->endpoints, m->urls) && !conflict && (!is_stuck || s->users > 0))
		return true;
	if (s->users > 0 && strcmp(s->endpoints, m->urls))
		die(EXIT_OURS, "job %s meets at %s already, not at %s; another --job is needed",
		    job, s->endpoints, m->urls);
	if (s->users > 0)
		die(EXIT_OURS, "job %s runs here already %s", job, conflict);
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
		if (!err && is_right_kvd(s, m, job))
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
	die(EXIT_OURS,
	    "shift-kvd of job %s ends again and again; see its log: journalctl -t shift-kvd", job);
}

/* The last part of "URL: what is wrong". */
static bool is_no_etcd(const struct kvd_state *s)
{
	return strstr(s->error, ETCD_NO_JSON);
}

/* Texts of etcd and of its client for what time does not cure, and what may. */
static const struct {
	const char *text, *advice;
} hopeless[] = {
	{": " ETCD_NO_TLS, "see --kv-ca, --kv-cert and --kv-key"},
	{": " ETCD_NAMED_CERT, "see --kv-cert"},
	{"invalid user ID or password", "see --kv-user-file"},
	{"user name is empty", "that etcd has users: see --kv-user-file"},
	{"permission denied", "its user needs a role with readwrite on the prefix /shift/"},
	{"authentication is not enabled", "that etcd has no users: not with --kv-user-file"},
};

/* NULL: waiting may help. */
static const char *hopeless_reason(const struct kvd_state *s, const struct meeting *m)
{
	if (is_no_etcd(s))
		return format_text("%s is no etcd", m->urls);
	for (size_t i = 0; i < sizeof(hopeless) / sizeof(*hopeless); i++)
		if (strstr(s->error, hopeless[i].text))
			return format_text("%s (%s)", s->error, hopeless[i].advice);
	return NULL;
}

/* An earlier run of the job may have left its key, for a minute. */
static bool is_of_key(const struct kvd_state *s)
{
	return strstr(s->error, JOB_KEY_DIFFERS) || strstr(s->error, JOB_KEY_ON_SOME);
}

static const char *waiting_result(const struct kvd_state *s, const struct meeting *m, int64_t ms)
{
	if (is_of_key(s))
		return s->error;
	return format_text("no etcd after %g s: %s", ms / 1e3, *s->error ? s->error : m->urls);
}

/*
 * Whatever etcd says, or does not say, the command starts: who can disturb etcd must not be able to
 * keep programs from running. shift-kvd goes on trying. False: it starts without etcd.
 */
static bool wait_for_etcd(struct kvd_state *s, struct meeting *m, const struct options *o,
			  const char *job)
{
	int64_t begun = now_ms(), waited;
	const char *why;
	bool told = false;

	while (!s->up) {
		waited = now_ms() - begun;
		why = waited > NONSENSE_MS ? hopeless_reason(s, m) : NULL;
		if (!why && waited >= o->wait_ms)
			why = waiting_result(s, m, o->wait_ms);
		if (why) {
			say("%s; the command starts now, and its connections are not protected "
			    "until that is mended",
			    why);
			return false;
		}
		if (waited > PATIENCE_MS && !told)
			say("waiting up to %g s for etcd: %s", o->wait_ms / 1e3,
			    *s->error ? s->error : m->urls);
		told |= waited > PATIENCE_MS;
		poll(NULL, 0, POLL_MS);
		kvd_state_free(s);
		get_kvd(s, m, o, job);
	}
	return true;
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

void rendezvous_join(struct meeting *m, const struct options *o, const char *job)
{
	struct kvd_state s;
	bool is_first, has_met;

	if (m->kind == MEET_START && m->is_host)
		free(start_etcd(m, job));
	get_kvd(&s, m, o, job);
	is_first = !s.users;
	if (o->on_switch && strcmp(s.on_switch, o->on_switch))
		say("--on-switch: the job runs on this host already %s: this command is not run",
		    *s.on_switch ? "with another one" : "without it");
	if (m->kind == MEET_HERE && endpoint_is_local(m->urls))
		say("no --kv: protecting only connections inside this host");
	if (m->kind == MEET_HERE && *s.error && had_guard(job, m->urls))
		free(start_etcd(m, job));
	has_met = wait_for_etcd(&s, m, o, job);
	kvd_state_free(&s);
	if (is_first && has_met)
		meeting_say_notes(m);
}
