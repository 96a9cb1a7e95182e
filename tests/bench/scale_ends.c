/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What many connections of one process cost: memory, set-up, operations of the rendezvous, and
 * processor time while nothing happens. Two processes ("ends") are connected with each other on the
 * null provider, as two hosts of a NULLVERBS_NET. tests/bench/scale starts this program under
 * shift-run. It measures the ends without the library, too, to tell what is the library's own.
 *
 * Exit status: 0, 1 something failed, 2 bad usage.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "lib/base/run_dir.h"
#include "lib/stats/read.h"
#include "tests/bench/ends.h"

enum {
	EXIT_USAGE = 2,
	CONNECTIONS_MAX = 1000, /* with twins and probes, what the null provider has numbers for */
	DEPTH_MAX = 8192,
	SETTLE_MS = 2000,
	ENDS = 2,
};

static const char help[] =
	"usage: scale [options]\n"
	"What connections between two processes on the null provider cost. To be run by "
	"tests/bench/scale.\n"
	"\n"
	"  --connections N  1 to 1000 (1000)\n"
	"  --send-wr N      capacity of their send queues (128)\n"
	"  --recv-wr N      of their receive queues (128)\n"
	"  --inline N       bytes of inline data (0)\n"
	"  --window N       sends outstanding at a time when they are used (16)\n"
	"  --idle SECONDS   how long nothing happens (20)\n"
	"  --wait SECONDS   for all to be protected (120)\n"
	"  --json           as one JSON object\n"
	"  --help           this text\n";

static const struct option options[] = {
	{"connections", required_argument, NULL, 'c'},
	{"send-wr", required_argument, NULL, 's'},
	{"recv-wr", required_argument, NULL, 'r'},
	{"inline", required_argument, NULL, 'i'},
	{"window", required_argument, NULL, 'w'},
	{"idle", required_argument, NULL, 'I'},
	{"wait", required_argument, NULL, 'W'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{"end", required_argument, NULL, 'e'}, /* our own: the program is an end */
	{NULL, 0, NULL, 0},
};

static long connections = 1000, send_wr = 128, recv_wr = 128, inline_bytes, window = 16;
static long idle_s = 20, wait_s = 120;
static bool json;

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- an end --------------------------------------------------------------------------------- */

/* What the parent asks an end for, and what it gets each time. */
enum order { CONNECT, USE, LOOK };

struct request {
	enum order order;
	long count;
};

struct sample {
	uint64_t resident, registered; /* bytes */
	uint64_t cpu_us, operations;
	uint64_t calls_us; /* of the program's verbs, for this order */
};

static uint64_t operations;

/* In front of libc's: libshift's client of the rendezvous sends by it. A frame is a length of 4
 * bytes, and its bytes (kv/proto.h). */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *data, size_t bytes,
						    int flags)
{
	static ssize_t (*next)(int, const void *, size_t, int);
	int domain = AF_UNSPEC;
	uint32_t frame;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "send");
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof(domain)});
	for (size_t at = 0; domain == AF_UNIX && at + 4 <= bytes; at += 4 + frame) {
		memcpy(&frame, (const char *)data + at, 4);
		__atomic_fetch_add(&operations, 1, __ATOMIC_RELAXED);
	}
	return next(fd, data, bytes, flags);
}

struct end {
	int parent, other;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[CONNECTIONS_MAX + 1];
	long count;
};

static char buffer[4096];

