/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/job.h"

#include <string.h>
#include <sys/random.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/background.h"
#include "lib/base/run_dir.h"
#include "lib/nic/ctrl_link.h"

static const struct job_calls *calls;
static uint64_t nonce;
static struct kv_client *client;
static int client_fd = -1;
static short client_events;
static void client_run(void *arg);
static struct bg_timer client_timer = {.fn = client_run};
static uint64_t job_key[2];
static bool known; /* the job's key has come */
/* shift-kvd has refused something of ours: peers may not find us. And: on this connection to it. */
static bool full, refused;

uint64_t job_nonce(void)
{
	return nonce;
}

struct kv_client *job_client(void)
{
	return client;
}

const uint64_t *job_key_if_known(void)
{
	return known ? job_key : NULL;
}

bool job_is_full(void)
{
	return full;
}

void job_has_room(void)
{
	full = refused = false;
}

void job_draw_nonce(void)
{
	while (!nonce)
		if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
			nonce = 0;
}

/* --- what shift-kvd says -----------------------------------------------------------------------
 */

static void client_event(void *arg, enum kv_event event, const char *key, const void *value,
			 size_t bytes)
{
	(void)arg;
	if (event == KV_EVENT_PUT || event == KV_EVENT_DELETE)
		calls->published(key, value, bytes);
}

static void client_peer_died(void *arg, uint64_t peer)
{
	(void)arg;
	calls->died(peer);
}

void job_refute_death(uint64_t peer)
{
	if (client)
		kv_client_refute_death(client, peer);
}

static void client_failed(void *arg, int code, const char *text)
{
	static bool said;

	(void)arg;
	if (code == KV_ERROR_FULL && !said)
		log_warn("shift-kvd has no room for this process (%s): peers that do not know it "
			 "yet cannot find it, and connections with them are not "
			 "protected",
			 text);
	else
		log_info("shift-kvd: %s (%d)", text, code);
	said |= code == KV_ERROR_FULL;
	full |= code == KV_ERROR_FULL;
	refused |= code == KV_ERROR_FULL;
}

/* --- the client's descriptor and timer ---------------------------------------------------------
 */

static void client_ready(void *arg, uint32_t events);

static void client_watch(void)
{
	int fd = client ? kv_client_fd(client) : -1;
	short events = client ? kv_client_poll_events(client) : 0;
	int ms = client ? kv_client_poll_timeout_ms(client) : -1;

	if (client_fd >= 0 && fd != client_fd)
		bg_unwatch(client_fd);
	if (fd >= 0 && (fd != client_fd || events != client_events))
		bg_watch(fd, (uint32_t)events, client_ready, NULL); /* POLLIN and EPOLLIN are one */
	client_fd = fd;
	client_events = events;
	bg_timer_set(&client_timer, ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)ms * 1000000);
}

static void client_run(void *arg)
{
	const uint8_t *key;
	bool connected;

	(void)arg;
	if (!client)
		return;
	connected = kv_client_is_connected(client);
	refused &= connected;
	kv_client_process(client);
	if (!connected && kv_client_is_connected(client))
		full = refused; /* it was asked for all anew */
	key = kv_client_job_key(client);
	if (key && !known) {
		memcpy(job_key, key, sizeof(job_key));
		ctrl_link_set_identity(nonce, job_key);
		known = true;
		calls->key_known();
	}
}

static void client_ready(void *arg, uint32_t events)
{
	(void)events;
	client_run(arg);
}

/* Once per turn of the loop. */
static void before_sleep(void)
{
	client_watch();
	ctrl_link_flush_all();
}

void job_join(const struct job_calls *c)
{
	struct kv_callbacks callbacks = {
		.event = client_event, .peer_died = client_peer_died, .error = client_failed};
	char path[256];
	int err;

	calls = c;
	err = kv_socket_path(path, sizeof(path), env.job);
	if (err) {
		log_error("SHIFT_JOB=%s: nothing is protected: %s", env.job, run_dir_problem(err));
		return;
	}
	client = kv_client_new(path, env.job, nonce, &callbacks);
	bg_before_sleep(before_sleep);
	client_run(NULL);
}

void job_leave(void)
{
	kv_client_free(client);
	client = NULL;
	client_watch();
}
