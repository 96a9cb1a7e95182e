/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"

enum { ALL_OPS = (1 << OPS_TO_CHOOSE) - 1, MEMORY_MAX = 256 << 20 };

struct options opt = {
	.devices = {"mlx5_0"},
	.device_count = 1,
	.port = "18516",
	.ib_port = 1,
	.threads = 2,
	.stall_s = 30,
	.timeout = 14,
	.retry = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.rd_atomic = 4,
	.w = {.qps = 4,
	      .depth = 32,
	      .inflight = UINT32_MAX,
	      .receives = 64,
	      .hold_ms = 2,
	      .size = 16384,
	      .srq_depth = 64,
	      .ops = ALL_OPS,
	      .seconds = 5,
	      .lives = 1},
};

/* Numbers, where they go and what they may be; 0 in `to` where more is to be done. */
static const struct number {
	const char *name;
	uint32_t *to, low, high;
} numbers[] = {
	{"gid-index", &opt.gid_index, 0, 255},
	{"ib-port", &opt.ib_port, 1, 255},
	{"threads", &opt.threads, 1, 64},
	{"stall", &opt.stall_s, 1, 86400},
	{"timeout", &opt.timeout, 0, 31},
	{"retry", &opt.retry, 0, 7},
	{"rnr-retry", &opt.rnr_retry, 0, 7},
	{"min-rnr-timer", &opt.min_rnr_timer, 0, 31},
	{"rd-atomic", &opt.rd_atomic, 1, 128},
	{"mtu", &opt.mtu, 256, 4096},
	{"qps", &opt.w.qps, 1, 1024},
	{"depth", &opt.w.depth, 4, 4096},
	{"inflight", &opt.w.inflight, 1, 4095},
	{"receives", &opt.w.receives, 1, 4096},
	{"size", &opt.w.size, 8, 1 << 20},
	{"count", &opt.w.count, 1, 1u << 31},
	{"seconds", &opt.w.seconds, 1, 864000},
	{"hold", &opt.w.hold_ms, 0, 10000},
	{"lives", &opt.w.lives, 1, 10000},
	{"srq", &opt.w.srqs, 1, 1024},
	{"srq-depth", &opt.w.srq_depth, 1, 4096},
	{"srq-limit", &opt.srq_limit, 1, 4095},
};

static const char *const op_names[OPS] = {
	[OP_SEND] = "send",	      [OP_SEND_IMM] = "send-imm", [OP_WRITE] = "write",
	[OP_WRITE_IMM] = "write-imm", [OP_FLAG] = "flag",	  [OP_READ] = "read",
	[OP_ADD] = "fetch-add",	      [OP_SWAP] = "cmp-swap",	  [OP_STATUS] = "status",
};

