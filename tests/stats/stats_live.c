/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * stats_live JOB [REPORT_DIR]: makes what a program under libshift.so makes in its run directory,
 * without NICs: a live statistics file, a control socket, and a client of shift-kvd if there is
 * one. Commands by lines on standard input, each answered with "done"; end of file is a clean exit.
 *
 *   add QPN | failover QPN | failback QPN | migrate QPN | giveup QPN | remove QPN |
 *   fence QPN (a switch that does not end) |
 *   unprotect QPN REASON | bypass NIC REASON (numbers) | hello (to shift-kvd, waits) | crash
 *   work QPN N: so many more sends and receives are done |
 *   srq ROOM | srq_at SLOT ROOM POSTED WAITING (RECEIVES HELD GHOSTS LIVE STUCK)... (of each NIC) |
 *   srq_remove SLOT |
 *   qp NIC QPN REASON (not protected) | state NIC QPN STATE PEER_QPN | gone NIC QPN |
 *   wcerr NIC QPN STATUS VENDOR_ERR FATE | async NIC QPN EVENT PORT FATE (numbers)
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "kv/client.h"
#include "lib/stats/stats.h"
#include "lib/base/background.h"
#include "lib/base/control_socket.h"
#include "tests/unit/fake_bg.h"

enum { CONNS = 64 };

static struct conn {
	uint32_t qpn;
	int slot;
	struct shift_conn_view view;
	struct shift_conn_stats stats;
} conns[CONNS];

static const char *job;
static uint64_t nonce;
static struct kv_client *kv;
static bool over;

static struct conn *find_conn(uint32_t qpn)
{
	for (int i = 0; i < CONNS; i++)
		if (conns[i].qpn == qpn)
			return conns + i;
	fprintf(stderr, "no connection %u\n", qpn);
	exit(2);
}

static void change(struct conn *c, enum shift_state to, enum shift_reason reason)
{
	struct shift_action a = {.from = (uint8_t)c->view.state,
				 .to = (uint8_t)to,
				 .reason = (uint8_t)reason,
				 .rail = c->view.r,
				 .epoch = c->view.e};

	c->view.state = to;
	c->view.reason = reason;
	stats_conn_change(c->slot, &a, &c->view, &c->stats, now_ns());
}

static void add(uint32_t qpn)
{
	static const char *const nics[] = {"mlx5_0", "mlx5_1"};
	static const uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 0, 1, 2};
	struct stats_peer peer = {.peer_gid = gid, .gid = gid, .peer_qpn = qpn + 1};
	struct conn *c = find_conn(0);

	*c = (struct conn){.qpn = qpn, .slot = stats_conn_add("mlx5_0", qpn, now_ns())};
	stats_qp_created("mlx5_0", qpn, c->slot, STATS_UNPROTECTED_NONE, now_ns());
	stats_conn_rails(c->slot, 2, nics);
	stats_conn_peer(c->slot, &peer);
	stats_conn_psn(c->slot, 0, STATS_PSN_LIVE);
	stats_conn_protect(c->slot, true, STATS_UNPROTECTED_NONE);
	stats_conn_setup(c->slot, 12345678);
	change(c, SHIFT_ST_ACTIVE, SHIFT_R_HELLO);
}

static void move(struct conn *c, enum shift_reason reason, uint8_t rail)
{
	stats_conn_fault(c->slot, now_ns() - 1000000, now_ns());
	change(c, SHIFT_ST_FENCE, reason);
	usleep(2000);
	change(c, SHIFT_ST_ARM, SHIFT_R_FENCED);
	c->view.r = rail;
	c->view.e++;
	change(c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED);
	usleep(3000);
	c->stats.switches++;
	c->stats.proved += 3;
	c->stats.replayed += 4;
	change(c, SHIFT_ST_ACTIVE, SHIFT_R_COMMIT);
	stats_conn_reposted(c->slot, now_ns());
}

static void work(struct conn *c, unsigned int n)
{
	c->view.send_head += n;
	c->view.send_tail += n;
	c->view.recv_posted += n;
	c->view.recv_cum += n;
	stats_conn_update(c->slot, &c->view, &c->stats, now_ns());
}

