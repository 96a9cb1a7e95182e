/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The supervisor's answers to clients' requests. Both are JSON objects. */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/supervisor.h"

static const char *const layout_names[] = {
	[LAYOUT_PAIR] = "pair", [LAYOUT_SINGLE] = "single", [LAYOUT_SSH] = "ssh"};

/* Takes the answer over. */
static void answer_client(struct client *c, cJSON *json)
{
	char *text = cJSON_PrintUnformatted(json);

	chan_send(&c->chan, FRAME_REPLY, 0, text, strlen(text));
	free(text);
	cJSON_Delete(json);
}

void request_refuse(struct client *c, int status, const char *fmt, ...)
{
	cJSON *json = cJSON_CreateObject();
	char why[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	cJSON_AddStringToObject(json, "error", why);
	cJSON_AddNumberToObject(json, "exit", status);
	answer_client(c, json);
}

void request_done(struct client *c)
{
	answer_client(c, cJSON_CreateObject());
}

static const char *request_text(const cJSON *request, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(request, key));

	return s ? s : "";
}

static struct host *request_host(struct supervisor *s, const char *name)
{
	for (int i = 0; i < MAX_HOSTS; i++) {
		struct host *h = &s->hosts[i];

		if (!strcmp(name, h->name) || (name[0] == h->letter && !name[1]))
			return h;
	}
	return NULL;
}

/* The host that the request names, with its machine there; otherwise refuses. */
static struct host *wanted_host(struct supervisor *s, struct client *c, const cJSON *request)
{
	const char *name = request_text(request, "host");
	struct host *h = request_host(s, name);

	if (!h)
		request_refuse(c, EXIT_BAD_USAGE, "no host %s: there are %s and %s", name,
			       s->hosts[0].name, s->hosts[1].name);
	else if (*h->machine->failure)
		request_refuse(c, EXIT_FAILED, "host %s: %s", h->name, h->machine->failure);
	else if (!s->ready)
		request_refuse(c, EXIT_NOT_UP, "host %s is still starting", h->name);
	else
		return h;
	return NULL;
}

/* ---- exec, console ------------------------------------------------------------------------- */

static void add_env(cJSON *env, const char *key, const char *value)
{
	char word[1024];

	snprintf(word, sizeof(word), "%s=%s", key, value);
	cJSON_AddItemToArray(env, cJSON_CreateString(word));
}

static void peer_address(const struct supervisor *s, int peer, char *address, size_t size)
{
	const struct ssh_host *ssh = &s->plan->ssh[peer];

	if (s->plan->layout == LAYOUT_SSH)
		snprintf(address, size, "%s", *ssh->management ? ssh->management : ssh->address);
	else if (s->plan->layout == LAYOUT_SINGLE)
		snprintf(address, size, "127.0.0.1");
	else
		snprintf(address, size, "10.0.255.%d", peer + 1);
}

/* Scripts that read these run unchanged in every layout. */
static cJSON *host_env(const struct supervisor *s, const struct host *h)
{
	const int peer = h == &s->hosts[0] ? 1 : 0;
	cJSON *env = cJSON_CreateArray();
	char rails[MAX_RAILS * 32] = "", address[256], gid[16];
	size_t n = 0;

	for (int r = 0; r < h->rail_count; r++)
		n += snprintf(rails + n, sizeof(rails) - n, "%s%s", r ? "," : "", h->rails[r].nic);
	snprintf(gid, sizeof(gid), "%d", h->rail_count ? h->rails[0].gid_index : 0);
	peer_address(s, peer, address, sizeof(address));
	add_env(env, "SHIFT_TESTBED", s->plan->name);
	add_env(env, "SHIFT_HOST", h->name);
	add_env(env, "SHIFT_PEER", s->hosts[peer].name);
	add_env(env, "SHIFT_PEER_ADDR", address);
	add_env(env, "SHIFT_HOST_RAILS", rails);
	add_env(env, "SHIFT_GID_INDEX", gid);
	return env;
}

