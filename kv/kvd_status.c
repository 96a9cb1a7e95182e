/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The state of a daemon as JSON, and the command that asks for it. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv/ask.h"
#include "kv/client.h"
#include "kv/job_key.h"
#include "kv/kvd.h"
#include "lib/base/run_dir.h"

enum { LISTED_MAX = 256 }; /* clients: the answer is one frame */

static const char *state_name(enum session_state s)
{
	switch (s) {
	case SESSION_DOWN: return "down";
	case SESSION_AUTH:
	case SESSION_LEASE:
	case SESSION_KEY:
	case SESSION_READ: return "connecting";
	case SESSION_UP: return "up";
	}
	return "";
}

static void add_clients(struct kvd *k, cJSON *o)
{
	cJSON *list = cJSON_AddArrayToObject(o, "clients"), *item;
	int n = 0, held = 0;

	for (struct client *c = k->clients; c; c = c->next)
		held += c->holds;
	cJSON_AddNumberToObject(o, "holders", held);
	for (struct client *c = k->clients; c && n < LISTED_MAX; c = c->next) {
		if (!c->nonce || c->buried)
			continue;
		item = cJSON_CreateObject();
		cJSON_AddNumberToObject(item, "pid", c->pid);
		cJSON_AddStringToObject(item, "nonce", c->name);
		cJSON_AddNumberToObject(item, "keys", c->keys);
		cJSON_AddBoolToObject(item, "connected", c->fd >= 0);
		cJSON_AddBoolToObject(item, "lease", c->lease != 0);
		cJSON_AddItemToArray(list, item);
		n++;
	}
	cJSON_AddNumberToObject(o, "client_connections", k->connections);
}

static void add_on_switch(const struct kvd *k, cJSON *o)
{
	const struct on_switch *w = &k->on_switch;
	cJSON *s;

	if (!k->o.on_switch)
		return;
	s = cJSON_AddObjectToObject(o, "on_switch");
	cJSON_AddStringToObject(s, "command", k->o.on_switch);
	cJSON_AddNumberToObject(s, "runs", w->runs);
	cJSON_AddNumberToObject(s, "failed", w->failed);
	cJSON_AddNumberToObject(s, "running_pid", w->child);
	cJSON_AddBoolToObject(s, "waiting", w->has_waiting);
	if (w->runs > (w->child != 0))
		cJSON_AddNumberToObject(s, "last_status", w->last_status);
	else
		cJSON_AddNullToObject(s, "last_status");
}

char *status_json(struct kvd *k)
{
	cJSON *o = cJSON_CreateObject();
	char *text, id[2 * JOB_KEY_ID_BYTES + 1] = "";

	cJSON_AddStringToObject(o, "job", k->o.job);
	cJSON_AddNumberToObject(o, "pid", getpid());
	cJSON_AddStringToObject(o, "etcd", state_name(k->session.state));
	cJSON_AddStringToObject(o, "endpoint", etcd_endpoint(k->session.etcd));
	cJSON_AddItemToObject(o, "endpoints",
			      cJSON_CreateStringArray((const char *const *)k->o.etcd.endpoint,
						      k->o.etcd.endpoints));
	cJSON_AddStringToObject(o, "error", k->session.error);
	cJSON_AddBoolToObject(o, "job_key", k->session.has_key);
	cJSON_AddBoolToObject(o, "key_file", k->o.has_job_key);
	if (k->o.has_job_key)
		job_key_id_text(id, k->o.job_key);
	cJSON_AddStringToObject(o, "key_id", id);
	cJSON_AddNumberToObject(o, "connects", k->session.reconnects);
	cJSON_AddNumberToObject(o, "keys", k->store.items.count);
	cJSON_AddNumberToObject(o, "queue", k->store.dirty + k->store.in_flight);
	cJSON_AddNumberToObject(o, "watchers", k->watches.watchers);
	cJSON_AddNumberToObject(o, "streams", k->watches.streams_count);
	cJSON_AddNumberToObject(o, "events", k->watches.events);
	cJSON_AddNumberToObject(o, "unproved_deaths", k->store.unproved_deaths);
	cJSON_AddNumberToObject(o, "places", k->places);
	add_on_switch(k, o);
	add_clients(k, o);
	text = check_alloc(cJSON_PrintUnformatted(o));
	cJSON_Delete(o);
	return text;
}

static const char *json_text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);

	return shown(cJSON_IsString(item) ? item->valuestring : "");
}

static long json_number_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);

	return cJSON_IsNumber(item) ? (long)item->valuedouble : 0;
}

static void print_status(const char *json)
{
	cJSON *o = cJSON_Parse(json);
	const cJSON *c;

	printf("job %s: etcd %s at %s, %ld keys, %ld to be sent, pid %ld\n",
	       shown(json_text_of(o, "job")), shown(json_text_of(o, "etcd")),
	       shown(json_text_of(o, "endpoint")), json_number_of(o, "keys"),
	       json_number_of(o, "queue"), json_number_of(o, "pid"));
	if (*json_text_of(o, "error"))
		printf("  last error: %s\n", shown(json_text_of(o, "error")));
	if (json_number_of(o, "unproved_deaths"))
		printf("  %ld records of deaths were ignored: the job key does not prove them\n",
		       json_number_of(o, "unproved_deaths"));
	c = cJSON_GetObjectItem(o, "on_switch");
	if (c)
		printf("  --on-switch %s: run %ld times, %ld failed\n",
		       shown(json_text_of(c, "command")), json_number_of(c, "runs"),
		       json_number_of(c, "failed"));
	cJSON_ArrayForEach (c, cJSON_GetObjectItem(o, "clients"))
		printf("  process %ld: %ld keys, nonce %s%s%s\n", json_number_of(c, "pid"),
		       json_number_of(c, "keys"), shown(json_text_of(c, "nonce")),
		       cJSON_IsTrue(cJSON_GetObjectItem(c, "connected")) ? "" : ", not connected",
		       cJSON_IsTrue(cJSON_GetObjectItem(c, "lease")) ? "" : ", no lease yet");
	cJSON_Delete(o);
}

static const char status_help[] = "usage: shift-kvd status [--job NAME] [--json]\n"
				  "The state of this host's daemon of a job.\n"
				  "\n"
				  "  -J, --job NAME  default: $SHIFT_JOB, or \"default\"\n"
				  "  -j, --json      as one JSON object\n"
				  "      --help\n";

int cmd_status(int argc, char **argv)
{
	static const struct option options[] = {
		{"job", required_argument, NULL, 'J'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *job = getenv("SHIFT_JOB");
	char path[PATH_MAX], *text;
	bool json = false;
	int c, err;

	while ((c = getopt_long(argc, argv, "J:jh", options, NULL)) != -1) {
		switch (c) {
		case 'J': job = optarg; break;
		case 'j': json = true; break;
		case 'h': print_and_exit(status_help);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "status takes no %s", argv[optind]);
	job = job && *job ? job : "default";
	err = kv_socket_path(path, sizeof(path), job);
	if (err)
		die(EXIT_BAD_USAGE, "%s: %s", job, run_dir_problem(err));
	err = kv_ask(path, KV_STATUS, 5000, &text, NULL);
	if (err == -ENOENT || err == -ECONNREFUSED)
		die(EXIT_NOT_UP, "no shift-kvd of job %s runs here", job);
	if (err)
		die(EXIT_FAILED, "%s: %s", path, strerror(-err));
	if (json) {
		print_json_text(text);
		return EXIT_OK;
	}
	print_status(text);
	free(text);
	return EXIT_OK;
}
