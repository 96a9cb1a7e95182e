// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Completion channels in every way in which programs use them: polled, level, edge, blocking,
 * threads, cancelled, signals, many, switched, solicited, acks, busy, descriptors, extended, child.
 * Each must work as it does without shift. `moved` and `parted` need shift: they sleep while their
 * NIC fails. The program does not know of shift.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cancelled.h"
#include "tests/preload/rc.h"

enum { PATIENCE_MS = 20000, SHORT_MS = 100 };
enum { OURS = 512 }; /* where the library puts its own descriptors */

static struct ibv_comp_channel *channel;

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* --- one CQ with a connection ------------------------------------------------------------------
 */

struct user {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint64_t id; /* of the next WR */
};

static struct ibv_qp *qp_on(struct ibv_cq *on)
{
	struct ibv_cq *was = cq;
	struct ibv_qp *qp;

	cq = on; /* create_qp() takes it from there */
	qp = create_qp(pd, 16);
	cq = was;
	return qp;
}

static void begin(struct user *u)
{
	*u = (struct user){.cq = ibv_create_cq(ctx, 64, u, channel, 0)};
	expect(u->cq != NULL, "create_cq");
	expect(u->cq->channel == channel && u->cq->cq_context == u, "what a CQ says");
	u->qp = qp_on(u->cq);
	connect_to(u->qp, u->qp->qp_num ^ 0x800000); /* somebody elsewhere */
}

static void end(struct user *u)
{
	destroy(u->qp);
	expect(!ibv_destroy_cq(u->cq), "destroy_cq");
}

static void open_channel(void)
{
	channel = ibv_create_comp_channel(ctx);
	expect(channel != NULL, "create_comp_channel");
}

static void close_channel(void)
{
	expect(!ibv_destroy_comp_channel(channel), "destroy_comp_channel");
}

static void arm(struct user *u)
{
	expect(!ibv_req_notify_cq(u->cq, 0), "req_notify_cq");
}

static void write_one(struct user *u)
{
	post(u->qp, IBV_WR_RDMA_WRITE, u->id++);
}

/* Polls all that is there, as a program does that goes to sleep then. */
static int poll_all(struct user *u)
{
	struct ibv_wc wc[4];
	int n, all = 0;

	do {
		n = ibv_poll_cq(u->cq, 4, wc);
		expect(n >= 0, "poll_cq");
		for (int i = 0; i < n; i++)
			expect(wc[i].status == IBV_WC_SUCCESS, "a success");
		all += n;
	} while (n == 4);
	return all;
}

static struct user *event(void)
{
	struct ibv_cq *of = NULL;
	void *context = NULL;

	expect(!ibv_get_cq_event(channel, &of, &context), "get_cq_event");
	expect(of && of->cq_context == context && ((struct user *)context)->cq == of,
	       "whose event");
	return context;
}

static void acked_event(const struct user *u)
{
	expect(event() == u, "an event of this CQ");
	ibv_ack_cq_events(u->cq, 1);
}

static void no_event(void)
{
	struct ibv_cq *of;
	void *context;

	errno = 0;
	expect(ibv_get_cq_event(channel, &of, &context) == -1 && errno == EAGAIN, "no event");
}

static void set_blocking(bool blocks)
{
	int flags = fcntl(channel->fd, F_GETFL);

	expect(flags >= 0, "F_GETFL");
	flags = blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
	expect(!fcntl(channel->fd, F_SETFL, flags), "F_SETFL");
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, ms);

	expect(n >= 0 && !(p.revents & ~POLLIN), "poll");
	return n;
}

/* --- how programs wait -------------------------------------------------------------------------
 */

static bool selected(void)
{
	struct timeval now = {0, 0};
	fd_set set;

	expect(channel->fd < FD_SETSIZE, "a number for select");
	FD_ZERO(&set);
	FD_SET(channel->fd, &set);
	return select(channel->fd + 1, &set, NULL, NULL, &now) == 1;
}

