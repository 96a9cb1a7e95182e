/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * net-allreduce: drives a network plugin of NCCL without a GPU, as NCCL's proxy thread does, and
 * checks every bit.
 *
 * The ranks form a ring, of some channels; in each a rank receives from the rank before and sends
 * to the rank behind. An allreduce is that of NCCL's ring: the vector is cut into a chunk per rank;
 * in the first ranks - 1 rounds each rank adds what it receives to its own and hands it on; in as
 * many more the sums go round. The sum of a chunk is therefore made in a known order of the ranks,
 * and each rank works it out by itself for comparison, to the last bit.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "examples/nccl/net_any.h"

enum { EXIT_USAGE = 2, EXIT_WRONG = 3, EXIT_STALLED = 4 };

enum {
	CHANNELS_MAX = 32,
	RANKS_MAX = 64,
	AHEAD = 8, /* messages of a channel under way, in each direction */
};

struct channel {
	void *listener, *to, *from;
	float *vector, *arriving; /* AHEAD slices */
	void *vector_sent, *vector_received, *arriving_mr;
	void *sending[AHEAD], *receiving[AHEAD], *flushing;
	size_t asked, received, begun, sent; /* messages of this allreduce */
};

static struct {
	const char *plugin, *root;
	int rank, ranks, channels, device, iterations;
	size_t bytes, slice_bytes;
	int stall_s;
	bool json, verbose;
} opt = {.plugin = "libnccl-net.so",
	 .ranks = 2,
	 .channels = 2,
	 .iterations = 20,
	 .bytes = 4 << 20,
	 .slice_bytes = 128 << 10,
	 .stall_s = 60,
	 .rank = -1};

static struct net net;
static struct channel channels[CHANNELS_MAX];
static size_t elements;		/* of a channel's vector */
static size_t chunk, slice;	/* elements */
static size_t slices, messages; /* of a chunk; of a channel and an allreduce */
static int root_fd[RANKS_MAX];	/* rank 0: to the others; the others: [0] to rank 0 */
static double last_progress_ms, longest_gap_ms;

static const char *const help =
	"usage: net-allreduce --root HOST:PORT --rank R [options]\n"
	"Drives a network plugin of NCCL without a GPU: a ring allreduce, checked bit for bit.\n"
	"Start one per rank. Rank 0 listens at HOST:PORT for the others.\n"
	"\n"
	"  --plugin FILE      library with ncclNetPlugin_v8, _v9 or _v10 (libnccl-net.so)\n"
	"  --ranks N          (2)\n"
	"  --channels N       rings at the same time (2)\n"
	"  --device N         which of the plugin's devices (0)\n"
	"  --bytes B          of the vector that is reduced (4194304)\n"
	"  --slice B          of one message at most (131072)\n"
	"  -n, --iterations N allreduces (20)\n"
	"  --stall S          exit 4 if nothing completes for so long (60)\n"
	"  --verbose          what the plugin says, too\n"
	"  --json             the result as JSON\n"
	"  --help\n"
	"\n"
	"Exit status: 0 every bit is right, 1 the plugin or a peer failed, 2 bad usage,\n"
	"3 a sum is wrong, 4 stalled.\n";

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "net-allreduce: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* --- the ranks find each other ---------------------------------------------------------------- */

static struct addrinfo *root_address(bool here)
{
	struct addrinfo hints = {.ai_family = AF_INET,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = here ? AI_PASSIVE : 0};
	const char *colon = strrchr(opt.root, ':');
	char *host = strndup(opt.root, colon - opt.root);
	struct addrinfo *a;
	int error = getaddrinfo(here ? NULL : host, colon + 1, &hints, &a);

	if (error) {
		fprintf(stderr, "net-allreduce: %s: %s\n", opt.root, gai_strerror(error));
		exit(EXIT_FAILURE);
	}
	free(host);
	return a;
}

static void all_bytes(int fd, void *bytes, size_t n, bool out)
{
	while (n) {
		ssize_t done = out ? send(fd, bytes, n, MSG_NOSIGNAL) : recv(fd, bytes, n, 0);

		if (done <= 0) {
			fprintf(stderr, "net-allreduce: a peer has left\n");
			exit(EXIT_FAILURE);
		}
		bytes = (char *)bytes + done;
		n -= done;
	}
}

static void root_listen(void)
{
	struct addrinfo *a = root_address(true);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, RANKS_MAX))
		fail(opt.root);
	for (int i = 1; i < opt.ranks; i++) {
		int peer = accept(fd, NULL, NULL), rank;

		if (peer < 0)
			fail("accept");
		all_bytes(peer, &rank, sizeof(rank), false);
		if (rank < 1 || rank >= opt.ranks || root_fd[rank]) {
			fprintf(stderr, "net-allreduce: two ranks %d, or none such\n", rank);
			exit(EXIT_FAILURE);
		}
		root_fd[rank] = peer;
	}
	close(fd);
	freeaddrinfo(a);
}

