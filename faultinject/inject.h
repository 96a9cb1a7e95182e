/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The faults, and what all of them share: what was asked for, the journal that makes every change
 * undone, and the run from the first change to the last.
 *
 * Errors: functions return 0 or a status from enum inject_status, and then have said why in the
 * struct problem. Nothing is printed but by --dry-run and by fault_run().
 */
#ifndef SHIFT_INJECT_H
#define SHIFT_INJECT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cJSON;

/* Documented in shift-inject(1). */
enum inject_status {
	INJECT_OK = 0,
	INJECT_FAILED = 1,
	INJECT_BAD_USAGE = 2,
	INJECT_NOT_FOUND = 3,
	INJECT_REFUSED = 4,
	INJECT_NO_PERMISSION = 5,
	INJECT_NOT_UNDONE = 6,
};

struct problem {
	int status;
	char text[400];
};

/* Keeps the first message. Returns status. */
int problem_set(struct problem *p, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- what was asked for ---------------------------------------------------------------------- */

enum direction { DIRECTION_NONE = 0, DIRECTION_IN = 1, DIRECTION_OUT = 2, DIRECTION_BOTH = 3 };

/* One bit per option that only some faults take. */
enum inject_option {
	OPT_NIC = 1 << 0,
	OPT_FLOW = 1 << 1, /* --peer, --qpn */
	OPT_RATE = 1 << 2,
	OPT_BURST = 1 << 3,
	OPT_DIRECTION = 1 << 4,
	OPT_SIZE = 1 << 5, /* the word behind the fault's name */
	OPT_PERIOD = 1 << 6,
	OPT_JITTER = 1 << 7, /* of a period */
	OPT_TIME = 1 << 8,
	OPT_TIME_JITTER = 1 << 9,
	OPT_LIMIT = 1 << 10,
	OPT_SHARE = 1 << 11,
	OPT_PID = 1 << 12,
	OPT_QPN = 1 << 13,
	OPT_CPUS = 1 << 14,
	OPT_PEER = 1 << 15,
};

struct inject_options {
	const char *nic;
	const char *host; /* NULL: this one; else shift-inject runs there */
	int64_t for_ms;	  /* -1: until interrupted */
	int64_t after_ms;
	bool json, dry_run, sure, until_eof;
	uint64_t seed;
	unsigned int given; /* enum inject_option */
	double rate;	    /* 0..1 */
	double burst;	    /* packets; 0: each by itself */
	enum direction direction;
	unsigned int size; /* bytes: drop-larger, mtu */
	int64_t period_ms;
	uint64_t count; /* periods; 0: endless */
	double duty, jitter;
	int64_t time_us, time_jitter_us;
	uint64_t limit_bits;
	double share;
	pid_t pid;
	unsigned int cpus;
	int64_t qpn;	 /* -1: all */
	int peer_family; /* 0: all */
	struct in6_addr peer;
	char peer_text[INET6_ADDRSTRLEN];
};

/* values.c: 0, or -1 if it is none. */
int parse_us(const char *s, int64_t *us);				  /* 2s, 5ms, 100us */
int parse_share(const char *s, double *share);				  /* 1%, 0.1% */
int parse_bits(const char *s, uint64_t *bits);				  /* 1gbit, 200mbit */
int parse_uint64(const char *s, uint64_t min, uint64_t max, uint64_t *n); /* 7, 0x1f */

/* What --nic names. */
struct target {
	char netdev[IFNAMSIZ], rdma[64]; /* rdma is empty for a netdev without one */
	unsigned int ifindex, port;
	bool is_ethernet;
	bool bypasses; /* its RoCE traffic never meets the kernel's queues and filters */
};

/* --- faults ---------------------------------------------------------------------------------- */

/* Two active faults that change the same thing of a NIC or process exclude each other. */
enum resource {
	RESOURCE_NONE = 0, /* composes with everything: filters, load */
	RESOURCE_LINK,	   /* up or down, MTU, addresses, driver */
	RESOURCE_QUEUE,	   /* the root qdisc */
	RESOURCE_PROCESS,
};

struct injection;

struct fault {
	const char *name, *summary;
	const char *usage;     /* its own options, as in the first line of its help */
	const char *text;      /* and what they mean */
	unsigned int options;  /* enum inject_option: those that it takes */
	unsigned int required; /* and those of them that it needs */
	enum resource resource;
	bool wire;		  /* works on packets that the kernel sees only */
	bool once;		  /* over at once, with nothing to undo */
	enum direction direction; /* if --direction is not given */
	/* Asks whether it is possible, and changes nothing. May be NULL. */
	int (*check)(struct injection *in, struct problem *p);
	/* Every change is preceded by journal_step(). */
	int (*begin)(struct injection *in, struct problem *p);
	/* The second half, --time after begin; the lock is not held in between. May be NULL. */
	int (*finish)(struct injection *in, struct problem *p);
	/* For those with a period; on: the share of it that --duty says begins. */
	int (*wave)(struct injection *in, bool on, struct problem *p);
};

/* Ended by an entry without a name. */
extern const struct fault faults[];
const struct fault *fault_find(const char *name);

struct injection {
	const struct fault *fault;
	struct inject_options o;
	struct target t;
	char id[64];
	struct cJSON *journal; /* what is on disk, or NULL: nothing changed yet */
	uint64_t random;
	int state_fd;	  /* of the packet program's counters, or -1 */
	char detail[160]; /* what it does, for people */
};

/*
 * What has been parsed is brought about, kept up and undone; prints what happens. Blocks. Returns a
 * status for exit(), everything undone unless that is INJECT_NOT_UNDONE.
 */
int fault_run(const struct fault *fault, const struct inject_options *o, struct problem *p);

/* xorshift64*: 0..1. */
double inject_random(struct injection *in);

/* Prints "would: ..." and returns true under --dry-run: the caller then does nothing. */
bool dry_run(const struct injection *in, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --- nic.c ----------------------------------------------------------------------------------- */

/* Where sysfs is. */
const char *sys_root(void);

int target_find(const struct inject_options *o, struct target *t, struct problem *p);

/* The target and all that stand on it, the lower ones first; masters: also a bond or bridge that it
 * is a part of, and what stands on that. */
struct link_set;
int target_links(const struct target *t, bool masters, struct link_set *links, struct problem *p);
bool target_has_upper(const struct target *t);

/* Is one the other, or (in any depth) on it? Or is there one that is on both? */
bool netdevs_are_stacked(const char *one, const char *other);
bool netdevs_share_upper(const char *one, const char *other);

/* Refuses what this host, or the user's session, is reached by. */
int target_is_safe(const struct target *t, struct problem *p);

/* --- journal.c ------------------------------------------------------------------------------- */

/*
 * Each injection that changed something has a file ID.json in /run/shift-inject
 * ($SHIFT_INJECT_DIR). Its "steps" say how each change is undone, in the order of the changes; a
 * step is written before its change is made, so undoing one whose change never happened must do no
 * harm.
 */

/* Where journals are, created if need be; returns NULL with p set if that is impossible. */
const char *journal_dir(struct problem *p);

/* May this user see what is active? */
int journal_may_read(struct problem *p);

/* Held while journals and NICs are changed, by one process at a time. -1 on error. */
int journal_lock(struct problem *p);
void journal_unlock(int lock);
/* Others may hold it meanwhile. */
void journal_wait(int ms);

int journal_begin(struct injection *in, struct problem *p);

/* Takes step; kind is one of undo.c's. To be called before the change. */
int journal_step(struct injection *in, const char *kind, struct cJSON *step, struct problem *p);

/* The whole is written again; for those who changed in->journal. */
int journal_write(struct injection *in, struct problem *p);

/*
 * In the order of their beginning; each to be deleted. At most max. broken (may be NULL) says the
 * first that cannot be read; its status is INJECT_NOT_UNDONE then.
 */
unsigned int journal_list(struct cJSON **list, unsigned int max, struct problem *broken);

/* That of this ID, to be deleted. NULL: there is none, or broken says why it cannot be read. */
struct cJSON *journal_find(const char *id, struct problem *broken);

void journal_remove(const struct cJSON *j);

/* Gives one up that cannot be undone or read: the file of this ID, which journal_find has looked
 * for, is no journal from now on, but ID.dropped; its path. 0 or a status. */
int journal_drop(const char *id, char *path, size_t bytes, struct problem *p);

/* --- json.c ---------------------------------------------------------------------------------- */

/* A member of an object; "" or none if it is not there, or of another type. */
const char *json_text(const struct cJSON *o, const char *key);
double json_number(const struct cJSON *o, const char *key, double none);

/* --- journal_owner.c, netns.c ---------------------------------------------------------------- */

/* When a process began, in ticks since boot; 0: there is none. */
uint64_t process_began(pid_t pid);

/* This process, boot and network namespace are those that make it. */
void journal_sign(struct cJSON *j);
void netns_sign(struct cJSON *j);

/* Of the same injection? */
bool journal_is_same(const struct cJSON *a, const struct cJSON *b);

/* Is the process that made it there to undo it? Its guard? */
bool journal_owner_lives(const struct cJSON *j);
bool journal_guard_lives(const struct cJSON *j);

/* Before a reboot, or in another network namespace. */
bool journal_is_of_another_boot(const struct cJSON *j);
bool journal_is_of_another_netns(const struct cJSON *j);

/* By which path that namespace can be entered; false: it is gone, or nobody can. */
bool journal_netns_find(const struct cJSON *j, char *path, size_t bytes);

/* --- undo.c ---------------------------------------------------------------------------------- */

/* All steps, backwards, and then the journal itself. The lock must be held. */
int undo_journal(const struct cJSON *j, struct problem *p);

/* The same, but of a network namespace that is gone nothing is left to be undone. */
int undo_of_gone_netns(const struct cJSON *j, struct problem *p);

/* What nobody is there any more to undo. The lock must be held. Says so on stderr. */
int undo_abandoned(struct problem *p);

/* --- guard.c --------------------------------------------------------------------------------- */

/*
 * A process that undoes should this one end without having done so. Returns the descriptor whose
 * closing tells it, or -1.
 */
int guard_start(struct injection *in, pid_t *guard);

/* All is undone: it ends. */
void guard_release(int fd, pid_t guard);

/* --- changes, in the files of the same names ------------------------------------------------- */

/* link.c */
int down_begin(struct injection *in, struct problem *p);
int up_begin(struct injection *in, struct problem *p);
int flap_wave(struct injection *in, bool on, struct problem *p);
int mtu_check(struct injection *in, struct problem *p);
int mtu_begin(struct injection *in, struct problem *p);
int addr_move_check(struct injection *in, struct problem *p);
int addr_move_begin(struct injection *in, struct problem *p);
int addr_move_finish(struct injection *in, struct problem *p);

/* link_state.c */
int link_restore(const struct cJSON *step, struct problem *p);

/* packet.c */
int packet_check(struct injection *in, struct problem *p);
int packet_begin(struct injection *in, struct problem *p);
/* Packets that matched, and those that it hit; of another process's by the id in the journal. */
bool packet_counters(int state_fd, uint64_t *matched, uint64_t *hit);
int packet_state_by_id(uint32_t id);

/* queue.c */
int queue_check(struct injection *in, struct problem *p);
int queue_begin(struct injection *in, struct problem *p);
int pause_begin(struct injection *in, struct problem *p);
int pause_wave(struct injection *in, bool on, struct problem *p);
int pause_release(const struct cJSON *step, struct problem *p);

/* process.c */
int sigstop_check(struct injection *in, struct problem *p);
int sigstop_begin(struct injection *in, struct problem *p);
int throttle_check(struct injection *in, struct problem *p);
int throttle_begin(struct injection *in, struct problem *p);
int throttle_undo(const struct cJSON *step, struct problem *p);
int stress_begin(struct injection *in, struct problem *p);

#endif
