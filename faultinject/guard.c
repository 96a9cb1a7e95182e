/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The guard undoes a fault when its process is ended by SIGKILL or crashes, and when that process
 * has not undone it although its time is over: because it is stopped, frozen, or waits for a
 * terminal that does not scroll.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

enum {
	LATE_MS = 1000,	   /* so late, a process that is stopped is not waited for any more */
	SLOW_MS = 3000,	   /* so much later, nor is one that may only be slow, under load */
	LOOK_MS = 100,	   /* whether it is stopped */
	STEP_MS = 20,	   /* between two looks at a lock */
	STOPPED_MS = 1000, /* for so long a stopped process may keep what the guard needs */
	BUSY_MS = 30000,   /* and so long one that is not stopped */
};

/* Shared by the process and its guard. */
struct guard_page {
	pthread_mutex_t busy; /* held during a wave, and while the guard undoes */
	atomic_llong due_ms, undone_ms;
	atomic_bool taken;
};

static struct guard_page *make_page(void)
{
	struct guard_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (page == MAP_FAILED)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&page->busy, &attr);
	pthread_mutexattr_destroy(&attr);
	page->due_ms = INJECT_NEVER;
	return page;
}

/* After the death of the one that held it, the mutex is the other one's. */
static bool page_locked(struct guard_page *page, int err)
{
	if (err == EOWNERDEAD)
		err = pthread_mutex_consistent(&page->busy);
	return !err;
}

/* --- the guard ------------------------------------------------------------------------------- */

struct ward {
	struct guard_page *page;
	const char *id;
	pid_t owner;
	int fd;
	bool killed, said;
};

/* Only as long as it is our parent: its number is not used again before. */
static void kill_owner(struct ward *w)
{
	if (getppid() != w->owner || kill(w->owner, SIGKILL))
		return;
	w->killed = true;
}

/* Does the process keep what the guard needs for longer than it may? */
static bool is_overdue(const struct ward *w, int64_t since_ms)
{
	int64_t waited_ms = inject_now_ms() - since_ms;

	return waited_ms > BUSY_MS || (waited_ms > STOPPED_MS && process_is_stopped(w->owner));
}

/* The lock of the journals, or -1. A process that stands still with it is killed. */
static int lock_journals(struct ward *w, struct problem *p)
{
	int64_t since_ms = inject_now_ms();
	int lock;

	while ((lock = journal_try_lock(p)) < 0 && !p->status) {
		if (!w->killed && is_overdue(w, since_ms) && journal_lock_holder() == w->owner)
			kill_owner(w);
		poll(NULL, 0, STEP_MS);
	}
	return lock;
}

static void lock_page(struct ward *w)
{
	int64_t since_ms = inject_now_ms();

	while (!page_locked(w->page, pthread_mutex_trylock(&w->page->busy))) {
		if (!w->killed && is_overdue(w, since_ms))
			kill_owner(w);
		poll(NULL, 0, STEP_MS);
	}
}

/* Did that process write a journal? It may have failed before. */
static int undo_of(const char *id, struct problem *p)
{
	cJSON *j = journal_find(id, p);
	int status = j ? undo_journal(j, p) : p->status;

	cJSON_Delete(j);
	return status;
}

/* Not to a terminal or a pipe that does not take it: the guard has more to do. A pipe that is
 * ready takes this much. */