static void polled(void)
{
	struct user u;

	open_channel();
	begin(&u);
	for (int i = 0; i < 3; i++) {
		arm(&u);
		expect(!readable(channel->fd, 0) && !selected(), "nothing is there");
		write_one(&u);
		expect(readable(channel->fd, PATIENCE_MS) && selected(), "an event is there");
		expect(readable(channel->fd, 0), "it stays");
		acked_event(&u);
		expect(!readable(channel->fd, 0) && !selected(), "nothing is there any more");
		expect(poll_all(&u) == 1, "a completion");
		write_one(&u); /* not armed */
		expect(!readable(channel->fd, 0), "no event");
		expect(poll_all(&u) == 1, "a completion");
	}
	end(&u);
	close_channel();
}

static int watch(uint32_t how)
{
	struct epoll_event ev = {.events = EPOLLIN | how};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	expect(fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, channel->fd, &ev), "epoll_ctl");
	return fd;
}

static bool wakes(int epoll_fd, int ms)
{
	struct epoll_event ev;
	int n = epoll_wait(epoll_fd, &ev, 1, ms);

	expect(n >= 0, "epoll_wait");
	return n;
}

static void level(void)
{
	struct user u;
	int fd;

	open_channel();
	begin(&u);
	fd = watch(0);
	for (int i = 0; i < 3; i++) {
		arm(&u);
		write_one(&u);
		expect(wakes(fd, PATIENCE_MS) && wakes(fd, 0), "an event, again and again");
		acked_event(&u);
		expect(!wakes(fd, 0), "no event");
	}
	close(fd);
	end(&u);
	close_channel();
}

static void edge(void)
{
	struct user u;
	int fd;

	open_channel();
	begin(&u);
	set_blocking(false);
	fd = watch(EPOLLET);
	for (int i = 0; i < 3; i++) {
		arm(&u);
		write_one(&u);
		expect(wakes(fd, PATIENCE_MS), "an edge");
		expect(!wakes(fd, 0), "no second one");
		arm(&u);
		write_one(&u);
		expect(wakes(fd, PATIENCE_MS), "an edge while an event waits");
		acked_event(&u);
		acked_event(&u);
		no_event();
		expect(!wakes(fd, 0), "no edge");
	}
	close(fd);
	end(&u);
	close_channel();
}

static void blocking(void)
{
	struct user u;

	open_channel();
	begin(&u);
	set_blocking(false);
	no_event();
	arm(&u);
	write_one(&u);
	acked_event(&u);
	no_event();
	set_blocking(true);
	arm(&u);
	write_one(&u);
	acked_event(&u);
	set_blocking(false);
	no_event();
	end(&u);
	close_channel();
}

/* --- threads -----------------------------------------------------------------------------------
 */

static _Atomic int waiting, got;

