/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "common/shell_command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SYNTAX = 3,
	NOT_FOUND = 4,
	BYTES_MAX = 4096, /* shift-kvd says it in one frame, each byte escaped in up to six */
};

/* The first word may be something that only running it would tell: then only the syntax counts. */
static const char script[] = "sh -n -c \"$1\" || exit 3\n"
			     "set -f; set -- $1\n"
			     "case ${1-} in '') exit 3 ;; *[!-A-Za-z0-9_./+:@%,]*) exit 0 ;; esac\n"
			     "command -v -- \"$1\" || exit 4\n";

static _Noreturn void try_it(const char *command)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	execl("/bin/sh", "sh", "-c", script, "sh", command, (char *)NULL);
	_exit(NOT_FOUND);
}

const char *shell_command_problem(const char *command)
{
	int status;
	pid_t pid;

	if (strlen(command) > BYTES_MAX)
		return "too long: put it into a script";
	pid = fork();
	if (!pid)
		try_it(command);
	if (pid < 0)
		return "cannot be tried: no process can be started";
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return "cannot be tried";
	if (!WIFEXITED(status) || WEXITSTATUS(status) == SYNTAX)
		return "no command for a shell";
	return WEXITSTATUS(status) == NOT_FOUND ? "its first word is no command here" : NULL;
}
