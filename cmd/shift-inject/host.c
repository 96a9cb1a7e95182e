/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A fault on another host: shift-inject runs there with --until-eof and a pipe that we hold, so
 * that the fault is undone whenever and however this process ends.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-inject/command.h"

enum { SSH_WORDS = 5, SSH_FAILED = 255, WORDS_MAX = 96, OUTPUT_BYTES = 1 << 20, EXEC_FAILED = 125 };

static void own_path(char path[PATH_MAX])
{
	int err = program_path(path);

	if (err)
		die(INJECT_FAILED, "/proc/self/exe: %s", strerror(-err));
}

/* A program of ours: in the build tree it is not beside this one. */
static const char *testbed_tool(void)
{
	static char path[PATH_MAX + 64];
	char own[PATH_MAX];

	own_path(own);
	*strrchr(own, '/') = 0;
	snprintf(path, sizeof(path), "%s/../../testbed/shift-testbed", own);
	return access(path, X_OK) ? "shift-testbed" : path;
}

/* Standard output of a command, to be freed; NULL: it failed. */
static char *output_of(char *const argv[])
{
	char *text = check_alloc(malloc(OUTPUT_BYTES));
	size_t used = 0;
	int ends[2], status;
	ssize_t n = 1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		check_alloc(NULL);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	while (n > 0 && used < OUTPUT_BYTES - 1) {
		n = read(ends[0], text + used, OUTPUT_BYTES - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(ends[0]);
	text[used] = 0;
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
		free(text);
		return NULL;
	}
	return text;
}

/* Is there a testbed of that name with that host? */
static bool testbed_has_host(const char *name, const char *host)
{
	char *argv[] = {(char *)(uintptr_t)testbed_tool(), "status", "--json", NULL};
	char *text = output_of(argv);
	cJSON *all = text ? cJSON_Parse(text) : NULL;
	const cJSON *t, *h;
	bool found = false;

	cJSON_ArrayForEach (t, cJSON_GetObjectItem(all, "testbeds"))
		cJSON_ArrayForEach (h, cJSON_GetObjectItem(t, "hosts"))
			found |= !strcmp(json_text(t, "name"), name) &&
				 !strcmp(json_text(h, "name"), host);
	cJSON_Delete(all);
	free(text);
	return found;
}

/* HOST of the testbed "default", TESTBED/HOST, or any name that ssh accepts. */
void host_find(const char *words, struct host *h)
{
	const char *slash = strchr(words, '/');
	size_t n = slash ? (size_t)(slash - words) : 0;

	memset(h, 0, sizeof(*h));
	if (!*words || *words == '-' || strlen(words) >= sizeof(h->name) || n >= sizeof(h->testbed))
		die(INJECT_BAD_USAGE, "--host %s: not the name of a host", words);
	snprintf(h->testbed, sizeof(h->testbed), "%.*s", slash ? (int)n : 7,
		 slash ? words : "default");
	snprintf(h->name, sizeof(h->name), "%s", slash ? slash + 1 : words);
	h->is_ssh = !testbed_has_host(h->testbed, h->name);
	if (h->is_ssh && slash)
		die(INJECT_NOT_FOUND, "--host %s: no such testbed is up, or it has no such host",
		    words);
}

/* For the shell that ssh has there. */
static char *quote_word(const char *word)
{
	char *s = check_alloc(malloc(4 * strlen(word) + 3)), *p = s;

	*p++ = '\'';
	for (; *word; word++)
		if (*word == '\'')
			p = stpcpy(p, "'\\''");
		else
			*p++ = *word;
	strcpy(p, "'");
	return s;
}

/* The command line that runs these words there, for free_words(). */
static char **words_there(const struct host *h, char *const words[])
{
	static const char *const ssh[SSH_WORDS] = {"ssh", "-oBatchMode=yes", "-oConnectTimeout=15",
						   "-oServerAliveInterval=5", "--"};
	char **argv = check_alloc(calloc(WORDS_MAX, sizeof(*argv)));
	int n = 0;

	if (h->is_here) {
		;
	} else if (h->is_ssh) {
		for (int i = 0; i < SSH_WORDS; i++)
			argv[n++] = (char *)(uintptr_t)ssh[i];
		argv[n++] = (char *)(uintptr_t)h->name;
	} else {
		argv[n++] = (char *)(uintptr_t)testbed_tool();
		argv[n++] = "exec";
		argv[n++] = "--name";
		argv[n++] = (char *)(uintptr_t)h->testbed;
		argv[n++] = (char *)(uintptr_t)h->name;
		argv[n++] = "--";
	}
	while (*words && n < WORDS_MAX - 2)
		argv[n++] = h->is_ssh ? quote_word(*words++) : *words++;
	return argv;
}

/* The words of quote_word() come after ssh's own and the name of the host. */
static void free_words(const struct host *h, char **argv)
{
	if (h->is_ssh)
		for (char **word = argv + SSH_WORDS + 1; *word; word++)
			free(*word);
	free(argv);
}

char *host_output(const struct host *h, char *const words[])
{
	char **argv = words_there(h, words), *text = output_of(argv);

	free_words(h, argv);
	return text;
}

pid_t host_start(const struct host *h, char *const words[], int out, int *hold)
{
	char own[PATH_MAX], *all[WORDS_MAX], **argv;
	int ends[2], n = 0;
	sigset_t none;
	pid_t pid;

	own_path(own);
	all[n++] = h->is_ssh ? "shift-inject" : own;
	while (*words && n < WORDS_MAX - 12)
		all[n++] = *words++;
	all[n++] = "--until-eof";
	all[n] = NULL;
	argv = words_there(h, all);
	if (pipe2(ends, O_CLOEXEC))
		die(INJECT_FAILED, "pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* A terminal's signals go to this process, which ends the other one in good
		 * order. */
		setsid();
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		dup2(ends[0], STDIN_FILENO);
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	free_words(h, argv);
	close(ends[0]);
	*hold = ends[1];
	return pid;
}

int host_status(const struct host *h, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : INJECT_FAILED;

	if (h->is_ssh && code == SSH_FAILED)
		say("%s: ssh failed", h->name);
	else if (code == 127)
		say("%s: shift-inject cannot be started there", h->name);
	else if (!WIFEXITED(status))
		say("%s: ended by signal %d", h->name, WTERMSIG(status));
	return code >= EXEC_FAILED ? INJECT_FAILED : code;
}

/* True after a signal that ends us, or at the end of standard input, if that counts. */
static bool shall_end(int signals, int *input)
{
	struct pollfd fds[2] = {{.fd = signals, .events = POLLIN},
				{.fd = *input, .events = POLLIN}};
	struct signalfd_siginfo s;
	char bytes[64];

	poll(fds, 2, -1);
	if (fds[1].revents && read(*input, bytes, sizeof(bytes)) <= 0) {
		*input = -1;
		return true;
	}
	return fds[0].revents && read(signals, &s, sizeof(s)) == sizeof(s) &&
	       s.ssi_signo != SIGCHLD;
}

/* Closing the pipe ends the fault there, after which its local process ends by itself. */
int host_run(const struct host *h, char *const words[], bool until_eof)
{
	static const int list[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD};
	int hold, signals, status, input = until_eof ? STDIN_FILENO : -1;
	sigset_t set;
	pid_t pid;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		sigaddset(&set, list[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	pid = host_start(h, words, -1, &hold);
	if (pid < 0 || signals < 0)
		die(INJECT_FAILED, "%s: %s", h->name, strerror(errno));
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (shall_end(signals, &input) && hold >= 0) {
			close(hold);
			hold = -1;
		}
	}
	return host_status(h, status);
}
