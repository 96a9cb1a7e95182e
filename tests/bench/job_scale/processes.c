/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The processes of a job, as the rendezvous sees them: for tests/bench/job-scale, which starts etcd
 * and the daemons. A simulated process is a process. It has the library's own client, directory and
 * background thread (lib/session/job.c, directory.c); only NICs and QPs are not there.
 *
 * Each host has NICs with a GID each, which all its processes use. Process i of a host has
 * connections to process i of the hosts around it, in a ring, over all NICs. For each connection it
 * does what meeting_step() of lib/session/rendezvous.c does: directory_enter() its own GID, and
 * directory_look() at the peer's.
 *
 * Commands come on standard input, one a line; each is answered by a line of JSON.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "lib/base/background.h"
#include "lib/base/env.h"
#include "lib/base/real_verbs.h"
#include "lib/session/directory.h"
#include "lib/session/job.h"

enum {
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	POLL_NS = 1000000,
	OPT_HELP = 256,
	PEERS_MAX = 4096,
};

static const char help[] = "usage: job_processes --run-dir DIR --job NAME [options] <COMMANDS\n"
			   "The processes of a simulated job. shift-kvd of host N is found with "
			   "SHIFT_RUN_DIR=DIR/hN.\n"
			   "\n"
			   "  --hosts N        default: 2\n"
			   "  --processes N    of each host; default: 4\n"
			   "  --nics N         of each host; default: 8\n"
			   "  --peers N        of each process, on other hosts; default: 2\n"
			   "  --timeout TIME   for each command; default: 60s\n"
			   "  --help\n"
			   "\n"
			   "Commands: join, connect N (more for each peer and NIC), kill N (a "
			   "process, by its number),\n"
			   "leave.\n";

struct sim {
	const char *run_dir, *job;
	int hosts, processes, nics, peers;
	int64_t timeout_ms;
};

/* What a process shows to all others. Times are of now_ns(). */
struct member {
	_Atomic uint64_t nonce;
	_Atomic uint64_t found_ns; /* it has the records of all its peers */
	_Atomic uint64_t died_ns;  /* it has heard of the last death so far */
	_Atomic unsigned int found, deaths, connections;
	_Atomic unsigned int records, gone; /* that came: of peers and of their neighbours */
	_Atomic unsigned int errors;
	pid_t pid; /* 0: it is dead, or has left */
};

static struct sim sim = {.hosts = 2, .processes = 4, .nics = 8, .peers = 2, .timeout_ms = 60000};
static struct member *members;
static _Atomic unsigned int *wanted; /* connections for each peer and NIC */

static int members_count(void)
{
	return sim.hosts * sim.processes;
}

/* ---- one process --------------------------------------------------------------------------- */

/* A peer's process over one NIC. */
struct acquaintance {
	int peer; /* the number of the process */
	struct place *place;
	bool found;
};

static int self; /* the number of this process */
static struct nic *nics;
static struct acquaintance *acquaintances;
static int acquaintances_count;

struct real_verbs real; /* none of them is called */

/* The address of a control link, which there is none of: as much as a real one. */
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr)
{
	*addr = (struct ctrl_link_addr){.qpn = 0x100 + nic->index, .qkey = 1, .mtu_bytes = 4096};
}

static union ibv_gid gid_of_host_nic(int host, int nic)
{
	return (union ibv_gid){.raw = {0xfd,
				       0x53, [10] = (uint8_t)nic, [13] = (uint8_t)(host >> 16),
				       [14] = (uint8_t)(host >> 8), [15] = (uint8_t)host}};
}

/* The same process of the hosts to the right and left in turn: 1, -1, 2, -2 away... */
static int peer_number(int process, int n)
{
	int away = (n / 2 + 1) * (n % 2 ? -1 : 1);
	int host = (process / sim.processes + away % sim.hosts + sim.hosts) % sim.hosts;

	return host * sim.processes + process % sim.processes;
}

/* With few hosts, some are to the right and to the left. */
static int peers_of(int process, int peers[])
{
	int n = 0;

	for (int i = 0; i < sim.peers; i++) {
		int peer = peer_number(process, i), seen = 0;

		while (seen < n && peers[seen] != peer)
			seen++;
		if (seen == n && peer != process)
			peers[n++] = peer;
	}
	return n;
}