static void end_open(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	e->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	must(e->ctx, "open_device");
	e->pd = ibv_alloc_pd(e->ctx);
	must(e->pd, "alloc_pd");
	/* It has to hold all that is outstanding of all, or its size would be the connections'. */
	e->cq = ibv_create_cq(e->ctx, 1 << 20, NULL, NULL, 0);
	must(e->cq, "create_cq");
	e->mr = ibv_reg_mr(e->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	must(e->mr, "reg_mr");
	ibv_free_device_list(list);
}

static struct ibv_qp *create(const struct end *e, long sends)
{
	struct ibv_qp_init_attr attr = {.send_cq = e->cq,
					.recv_cq = e->cq,
					.cap = {.max_send_wr = (uint32_t)sends,
						.max_recv_wr = (uint32_t)recv_wr,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = (uint32_t)inline_bytes},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &attr);

	must(qp, "create_qp");
	return qp;
}

struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

/* Returns the time that the program spends in verbs. */
static uint64_t end_connect(struct end *e, long count)
{
	uint64_t us = 0, begin;
	struct address mine, to;

	must(!ibv_query_gid(e->ctx, 1, 1, &mine.gid), "query_gid");
	for (long i = 0; i < count; i++, e->count++) {
		begin = now_us();
		e->qp[e->count] = create(e, send_wr);
		us += now_us() - begin;
		if (!getenv("LD_PRELOAD"))
			create(e, send_wr + 1); /* as the library's, which needs a place more */
		mine.qpn = e->qp[e->count]->qp_num;
		must(write(e->other, &mine, sizeof(mine)) == sizeof(mine), "write");
		must(read(e->other, &to, sizeof(to)) == sizeof(to), "read");
		begin = now_us();
		connect_qp(e->qp[e->count], &to.gid, to.qpn);
		us += now_us() - begin;
	}
	return us;
}

static void post_sends(const struct end *e, struct ibv_qp *qp, long count)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, e->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.rkey = e->mr->rkey;
	for (long i = 0; i < count; i++)
		must(!ibv_post_send(qp, &wr, &bad), "post_send");
}

static void poll_all(const struct end *e, long count)
{
	struct ibv_wc wc;

	while (count > 0) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		must(n >= 0 && (!n || wc.status == IBV_WC_SUCCESS), "poll_cq");
		count -= n;
	}
}

/* Posts all receives that there is room for, and more sends than any ring has slots. */
static void end_use(const struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, e->mr->lkey};
	struct ibv_recv_wr *bad, recv = {.sg_list = &sge, .num_sge = 1};

	for (long i = 0; i < e->count; i++) {
		for (long j = 0; j < recv_wr; j++)
			must(!ibv_post_recv(e->qp[i], &recv, &bad), "post_recv");
		for (long j = 0; j < 4 * send_wr; j += window) {
			post_sends(e, e->qp[i], window);
			poll_all(e, window);
		}
	}
}

static uint64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kb = 0;
	char line[256];

	must(f, "/proc/self/smaps_rollup");
	while (!kb && fgets(line, sizeof(line), f))
		sscanf(line, "Rss: %lu", &kb);
	fclose(f);
	return 1024ull * kb;
}

static uint64_t registered_bytes(void)
{
	uint64_t (*fn)(void);

	*(void **)&fn = dlsym(RTLD_DEFAULT, "null_registered");
	return fn ? fn() : 0;
}

static uint64_t micros(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

static struct sample end_look(uint64_t calls_us)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (struct sample){.resident = resident_bytes(),
			       .registered = registered_bytes(),
			       .cpu_us = micros(use.ru_utime) + micros(use.ru_stime),
			       .operations = operations,
			       .calls_us = calls_us};
}

static int end_main(const char *fds)
{
	struct end *e = check_alloc(calloc(1, sizeof(*e)));
	struct request r;
	struct sample s;

	must(sscanf(fds, "%d,%d", &e->parent, &e->other) == 2, "--end");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Else malloc() learns to take the provider's CQs from the heap, and clears them. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	end_open(e);
	while (read(e->parent, &r, sizeof(r)) == sizeof(r)) {
		uint64_t us = r.order == CONNECT ? end_connect(e, r.count) : 0;

		if (r.order == USE)
			end_use(e);
		s = end_look(us);
		must(write(e->parent, &s, sizeof(s)) == sizeof(s), "write");
	}
	_exit(0); /* what destroying 1,000 QPs takes is not asked for */
}

/* ---- the parent ------------------------------------------------------------------------------ */

struct child {
	pid_t pid;
	int fd;
};

static char number[5][16];

static void child_exec(int parent, int other, int host, bool preload)
{
	char fds[32], name[8];

	snprintf(fds, sizeof(fds), "%d,%d", parent, other);
	snprintf(name, sizeof(name), "%d", host);
	setenv("NULLVERBS_HOST", name, 1);
	if (!preload)
		unsetenv("LD_PRELOAD");
	execl("/proc/self/exe", "scale", "--end", fds, "--send-wr", number[0], "--recv-wr",
	      number[1], "--inline", number[2], "--window", number[3], (char *)NULL);
	die(EXIT_FAILURE, "exec: %s", strerror(errno));
}