/* The root may still be starting. */
static void root_connect(void)
{
	struct addrinfo *a = root_address(false);
	int fd = -1;

	for (int i = 0; i < 600; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0)
			fail("socket");
		if (!connect(fd, a->ai_addr, a->ai_addrlen))
			break;
		close(fd);
		fd = -1;
		poll(NULL, 0, 50);
	}
	if (fd < 0)
		fail(opt.root);
	freeaddrinfo(a);
	root_fd[0] = fd;
	all_bytes(fd, &opt.rank, sizeof(opt.rank), true);
}

/* Each rank gives its own, and gets that of the rank behind it. */
static void exchange(void *own, void *next, size_t bytes)
{
	char *all;

	if (opt.rank) {
		all_bytes(root_fd[0], own, bytes, true);
		all_bytes(root_fd[0], next, bytes, false);
		return;
	}
	all = malloc(bytes * opt.ranks);
	if (!all)
		fail("memory");
	memcpy(all, own, bytes);
	for (int r = 1; r < opt.ranks; r++)
		all_bytes(root_fd[r], all + r * bytes, bytes, false);
	for (int r = 1; r < opt.ranks; r++)
		all_bytes(root_fd[r], all + (r + 1) % opt.ranks * bytes, bytes, true);
	memcpy(next, all + bytes, bytes);
	free(all);
}

static void *memory(size_t bytes)
{
	void *m = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!m)
		fail("memory");
	return m;
}

static void connect_channels(void)
{
	char own[CHANNELS_MAX][NET_HANDLE_BYTES] = {0}, next[CHANNELS_MAX][NET_HANDLE_BYTES];

	for (int i = 0; i < opt.channels; i++)
		channels[i].listener = net_listen(&net, opt.device, own[i]);
	exchange(own, next, sizeof(own));
	for (int i = 0; i < opt.channels; i++) {
		struct channel *c = &channels[i];

		while (!c->to || !c->from) {
			if (!c->to)
				c->to = net_connect(&net, opt.device, next[i]);
			if (!c->from)
				c->from = net_accept(&net, c->listener);
		}
		c->vector = memory(elements * sizeof(float));
		c->arriving = memory(AHEAD * slice * sizeof(float));
		c->vector_sent = net_register(&net, c->to, c->vector, elements * sizeof(float));
		c->vector_received = net_register(&net, c->from, c->vector,
						  elements * sizeof(float));
		c->arriving_mr = net_register(&net, c->from, c->arriving,
					      AHEAD * slice * sizeof(float));
	}
}

static void close_channels(void)
{
	for (int i = 0; i < opt.channels; i++) {
		struct channel *c = &channels[i];

		net_deregister(&net, c->to, c->vector_sent);
		net_deregister(&net, c->from, c->vector_received);
		net_deregister(&net, c->from, c->arriving_mr);
		net_close_send(&net, c->to);
		net_close_receive(&net, c->from);
		net_close_listen(&net, c->listener);
		free(c->vector);
		free(c->arriving);
	}
}

/* --- what is reduced -------------------------------------------------------------------------- */

static float value(int rank, int channel, int iteration, size_t i)
{
	uint64_t x = i * 0x9e3779b97f4a7c15 + rank * 0x632be59bd9b4e019 + channel * 7919 +
		     iteration * 104729;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9;
	return (float)(x >> 40) / 65536.0f - 128.0f;
}

/* The chunk of rank c begins its way there. */
static float sum(int channel, int iteration, size_t i)
{
	int first = (int)(i / chunk);
	float s = value(first, channel, iteration, i);

	for (int k = 1; k < opt.ranks; k++)
		s += value((first + k) % opt.ranks, channel, iteration, i);
	return s;
}

static size_t wrong_sums(int iteration)
{
	size_t wrong = 0;

	for (int c = 0; c < opt.channels; c++)
		for (size_t i = 0; i < elements; i++) {
			float right = sum(c, iteration, i);

			wrong += memcmp(&right, &channels[c].vector[i], sizeof(right)) != 0;
		}
	return wrong;
}

static void fill(int iteration)
{
	for (int c = 0; c < opt.channels; c++)
		for (size_t i = 0; i < elements; i++)
			channels[c].vector[i] = value(opt.rank, c, iteration, i);
}

/* --- the ring --------------------------------------------------------------------------------- */

