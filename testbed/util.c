/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "testbed/testbed.h"

bool name_is_valid(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > 32 || *name == '.' || *name == '-')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

void own_file(char path[PATH_MAX], const char *name)
{
	char self[PATH_MAX];

	program_path(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = 0;
	if ((size_t)snprintf(path, PATH_MAX, "%s/%s", self, name) < PATH_MAX && !access(path, R_OK))
		return;
	snprintf(path, PATH_MAX, "%s/%s", PKGLIBEXECDIR, name);
	if (access(path, R_OK))
		die(EXIT_MISSING, "%s is missing: the installation is not complete", path);
}

char *read_whole_file(const char *path, size_t *bytes)
{
	struct buf b = {0};
	char data[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	while ((n = read(fd, data, sizeof(data))) > 0)
		buf_append(&b, data, n);
	close(fd);
	if (bytes)
		*bytes = buf_bytes(&b);
	buf_append(&b, "", 1);
	return (char *)b.data;
}

int run_program(char *const argv[])
{
	int raw = -1;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(2, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0)
		return 127;
	while (waitpid(pid, &raw, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

static struct termios saved_terminal;

static void terminal_restore(void)
{
	tcsetattr(0, TCSADRAIN, &saved_terminal);
}

void terminal_raw(void)
{
	struct termios raw;

	if (!isatty(0) || tcgetattr(0, &saved_terminal))
		return;
	raw = saved_terminal;
	cfmakeraw(&raw);
	if (!tcsetattr(0, TCSADRAIN, &raw))
		atexit(terminal_restore);
}

static void make_dirs(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
	mkdir(path, 0755);
}

void cache_dir(char path[PATH_MAX])
{
	const char *own = getenv("SHIFT_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	struct passwd *pw = home ? NULL : getpwuid(geteuid());

	if (own && *own)
		snprintf(path, PATH_MAX, "%s", own);
	else if (xdg && *xdg)
		snprintf(path, PATH_MAX, "%s/shift/testbed", xdg);
	else
		snprintf(path, PATH_MAX, "%s/.cache/shift/testbed",
			 home ? home
			 : pw ? pw->pw_dir
			      : "/var/tmp");
	if (*path != '/')
		die(EXIT_BAD_USAGE, "%s: the cache needs an absolute path", path);
	make_dirs(path);
	if (access(path, W_OK))
		die(EXIT_NO_RESOURCE, "%s: %s", path, strerror(errno));
}