static void *waiter(void *arg)
{
	pthread_cleanup_push(cancelled_frames_are_gone, NULL);
	waiting++;
	acked_event(arg);
	got++;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *waiter_for_good(void *arg)
{
	struct ibv_cq *of;
	void *context;

	waiting++;
	expect(ibv_get_cq_event(channel, &of, &context) == -1, arg);
	got++;
	return NULL;
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	int before = waiting;
	pthread_t thread;

	expect(!pthread_create(&thread, NULL, fn, arg), "pthread_create");
	while (waiting == before)
		pause_ms(1);
	pause_ms(SHORT_MS); /* it sleeps by now */
	return thread;
}

static void threads(void)
{
	struct user u;
	pthread_t thread[2];

	open_channel();
	begin(&u);
	for (int i = 0; i < 2; i++)
		thread[i] = start(waiter, &u);
	expect(!got, "they sleep");
	for (int i = 0; i < 2; i++) {
		arm(&u);
		write_one(&u);
		while (got == i)
			pause_ms(1);
		pause_ms(SHORT_MS);
		expect(got == i + 1, "one is woken by each event");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	end(&u);
	close_channel();
}

/* It leaves no lock behind. */
static void cancelled(void)
{
	struct user u;
	pthread_t thread;
	void *result;

	open_channel();
	begin(&u);
	thread = start(waiter, &u);
	expect(!pthread_cancel(thread) && !pthread_join(thread, &result), "cancel");
	expect(result == PTHREAD_CANCELED && !got, "it was cancelled");
	arm(&u);
	write_one(&u);
	acked_event(&u);
	end(&u);
	close_channel();
}

static _Atomic int handled;

static void handler(int number)
{
	handled += number > 0;
}

static void interrupt(pthread_t thread)
{
	int before = handled;

	expect(!pthread_kill(thread, SIGUSR1), "pthread_kill");
	while (handled == before)
		pause_ms(1);
	pause_ms(SHORT_MS);
}

static void signals(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct user u;
	pthread_t thread;

	open_channel();
	begin(&u);
	sigaction(SIGUSR1, &act, NULL);
	thread = start(waiter, &u);
	interrupt(thread);
	expect(!got, "it goes on waiting");
	arm(&u);
	write_one(&u);
	pthread_join(thread, NULL);
	act.sa_flags = 0;
	sigaction(SIGUSR1, &act, NULL);
	thread = start(waiter_for_good, "EINTR");
	interrupt(thread);
	pthread_join(thread, NULL);
	end(&u);
	close_channel();
}

/* --- many CQs ----------------------------------------------------------------------------------
 */

enum { USERS = 20 };

static void many(void)
{
	struct user u[USERS];
	bool seen[USERS] = {false};

	open_channel();
	for (int i = 0; i < USERS; i++)
		begin(&u[i]);
	expect(ibv_destroy_comp_channel(channel) == EBUSY, "EBUSY while CQs are left");
	for (int i = USERS - 1; i >= 0; i--) {
		arm(&u[i]);
		write_one(&u[i]);
	}
	for (int i = 0; i < USERS; i++) {
		struct user *of = event();

		ibv_ack_cq_events(of->cq, 1);
		expect(!seen[of - u], "an event of each");
		seen[of - u] = true;
	}
	set_blocking(false);
	no_event();
	/* What was not read of a CQ goes with it. */
	for (int i = 0; i < USERS; i++) {
		arm(&u[i]);
		write_one(&u[i]);
	}
	for (int i = 1; i < USERS; i += 2)
		end(&u[i]);
	for (int i = 0; i < USERS; i += 2)
		acked_event(&u[i]);
	no_event();
	expect(!readable(channel->fd, 0), "nothing is there");
	expect(ibv_destroy_comp_channel(channel) == EBUSY, "EBUSY while CQs are left");
	for (int i = 0; i < USERS; i += 2)
		end(&u[i]);
	close_channel();
}

/* --- solicited events --------------------------------------------------------------------------
 */

static void send_to(struct user *from, struct user *to, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED | flags};

	expect(!ibv_post_recv(to->qp, &recv, &bad_recv), "post_recv");
	expect(!ibv_post_send(from->qp, &wr, &bad), "post_send");
}

static void solicited(void)
{
	struct user a, b;

	open_channel();
	begin(&a);
	begin(&b);
	for (int i = 0; i < 2; i++)
		modify(i ? a.qp : b.qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	connect_to(a.qp, b.qp->qp_num);
	connect_to(b.qp, a.qp->qp_num);
	expect(!ibv_req_notify_cq(b.cq, 1), "req_notify_cq");
	send_to(&a, &b, 0);
	expect(!readable(channel->fd, 0), "no event without being solicited");
	send_to(&a, &b, IBV_SEND_SOLICITED);
	expect(readable(channel->fd, PATIENCE_MS), "an event that is solicited");
	acked_event(&b);
	expect(poll_all(&b) == 2 && poll_all(&a) == 2, "completions");
	end(&a);
	end(&b);
	close_channel();
}

/* --- acknowledgements --------------------------------------------------------------------------
 */

static void *destroyer(void *arg)
{
	waiting++;
	expect(!ibv_destroy_cq(arg), "destroy_cq");
	got++;
	return NULL;
}

static void events_of(struct user *u, int n)
{
	for (int i = 0; i < n; i++) {
		arm(u);
		write_one(u);
		expect(event() == u, "an event of this CQ");
	}
	expect(poll_all(u) == n, "completions");
}

/* Late and in bulk; the CQ's end waits for them. */
static void acks(void)
{
	struct user u;
	pthread_t thread;

	open_channel();
	begin(&u);
	events_of(&u, 3);
	ibv_ack_cq_events(u.cq, 1);
	events_of(&u, 3);
	expect(ibv_destroy_cq(u.cq) == EBUSY, "EBUSY while QPs are left"); /* and not to wait */
	ibv_ack_cq_events(u.cq, 3);
	destroy(u.qp);
	thread = start(destroyer, u.cq);
	expect(!got, "it waits");
	ibv_ack_cq_events(u.cq, 1);
	pause_ms(SHORT_MS);
	expect(!got, "it still waits");
	ibv_ack_cq_events(u.cq, 1);
	pthread_join(thread, NULL);
	close_channel();
}

/* As fio does: as many as completions were polled, and the CQ goes before its QP, which fails. */
static void busy(void)
{
	struct user u;

	open_channel();
	begin(&u);
	for (int i = 0; i < 5; i++) {
		arm(&u);
		write_one(&u);
		write_one(&u);
		expect(event() == &u, "an event of this CQ");
		ibv_ack_cq_events(u.cq, (unsigned int)poll_all(&u));
	}
	expect(ibv_destroy_cq(u.cq) == EBUSY, "EBUSY while QPs are left");
	events_of(&u, 5); /* now it is even */
	end(&u);
	close_channel();
}

/* Without shift this would never end. */
static void too_many(void)
{
	struct user u;

	open_channel();
	begin(&u);
	events_of(&u, 2);
	ibv_ack_cq_events(u.cq, 10);
	end(&u);
	close_channel();
}

/* --- descriptors -------------------------------------------------------------------------------
 */

static int count_fds(int end)
{
	int n = 0;

	for (int fd = 0; fd < end; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* Other threads may have one open for a moment: the library's, for its log. */
static void open_lowest(void)
{
	for (int i = 0; i < 200; i++, pause_ms(5)) {
		int lowest = lowest_fd();

		open_channel();
		if (channel->fd == lowest)
			return;
		close_channel();
	}
	expect(false, "the lowest number");
}

/* Is one of the low numbers taken, and no other one? */
static bool use_once(void)
{
	int before = count_fds(OURS);
	bool is_one = false;
	struct user u;

	open_lowest();
	expect(fcntl(channel->fd, F_GETFD) == FD_CLOEXEC, "FD_CLOEXEC");
	expect(!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK), "it blocks");
	begin(&u);
	/* One may be made at this moment, and is moved away. */
	for (int i = 0; i < 20 && !is_one; i++, pause_ms(5))
		is_one = count_fds(OURS) == before + 1;
	arm(&u);
	write_one(&u);
	acked_event(&u);
	pause_ms(20); /* shadows, if there are any */
	end(&u);
	close_channel();
	return is_one;
}

static bool use_twenty_times(void)
{
	int before = count_fds(4096);
	bool ok = true;

	for (int i = 0; i < 20; i++)
		ok &= use_once();
	for (int i = 0; i < 100 && count_fds(4096) > before; i++)
		pause_ms(SHORT_MS / 10);
	return ok && count_fds(4096) == before;
}

/* The library opens its devices at any time, which takes numbers once. A leak takes some each time.
 */
static void descriptors(void)
{
	bool ok = false;

	for (int i = 0; i < 10 && !ok; i++)
		ok = use_twenty_times();
	expect(ok, "no descriptor is left, and no low number is taken but the program's");
}

/* --- odd ones ----------------------------------------------------------------------------------
 */

static void extended(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64};
	struct user u;

	open_channel();
	attr.channel = channel;
	attr.cq_context = &u;
	u = (struct user){.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr))};
	expect(u.cq != NULL, "create_cq_ex");
	expect(attr.channel == channel, "what the program has passed");
	expect(ibv_destroy_comp_channel(channel) == EBUSY, "EBUSY while CQs are left");
	u.qp = qp_on(u.cq);
	connect_to(u.qp, u.qp->qp_num ^ 0x800000);
	arm(&u);
	write_one(&u);
	acked_event(&u);
	expect(poll_all(&u) == 1, "a completion");
	end(&u);
	close_channel();
}