static void do_exec(struct supervisor *s, struct client *c, const cJSON *request)
{
	struct host *h = wanted_host(s, c, request);
	cJSON *json;

	if (!h)
		return;
	c->kind = CLIENT_EXEC;
	c->machine = h->machine;
	json = cJSON_CreateObject();
	cJSON_AddItemToObject(json, "env", host_env(s, h));
	if (s->plan->layout == LAYOUT_SSH)
		cJSON_AddStringToObject(json, "path", s->plan->ssh[h->letter - 'a'].path);
	answer_client(c, json);
}

static void do_console(struct supervisor *s, struct client *c, const cJSON *request)
{
	struct host *h = wanted_host(s, c, request);
	cJSON *json;

	if (!h)
		return;
	if (s->plan->layout == LAYOUT_SSH) {
		request_refuse(c, EXIT_BAD_USAGE,
			       "%s is a real machine: its console is not reached by ssh", h->name);
		return;
	}
	c->kind = CLIENT_CONSOLE;
	c->machine = h->machine;
	json = cJSON_CreateObject();
	cJSON_AddStringToObject(json, "log", h->machine->console_path);
	answer_client(c, json);
}

/* ---- link ---------------------------------------------------------------------------------- */

static cJSON *command_of(const char *w0, const char *w1, const char *w2, const char *w3,
			 const char *w4, const char *w5)
{
	const char *words[] = {w0, w1, w2, w3, w4, w5};

	return cJSON_CreateStringArray(words, 6);
}

/*
 * If the supervisor cannot do it itself, it answers with the command that the client must run: in
 * the host ("exec"), or here ("local": a real switch's port, by the user's own script).
 */
static void hand_out(struct supervisor *s, struct client *c, const struct host *h, int r, bool up)
{
	const struct ssh_host *ssh = &s->plan->ssh[h->letter - 'a'];
	const char *local = up ? ssh->link_up : ssh->link_down, *state = up ? "up" : "down";
	cJSON *json = cJSON_CreateObject();
	char port[32];

	if (s->plan->layout == LAYOUT_SINGLE) {
		snprintf(port, sizeof(port), "sw%d%c", r, h->letter);
		cJSON_AddItemToObject(json, "exec",
				      command_of("ip", "link", "set", "dev", port, state));
	} else if (*local) {
		cJSON_AddStringToObject(json, "local", local);
	} else {
		cJSON_AddItemToObject(
			json, "exec",
			command_of("ip", "link", "set", "dev", h->rails[r].netdev, state));
	}
	cJSON_AddStringToObject(json, "nic", h->rails[r].nic);
	answer_client(c, json);
}

static void do_link(struct supervisor *s, struct client *c, const cJSON *request)
{
	struct host *h = wanted_host(s, c, request);
	int r = cJSON_GetNumberValue(cJSON_GetObjectItem(request, "rail"));
	bool up = !strcmp(request_text(request, "state"), "up");
	int err;

	if (!h)
		return;
	if (r < 0 || r >= h->rail_count) {
		request_refuse(c, EXIT_BAD_USAGE, "no rail %d at host %s: it has %d (0 to %d)", r,
			       h->name, h->rail_count, h->rail_count - 1);
		return;
	}
	if (s->plan->layout != LAYOUT_PAIR) {
		hand_out(s, c, h, r, up);
	} else {
		err = qemu_cable(h->machine, r, up);
		if (err) {
			request_refuse(c, EXIT_FAILED, "host %s rail %d: QEMU did not do it: %s",
				       h->name, r, strerror(-err));
			return;
		}
		request_done(c);
	}
	h->rails[r].cable_up = up;
}

/* ---- status, down -------------------------------------------------------------------------- */