static bool place_has_process(const struct place *p, uint64_t nonce)
{
	const struct process *at = p->processes;

	while (at && at->nonce != nonce)
		at = at->next;
	return at;
}

static void place_changed(const struct place *p)
{
	struct member *m = &members[self];

	for (int i = 0; i < acquaintances_count; i++) {
		struct acquaintance *a = &acquaintances[i];

		if (a->place != p || a->found || !place_has_process(p, members[a->peer].nonce))
			continue;
		a->found = true;
		if (atomic_fetch_add(&m->found, 1) + 1 == (unsigned int)acquaintances_count)
			m->found_ns = now_ns();
	}
}

/* As meeting_step() does for each connection. */
static void connections_make(unsigned int connections)
{
	for (unsigned int c = members[self].connections; c < connections; c++) {
		for (int i = 0; i < acquaintances_count; i++) {
			struct acquaintance *a = &acquaintances[i];
			union ibv_gid mine = gid_of_host_nic(self / sim.processes, i % sim.nics);
			union ibv_gid theirs = gid_of_host_nic(a->peer / sim.processes,
							       i % sim.nics);

			directory_enter(&nics[i % sim.nics], &mine);
			a->place = directory_look(&theirs);
			if (!a->place)
				members[self].errors++;
		}
	}
	members[self].connections = connections;
}

static void on_key_known(void)
{
	connections_make(*wanted);
}

static void on_published(const char *key, const void *value, size_t bytes)
{
	struct place *p = directory_event(key, value, bytes);

	atomic_fetch_add(value ? &members[self].records : &members[self].gone, 1);
	if (p)
		place_changed(p);
}

static void on_died(uint64_t nonce)
{
	(void)nonce;
	members[self].died_ns = now_ns();
	members[self].deaths++;
}

static void join_on_bg(void *arg)
{
	static const struct job_calls calls = {
		.key_known = on_key_known, .published = on_published, .died = on_died};

	(void)arg;
	job_join(&calls);
}

static void connect_on_bg(void *arg)
{
	(void)arg;
	if (job_key_if_known())
		connections_make(*wanted);
}

static void member_leave_on_bg(void *arg)
{
	(void)arg;
	job_leave();
}

static void set_up_nics(void)
{
	int peers[PEERS_MAX], n = peers_of(self, peers);

	nics = check_alloc(calloc(sim.nics, sizeof(*nics)));
	for (int i = 0; i < sim.nics; i++)
		nics[i].index = (uint8_t)i;
	acquaintances_count = n * sim.nics;
	acquaintances = check_alloc(calloc(acquaintances_count + 1, sizeof(*acquaintances)));
	for (int i = 0; i < acquaintances_count; i++)
		acquaintances[i].peer = peers[i / sim.nics];
}

static void wait_for_end_of(int fd)
{
	char byte;

	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
}

/* SIGUSR1: more connections are wanted. SIGTERM: it is to leave in order. */
static void process_obey(const sigset_t *signals)
{
	int got;

	do {
		got = sigwaitinfo(signals, NULL);
		if (got == SIGUSR1)
			bg_call_wait(connect_on_bg, NULL);
	} while (got != SIGTERM);
}

/* begin: is closed when all are to begin. */
static _Noreturn void process_run(int begin)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	setenv("SHIFT_JOB", sim.job, 1);
	setenv("SHIFT_RUN_DIR", format_text("%s/h%d", sim.run_dir, self / sim.processes), 1);
	env_read();
	set_up_nics();
	job_draw_nonce();
	members[self].nonce = job_nonce();
	wait_for_end_of(begin);
	if (bg_start())
		die(EXIT_FAILED, "process %d has no background thread", self);
	bg_call_wait(join_on_bg, NULL);
	process_obey(&signals);
	bg_call_wait(member_leave_on_bg, NULL);
	_exit(0);
}

/* ---- all of them ---------------------------------------------------------------------------- */

typedef bool member_is_fn(const struct member *m, uint64_t number);

static bool has_nonce(const struct member *m, uint64_t number)
{
	(void)number;
	return m->nonce;
}

static bool has_found(const struct member *m, uint64_t number)
{
	(void)number;
	return m->found_ns;
}

static bool has_connections(const struct member *m, uint64_t number)
{
	return m->connections >= number;
}

