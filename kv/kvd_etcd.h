/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-kvd etcd: an etcd of a job's own.
 *
 *   kvd_etcd.c         the command: finds the one there is, or takes the lock and forks the guard
 *   kvd_etcd_query.c   questions to an etcd
 *   kvd_etcd_listen.c  where it listens
 *   kvd_guard.c        the guard: etcd's parent, which ends it when no shift-kvd uses it
 */
#ifndef SHIFT_KVD_ETCD_H
#define SHIFT_KVD_ETCD_H

#include "kv/kvd.h"

struct addrinfo;

/*
 * In the job's directory, which only its owner can enter; etcd takes no path in a URL, so it is
 * started there. Both names are shorter than that of shift-kvd's socket, which fits.
 */
#define ETCD_SOCKET	 "etcd:0"
#define ETCD_PEER_SOCKET "peer:0" /* etcd insists on one */

enum {
	LISTENS_MAX = 32,
	LISTEN_CHARS = 64, /* ADDRESS:PORT */
};

struct guard {
	char job[KV_JOB_MAX + 1];
	char dir[PATH_MAX];	 /* of the job; in it: */
	char lock[PATH_MAX];	 /* held by the guard */
	char url_file[PATH_MAX]; /* its address, once it answers; locked by a process that looks it
				    up */
	char log[PATH_MAX], data[PATH_MAX];
	char program[PATH_MAX];
	char listen[LISTENS_MAX][LISTEN_CHARS];
	int listens;		       /* their number; 0: nowhere but at local_url */
	char url[600];		       /* as the others name it */
	char local_url[PATH_MAX + 16]; /* its socket, where the guard asks */
	char kvd_lock[PATH_MAX];
	char name[32]; /* of this etcd, random */
	int64_t grace_ms;
	int lock_fd, answer_fd;
};

/* Does an etcd answer at that address within the time? */
bool etcd_answers(const char *url, int timeout_ms);

/* Is it the one of this name? */
bool etcd_is(const char *url, const char *name, int timeout_ms);

/*
 * Counts the leases of daemons; negative: no answer. With `join`, first grants such a lease for ten
 * seconds, which stands for a daemon that is about to start.
 */
int etcd_presences(const char *url, bool join, int timeout_ms);

/* "1.2.3.4", "1.2.3.4:5", "[::1]", "[::1]:5"; only numbers. Without a port: a free one. To be freed
 * with freeaddrinfo(); ends the process on anything else. */
struct addrinfo *etcd_parse_listen(const char *words);

/* Writes what can be bound, also where that fails now. 0 or a negative errno. */
int etcd_try_bind(char listen_text[LISTEN_CHARS], const struct addrinfo *a);

/*
 * All of g->listen are in use. NULL: by an etcd that this user or root has started, which is as
 * good as our own. Else why it is not, for a message. Waits for an answer of each for that time.
 */
const char *etcd_port_refusal(const struct guard *g, int timeout_ms);

/* NULL: nobody but this user and root listens there. Else who does, for a message. */
const char *etcd_owner_refusal(const char *listen);

/* The detached process. When the result is known it writes one line to answer_fd: the address, or
 * '!' and the error. */
_Noreturn void guard_run(struct guard *g);

#endif