/* Where in the vector message m lies that is sent (behind: 0) or received (1). */
static size_t place(size_t m, int behind)
{
	size_t round = m / slices;
	size_t of = (opt.rank + 2 * (size_t)opt.ranks - round - behind) % opt.ranks;

	return of * chunk + m % slices * slice;
}

/* The last slice of a chunk may be shorter. */
static size_t length(size_t m)
{
	size_t from = m % slices * slice;

	return from + slice < chunk ? slice : chunk - from;
}

static bool is_reduced(size_t m)
{
	return m < messages / 2;
}

/*
 * Sums are received where they belong. What lay there was sent in the first half, and the plugin
 * may read it until that send is done: the NIC may have to send it again.
 */
static bool ask(struct channel *c)
{
	size_t m = c->asked;
	void **request = &c->receiving[m % AHEAD];
	size_t bytes = length(m) * sizeof(float);

	if (m == messages || m - c->received == AHEAD ||
	    (!is_reduced(m) && c->sent <= m - messages / 2))
		return false;
	*request = is_reduced(m) ? net_receive(&net, c->from, c->arriving + m % AHEAD * slice,
					       bytes, (int)m, c->arriving_mr)
				 : net_receive(&net, c->from, c->vector + place(m, 1), bytes,
					       (int)m, c->vector_received);
	c->asked += *request != NULL;
	return *request;
}

/* What has arrived is looked at only after a flush. */
static void take(struct channel *c, size_t m)
{
	const float *from = c->arriving + m % AHEAD * slice;
	float *to = c->vector + place(m, 1);

	for (size_t i = 0; is_reduced(m) && i < length(m); i++)
		to[i] = from[i] + to[i];
	c->received++;
}

static bool receive(struct channel *c)
{
	size_t m = c->received, bytes;
	void **request = &c->receiving[m % AHEAD];

	if (m == c->asked)
		return false;
	if (c->flushing) {
		if (!net_done(&net, c->flushing, &bytes))
			return false;
		c->flushing = NULL;
		take(c, m);
		return true;
	}
	if (!net_done(&net, *request, &bytes))
		return false;
	if (bytes != length(m) * sizeof(float)) {
		fprintf(stderr, "net-allreduce: message %zu has %zu bytes, not %zu\n", m, bytes,
			length(m) * sizeof(float));
		exit(EXIT_WRONG);
	}
	c->flushing = net_flush(&net, c->from,
				is_reduced(m) ? c->arriving + m % AHEAD * slice
					      : c->vector + place(m, 1),
				bytes, is_reduced(m) ? c->arriving_mr : c->vector_received);
	if (!c->flushing)
		take(c, m);
	return true;
}

/* What came in a round goes on in the next. */
static bool send_on(struct channel *c)
{
	size_t m = c->begun;
	void **request = &c->sending[m % AHEAD];

	if (m == messages || m - c->sent == AHEAD || (m >= slices && c->received <= m - slices))
		return false;
	*request = net_send(&net, c->to, c->vector + place(m, 0), length(m) * sizeof(float), (int)m,
			    c->vector_sent);
	c->begun += *request != NULL;
	return *request;
}

static bool sent(struct channel *c)
{
	size_t bytes;

	if (c->sent == c->begun || !net_done(&net, c->sending[c->sent % AHEAD], &bytes))
		return false;
	c->sent++;
	return true;
}

static void progressed(void)
{
	double now = now_ms();

	if (now - last_progress_ms > longest_gap_ms)
		longest_gap_ms = now - last_progress_ms;
	last_progress_ms = now;
}

static void allreduce(void)
{
	int left = opt.channels;

	for (int i = 0; i < opt.channels; i++)
		channels[i].asked = channels[i].received = channels[i].begun = channels[i].sent = 0;
	last_progress_ms = now_ms();
	while (left) {
		left = 0;
		for (int i = 0; i < opt.channels; i++) {
			struct channel *c = &channels[i];
			bool moved = ask(c);

			moved = receive(c) || moved;
			moved = send_on(c) || moved;
			moved = sent(c) || moved;
			if (moved)
				progressed();
			left += c->received < messages || c->sent < messages;
		}
		if (now_ms() - last_progress_ms > opt.stall_s * 1e3) {
			fprintf(stderr, "net-allreduce: nothing has completed for %d s\n",
				opt.stall_s);
			exit(EXIT_STALLED);
		}
	}
}

/* --- the program ------------------------------------------------------------------------------ */

static long number(const char *s, const char *name, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(s, &end, 10);
	if (errno || end == s || *end || n < min || n > max) {
		fprintf(stderr, "net-allreduce: --%s %s: not a number from %ld to %ld\n", name, s,
			min, max);
		exit(EXIT_USAGE);
	}
	return n;
}