static const char *const help =
	"usage: integrity [options] [PEER]\n"
	"All RC operations between two peers at once, every byte and result checked.\n"
	"The server has no PEER and needs no more than a device; the client says what is done.\n"
	"\n"
	"  --device NAME[,NAME]   RDMA device (mlx5_0), or two that the QPs are dealt out to\n"
	"  --gid-index N       (0)    --ib-port N (1)    --mtu BYTES (the port's)\n"
	"  --port TCP-PORT     where the server listens (18516)\n"
	"  --timeout N         local ACK timeout (14)    --retry N (7)    --rnr-retry N (7)\n"
	"  --min-rnr-timer N   (12)    --rd-atomic N     READs and atomics outstanding (4)\n"
	"  --threads N         of this side (2); QPs are dealt out to them\n"
	"  --stall S           exit 4 when nothing completes for so long (30)\n"
	"  --allow-lost-results   a READ or atomic may succeed without any of its result\n"
	"  --wr-api            post by ibv_wr_*, a few WRs between start and complete\n"
	"  --cq-ex             CQs of ibv_create_cq_ex, polled by ibv_start_poll in bites\n"
	"  --events HOW        sleep on completion channels: level (poll), edge (epoll, and no\n"
	"                      descriptor that blocks), blocking (a thread in ibv_get_cq_event)\n"
	"  --rdma-cm           connections are made and ended by librdmacm, and no event is heard "
	"of\n"
	"                      but ESTABLISHED and DISCONNECTED, once each\n"
	"  --dlopen HOW        libibverbs is loaded at run time: now (RTLD_NOW, dlvsym) or lazy\n"
	"                      (RTLD_LAZY | RTLD_LOCAL, dlsym); by the program integrity-dlopen\n"
	"  --srq-limit L       receives are posted when the event says that fewer than L are left\n"
	"  --rxe-44 WHAT       only what soft-RoCE of rdma-core 44 does right by itself: post "
	"(with\n"
	"                      --wr-api: SGEs of one length, no ibv_wr_set_inline_data_list), "
	"poll\n"
	"                      (with --cq-ex: no ibv_next_poll) or both\n"
	"  --json              one JSON object on standard output\n"
	"Of the client, for both:\n"
	"  --qps N             (4)    --seconds S (5)    --count N   per QP, instead of --seconds\n"
	"  --ops OP,...        send send-imm write write-imm flag read fetch-add cmp-swap, or\n"
	"                      atomic (both), all (the default)\n"
	"  --size BYTES        longest message (16384)    --fixed-size   all are that long\n"
	"  --depth N           send queue (32)    --inflight N   (what the queue holds)\n"
	"  --receives N        receive queue (64)    --prompt   post receives at once\n"
	"  --srq M             receives come from M shared receive queues, and QP i uses SRQ i % "
	"M\n"
	"  --srq-depth D       (64) receives of each\n"
	"  --srq-same-ids      all of them have the same wr_id, and no SGE: no send, no send-imm\n"
	"  --credits           messages wait for receives of the SRQ; always with --rnr-retry < 7\n"
	"  --hold MS           (2) for how long receives are withheld now and then\n"
	"  --signal-all        every WR; else at random\n"
	"  --one-way           only the client sends\n"
	"  --lives N           (1) the QPs are RESET and used again, with the same PSNs, until "
	"they\n"
	"                      had so many lives; --seconds and --count are of each\n"
	"  --fence             IBV_SEND_FENCE at random (soft-RoCE stalls when a receive is late, "
	"too)\n"
	"  --seed N            (from the clock)\n"
	"  --outage            what outages are measured with: 1 QP, 1 thread, SENDs of 1 KB, "
	"every\n"
	"                      WR signaled, 16 in flight, receives posted at once; other options\n"
	"                      behind it change that\n"
	"  --break KIND[:OP]   misbehave once: duplicate, lose or corrupt a send (the default), "
	"write\n"
	"                      or flag; duplicate or lose a fetch-add or cmp-swap; reorder two\n"
	"                      sends; unarmed: a CQ of --events sleeps without being armed;\n"
	"                      lost-receive, repeated-receive: of an SRQ. For tests of this "
	"program\n"
	"\n"
	"SIGINT or SIGTERM, to both sides: no more is sent, and it ends as usual.\n"
	"SIGUSR2, to both sides: this life ends, and the next begins.\n"
	"SIGUSR1: QPs and all are destroyed at once, whatever is under way.\n"
	"\n"
	"Exit status, the worse one of both sides: 0 all right, 1 set-up failed or the peer left,\n"
	"2 bad usage, 3 an error completion, 4 stalled, 5 integrity violated,\n"
	"6 left by SIGUSR1.\n";

static const char *const events_names[] = {
	[EVENTS_NONE] = "none",
	[EVENTS_LEVEL] = "level",
	[EVENTS_EDGE] = "edge",
	[EVENTS_BLOCKING] = "blocking",
};

const char *events_name(enum events events)
{
	return events_names[events];
}

const char *op_name(enum op op)
{
	return op_names[op];
}

static _Noreturn void bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void bad(const char *fmt, ...)
{
	va_list ap;

	fputs("integrity: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; see integrity --help\n", stderr);
	exit(EXIT_USAGE);
}

static uint64_t option_number(const char *name, const char *text, uint64_t low, uint64_t high)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno || !*text || *end || *text == '-' || n < low || n > high)
		bad("--%s %s: not a number from %" PRIu64 " to %" PRIu64, name, text, low, high);
	return n;
}

/* Takes text apart. */
static void devices_named(char *text)
{
	char *name;

	opt.device_count = 0;
	while ((name = strsep(&text, ","))) {
		if (!*name || opt.device_count == DEVICES_MAX)
			bad("--device: not one name, or two with a comma");
		opt.devices[opt.device_count++] = name;
	}
}

static uint32_t ops_named(const char *name)
{
	if (!strcmp(name, "all"))
		return ALL_OPS;
	if (!strcmp(name, "atomic"))
		return 1u << OP_ADD | 1u << OP_SWAP;
	for (int op = 0; op < OPS_TO_CHOOSE; op++)
		if (!strcmp(name, op_names[op]))
			return 1u << op;
	bad("--ops %s: no such operation", name);
}