static cJSON *rail_status(const struct rail *r, int number)
{
	cJSON *json = cJSON_CreateObject();

	cJSON_AddNumberToObject(json, "rail", number);
	cJSON_AddStringToObject(json, "nic", r->nic);
	cJSON_AddStringToObject(json, "netdev", r->netdev);
	cJSON_AddStringToObject(json, "address", r->address);
	cJSON_AddNumberToObject(json, "gid_index", r->gid_index);
	cJSON_AddStringToObject(json, "cable", r->cable_up ? "up" : "down");
	return json;
}

static cJSON *host_json(const struct supervisor *s, const struct host *h)
{
	const struct machine *m = h->machine;
	cJSON *json = cJSON_CreateObject(), *rails;

	cJSON_AddStringToObject(json, "name", h->name);
	cJSON_AddStringToObject(json, "state",
				*m->failure ? "failed"
				: s->ready  ? "ready"
					    : "starting");
	if (*m->failure)
		cJSON_AddStringToObject(json, "failure", m->failure);
	cJSON_AddNumberToObject(json, "pid", m->pid);
	rails = cJSON_AddArrayToObject(json, "rails");
	for (int r = 0; r < h->rail_count; r++)
		cJSON_AddItemToArray(rails, rail_status(&h->rails[r], r));
	return json;
}

static void do_status(const struct supervisor *s, struct client *c)
{
	const struct plan *p = s->plan;
	int64_t now = now_ms();
	cJSON *json = cJSON_CreateObject(), *hosts;

	cJSON_AddStringToObject(json, "name", p->name);
	cJSON_AddStringToObject(json, "layout", layout_names[p->layout]);
	if (p->layout != LAYOUT_SSH) {
		cJSON_AddStringToObject(json, "kernel", p->kernel);
		cJSON_AddStringToObject(json, "accel", p->kvm ? "kvm" : "tcg");
	}
	cJSON_AddNumberToObject(json, "pid", getpid());
	cJSON_AddNumberToObject(json, "uptime_s", (now - s->started_ms) / 1000);
	if (s->lease_ends_ms)
		cJSON_AddNumberToObject(json, "lease_left_s", (s->lease_ends_ms - now) / 1000);
	hosts = cJSON_AddArrayToObject(json, "hosts");
	for (int i = 0; i < MAX_HOSTS; i++)
		cJSON_AddItemToArray(hosts, host_json(s, &s->hosts[i]));
	answer_client(c, json);
}

static void do_request(struct supervisor *s, struct client *c, const cJSON *request)
{
	const char *op = request_text(request, "op");

	if (!strcmp(op, "exec")) {
		do_exec(s, c, request);
	} else if (!strcmp(op, "console")) {
		do_console(s, c, request);
	} else if (!strcmp(op, "link")) {
		do_link(s, c, request);
	} else if (!strcmp(op, "status")) {
		do_status(s, c);
	} else if (!strcmp(op, "down")) {
		c->kind = CLIENT_DOWN;
		s->ending = true;
	} else {
		request_refuse(c, EXIT_BAD_USAGE, "the testbed was started by another version");
	}
}

static void pass_to_agent(struct supervisor *s, struct client *c, const struct frame *f,
			  const uint8_t *payload)
{
	if (*c->machine->failure)
		return;
	if (f->type == FRAME_OPEN)
		c->command_runs = true;
	chan_send(&c->machine->agent, f->type, c - s->clients + 1, payload, f->bytes);
}

void request_frame(struct supervisor *s, struct client *c, const struct frame *f,
		   const uint8_t *payload)
{
	cJSON *request;

	if (c->kind == CLIENT_EXEC) {
		pass_to_agent(s, c, f, payload);
	} else if (c->kind == CLIENT_CONSOLE) {
		(void)!write(c->machine->console, payload, f->bytes); /* keys: a few bytes */
	} else if (c->kind == CLIENT_NEW) {
		request = f->type == FRAME_REQUEST
				  ? cJSON_ParseWithLength((const char *)payload, f->bytes)
				  : NULL;
		do_request(s, c, request);
		cJSON_Delete(request);
	}
}
