/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/read_wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/fds.h"

static bool is_of_the_cpu(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
	       signal == SIGTRAP || signal == SIGABRT;
}

/* Signals of the program's whose handlers end a read(2). */
static void find_interrupting(sigset_t *set)
{
	struct sigaction act;

	memset(set, 0, sizeof(*set)); /* sets are compared */
	sigemptyset(set);
	for (int i = 1; i < NSIG; i++)
		if (!is_of_the_cpu(i) && !sigaction(i, NULL, &act) && act.sa_handler != SIG_DFL &&
		    act.sa_handler != SIG_IGN && !(act.sa_flags & SA_RESTART))
			sigaddset(set, i);
}

/* As they were when this thread last looked: 64 system calls are too many for each sleep. */
static _Thread_local sigset_t interrupting;
static _Thread_local bool interrupting_is_known;

/* Are there others than when this thread last looked? */
static bool handlers_have_changed(void)
{
	sigset_t now;

	find_interrupting(&now);
	if (interrupting_is_known && !memcmp(&now, &interrupting, sizeof(now)))
		return false;
	interrupting = now;
	interrupting_is_known = true;
	return true;
}

/* Those that the thread has not blocked itself. false: there is none. */
static bool find_unblocked(const sigset_t *blocked, sigset_t *set)
{
	bool any = false;

	sigemptyset(set);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&interrupting, i) == 1 && !sigismember(blocked, i))
			any = !sigaddset(set, i);
	return any;
}

static bool none_interrupts(void)
{
	static const sigset_t none;

	return !memcmp(&interrupting, &none, sizeof(none));
}

struct sleep {
	sigset_t was;	    /* if such signals are blocked meanwhile */
	struct pollfd p[2]; /* the descriptor, and such a signal; -1: they are not blocked */
	bool any_ends;	    /* no descriptor is left for them: any signal ends the wait */
};

/* The usual sleep, without such handlers, costs no other system call than poll(2). */
static void sleep_begins(struct sleep *s)
{
	sigset_t ends;

	if (!interrupting_is_known)
		handlers_have_changed();
	if (none_interrupts())
		return;
	pthread_sigmask(SIG_SETMASK, NULL, &s->was);
	if (!find_unblocked(&s->was, &ends))
		return;
	s->p[1].fd = fd_move(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
	s->any_ends = s->p[1].fd < 0;
	if (!s->any_ends)
		pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

/* The handlers run here. */
static void sleep_ends(void *arg)
{
	struct sleep *s = arg;
	int err = errno;

	if (s->p[1].fd >= 0) {
		close(s->p[1].fd);
		pthread_sigmask(SIG_SETMASK, &s->was, NULL);
	}
	errno = err;
}

/* Of the signals that end a read(2), as it is now: has one come? */
static bool one_has_come(const struct sleep *s)
{
	sigset_t come, ends;

	sigpending(&come);
	find_unblocked(&s->was, &ends);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&ends, i) == 1 && sigismember(&come, i) == 1)
			return true;
	return false;
}

/* A signal has come that was blocked. *again: the program has since let its handler go on, or has
 * taken it away. */
static int sleep_is_interrupted(const struct sleep *s, bool *again)
{
	*again = handlers_have_changed() && !one_has_come(s);
	errno = EINTR;
	return -1;
}

static int sleep_once(int fd, bool *again)
{
	struct sleep s = {.p = {{.fd = fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}}};
	int n;

	*again = false;
	sleep_begins(&s);
	pthread_cleanup_push(sleep_ends, &s);
	do
		n = poll(s.p, 2, -1);
	while (n < 0 && errno == EINTR && !s.any_ends && !handlers_have_changed());
	if (n > 0 && !s.p[0].revents)
		n = sleep_is_interrupted(&s, again);
	pthread_cleanup_pop(1);
	return n < 0 ? -1 : 0;
}

int read_wait(int fd)
{
	bool again;
	int err;

	do
		err = sleep_once(fd, &again);
	while (again);
	return err;
}