static void say_if_heard(const char *id, const char *what, const char *text)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[600];
	int n = snprintf(line, sizeof(line), "shift-inject: %s: %s%s\n", id, what, text);

	if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT))
		return;
	if (write(STDERR_FILENO, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return;
}

static int undo_for_owner(struct ward *w)
{
	struct problem p = {0};
	int lock = lock_journals(w, &p), status = p.status;

	if (lock >= 0) {
		lock_page(w);
		/* The process may have got on meanwhile, and ends the fault itself. */
		if (w->page->due_ms <= inject_now_ms()) {
			w->page->taken = true;
			status = undo_of(w->id, &p);
			w->page->undone_ms = status ? 0 : inject_now_ms();
		}
		pthread_mutex_unlock(&w->page->busy);
	}
	journal_unlock(lock);
	/* Not before: a terminal may be stopped. */
	if (w->killed && !w->said)
		say_if_heard(w->id,
			     "its process stood still amid a change when its time was over; it was "
			     "killed",
			     "");
	w->said = w->killed;
	if (status)
		say_if_heard(w->id, "not undone: ", p.text);
	return status;
}

/* Nobody has ended the fault, although its time is over. */
static bool is_late(const struct ward *w)
{
	int64_t late_ms = inject_now_ms() - w->page->due_ms;

	return late_ms >= SLOW_MS || (late_ms >= 0 && process_is_stopped(w->owner));
}

/* True: the process is gone. False: it has said something, or it is time to look. */
static bool owner_is_gone(const struct ward *w)
{
	struct pollfd fd = {.fd = w->fd, .events = POLLIN};
	int64_t at_ms = w->page->due_ms, soon_ms = inject_now_ms() + LOOK_MS;
	char said[16];

	inject_poll(&fd, 1, at_ms > soon_ms ? at_ms : soon_ms);
	return fd.revents && read(w->fd, said, sizeof(said)) == 0;
}

/* Until the process ends, unless it has named another time meanwhile. */
static void try_no_more(struct guard_page *page)
{
	long long due_ms = page->due_ms;

	if (due_ms <= inject_now_ms())
		atomic_compare_exchange_strong(&page->due_ms, &due_ms, INJECT_NEVER);
}

static _Noreturn void guard_main(struct ward *w)
{
	sigset_t all;

	/* A terminal's hang-up, the end of a session or a kill of the process group must not end
	 * the guard. */
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "inject-guard");
	/* There may be an answer to its process, which was killed before it read that. */
	rtnl_renew();
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (chdir("/"))
		_exit(1);
	for (;;) {
		bool gone = owner_is_gone(w);
		int status;

		if (gone)
			w->page->due_ms = 0;
		if (!gone && !is_late(w))
			continue;
		status = undo_for_owner(w);
		if (gone || w->page->undone_ms)
			_exit(status);
		try_no_more(w->page);
	}
}

/* --- its process ----------------------------------------------------------------------------- */

int guard_start(struct guard *g, const char *id)
{
	struct ward w = {.id = id, .owner = getpid()};
	int ends[2], err;

	g->page = w.page = make_page();
	if (!g->page)
		return -errno;
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	g->pid = fork();
	if (!g->pid) {
		close(ends[1]);
		w.fd = ends[0];
		guard_main(&w);
	}
	err = g->pid < 0 ? -errno : 0;
	close(ends[0]);
	g->fd = ends[1];
	return err;
}

static void set_due(struct guard *g, int64_t at_ms)
{
	if (!g->page)
		return;
	g->page->due_ms = at_ms;
	/* It looks at the page again. One that is gone needs not to. */
	if (write(g->fd, "t", 1) < 0)
		return;
}

void guard_set_end(struct guard *g, int64_t end_ms)
{
	set_due(g, end_ms == INJECT_NEVER ? INJECT_NEVER : end_ms + LATE_MS);
}

bool guard_enter(struct guard *g)
{
	if (!g->page)
		return true;
	if (page_locked(g->page, pthread_mutex_lock(&g->page->busy)) && !g->page->taken)
		return true;
	guard_leave(g);
	return false;
}

void guard_leave(struct guard *g)
{
	if (g->page)
		pthread_mutex_unlock(&g->page->busy);
}

int64_t guard_has_undone(const struct guard *g)
{
	return g->page ? g->page->undone_ms : 0;
}

/* By SIGKILL, as the guard may be stopped. */
void guard_release(struct guard *g)
{
	if (g->pid > 0 && !kill(g->pid, SIGKILL))
		waitpid(g->pid, NULL, 0);
	if (g->fd >= 0)
		close(g->fd);
	if (g->page)
		munmap(g->page, sizeof(*g->page));
	*g = (struct guard)GUARD_NONE;
}