static void parse_ops(const char *list)
{
	char *copy = strdup(list), *rest = copy, *name;

	opt.w.ops = 0;
	while ((name = strsep(&rest, ",")))
		opt.w.ops |= ops_named(name);
	free(copy);
}

static enum events events_named(const char *name)
{
	for (int e = EVENTS_LEVEL; e <= EVENTS_BLOCKING; e++)
		if (!strcmp(name, events_names[e]))
			return (enum events)e;
	bad("--events %s: not level, edge or blocking", name);
}

static void dlopen_named(const char *name)
{
	opt.lazy = !strcmp(name, "lazy");
	opt.by_dlopen = true;
	if (!opt.lazy && strcmp(name, "now"))
		bad("--dlopen %s: not now or lazy", name);
}

static void rxe_44_named(const char *what)
{
	opt.rxe_44_post = !strcmp(what, "post") || !strcmp(what, "both");
	opt.rxe_44_poll = !strcmp(what, "poll") || !strcmp(what, "both");
	if (!opt.rxe_44_post && !opt.rxe_44_poll)
		bad("--rxe-44 %s: not post, poll or both", what);
}

static void parse_break(const char *text)
{
	static const char *const kinds[] = {"", "duplicate", "lose", "reorder", "corrupt"};
	static const char *const streams[STREAMS] = {"send", "write",	  "flag",
						     "read", "fetch-add", "cmp-swap"};
	/* Which kinds are seen for certain, per stream. */
	static const char seen[STREAMS][5] = {"dlrc", "dlc", "dlc", "", "dl", "dl"};
	const char *of = strchr(text, ':') ? strchr(text, ':') + 1 : "send";
	size_t length = strcspn(text, ":");

	if (!strcmp(text, "unarmed")) {
		opt.break_unarmed = true;
		return;
	}
	if (!strcmp(text, "lost-receive") || !strcmp(text, "repeated-receive")) {
		opt.break_receive = *text == 'l' ? BREAK_LOST_RECEIVE : BREAK_REPEATED_RECEIVE;
		return;
	}
	for (int k = BREAK_DUPLICATE; k <= BREAK_CORRUPT; k++)
		for (int s = 0; s < STREAMS; s++)
			if (strlen(kinds[k]) == length && !strncmp(text, kinds[k], length) &&
			    !strcmp(of, streams[s]) && strchr(seen[s], kinds[k][0])) {
				opt.break_kind = (enum break_kind)k;
				opt.break_stream = (enum stream)s;
				return;
			}
	bad("--break %s: no such misbehaviour", text);
}

static void outage(void)
{
	opt.threads = 1;
	opt.w.qps = 1;
	opt.w.size = 1024;
	opt.w.inflight = 16;
	opt.w.receives = 256;
	opt.w.ops = 1u << OP_SEND;
	opt.w.fixed_size = opt.w.signal_all = opt.w.prompt_receives = 1;
}

enum { NUMBER = 1000 };

static void take(int o, const struct option *options, int index)
{
	switch (o) {
	case 'd': devices_named(optarg); break;
	case 'p': opt.port = optarg; break;
	case 'o': parse_ops(optarg); break;
	case 'b': parse_break(optarg); break;
	case 's': opt.w.seed = option_number("seed", optarg, 0, UINT64_MAX); break;
	case 'O': outage(); break;
	case 'j': opt.json = true; break;
	case 'A': opt.allow_lost_results = true; break;
	case 'w': opt.wr_api = true; break;
	case 'q': opt.cq_ex = true; break;
	case 'e': opt.events = events_named(optarg); break;
	case 'C': opt.rdma_cm = true; break;
	case 'D': dlopen_named(optarg); break;
	case '4': rxe_44_named(optarg); break;
	case 'f': opt.w.fixed_size = 1; break;
	case 'a': opt.w.signal_all = 1; break;
	case '1': opt.w.one_way = 1; break;
	case 'P': opt.w.prompt_receives = 1; break;
	case 'F': opt.w.fence = 1; break;
	case 'i': opt.w.same_ids = 1; break;
	case 'c': opt.w.credits = 1; break;
	case 'h': fputs(help, stdout); exit(0);
	case NUMBER:
		*numbers[index].to = option_number(options[index].name, optarg, numbers[index].low,
						   numbers[index].high);
		break;
	default: exit(EXIT_USAGE);
	}
}