static _Noreturn void usage(const char *why)
{
	fprintf(stderr, "net-allreduce: %s\n", why);
	exit(EXIT_USAGE);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"plugin", 1, NULL, 'p'}, {"root", 1, NULL, 'o'},     {"rank", 1, NULL, 'r'},
		{"ranks", 1, NULL, 'R'},  {"channels", 1, NULL, 'c'}, {"device", 1, NULL, 'd'},
		{"bytes", 1, NULL, 'b'},  {"slice", 1, NULL, 's'},    {"iterations", 1, NULL, 'n'},
		{"stall", 1, NULL, 'S'},  {"verbose", 0, NULL, 'v'},  {"json", 0, NULL, 'j'},
		{"help", 0, NULL, 'h'},	  {NULL, 0, NULL, 0}};
	int o;

	while ((o = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		switch (o) {
		case 'p': opt.plugin = optarg; break;
		case 'o': opt.root = optarg; break;
		case 'r': opt.rank = number(optarg, "rank", 0, RANKS_MAX - 1); break;
		case 'R': opt.ranks = number(optarg, "ranks", 2, RANKS_MAX); break;
		case 'c': opt.channels = number(optarg, "channels", 1, CHANNELS_MAX); break;
		case 'd': opt.device = number(optarg, "device", 0, 1000); break;
		case 'b': opt.bytes = number(optarg, "bytes", 4, 1l << 40); break;
		case 's': opt.slice_bytes = number(optarg, "slice", 4, 1 << 30); break;
		case 'n': opt.iterations = number(optarg, "iterations", 1, 1 << 30); break;
		case 'S': opt.stall_s = number(optarg, "stall", 1, 1 << 20); break;
		case 'v': opt.verbose = true; break;
		case 'j': opt.json = true; break;
		case 'h': fputs(help, stdout); exit(EXIT_SUCCESS);
		default: exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		usage("only options, please: see --help");
	if (!opt.root || !strrchr(opt.root, ':'))
		usage("where rank 0 listens is needed: --root HOST:PORT");
	if (opt.rank < 0 || opt.rank >= opt.ranks)
		usage("--rank is needed, from 0 to one less than --ranks");
}

static void divide(void)
{
	chunk = opt.bytes / sizeof(float) / opt.channels / opt.ranks;
	slice = opt.slice_bytes / sizeof(float);
	if (!chunk)
		usage("--bytes is less than one number per channel and rank");
	if (slice > chunk)
		slice = chunk;
	elements = chunk * opt.ranks;
	slices = (chunk + slice - 1) / slice;
	messages = 2 * (opt.ranks - 1) * slices;
}

static void report(double ms, size_t wrong)
{
	double bytes = (double)elements * sizeof(float) * opt.channels * opt.iterations;
	double algorithm = bytes / ms / 1e6, bus = algorithm * 2 * (opt.ranks - 1) / opt.ranks;

	if (opt.json)
		printf("{\"rank\": %d, \"plugin\": \"%s\", \"version\": %d, \"device\": \"%s\", "
		       "\"channels\": %d, \"iterations\": %d, \"bytes\": %.0f, \"seconds\": %.3f, "
		       "\"algorithm_GBps\": %.6f, \"bus_GBps\": %.6f, \"longest_gap_ms\": %.1f, "
		       "\"wrong\": %zu}\n",
		       opt.rank, net.plugin->name, net.version, net_device_name(&net, opt.device),
		       opt.channels, opt.iterations, bytes, ms / 1e3, algorithm, bus,
		       longest_gap_ms, wrong);
	else
		printf("rank %d: %d allreduces in %.2f s, bus bandwidth %.4f GB/s, longest time "
		       "without progress %.1f ms, %zu sums wrong (%s v%d, %s)\n",
		       opt.rank, opt.iterations, ms / 1e3, bus, longest_gap_ms, wrong,
		       net.plugin->name, net.version, net_device_name(&net, opt.device));
}

int main(int argc, char **argv)
{
	size_t wrong = 0;
	double ms = 0;
	char done = 0;

	parse(argc, argv);
	divide();
	net_load(&net, opt.plugin, opt.verbose);
	if (opt.device >= net_devices(&net))
		usage("the plugin has no such device");
	if (opt.rank)
		root_connect();
	else
		root_listen();
	connect_channels();
	for (int i = 0; i < opt.iterations; i++) {
		double before;

		fill(i);
		before = now_ms();
		allreduce();
		ms += now_ms() - before;
		wrong += wrong_sums(i);
	}
	exchange(&done, &done, 1); /* nobody leaves before all have what was sent to them */
	report(ms, wrong);
	close_channels();
	return wrong ? EXIT_WRONG : EXIT_SUCCESS;
}
