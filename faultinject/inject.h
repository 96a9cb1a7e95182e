/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The faults, and what all of them share: their options, the journal by which every change is
 * undone, and the run of a fault from its beginning to its end.
 *
 * Errors: functions return 0 or a status of enum inject_status, with the reason in the struct
 * problem. Only --dry-run and fault_run() print anything.
 */
#ifndef SHIFT_INJECT_H
#define SHIFT_INJECT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cJSON;
struct pollfd;

/* Documented in shift-inject(1). */
enum inject_status {
	INJECT_OK = 0,
	INJECT_FAILED = 1,
	INJECT_BAD_USAGE = 2,
	INJECT_NOT_FOUND = 3,
	INJECT_REFUSED = 4,
	INJECT_NO_PERMISSION = 5,
	INJECT_NOT_UNDONE = 6,
	INJECT_LATE = 7, /* its guard has undone it */
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

/* --- clock.c --------------------------------------------------------------------------------- */

static const int64_t INJECT_NEVER = INT64_MAX;

/* Since boot, while the machine was suspended too. */
int64_t inject_now_ms(void);

/* poll(), until that time. At most 4 descriptors. */
void inject_poll(struct pollfd *fds, int count, int64_t at_ms);

/* The NIC that --nic names. */
struct target {
	char netdev[IFNAMSIZ], rdma[64]; /* rdma is empty for a netdev without one */
	unsigned int ifindex, port;
	bool is_ethernet;
	bool bypasses; /* its RoCE traffic bypasses the kernel's queues and filters */
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
	bool lets_go;		  /* gives the lock away for seconds while it changes or undoes */
	enum direction direction; /* if --direction is not given */
	/* Checks whether the fault is possible, and changes nothing. May be NULL. */
	int (*check)(struct injection *in, struct problem *p);
	/* Every change is preceded by journal_step(). */
	int (*begin)(struct injection *in, struct problem *p);
	/* The second half of the fault, --time after begin. The lock is not held in between. May be
	 * NULL. */
	int (*finish)(struct injection *in, struct problem *p);
	/* For faults with a period: on is true at the beginning of --duty's share of it, false at
	 * its end. */
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
 * Begins a fault, keeps it up and undoes it; prints what happens. Blocks. Returns a status for
 * exit(); everything is undone unless that is INJECT_NOT_UNDONE.
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

/* The first line of a file, cut at bytes - 1. False: it cannot be read, or has none. */
bool read_first_line(const char *path, char *line, size_t bytes);

int target_find(const struct inject_options *o, struct target *t, struct problem *p);

/* The target and all links on top of it, the lower ones first. masters: also a bond or bridge that
 * the target is a part of, and the links on top of that. */
struct link_set;
int target_links(const struct target *t, bool masters, struct link_set *links, struct problem *p);
bool target_has_upper(const struct target *t);

/* stacked: one is the other, or is on top of it, at any depth. share: a third netdev is on top of
 * both. */
bool netdevs_are_stacked(const char *one, const char *other);
bool netdevs_share_upper(const char *one, const char *other);

/* Does fn hold for the netdev or one that stands on it: a bond, a bridge, a VLAN? */
bool netdev_carries(const char *netdev, bool (*fn)(const char *netdev, void *arg), void *arg);

/* --- reach.c --------------------------------------------------------------------------------- */

/* Refuses the NIC by which this host, or the user's session, is reached. */
int target_is_safe(const struct target *t, struct problem *p);

/* --- journal.c ------------------------------------------------------------------------------- */

/*
 * Each injection that changed something has a file ID.json in /run/shift-inject
 * ($SHIFT_INJECT_DIR). Its "steps" say how each change is undone, in the order of the changes; a
 * step is written before its change is made, so undoing one whose change never happened must do no
 * harm.
 */

/* May this user read the journals? Only its own are believed. */
int journal_may_read(struct problem *p);

/* Held while journals and NICs are changed, by one process at a time. -1 on error. */
int journal_lock(struct problem *p);
void journal_unlock(int lock);
/* The same at once, or -1 without a status if another process holds it. */
int journal_try_lock(struct problem *p);
/* The process that holds it, or 0: not known. */
pid_t journal_lock_holder(void);
/* Others may hold it meanwhile. */
void journal_wait(int ms);

int journal_begin(struct injection *in, struct problem *p);

/* Must be called before the change. Takes ownership of step. kind: one of those in undo.c. */
int journal_step(struct injection *in, const char *kind, struct cJSON *step, struct problem *p);

/* Writes the whole journal again, after a change of in->journal. */
int journal_write(struct injection *in, struct problem *p);

/*
 * Reads at most max journals, in the order in which their faults began; each is to be deleted.
 * broken (may be NULL): the first journal that cannot be read; its status is INJECT_NOT_UNDONE
 * then.
 */
unsigned int journal_list(struct cJSON **list, unsigned int max, struct problem *broken);

/* The journal of this ID, to be deleted. NULL: there is none, or broken says why it cannot be
 * read. */
struct cJSON *journal_find(const char *id, struct problem *broken);

/* A journal of that ID, to be deleted; NULL: the text is not one. Its numbers may be anything. */
struct cJSON *journal_parse(const char *text, const char *id);

void journal_remove(const struct cJSON *j);

/* Gives up a journal that cannot be undone or read: renames the file of this ID, for which
 * journal_find() has looked, to ID.dropped, and returns its path. 0 or a status. */
int journal_drop(const char *id, char *path, size_t bytes, struct problem *p);

/* --- json.c ---------------------------------------------------------------------------------- */

/* A member of an object; "" or none if it is not there, or of another type. */
const char *json_text(const struct cJSON *o, const char *key);
double json_number(const struct cJSON *o, const char *key, double none);
/* A number that fits, or 0. */
uint32_t json_uint32(const struct cJSON *o, const char *key);
pid_t json_pid(const struct cJSON *o, const char *key);

/* --- journal_owner.c, netns.c ---------------------------------------------------------------- */

/* When a process began, in ticks since boot; 0: there is none. */
uint64_t process_began(pid_t pid);

/* Is it stopped, by a signal or a debugger? */
bool process_is_stopped(pid_t pid);

/* Adds this process, boot and network namespace to a journal. */
void journal_sign(struct cJSON *j);
void netns_sign(struct cJSON *j);

/* Of the same injection? */
bool journal_is_same(const struct cJSON *a, const struct cJSON *b);

/* Does the process that made it live, to undo it? Does its guard? */
bool journal_owner_lives(const struct cJSON *j);
bool journal_guard_lives(const struct cJSON *j);

/* Before a reboot, or in another network namespace. */
bool journal_is_of_another_boot(const struct cJSON *j);
bool journal_is_of_another_netns(const struct cJSON *j);

/* A path by which that namespace can be entered. False: it is gone, or cannot be entered. */
bool journal_netns_find(const struct cJSON *j, char *path, size_t bytes);

/* --- undo.c ---------------------------------------------------------------------------------- */

/* Undoes all steps, the last one first, and removes the journal. The lock must be held. */
int undo_journal(const struct cJSON *j, struct problem *p);

/* The same for a network namespace that is gone, in which nothing is left to be undone. */
int undo_of_gone_netns(const struct cJSON *j, struct problem *p);

/* Undoes faults whose process and guard are both gone, and adds their IDs to left. The lock must be
 * held. */
int undo_abandoned(char *left, size_t bytes, struct problem *p);

/* --- guard.c --------------------------------------------------------------------------------- */

/*
 * A second process, which undoes a fault if the first one ends without having done so, or has not
 * done so some seconds after its time. What needs the same things as the guard's undoing is done
 * with the lock of the journals held, or between guard_enter() and guard_leave().
 */
struct guard_page;
struct guard {
	pid_t pid; /* -1: there is none */
	int fd;	   /* by whose end the guard notices */
	struct guard_page *page;
};
#define GUARD_NONE           \
	{                    \
		-1, -1, NULL \
	}

/* 0 or a negative errno; guard_release() is due in both cases. */
int guard_start(struct guard *g, const char *id);

/* When the fault's time is over; INJECT_NEVER: it has none. */
void guard_set_end(struct guard *g, int64_t end_ms);

/* False: the guard has taken the fault over, which is not to be changed any more. */
bool guard_enter(struct guard *g);
void guard_leave(struct guard *g);

/* When the guard has undone the fault; 0: it has not. With the lock held, that does not change. */
int64_t guard_has_undone(const struct guard *g);

/* Ends the guard, when everything is undone. */
void guard_release(struct guard *g);

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
/* Packets that matched, and packets that were hit. Of another process: by the id in its journal. */
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
