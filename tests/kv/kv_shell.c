/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * kv_shell JOB NONCE: the rendezvous client by hand. Commands come by lines on standard input,
 * events go to standard output; end of file is a goodbye.
 *
 *   put K V | del K | get K | forget K | watch P | watches P N | unwatch P | fill P N
 * (puts P0.. PN-1) | gets P N | forgets P N | sync (until all is handed over and the lease is held)
 * | key | state | count P | lose (closes the socket behind the client's back) | refute NONCE (it is
 * not dead) | fds
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv/client.h"

static struct kv_client *client;
static unsigned long puts_seen;

static void on_event(void *arg, enum kv_event event, const char *key, const void *value,
		     size_t bytes)
{
	static const char *const name[] = {
		[KV_EVENT_PUT] = "put", [KV_EVENT_DELETE] = "delete", [KV_EVENT_SYNCED] = "synced"};

	(void)arg;
	puts_seen += event == KV_EVENT_PUT;
	printf("%s %s %.*s\n", name[event], key, (int)bytes, value ? (const char *)value : "");
}

static void on_peer_died(void *arg, uint64_t nonce)
{
	(void)arg;
	printf("died %" PRIx64 "\n", nonce);
}

static void on_error(void *arg, int code, const char *text)
{
	(void)arg;
	printf("error %d %s\n", code, text);
}

static void get(const char *key)
{
	const void *value;
	size_t bytes;
	int err = kv_client_get(client, key, &value, &bytes);

	if (err)
		printf("got %s: %s\n", key, strerror(-err));
	else
		printf("got %s = %.*s\n", key, (int)bytes, (const char *)value);
}

static void print_key(void)
{
	const uint8_t *key = kv_client_job_key(client);

	fputs("key ", stdout);
	for (int i = 0; key && i < KV_JOB_KEY_BYTES; i++)
		printf("%02x", key[i]);
	puts(key ? "" : "unknown");
}

static void fill(const char *prefix, long n)
{
	char key[128], value[128];

	for (long i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%ld", prefix, i);
		snprintf(value, sizeof(value), "value-%ld", i);
		kv_client_put(client, key, value, strlen(value));
	}
}

static void get_all(const char *prefix, long n, bool forget)
{
	const void *value;
	char key[128];
	size_t bytes;

	for (long i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%ld", prefix, i);
		if (forget)
			kv_client_forget(client, key);
		else
			kv_client_get(client, key, &value, &bytes);
	}
}

static void watch_all(const char *prefix, long n)
{
	char key[128];

	for (long i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%ld", prefix, i);
		kv_client_watch(client, key);
	}
}

static void count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = -3; /* ., .. and this one */

	while (readdir(d))
		n++;
	closedir(d);
	printf("fds %d\n", n);
}

static void step(int timeout_ms)
{
	int own = kv_client_poll_timeout_ms(client);
	struct pollfd p[2] = {
		{.fd = kv_client_fd(client), .events = kv_client_poll_events(client)},
	};

	poll(p, 1, own >= 0 && own < timeout_ms ? own : timeout_ms);
	kv_client_process(client);
}

static void sync_all(void)
{
	while (!kv_client_is_connected(client) || kv_client_unsent(client) ||
	       kv_client_lease(client) != KV_LEASE_HELD)
		step(100);
	puts("synced-all");
}

static void obey(char *line)
{
	char *word = strtok(line, " "), *a = strtok(NULL, " "), *b = strtok(NULL, "");
	int err = 0;

	if (!word)
		return;
	if (!strcmp(word, "put") && a)
		err = kv_client_put(client, a, b ? b : "", b ? strlen(b) : 0);
	else if (!strcmp(word, "del") && a)
		err = kv_client_delete(client, a);
	else if (!strcmp(word, "get") && a)
		get(a);
	else if (!strcmp(word, "forget") && a)
		kv_client_forget(client, a);
	else if ((!strcmp(word, "gets") || !strcmp(word, "forgets")) && a && b)
		get_all(a, atol(b), *word == 'f');
	else if (!strcmp(word, "watch"))
		err = kv_client_watch(client, a ? a : "");
	else if (!strcmp(word, "unwatch") && a)
		err = kv_client_unwatch(client, a);
	else if (!strcmp(word, "watches") && a && b)
		watch_all(a, atol(b));
	else if (!strcmp(word, "fill") && a && b)
		fill(a, atol(b));
	else if (!strcmp(word, "sync"))
		sync_all();
	else if (!strcmp(word, "key"))
		print_key();
	else if (!strcmp(word, "state"))
		printf("state %d lease %d unsent %zu\n", kv_client_is_connected(client),
		       kv_client_lease(client), kv_client_unsent(client));
	else if (!strcmp(word, "count"))
		printf("count %lu\n", puts_seen);
	else if (!strcmp(word, "refute") && a)
		kv_client_refute_death(client, strtoull(a, NULL, 16));
	else if (!strcmp(word, "lose"))
		close(kv_client_fd(client));
	else if (!strcmp(word, "fds"))
		count_fds();
	else
		err = -EINVAL;
	if (err)
		printf("%s: %s\n", word, strerror(-err));
}

/* False at end of file. */
static bool read_commands(void)
{
	static char text[65536];
	static size_t have;
	ssize_t n = read(0, text + have, sizeof(text) - 1 - have);
	char *end;

	if (n <= 0)
		return false;
	have += n;
	while ((end = memchr(text, '\n', have))) {
		*end = 0;
		obey(text);
		have -= end + 1 - text;
		memmove(text, end + 1, have);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct kv_callbacks calls = {on_event, on_peer_died, on_error, NULL};
	char path[108];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3 || kv_socket_path(path, sizeof(path), argv[1]))
		return 2;
	client = kv_client_new(path, argv[1], strtoull(argv[2], NULL, 16), &calls);
	if (!client)
		return 2;
	for (;;) {
		int own = kv_client_poll_timeout_ms(client);
		struct pollfd p[2] = {
			{.fd = kv_client_fd(client), .events = kv_client_poll_events(client)},
			{.fd = 0, .events = POLLIN},
		};

		poll(p, 2, own);
		kv_client_process(client);
		if (p[1].revents && !read_commands())
			break;
		/* Requests go out without waiting for the socket. */
		kv_client_process(client);
	}
	kv_client_free(client);
	return 0;
}