static void in_child(struct user *u)
{
	struct user own;

	arm(u);
	write_one(u);
	acked_event(u);
	begin(&own);
	arm(&own);
	write_one(&own);
	acked_event(&own);
	end(&own);
	end(u);
	close_channel();
	open_channel();
	close_channel();
	_exit(0);
}

static void child(void)
{
	struct user u;
	int status;
	pid_t pid;

	open_channel();
	begin(&u);
	fflush(stdout);
	pid = fork();
	if (!pid)
		in_child(&u);
	expect(waitpid(pid, &status, 0) == pid && !status, "the child");
	arm(&u);
	write_one(&u);
	acked_event(&u);
	end(&u);
	close_channel();
}

/* --- while the NIC fails -----------------------------------------------------------------------
 */

static void break_qp(struct ibv_qp *qp)
{
	void (*null_break_qp)(struct ibv_qp *);

	*(void **)&null_break_qp = dlsym(RTLD_DEFAULT, "null_break_qp");
	expect(null_break_qp != NULL, "null_break_qp");
	null_break_qp(qp);
}

static void begin_self(struct user *u)
{
	begin(u);
	modify(u->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	connect_to(u->qp, u->qp->qp_num);
}

/* As programs do: arm, poll what is there, sleep. */
static int sleep_and_poll(struct user *u)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	expect(poll(&p, 1, PATIENCE_MS) == 1, "no wake-up is lost");
	acked_event(u);
	arm(u);
	return poll_all(u);
}