static void children_start(struct child *c, bool preload)
{
	int other[2], pair[2];
	char net[32];

	snprintf(net, sizeof(net), "%d-%d", getpid(), preload);
	setenv("NULLVERBS_NET", net, 1);
	must(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, other), "socketpair");
	for (int i = 0; i < ENDS; i++) {
		must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");
		c[i].fd = pair[0];
		c[i].pid = fork();
		must(c[i].pid >= 0, "fork");
		if (!c[i].pid) {
			must(dup2(pair[1], 100) == 100, "dup2");
			close(other[!i]);
			child_exec(100, other[i], i + 1, preload);
		}
		close(pair[1]);
	}
	close(other[0]);
	close(other[1]);
}

/* An end leaves when nobody asks it any more. */
static void children_stop(const struct child *c)
{
	for (int i = 0; i < ENDS; i++)
		close(c[i].fd);
}

/* Both do it at the same time. What is told is the larger of the two. */
static struct sample ask(const struct child *c, enum order order, long count)
{
	const struct request r = {order, count};
	struct sample worst = {0}, s;

	for (int i = 0; i < ENDS; i++)
		must(send(c[i].fd, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r), "an end is gone");
	for (int i = 0; i < ENDS; i++) {
		must(read(c[i].fd, &s, sizeof(s)) == sizeof(s), "an end is gone");
		if (s.resident > worst.resident)
			worst = s;
	}
	return worst;
}

static size_t protected_of(pid_t pid)
{
	char path[4096];
	struct stats_copy copy;
	size_t n = 0;

	must(!run_dir_of_job(path, sizeof(path) - 32, getenv("SHIFT_JOB")), "SHIFT_JOB");
	sprintf(path + strlen(path), "/%d.stats", pid);
	if (stats_read(path, &copy))
		return 0;
	for (size_t i = 0; i < copy.conn_count; i++)
		n += copy.conns[i].is_protected;
	stats_free(&copy);
	return n;
}

/* Until all of both ends are; returns how long that took. */
static uint64_t wait_protected(const struct child *c, size_t count)
{
	uint64_t begin = now_us();

	for (int i = 0; i < ENDS; i++)
		while (protected_of(c[i].pid) < count) {
			if (now_us() - begin > (uint64_t)wait_s * 1000000)
				die(EXIT_FAILURE, "only %zu of %zu connections are protected",
				    protected_of(c[i].pid), count);
			sleep_ms(10);
		}
	return now_us() - begin;
}

struct result {
	struct sample first, made, used, idle, end;
	uint64_t protected_us;
};

static struct result measure(bool preload)
{
	struct child c[ENDS];
	struct result r = {0};

	children_start(c, preload);
	ask(c, CONNECT, 1);
	if (preload)
		wait_protected(c, 1);
	sleep_ms(preload ? SETTLE_MS : 0); /* what NICs need once: measuring rq_psn, probes */
	r.first = ask(c, LOOK, 0);
	r.made = ask(c, CONNECT, connections);
	if (preload)
		r.protected_us = wait_protected(c, (size_t)connections + 1);
	r.used = ask(c, LOOK, 0);
	r.made.resident = r.used.resident;
	r.made.cpu_us = r.used.cpu_us;
	r.used = ask(c, USE, 0);
	sleep_ms(preload ? SETTLE_MS : 0);
	r.idle = ask(c, LOOK, 0);
	sleep_ms(preload ? idle_s * 1000 : 0);
	r.end = ask(c, LOOK, 0);
	children_stop(c);
	return r;
}

static double each(uint64_t from, uint64_t to)
{
	return ((double)to - (double)from) / (double)connections;
}

/* Each further connection, and what it grows by when it is used. */
struct memory {
	double made, grows;
};

static struct memory memory_of(const struct result *r)
{
	return (struct memory){each(r->first.resident, r->made.resident),
			       each(r->made.resident, r->used.resident)};
}

/* The library's own. Both have a second QP, the twin, which is not used. */
static double own_made(const struct memory *with, const struct memory *without)
{
	return with->made - without->made;
}

static double own_used(const struct memory *with, const struct memory *without)
{
	return own_made(with, without) + with->grows - without->grows;
}

struct figure {
	const char *key, *what;
	double value;
};

