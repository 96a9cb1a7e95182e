/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * kv_storm SOCKET JOB CLIENTS KEYS LIMIT_MS: how long does shift-kvd take for an answer while its
 * clients die? Each client is a process that puts its keys and asks for those of the next one. Half
 * of them are killed at once, then the others. Meanwhile STATUS is asked all the time. Prints the
 * longest answer, and for how long the daemon had a processor meanwhile; exit status 1 if that is
 * above the limit, or the answer took ten times as long: on a machine with other work the clock
 * says more about that.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kv/ask.h"
#include "kv/table.h"

enum { ANSWER_MS_MAX = 300 * 1000, QUIET_MS = 10, KEY_BYTES = 64 };

struct storm {
	const char *path, *job;
	int clients, keys;
	pid_t *pid;
	clockid_t daemon; /* its processor time */
	int64_t worst_ms, worst_work_ms;
	const char *worst_phase;
	int answers;
};

static int64_t clock_ms(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		perror("shift-kvd has ended?");
	return t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000;
}

static int connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(a.sun_path, path, sizeof(a.sun_path) - 1);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)) ? fd : -1;
}

static void add_requests(struct kv_buf *b, const struct storm *s, int number)
{
	char key[KEY_BYTES], value[] = "some hundred bytes are the usual size of what a process "
				       "says about a connection of its own, more or less.";
	struct kv_msg hello = {.type = KV_HELLO,
			       .version = KV_VERSION,
			       .job = kv_str(s->job),
			       .nonce = 1 + number,
			       .pid = getpid()};

	kv_buf_frame(b, &hello);
	for (int i = 0; i < s->keys; i++) {
		snprintf(key, sizeof(key), "storm/%d/%d", number, i);
		kv_buf_frame(b, &(struct kv_msg){.type = KV_PUT,
						 .key = kv_str(key),
						 .value = kv_str(value)});
	}
	for (int i = 0; i < s->keys; i++) {
		snprintf(key, sizeof(key), "storm/%d/%d", (number + 1) % s->clients, i);
		kv_buf_frame(b, &(struct kv_msg){.type = KV_GET, .key = kv_str(key)});
	}
}

/* Reads what comes, until it is killed. */
static void be_client(const struct storm *s, int number)
{
	int fd = connect_to(s->path);
	struct kv_buf out = {0}, in = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	add_requests(&out, s, number);
	while (fd >= 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (kv_buf_bytes(&out))
			p.events |= POLLOUT;
		poll(&p, 1, -1);
		if (kv_buf_flush(&out, fd) || kv_buf_fill(&in, fd))
			break;
		in.start = in.end = 0;
	}
	fprintf(stderr, "client %d lost its connection\n", number);
	_exit(1);
}

/* The number of keys in the answer. */
static long ask_status(struct storm *s, const char *phase)
{
	int64_t from = clock_ms(CLOCK_MONOTONIC), work_from = clock_ms(s->daemon), ms, work_ms;
	char *text, *keys;
	long n = -1;
	int err = kv_ask(s->path, KV_STATUS, ANSWER_MS_MAX, &text, NULL);

	ms = clock_ms(CLOCK_MONOTONIC) - from;
	work_ms = clock_ms(s->daemon) - work_from;
	if (err) {
		fprintf(stderr, "no answer after %lld ms: %s\n", (long long)ms, strerror(-err));
		exit(1);
	}
	s->answers++;
	if (ms > s->worst_ms) {
		s->worst_ms = ms;
		s->worst_phase = phase;
	}
	if (work_ms > s->worst_work_ms)
		s->worst_work_ms = work_ms;
	keys = strstr(text, "\"keys\":");
	if (keys)
		n = strtol(keys + strlen("\"keys\":"), NULL, 10);
	free(text);
	poll(NULL, 0, QUIET_MS);
	return n;
}

/* Whose processor time counts. */
static void find_daemon(struct storm *s)
{
	char *text = NULL, *pid = kv_ask(s->path, KV_STATUS, ANSWER_MS_MAX, &text, NULL)
					  ? NULL
					  : strstr(text, "\"pid\":");

	if (!pid || clock_getcpuclockid(atoi(pid + strlen("\"pid\":")), &s->daemon)) {
		fprintf(stderr, "%s: no shift-kvd\n", s->path);
		exit(2);
	}
	free(text);
}

static void begin_clients(struct storm *s)
{
	for (int i = 0; i < s->clients; i++) {
		s->pid[i] = fork();
		if (!s->pid[i])
			be_client(s, i);
	}
}

static void kill_clients(struct storm *s, int from, int to)
{
	for (int i = from; i < to; i++)
		kill(s->pid[i], SIGKILL);
	for (int i = from; i < to; i++)
		waitpid(s->pid[i], NULL, 0);
}

int main(int argc, char **argv)
{
	struct storm s = {.worst_phase = "none"};
	long limit_ms, all;
	int half;

	if (argc != 6)
		return 2;
	s.path = argv[1];
	s.job = argv[2];
	s.clients = atoi(argv[3]);
	s.keys = atoi(argv[4]);
	limit_ms = atol(argv[5]);
	s.pid = calloc(s.clients, sizeof(*s.pid));
	half = s.clients / 2;
	all = (long)s.clients * s.keys;
	find_daemon(&s);
	begin_clients(&s);
	while (ask_status(&s, "while they put") < all)
		;
	kill_clients(&s, 0, half);
	/* A record of each death stays. */
	while (ask_status(&s, "half of them dying") > all - (long)half * s.keys + half)
		;
	kill_clients(&s, half, s.clients);
	while (ask_status(&s, "all of them dying") > s.clients)
		;
	printf("%d clients with %d keys each: the longest of %d answers took %lld ms (%s), and "
	       "%lld ms "
	       "of work\n",
	       s.clients, s.keys, s.answers, (long long)s.worst_ms, s.worst_phase,
	       (long long)s.worst_work_ms);
	free(s.pid);
	return s.worst_work_ms > limit_ms || s.worst_ms > 10 * limit_ms;
}