enum { ROUNDS = 200, DEPTH = 8 };

/* READs through a QP that is connected with itself, which breaks now and then. */
static void moved(void)
{
	struct user u;

	open_channel();
	begin_self(&u);
	pause_ms(500); /* twins */
	arm(&u);
	for (int i = 0; i < ROUNDS; i++) {
		int left = DEPTH;

		if (i % 4 == 1)
			break_qp(u.qp);
		for (int k = 0; k < DEPTH; k++)
			post(u.qp, IBV_WR_RDMA_READ, u.id++);
		if (i % 8 == 3)
			break_qp(u.qp);
		while (left > 0)
			left -= sleep_and_poll(&u);
		expect(!left, "each completion once");
	}
	end(&u);
	close_channel();
}

static _Atomic bool over;
static _Atomic int seen;

static void *busy_poller(void *arg)
{
	struct user *u = arg;

	while (!over) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(u->cq, 1, &wc);

		expect(n >= 0 && (!n || wc.status == IBV_WC_SUCCESS), "a success");
		seen += n;
		if (!n)
			pause_ms(1);
	}
	return NULL;
}

/* One thread sleeps, another one polls; whoever finds it, the sleeper hears of each round. */
static void parted(void)
{
	struct user u;
	pthread_t thread;
	int posted = 0;

	open_channel();
	begin_self(&u);
	pause_ms(500);
	expect(!pthread_create(&thread, NULL, busy_poller, &u), "pthread_create");
	for (int i = 0; i < ROUNDS; i++) {
		arm(&u);
		if (i % 4 == 1)
			break_qp(u.qp);
		for (int k = 0; k < DEPTH; k++, posted++)
			post(u.qp, IBV_WR_RDMA_READ, u.id++);
		expect(readable(channel->fd, PATIENCE_MS), "no wake-up is lost");
		while (seen < posted)
			pause_ms(1);
		set_blocking(false);
		for (struct ibv_cq *of; readable(channel->fd, 0);) {
			void *context;

			expect(!ibv_get_cq_event(channel, &of, &context), "get_cq_event");
			ibv_ack_cq_events(of, 1);
		}
	}
	over = true;
	pthread_join(thread, NULL);
	expect(seen == posted, "each completion once");
	end(&u);
	close_channel();
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"polled", polled},
					  {"level", level},
					  {"edge", edge},
					  {"blocking", blocking},
					  {"threads", threads},
					  {"cancelled", cancelled},
					  {"signals", signals},
					  {"many", many},
					  {"solicited", solicited},
					  {"acks", acks},
					  {"busy", busy},
					  {"too-many", too_many},
					  {"descriptors", descriptors},
					  {"extended", extended},
					  {"child", child},
					  {"moved", moved},
					  {"parted", parted}};

	alarm(60);
	return rc_main(argc, argv, uses, sizeof(uses) / sizeof(uses[0]));
}
