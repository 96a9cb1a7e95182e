/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Threads as coroutines, and the clock. The linker puts these functions in the place of those of
 * the system (--wrap), so that a thread of the library or of the program gives way at each of them,
 * or is held up there for a while.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <ucontext.h>

#include "lib/base/gate.h"
#include "lib/base/reentry.h"
#include "lib/base/short_lock.h"
#include "lib/base/worker.h"
#include "tests/glue/glue.h"

/* The address sanitizer must know on which stack it is. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define FIBER_BEGIN(fake, stack, bytes) __sanitizer_start_switch_fiber(fake, stack, bytes)
#define FIBER_END(fake, stack, bytes)	__sanitizer_finish_switch_fiber(fake, stack, bytes)
#else
#define FIBER_BEGIN(fake, stack, bytes) ((void)(fake), (void)(stack), (void)(bytes))
#define FIBER_END(fake, stack, bytes)	((void)(fake), (void)(stack), (void)(bytes))
#endif

enum { THREADS = 96, STACK_BYTES = 128 * 1024, TLS_BYTES = 1024, EVENTS = 1 << 15 };
enum { STEPS_MAX = 6000000 };

struct thread {
	ucontext_t ctx;
	char name[16];
	void *(*fn)(void *arg);
	void *arg;
	const void *waits_on; /* NULL: it can run from ready_at on */
	uint64_t ready_at;
	bool started, ended;
	void *here[5];	  /* where it gave way: __builtin_setjmp() */
	void *fake_stack; /* of the address sanitizer */
	char tls[TLS_BYTES];
};

struct event {
	uint64_t at, order;
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
};

uint64_t now = 1000000000;

static struct thread threads[THREADS];
static char stacks[THREADS][STACK_BYTES] __attribute__((aligned(4096)));
static unsigned int count;
static struct thread *self; /* NULL: events, and main() */
static void *scheduler[5];
static struct event heap[EVENTS];
static uint32_t events;
static uint64_t order;
static char *tls_here; /* the variables of a thread that the library and the test have */
static size_t tls_bytes;
static const void *tls_first; /* their first values; those behind them are 0 */
static size_t tls_first_bytes;
static uint32_t yield_ppm, delay_ppm, long_ppm;
static bool background_woken;
static const void *scheduler_stack; /* for the address sanitizer, as the next two */
static size_t scheduler_stack_bytes;
static void *scheduler_fake;

/* --- variables of a thread -------------------------------------------------------------------- */

/* The first object is the program itself, which the library is linked into. */
static int find_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS) {
			tls_here = info->dlpi_tls_data;
			tls_bytes = info->dlpi_phdr[i].p_memsz;
			tls_first = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
			tls_first_bytes = info->dlpi_phdr[i].p_filesz;
		}
	return 1;
}

/* --- switching -------------------------------------------------------------------------------- */

/*
 * Not by swapcontext(), which makes two system calls. noipa: else the compiler sees which registers
 * these functions use themselves, and their callers keep values in the others, which the other
 * threads do not restore.
 */
static __attribute__((noipa, noreturn)) void jump(void **to)
{
	__builtin_longjmp(to, 1);
}

static __attribute__((noipa)) void enter(struct thread *t)
{
	if (__builtin_setjmp(scheduler))
		return;
	if (t->started)
		jump(t->here);
	t->started = true;
	setcontext(&t->ctx);
}

static __attribute__((noipa)) void leave(struct thread *t)
{
	if (!__builtin_setjmp(t->here))
		jump(scheduler);
}

static void run_thread(struct thread *t)
{
	static char own[TLS_BYTES];

	tally->switches_of_threads++;
	memcpy(own, tls_here, tls_bytes);
	memcpy(tls_here, t->tls, tls_bytes);
	self = t;
	FIBER_BEGIN(&scheduler_fake, stacks[t - threads], STACK_BYTES);
	enter(t);
	FIBER_END(scheduler_fake, NULL, NULL);
	self = NULL;
	memcpy(t->tls, tls_here, tls_bytes);
	memcpy(tls_here, own, tls_bytes);
}