static bool has_heard(const struct member *m, uint64_t number)
{
	return m->deaths >= number;
}

/* Those who live and are so. */
static int count_members(member_is_fn *is, uint64_t number)
{
	int n = 0;

	for (int i = 0; i < members_count(); i++)
		n += members[i].pid && is(&members[i], number);
	return n;
}

static int count_living(void)
{
	int n = 0;

	for (int i = 0; i < members_count(); i++)
		n += members[i].pid != 0;
	return n;
}

/* False: the time is over. */
static bool wait_for_members(member_is_fn *is, uint64_t number)
{
	int64_t end = now_ms() + sim.timeout_ms;

	while (count_members(is, number) < count_living()) {
		if (now_ms() > end)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
	}
	return true;
}

static void start_members(int begin[2])
{
	pid_t parent = getpid();

	for (int i = 0; i < members_count(); i++) {
		pid_t pid = fork();

		if (pid < 0)
			die(EXIT_FAILED, "cannot start process %d: %s", i, strerror(errno));
		members[i].pid = pid ? pid : getpid();
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILED);
		close(begin[1]);
		self = i;
		process_run(begin[0]);
	}
	close(begin[0]);
	if (!wait_for_members(has_nonce, 0))
		die(EXIT_FAILED, "the processes do not start within %" PRId64 " ms",
		    sim.timeout_ms);
}

static void end_member(int i, int signal_number)
{
	kill(members[i].pid, signal_number);
	while (waitpid(members[i].pid, NULL, 0) < 0 && errno == EINTR)
		;
	members[i].pid = 0;
}

/* ---- commands and answers ------------------------------------------------------------------- */