static void print_json(const struct figure *f, size_t n)
{
	printf("{\"connections\": %ld, \"send_wr\": %ld, \"recv_wr\": %ld, \"inline\": %ld",
	       connections, send_wr, recv_wr, inline_bytes);
	for (size_t i = 0; i < n; i++)
		printf(", \"%s\": %.3f", f[i].key, f[i].value);
	puts("}");
}

static void print_text(const struct figure *f, size_t n)
{
	printf("%ld connections, %ld + %ld WRs, %ld bytes inline\n", connections, send_wr, recv_wr,
	       inline_bytes);
	for (size_t i = 0; i < n; i++)
		printf("  %12.3f  %s\n", f[i].value, f[i].what);
}

static void report(const struct result *with, const struct result *without)
{
	struct memory more = memory_of(with), bare = memory_of(without);
	double idle_us = (double)(with->end.cpu_us - with->idle.cpu_us);
	const struct figure f[] = {
		{"process_kb", "KB resident, with the first connection",
		 (double)with->first.resident / 1024},
		{"process_without_kb", "the same without the library",
		 (double)without->first.resident / 1024},
		{"made_bytes", "bytes resident per further connection, twin included", more.made},
		{"made_without_bytes", "the same without the library, with a twin made by hand",
		 bare.made},
		{"made_own_bytes", "the library's own: the difference", own_made(&more, &bare)},
		{"used_own_bytes", "the same when all has been used", own_used(&more, &bare)},
		{"registered_bytes", "bytes registered per further connection",
		 each(with->first.registered, with->end.registered)},
		{"calls_us", "us in the program's calls per connection, until RTS",
		 (double)with->made.calls_us / (double)connections},
		{"calls_without_us", "the same without the library",
		 (double)without->made.calls_us / (double)connections},
		{"setup_cpu_us", "us of processor time per connection, until all are protected",
		 each(with->first.cpu_us, with->made.cpu_us)},
		{"setup_without_cpu_us", "the same without the library, until RTS",
		 each(without->first.cpu_us, without->made.cpu_us)},
		{"protected_ms", "ms from the last RTS until all are protected",
		 (double)with->protected_us / 1000},
		{"first_operations", "operations of the rendezvous for the first connection",
		 (double)with->first.operations},
		{"further_operations", "for all others together",
		 (double)(with->end.operations - with->first.operations)},
		{"idle_cpu_percent", "% of a core while idle",
		 idle_s ? idle_us / 10000 / (double)idle_s : 0},
	};

	if (json)
		print_json(f, sizeof(f) / sizeof(*f));
	else
		print_text(f, sizeof(f) / sizeof(*f));
}

static long option_number(long min, long max)
{
	long n = parse_number(optarg, min, max);

	if (n < 0)
		die(EXIT_USAGE, "%s is not a number from %ld to %ld", optarg, min, max);
	return n;
}

static const char *parse(int argc, char **argv)
{
	const char *end = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'c': connections = option_number(1, CONNECTIONS_MAX); break;
		case 's': send_wr = option_number(1, DEPTH_MAX); break;
		case 'r': recv_wr = option_number(1, DEPTH_MAX); break;
		case 'i': inline_bytes = option_number(0, 1024); break;
		case 'w': window = option_number(1, DEPTH_MAX); break;
		case 'I': idle_s = option_number(0, 3600); break;
		case 'W': wait_s = option_number(1, 3600); break;
		case 'j': json = true; break;
		case 'e': end = optarg; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_USAGE);
		}
	if (optind != argc || window > send_wr)
		die(EXIT_USAGE, "not understood; see scale --help");
	return end;
}

int main(int argc, char **argv)
{
	struct result with, without;
	const char *end;

	cli_begin("scale", EXIT_FAILURE);
	end = parse(argc, argv);
	if (end)
		return end_main(end);
	if (!getenv("SHIFT_JOB") || !getenv("LD_PRELOAD"))
		die(EXIT_USAGE, "is run by tests/bench/scale, under shift-run");
	snprintf(number[0], sizeof(number[0]), "%ld", send_wr);
	snprintf(number[1], sizeof(number[1]), "%ld", recv_wr);
	snprintf(number[2], sizeof(number[2]), "%ld", inline_bytes);
	snprintf(number[3], sizeof(number[3]), "%ld", window);
	without = measure(false);
	with = measure(true);
	report(&with, &without);
	return EXIT_SUCCESS;
}