static void give_up(struct conn *c)
{
	change(c, SHIFT_ST_NO_RAIL, SHIFT_R_NO_RAIL);
	change(c, SHIFT_ST_GIVEUP, SHIFT_R_GIVEUP_TIME);
	change(c, SHIFT_ST_DEAD, SHIFT_R_FENCED);
	stats_conn_protect(c->slot, false, STATS_UNPROTECTED_OVER);
}

static void hello(void)
{
	static const struct kv_callbacks none;
	char path[256];

	if (kv_socket_path(path, sizeof(path), job))
		exit(2);
	kv = kv_client_new(path, job, nonce, &none);
	while (!kv_client_is_connected(kv)) {
		struct pollfd p = {.fd = kv_client_fd(kv), .events = kv_client_poll_events(kv)};

		poll(&p, 1, 20);
		kv_client_process(kv);
	}
}

static int on_migrate(const char *nic, char *answer, size_t bytes)
{
	int n = 0;

	for (struct conn *c = conns; c < conns + CONNS; c++) {
		if (!c->qpn || strcmp(nic, c->view.r ? "mlx5_1" : "mlx5_0"))
			continue;
		move(c, SHIFT_R_OPERATOR, !c->view.r);
		n++;
	}
	snprintf(answer, bytes, "%d connections leave %s", n, nic);
	return n ? 0 : -1;
}

static int on_failback(const char *nic, char *answer, size_t bytes)
{
	int n = 0;

	for (struct conn *c = conns; c < conns + CONNS; c++) {
		if (!c->qpn || !c->view.r || (nic && strcmp(nic, "mlx5_0")))
			continue;
		move(c, SHIFT_R_FAIL_BACK, 0);
		n++;
	}
	snprintf(answer, bytes, "%d connections move", n);
	return 0;
}

static const struct control_calls calls = {.migrate = on_migrate, .failback = on_failback};

static const char *const srq_nics[] = {"mlx5_0", "mlx5_1"};

/* Numbers in the order of the struct's; *text is behind them then. 0 where there are no more. */
static uint32_t next_number(char **text)
{
	return (uint32_t)strtoul(*text, text, 0);
}

static void tell_srq(char *numbers)
{
	int slot = (int)next_number(&numbers);
	struct stats_srq_state s = {.room = next_number(&numbers)};

	s.posted = next_number(&numbers);
	s.waiting = next_number(&numbers);
	for (int i = 0; i < 2; i++) {
		s.nic[i].receives = next_number(&numbers);
		s.nic[i].held = next_number(&numbers);
		s.nic[i].ghosts = next_number(&numbers);
		s.nic[i].live = next_number(&numbers);
		s.nic[i].stuck = next_number(&numbers);
	}
	s.counters.drained = s.waiting;
	stats_srq_update(slot, &s);
}

/* False: it is no command for SRQs. */
static bool obey_srq(const char *command, char *numbers)
{
	if (!strcmp(command, "srq"))
		stats_srq_add(2, srq_nics, next_number(&numbers));
	else if (!strcmp(command, "srq_at"))
		tell_srq(numbers);
	else if (!strcmp(command, "srq_remove"))
		stats_srq_remove((int)next_number(&numbers));
	else
		return false;
	return true;
}

static void tell_error(const char *nic, uint32_t qpn, char *numbers)
{
	struct stats_error e = {.nic = nic, .qpn = qpn, .opcode = STATS_OPCODE_UNKNOWN};

	e.status = next_number(&numbers);
	e.is_flush = e.status == 5;
	e.vendor_err = next_number(&numbers);
	e.fate = next_number(&numbers);
	e.queue = STATS_QUEUE_SEND;
	stats_wc_error(&e, now_ns());
}

static void tell_async(const char *nic, uint32_t qpn, char *numbers)
{
	struct stats_async e = {.nic = nic, .qpn = qpn};

	e.event = next_number(&numbers);
	e.port = (uint8_t)next_number(&numbers);
	e.fate = next_number(&numbers);
	stats_async_event(&e, now_ns());
}