static void check_srq(void)
{
	uint32_t sends = 1u << OP_SEND | 1u << OP_SEND_IMM, imm = 1u << OP_WRITE_IMM;

	if (opt.w.srqs > opt.w.qps)
		bad("--srq %u: more than QPs", opt.w.srqs);
	if (opt.device_count > 1)
		bad("--srq: not with two devices");
	if (!(opt.w.ops & (sends | imm)))
		bad("--srq: not without send, send-imm or write-imm");
	if (opt.w.same_ids && opt.w.ops & sends)
		bad("--srq-same-ids: not with send or send-imm");
	if (opt.rnr_retry < 7)
		opt.w.credits = 1;
}

static void check_options(void)
{
	uint32_t receives = opt.w.srqs ? opt.w.srq_depth : opt.w.receives;
	uint64_t memory = (opt.w.size + 512ull) * (opt.w.depth + 2ull * receives + 24);

	if (opt.w.depth < opt.w.inflight && opt.w.inflight != UINT32_MAX)
		opt.w.depth = opt.w.inflight + 1;
	if (memory > MEMORY_MAX)
		bad("--size, --depth, --receives, --srq-depth: too much memory");
	if (opt.break_unarmed && opt.events == EVENTS_NONE)
		bad("--break unarmed: not without --events");
	if (opt.w.srqs)
		check_srq();
	if (opt.srq_limit && opt.peer && opt.srq_limit > opt.w.srq_depth)
		bad("--srq-limit %u: more than the receives", opt.srq_limit);
	opt.by_dlopen |= !cm;
	if (opt.rdma_cm && (opt.by_dlopen || opt.device_count > 1 || opt.w.lives > 1 || opt.mtu))
		bad("--rdma-cm: not with --dlopen, --lives, --mtu or two devices");
	if (opt.mtu) {
		if (opt.mtu & (opt.mtu - 1))
			bad("--mtu %u: not a power of two", opt.mtu);
		opt.mtu = __builtin_ctz(opt.mtu) - 7; /* enum ibv_mtu */
	}
}

/* The program that is not linked with libibverbs is beside this one. */
static void become_by_dlopen(char **argv)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("-dlopen"));

	if (n < 0)
		fail("/proc/self/exe");
	strcpy(path + n, "-dlopen");
	execv(path, argv);
	fail(path);
}

void options_parse(int argc, char **argv)
{
	static const struct option words[] = {
		{"device", 1, NULL, 'd'},
		{"port", 1, NULL, 'p'},
		{"ops", 1, NULL, 'o'},
		{"break", 1, NULL, 'b'},
		{"seed", 1, NULL, 's'},
		{"outage", 0, NULL, 'O'},
		{"json", 0, NULL, 'j'},
		{"allow-lost-results", 0, NULL, 'A'},
		{"wr-api", 0, NULL, 'w'},
		{"cq-ex", 0, NULL, 'q'},
		{"events", 1, NULL, 'e'},
		{"rxe-44", 1, NULL, '4'},
		{"rdma-cm", 0, NULL, 'C'},
		{"dlopen", 1, NULL, 'D'},
		{"fixed-size", 0, NULL, 'f'},
		{"signal-all", 0, NULL, 'a'},
		{"one-way", 0, NULL, '1'},
		{"prompt", 0, NULL, 'P'},
		{"fence", 0, NULL, 'F'},
		{"help", 0, NULL, 'h'},
		{"srq-same-ids", 0, NULL, 'i'},
		{"credits", 0, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	enum { N = sizeof(numbers) / sizeof(*numbers), M = sizeof(words) / sizeof(*words) };
	struct option options[N + M];
	int o, index = 0;

	for (int i = 0; i < N; i++)
		options[i] = (struct option){numbers[i].name, 1, NULL, NUMBER};
	memcpy(options + N, words, sizeof(words));
	opt.w.seed = mix(time(NULL) * 1000000ull + clock()) >> 32;
	while ((o = getopt_long(argc, argv, "", options, &index)) != -1)
		take(o, options, index);
	if (argc - optind > 1)
		bad("%s: one peer is enough", argv[optind + 1]);
	opt.peer = argv[optind];
	check_options();
	if (opt.by_dlopen && cm)
		become_by_dlopen(argv);
	prctl(PR_SET_NAME, "integrity"); /* whichever of the two this is */
}
