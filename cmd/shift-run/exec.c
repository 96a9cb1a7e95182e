/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Runs the command in place of this process, or (for --report) as a child that behaves alike: the
 * same process group, signals, stops and end.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

static struct sigaction chld_before;

void wait_for_children(void)
{
	struct sigaction chld = {.sa_handler = SIG_DFL};

	sigaction(SIGCHLD, &chld, &chld_before);
}

int exec_command(char **command)
{
	sigaction(SIGCHLD, &chld_before, NULL);
	execvp(command[0], command);
	say("%s: %s", command[0], strerror(errno));
	return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* Signals that are sent to this process but meant for the command. */
static const int passed_on[] = {SIGHUP,	 SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1,
				SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT};

static void set_of_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(set, passed_on[i]);
}

/* When a terminal hangs up, only the leader of its session gets the signal. */
static bool is_for_us_alone(const siginfo_t *info)
{
	return info->si_signo == SIGHUP && getsid(0) == getpid();
}

/* The child has a signal of the terminal's keys already, as the whole group gets it. */
static void pass_signal_on(pid_t pid, const siginfo_t *info)
{
	if (info->si_code != SI_KERNEL || is_for_us_alone(info))
		kill(pid, info->si_signo);
}

/*
 * This process stops with the child, so that a shell sees the same as without it. Not at SIGSTOP:
 * its sender, who does not know of this process, will continue only the child.
 */
static void stop_with_child(pid_t pid, int signo)
{
	if (signo == SIGSTOP)
		return;
	raise(SIGSTOP);
	kill(pid, SIGCONT);
}

static int follow_child(pid_t pid, const sigset_t *set)
{
	siginfo_t info;
	int status;

	for (;;) {
		if (sigwaitinfo(set, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD) {
			pass_signal_on(pid, &info);
			continue;
		}
		while (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
			if (!WIFSTOPPED(status))
				return status;
			stop_with_child(pid, WSTOPSIG(status));
		}
	}
}

/* A kill -9 of this process is meant for the command. */
static void become_command(char **command, pid_t parent, const sigset_t *mask)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_OURS);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(exec_command(command));
}

int run_command(char **command)
{
	pid_t parent = getpid(), pid;
	sigset_t set, mask;

	set_of_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &mask);
	pid = fork();
	if (pid < 0)
		die(EXIT_OURS, "cannot fork: %s", strerror(errno));
	if (!pid)
		become_command(command, parent, &mask);
	return follow_child(pid, &set);
}

_Noreturn void end_as(int wait_status)
{
	struct rlimit no_core = {0};
	int n = WTERMSIG(wait_status);
	sigset_t set;

	if (!WIFSIGNALED(wait_status))
		_exit(WEXITSTATUS(wait_status));
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_DUMPABLE, 0); /* a core_pattern with a pipe ignores the limit */
	signal(n, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, n);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(getpid(), n);
	_exit(128 + n);
}
