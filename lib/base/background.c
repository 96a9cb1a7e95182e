/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The loop of the background thread: descriptors, calls from other threads, and its start. */
#include "lib/base/background.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/base/timers.h"

enum {
	EVENTS = 32,
	BUCKETS = 64,
	FLUSHES_MAX = 8,
	BROKEN_SLEEP_MS = 10,
	LATE_MS = 100,
};

struct watch {
	int fd;
	uint32_t serial; /* tells events of this watch from those of an earlier one of the fd */
	void (*fn)(void *arg, uint32_t events);
	void *arg;
	struct watch *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static bool started;
static bool asleep; /* the loop sleeps, or is about to: a call must write to the eventfd */
static struct bg_call *calls, **calls_tail = &calls;

static void (*_Atomic flushes[FLUSHES_MAX])(void);
static _Thread_local bool is_bg;
static int epoll_fd = -1, wake_fd = -1;
static _Atomic uint64_t stopped_ns; /* written by the background thread */
/* Background thread only. */
static struct watch *watches[BUCKETS];
static uint32_t watch_serial;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bg_awake_ns(void)
{
	return now_ns() - atomic_load_explicit(&stopped_ns, memory_order_relaxed);
}

bool bg_is_self(void)
{
	return is_bg;
}

/* ---- calls --------------------------------------------------------------------------------- */

static void loop_wake(void)
{
	uint64_t one = 1;
	ssize_t n = write(wake_fd, &one, sizeof(one));

	(void)n; /* if the eventfd is full, the loop wakes anyway */
}

/* With the lock, which it gives back. */
static void call_queue(struct bg_call *call)
{
	bool sleeping = false;

	if (!call->queued) {
		call->queued = true;
		call->next = NULL;
		*calls_tail = call;
		calls_tail = &call->next;
		sleeping = asleep;
		asleep = false;
	}
	pthread_mutex_unlock(&lock);
	if (sleeping)
		loop_wake();
}

void bg_call(struct bg_call *call)
{
	/* The child has no thread to run it, and the lock may be held by a thread of the parent. */
	if (fork_in_child())
		return;
	pthread_mutex_lock(&lock);
	call_queue(call);
}

bool bg_call_try(struct bg_call *call)
{
	if (fork_in_child() || pthread_mutex_trylock(&lock))
		return false;
	call_queue(call);
	return true;
}

/* Runs the calls that are queued now. Calls that these queue wait for the next turn, so that timers
 * are not starved. */
static void run_calls(void)
{
	struct bg_call *list, *next;

	pthread_mutex_lock(&lock);
	list = calls;
	calls = NULL;
	calls_tail = &calls;
	pthread_mutex_unlock(&lock);
	for (; list; list = next) {
		pthread_mutex_lock(&lock);
		next = list->next;
		list->queued = false;
		pthread_mutex_unlock(&lock);
		list->fn(list->arg);
	}
}

/* ---- descriptors --------------------------------------------------------------------------- */

static struct watch **watch_find(int fd)
{
	struct watch **at = &watches[(unsigned int)fd % BUCKETS];

	while (*at && (*at)->fd != fd)
		at = &(*at)->next;
	return at;
}

int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg)
{
	struct epoll_event event = {.events = events};
	struct watch **at, *w;

	if (fd < 0)
		return -EBADF;
	bg_unwatch(fd);
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct watch){.fd = fd, .serial = ++watch_serial, .fn = fn, .arg = arg};
	event.data.u64 = (uint64_t)w->serial << 32 | (uint32_t)fd;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		int err = -errno;

		free(w);
		return err;
	}
	at = watch_find(fd);
	w->next = *at;
	*at = w;
	return 0;
}