static void tell_state(const char *nic, uint32_t qpn, char *numbers)
{
	static const uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 0, 1, 2};
	uint8_t state = (uint8_t)next_number(&numbers);
	struct stats_peer peer = {.peer_gid = gid, .peer_qpn = next_number(&numbers)};

	stats_qp_state(nic, qpn, state, peer.peer_qpn ? &peer : NULL, now_ns());
}

/* False: it is no command for notes of queue pairs. */
static bool obey_note(const char *command, char *rest)
{
	char nic[32] = "";
	uint32_t qpn;
	int n = 0;

	if (sscanf(rest, "%31s %u%n", nic, &qpn, &n) < 2)
		return false;
	rest += n;
	if (!strcmp(command, "qp"))
		stats_qp_created(nic, qpn, -1, next_number(&rest), now_ns());
	else if (!strcmp(command, "state"))
		tell_state(nic, qpn, rest);
	else if (!strcmp(command, "gone"))
		stats_qp_destroyed(nic, qpn, stats_qp_number(nic, qpn), now_ns());
	else if (!strcmp(command, "wcerr"))
		tell_error(nic, qpn, rest);
	else if (!strcmp(command, "async"))
		tell_async(nic, qpn, rest);
	else
		return false;
	return true;
}

static void obey_conn(const char *command, struct conn *c, unsigned int reason)
{
	if (!strcmp(command, "failover"))
		move(c, SHIFT_R_LINK_DOWN, 1);
	else if (!strcmp(command, "failback"))
		move(c, SHIFT_R_FAIL_BACK, 0);
	else if (!strcmp(command, "migrate"))
		move(c, SHIFT_R_OPERATOR, 1);
	else if (!strcmp(command, "fence"))
		change(c, SHIFT_ST_FENCE, SHIFT_R_LINK_DOWN);
	else if (!strcmp(command, "giveup"))
		give_up(c);
	else if (!strcmp(command, "work"))
		work(c, reason);
	else if (!strcmp(command, "unprotect"))
		stats_conn_protect(c->slot, false, reason);
	else if (!strcmp(command, "remove"))
		stats_conn_remove(c->slot, now_ns());
	else
		printf("not understood: %s\n", command);
}

static void obey(char *line)
{
	char command[32] = "", word[32] = "";
	unsigned int reason = 0;

	if (sscanf(line, "%31s %31s %u", command, word, &reason) < 1)
		return;
	if (!strcmp(command, "crash"))
		raise(SIGKILL);
	else if (!strcmp(command, "hello"))
		hello();
	else if (!strcmp(command, "bypass"))
		stats_bypass(word, reason);
	else if (obey_srq(command, line + strlen(command)) ||
		 obey_note(command, line + strlen(command)))
		;
	else if (!strcmp(command, "add"))
		add((uint32_t)strtoul(word, NULL, 0));
	else
		obey_conn(command, find_conn((uint32_t)strtoul(word, NULL, 0)), reason);
	puts("done");
}

static void on_input(void *arg, uint32_t events)
{
	static char text[4096];
	static size_t have;
	ssize_t n = read(0, text + have, sizeof(text) - have);
	char *end;

	(void)arg;
	(void)events;
	if (n <= 0)
		over = true;
	have += n > 0 ? (size_t)n : 0;
	while ((end = memchr(text, '\n', have))) {
		*end++ = 0;
		obey(text);
		have -= (size_t)(end - text);
		memmove(text, end, have);
	}
}

int main(int argc, char **argv)
{
	char line[512];
	int err;

	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	job = argv[1];
	nonce = (uint64_t)getpid() << 32 | (uint32_t)now_ns() | 1;
	err = stats_open(job, nonce, argc > 2 ? argv[2] : "");
	if (!err)
		err = control_open(stats_path(), &calls);
	if (err) {
		fprintf(stderr, "stats_live: %s\n", strerror(-err));
		return 1;
	}
	bg_watch(0, EPOLLIN, on_input, NULL);
	printf("ready %d\n", getpid());
	while (!over)
		fake_bg_turn(-1);
	control_close();
	if (stats_close(line, sizeof(line)))
		printf("shift[%d]: %s\n", getpid(), line);
	kv_client_free(kv);
	return 0;
}