static void give_way(void)
{
	FIBER_BEGIN(self->ended ? NULL : &self->fake_stack, scheduler_stack, scheduler_stack_bytes);
	leave(self);
	FIBER_END(self->fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

static void thread_run(void)
{
	FIBER_END(NULL, &scheduler_stack, &scheduler_stack_bytes);
	self->fn(self->arg);
	self->ended = true;
	give_way();
}

void thread_begin(const char *name, void *(*fn)(void *), void *arg)
{
	struct thread *t = &threads[count];

	if (count == THREADS)
		violation("test: too many threads");
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->fn = fn;
	t->arg = arg;
	memcpy(t->tls, tls_first, tls_first_bytes);
	t->ready_at = now;
	getcontext(&t->ctx);
	t->ctx.uc_stack.ss_sp = stacks[count];
	t->ctx.uc_stack.ss_size = STACK_BYTES;
	makecontext(&t->ctx, thread_run, 0);
	count++;
}

const char *thread_name(void)
{
	return self ? self->name : "-";
}

/* How long a thread is held up between two instructions: mostly not at all, seldom for long. */
static uint64_t some_delay(void)
{
	if (rnd_ppm(long_ppm))
		return rnd() % (20 * NS_MS);
	if (rnd_ppm(delay_ppm))
		return rnd() % (1ull << (6 + rnd_below(13)));
	return 0;
}

void thread_step(void)
{
	if (!self)
		return;
	now += 20;
	if (!rnd_ppm(yield_ppm))
		return;
	self->ready_at = now + some_delay();
	give_way();
}

void thread_sleep(uint64_t ns)
{
	if (!self)
		violation("test: sleeps outside of a thread");
	self->ready_at = now + ns + some_delay();
	give_way();
}

bool thread_wait(const void *on, uint64_t until)
{
	bool in_time;

	self->waits_on = on;
	self->ready_at = until;
	give_way();
	in_time = !self->waits_on;
	self->waits_on = NULL;
	return in_time;
}

void thread_wake(const void *on, bool all)
{
	unsigned int first = all ? 0 : rnd_below(count);

	for (unsigned int i = 0; i < count; i++) {
		struct thread *t = &threads[(first + i) % count];

		if (t->waits_on != on || t->ended)
			continue;
		t->waits_on = NULL;
		t->ready_at = now + some_delay();
		if (!all)
			return;
	}
}

void threads_stall(uint64_t ns)
{
	struct thread *t = &threads[rnd_below(count)];

	if (!t->waits_on && t->ready_at < now + ns)
		t->ready_at = now + ns;
}

/* --- events ----------------------------------------------------------------------------------- */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void event_at(uint64_t at, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	struct event e = {.at = at < now ? now : at, .order = order++, .fn = fn, .a = a, .b = b};
	uint32_t i = events;

	if (events == EVENTS)
		violation("test: too many events");
	events++;
	while (i && is_before(&e, &heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = e;
}

static void event_run(void)
{
	struct event e = heap[0], last = heap[--events];
	uint32_t i = 0, k;

	while ((k = 2 * i + 1) < events) {
		if (k + 1 < events && is_before(&heap[k + 1], &heap[k]))
			k++;
		if (!is_before(&heap[k], &last))
			break;
		heap[i] = heap[k];
		i = k;
	}
	heap[i] = last;
	e.fn(e.a, e.b);
}

/* --- the loop --------------------------------------------------------------------------------- */

static uint64_t next_time(void)
{
	uint64_t at = events ? heap[0].at : UINT64_MAX;

	for (unsigned int i = 0; i < count; i++)
		if (!threads[i].ended && threads[i].ready_at < at)
			at = threads[i].ready_at;
	return at;
}

static struct thread *some_thread(bool event_is_due)
{
	struct thread *ready[THREADS];
	unsigned int n = 0, i;

	for (i = 0; i < count; i++)
		if (!threads[i].ended && threads[i].ready_at <= now)
			ready[n++] = &threads[i];
	i = rnd_below(n + event_is_due);
	return i < n ? ready[i] : NULL;
}

static void one_step(void)
{
	bool due = events && heap[0].at <= now;
	uint64_t next = next_time();
	struct thread *t;

	if (next == UINT64_MAX)
		violation("everybody waits for ever: %s", oracle_hang());
	if (next > now) {
		now = next;
		return;
	}
	t = some_thread(due);
	if (t)
		run_thread(t);
	else
		event_run();
	now += 10;
}

void sched_run(const bool *done)
{
	uint64_t steps = 0;

	while (!*done) {
		one_step();
		if (++steps > STEPS_MAX)
			violation("no end after %u steps: %s", STEPS_MAX, oracle_hang());
	}
	tally->steps += steps;
}

void sched_setup(void)
{
	dl_iterate_phdr(find_tls, NULL);
	if (tls_bytes > TLS_BYTES)
		violation("test: %zu bytes of thread-local variables", tls_bytes);
	yield_ppm = (uint32_t)rnd_range(20000, 600000);
	delay_ppm = rnd_below(300000);
	long_ppm = one_in(3) ? rnd_below(3000) : 0;
}

/* --- in the place of the system's ------------------------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);
void __wrap_thread_init(const char *name);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags);
void __real_gate_forget(struct gate *g, const void *key);
void __wrap_gate_forget(struct gate *g, const void *key);
void __real_gate_forget_key(const void *key);
void __wrap_gate_forget_key(const void *key);

/* A mutex that the library has initialized is all zeros, but for its kind. */
struct fake_mutex {
	uint32_t owner; /* number of the thread + 1 */
};

static uint32_t self_number(void)
{
	return self ? (uint32_t)(self - threads) + 1 : THREADS + 1;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	struct fake_mutex *f = (void *)m;

	thread_step();
	if (m->__data.__kind < 0)
		violation("%s locks a mutex that was destroyed", thread_name());
	while (f->owner) {
		if (f->owner == self_number())
			violation("%s locks a mutex that it has", thread_name());
		if (!self)
			violation("test: a mutex is taken");
		thread_wait(m, UINT64_MAX);
	}
	f->owner = self_number();
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	struct fake_mutex *f = (void *)m;

	thread_step();
	if (f->owner)
		return EBUSY;
	f->owner = self_number();
	return 0;
}

static void mutex_release(pthread_mutex_t *m)
{
	struct fake_mutex *f = (void *)m;

	if (f->owner != self_number())
		violation("%s unlocks a mutex that it has not", thread_name());
	f->owner = 0;
	thread_wake(m, true);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	mutex_release(m);
	thread_step();
	return 0;
}

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, uint64_t until)
{
	bool in_time;

	mutex_release(m);
	if (one_in(50)) /* a wait may end without a reason */
		until = now + 1 < until ? now + 1 : until;
	in_time = thread_wait(c, until);
	__wrap_pthread_mutex_lock(m);
	return in_time ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	cond_wait(c, m, UINT64_MAX);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	uint64_t until = (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
	int err = cond_wait(c, m, until);

	return now < until ? 0 : err;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	thread_wake(c, false);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
	thread_wake(c, true);
	return 0;
}

/* Of a thread's end, and no thread ends. */
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	(void)key;
	(void)value;
	return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	thread_sleep((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec);
	return 0;
}

int __wrap_sched_yield(void)
{
	thread_sleep(rnd_below(2000));
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	now += 10;
	t->tv_sec = (time_t)(now / 1000000000u);
	t->tv_nsec = (long)(now % 1000000000u);
	return 0;
}

int __wrap_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	(void)thread;
	thread_begin("?", fn, arg);
	return 0;
}

void __wrap_thread_init(const char *name)
{
	snprintf(self->name, sizeof(self->name), "%s", name);
	hooks_off = true;
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags)
{
	uint64_t n = rnd();

	(void)flags;
	memcpy(to, &n, bytes < sizeof(n) ? bytes : sizeof(n));
	return (ssize_t)bytes;
}

/* The owner's keys are among the variables of its thread, which lie elsewhere while it does not
 * run. */
static void others_forget(const void *key)
{
	size_t at = (size_t)((char *)&gate_mine - tls_here);

	for (unsigned int i = 0; i < count; i++) {
		struct gate_keys *keys = (void *)(threads[i].tls + at);
		struct assoc *each[] = {&keys->send, &keys->recv, &keys->poll, &keys->srq};

		for (unsigned int k = 0; &threads[i] != self && k < 4; k++)
			assoc_forget(each[k], (uintptr_t)key);
	}
}

void __wrap_gate_forget(struct gate *g, const void *key)
{
	others_forget(key);
	__real_gate_forget(g, key);
}

void __wrap_gate_forget_key(const void *key)
{
	others_forget(key);
	__real_gate_forget_key(key);
}

/* --- locks of the data path ------------------------------------------------------------------- */

void __wrap_short_lock_wait(struct short_lock *l);

void __wrap_short_lock_wait(struct short_lock *l)
{
	const struct timespec us = {.tv_nsec = 1000};

	if (!self)
		violation("test: a short lock is taken");
	while (!short_lock_try(l))
		__wrap_nanosleep(&us, NULL);
}

/* --- jobs ------------------------------------------------------------------------------------- */

void __real_worker_submit(struct worker *w, struct job *job);
void __wrap_worker_submit(struct worker *w, struct job *job);

/* A job that is queued already would break the queue. */
void __wrap_worker_submit(struct worker *w, struct job *job)
{
	if (worker_cancel(w, job))
		violation("%s submits a job that waits already", thread_name());
	__real_worker_submit(w, job);
}

/* --- the background thread's sleep ------------------------------------------------------------ */

int __wrap_epoll_wait(int fd, struct epoll_event *e, int max, int timeout_ms);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

void background_wake(void)
{
	background_woken = true;
	thread_wake(&background_woken, true);
}

int __wrap_epoll_wait(int fd, struct epoll_event *e, int max, int timeout_ms)
{
	uint64_t until = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * NS_MS;

	(void)fd;
	(void)e;
	(void)max;
	if (!background_woken)
		thread_wait(&background_woken, until);
	background_woken = false;
	session_turn();
	return 0;
}

/* The library writes to nothing but the descriptor that wakes the background thread. */
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	(void)fd;
	(void)data;
	background_wake();
	thread_step();
	return (ssize_t)bytes;
}