void bg_unwatch(int fd)
{
	struct watch **at = watch_find(fd), *w = *at;

	if (!w)
		return;
	*at = w->next;
	free(w);
	/* This fails if the descriptor has been closed already, which does no harm. */
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void watch_dispatch(const struct epoll_event *event)
{
	struct watch *w = *watch_find((int)(uint32_t)event->data.u64);

	if (w && w->serial == (uint32_t)(event->data.u64 >> 32))
		w->fn(w->arg, event->events);
}

static void loop_woken(void *arg, uint32_t events)
{
	uint64_t count;
	ssize_t n = read(wake_fd, &count, sizeof(count));

	(void)arg;
	(void)events;
	(void)n;
}

/* ---- the loop ------------------------------------------------------------------------------ */

void bg_before_sleep(void (*fn)(void))
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < FLUSHES_MAX; i++) {
		if (flushes[i] == fn)
			break;
		if (!flushes[i]) {
			flushes[i] = fn;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static void run_flushes(void)
{
	for (unsigned int i = 0; i < FLUSHES_MAX && flushes[i]; i++)
		flushes[i]();
}

/* How long the loop may sleep, in ms; -1: until something wakes it. */
static int sleep_ms(void)
{
	uint64_t at = timers_next_ns(), now;
	bool waiting;

	pthread_mutex_lock(&lock);
	waiting = calls != NULL;
	asleep = !waiting;
	pthread_mutex_unlock(&lock);
	if (waiting)
		return 0;
	if (at == UINT64_MAX)
		return -1;
	now = now_ns();
	if (at <= now)
		return 0;
	at = (at - now + 999999) / 1000000;
	return at < 60000 ? (int)at : 60000;
}

/* The program closed our epoll descriptor (closefrom). Timers and calls go on, checked every 10 ms.
 */
static void loop_epoll_failed(void)
{
	static bool warned;
	const struct timespec t = {.tv_nsec = BROKEN_SLEEP_MS * 1000000L};

	if (!warned)
		log_error("the program closed a file descriptor of libshift (closefrom?): failures "
			  "of links and NICs are noticed late or not at all");
	warned = true;
	nanosleep(&t, NULL);
}

/* Called before the timers run. The earliest of them tells for how long this thread did not run. */
static void note_stopped_time(uint64_t now)
{
	static uint64_t noted_ns;
	uint64_t due = timers_next_ns(), late = LATE_MS * UINT64_C(1000000);

	due = due > noted_ns ? due : noted_ns;
	noted_ns = now;
	if (now < due || now - due <= late)
		return;
	atomic_fetch_add(&stopped_ns, now - due - late);
	log_debug("this process did not run for %llu ms",
		  (unsigned long long)(now - due) / 1000000);
}

static void loop_turn(void)
{
	uint64_t now;
	struct epoll_event events[EVENTS];
	int n = epoll_wait(epoll_fd, events, EVENTS, sleep_ms());

	pthread_mutex_lock(&lock);
	asleep = false;
	pthread_mutex_unlock(&lock);
	if (n < 0 && errno != EINTR)
		loop_epoll_failed();
	for (int i = 0; i < n; i++)
		watch_dispatch(&events[i]);
	run_calls();
	now = now_ns();
	note_stopped_time(now);
	timers_run(now);
	run_flushes();
}

static void *bg_main(void *arg)
{
	(void)arg;
	is_bg = true;
	thread_init("shift");
	bg_watch(wake_fd, EPOLLIN, loop_woken, NULL);
	for (;;)
		loop_turn();
	return NULL;
}

/* ---- the start ----------------------------------------------------------------------------- */

static int open_fds(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return wake_fd < 0 ? -errno : 0;
}

static void close_fds(void)
{
	if (epoll_fd >= 0)
		close(epoll_fd);
	if (wake_fd >= 0)
		close(wake_fd);
	epoll_fd = wake_fd = -1;
}

static int start_locked(void)
{
	pthread_t thread;
	int err = fork_watch();

	if (err)
		return err;
	err = open_fds();
	if (!err)
		err = timers_reserve(64);
	if (!err)
		err = thread_start(&thread, bg_main, NULL);
	if (err)
		close_fds();
	return err;
}

int bg_start(void)
{
	int err = 0;

	if (fork_in_child())
		return -ECHILD;
	pthread_mutex_lock(&lock);
	if (!started)
		err = start_locked();
	started = !err;
	pthread_mutex_unlock(&lock);
	return err;
}