static void print_answer(cJSON *o)
{
	char *text = check_alloc(cJSON_PrintUnformatted(o));

	cJSON_Delete(o);
	puts(text);
	free(text);
	if (fflush(stdout))
		exit(EXIT_FAILED);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* ns: since `from`; sorted here. */
static void add_times(cJSON *o, const char *name, uint64_t *ns, int n)
{
	cJSON *times = cJSON_AddObjectToObject(o, name);

	qsort(ns, n, sizeof(*ns), compare_ns);
	cJSON_AddNumberToObject(times, "count", n);
	if (!n)
		return;
	cJSON_AddNumberToObject(times, "median_s", ns[n / 2] / 1e9);
	cJSON_AddNumberToObject(times, "last_s", ns[n - 1] / 1e9);
}

static void command_join(int begin)
{
	uint64_t from = now_ns(), *ns = check_alloc(calloc(members_count(), sizeof(*ns)));
	cJSON *o = cJSON_CreateObject();
	unsigned int records = 0, errors = 0;
	int n = 0;

	*wanted = 1;
	close(begin);
	wait_for_members(has_found, 0);
	for (int i = 0; i < members_count(); i++) {
		records += members[i].records;
		errors += members[i].errors;
		if (members[i].found_ns)
			ns[n++] = members[i].found_ns - from;
	}
	add_times(o, "found", ns, n);
	cJSON_AddNumberToObject(o, "records", records);
	cJSON_AddNumberToObject(o, "errors", errors);
	print_answer(o);
	free(ns);
}

static void command_connect(unsigned int more)
{
	cJSON *o = cJSON_CreateObject();

	*wanted += more;
	for (int i = 0; i < members_count(); i++)
		if (members[i].pid)
			kill(members[i].pid, SIGUSR1);
	wait_for_members(has_connections, *wanted);
	cJSON_AddNumberToObject(o, "processes", count_members(has_connections, *wanted));
	cJSON_AddNumberToObject(o, "connections_of_each", *wanted);
	print_answer(o);
}

static bool knows(int process, int other)
{
	int peers[PEERS_MAX], n = peers_of(process, peers);

	for (int i = 0; i < n; i++)
		if (peers[i] == other)
			return true;
	return false;
}

static unsigned int count_gone(void)
{
	unsigned int n = 0;

	for (int i = 0; i < members_count(); i++)
		n += members[i].pid ? members[i].gone : 0;
	return n;
}

/* Times of the peers of the one that died, and of all. */
static void answer_death(int victim, uint64_t from, unsigned int deaths)
{
	uint64_t *peers = check_alloc(calloc(members_count(), sizeof(*peers)));
	uint64_t *all = check_alloc(calloc(members_count(), sizeof(*all)));
	cJSON *o = cJSON_CreateObject();
	int peers_n = 0, all_n = 0;

	for (int i = 0; i < members_count(); i++) {
		if (!members[i].pid || members[i].deaths < deaths)
			continue;
		all[all_n++] = members[i].died_ns - from;
		if (knows(i, victim))
			peers[peers_n++] = members[i].died_ns - from;
	}
	add_times(o, "peers", peers, peers_n);
	add_times(o, "all", all, all_n);
	cJSON_AddNumberToObject(o, "gone", count_gone());
	print_answer(o);
	free(peers);
	free(all);
}

static void command_kill(int victim)
{
	static unsigned int deaths;
	uint64_t from;

	if (victim < 0 || victim >= members_count() || !members[victim].pid)
		die(EXIT_BAD_USAGE, "kill %d: no such process", victim);
	from = now_ns();
	end_member(victim, SIGKILL);
	wait_for_members(has_heard, ++deaths);
	answer_death(victim, from, deaths);
}

static void command_leave(void)
{
	for (int i = 0; i < members_count(); i++)
		if (members[i].pid)
			kill(members[i].pid, SIGTERM);
	for (int i = 0; i < members_count(); i++)
		if (members[i].pid)
			end_member(i, SIGTERM);
	print_answer(cJSON_CreateObject());
}

static void obey_commands(int begin)
{
	char line[64];
	bool joined = false;

	while (fgets(line, sizeof(line), stdin)) {
		long number = 0;
		char word[16] = "";

		sscanf(line, "%15s %ld", word, &number);
		if (!strcmp(word, "join") && !joined) {
			joined = true;
			command_join(begin);
		} else if (!strcmp(word, "connect") && joined && number > 0) {
			command_connect((unsigned int)number);
		} else if (!strcmp(word, "kill") && joined) {
			command_kill((int)number);
		} else if (!strcmp(word, "leave") && joined) {
			command_leave();
		} else {
			die(EXIT_BAD_USAGE, "not a command now: %s", line);
		}
	}
}

/* ---- options -------------------------------------------------------------------------------- */

static int number_option(const char *name, const char *s, long min, long max)
{
	long n = parse_number(s, min, max);

	if (n < 0)
		die(EXIT_BAD_USAGE, "--%s %s: not a number from %ld to %ld", name, s, min, max);
	return (int)n;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"run-dir", required_argument, NULL, 'd'},
		{"job", required_argument, NULL, 'J'},
		{"hosts", required_argument, NULL, 'h'},
		{"processes", required_argument, NULL, 'p'},
		{"nics", required_argument, NULL, 'n'},
		{"peers", required_argument, NULL, 'r'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, OPT_HELP},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'd': sim.run_dir = optarg; break;
		case 'J': sim.job = optarg; break;
		case 'h': sim.hosts = number_option("hosts", optarg, 2, 1 << 16); break;
		case 'p': sim.processes = number_option("processes", optarg, 1, 1024); break;
		case 'n': sim.nics = number_option("nics", optarg, 1, NICS_MAX); break;
		case 'r': sim.peers = number_option("peers", optarg, 1, PEERS_MAX); break;
		case 't': sim.timeout_ms = parse_ms(optarg); break;
		case OPT_HELP: print_and_exit(help); break;
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (!sim.run_dir || !sim.job || optind < argc || sim.timeout_ms < 0)
		die(EXIT_BAD_USAGE, "--run-dir, --job and good options are needed; see --help");
}

static void *shared_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die(EXIT_FAILED, "no memory for %d processes: %s", members_count(),
		    strerror(errno));
	return p;
}

int main(int argc, char **argv)
{
	int begin[2];

	cli_begin("job_processes", EXIT_FAILED);
	parse_options(argc, argv);
	members = shared_memory(members_count() * sizeof(*members));
	wanted = shared_memory(sizeof(*wanted));
	if (pipe(begin))
		die(EXIT_FAILED, "no pipe: %s", strerror(errno));
	start_members(begin);
	obey_commands(begin[1]);
	for (int i = 0; i < members_count(); i++)
		if (members[i].pid)
			end_member(i, SIGKILL);
	return 0;
}
