// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "lib/verbs/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/verbs/env.h"

#define LINE_MAX_BYTES 1024

/* No file stays open: programs close and reuse descriptors that they do not know. */
static void write_line(const char *line, size_t length)
{
	ssize_t written; /* if not, nobody is left to be told */
	int fd = -1;

	if (env.log_file[0])
		fd = open(env.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	written = write(fd >= 0 ? fd : STDERR_FILENO, line, length);
	(void)written;
	if (fd >= 0)
		close(fd);
}

/* word: "level: ", or nothing. */
static void say(const char *word, const char *format, va_list args)
{
	int saved = errno;
	char line[LINE_MAX_BYTES];
	size_t room = sizeof(line) - 1; /* for the newline */
	size_t used = (size_t)snprintf(line, room, "shift[%d]: %s", (int)getpid(), word);
	int n = vsnprintf(line + used, room - used, format, args);

	if (n > 0)
		used += (size_t)n < room - used ? (size_t)n : room - used - 1;
	line[used++] = '\n';
	write_line(line, used);
	errno = saved;
}

void log_at(enum log_level level, const char *format, ...)
{
	static const char *const words[] = {"error: ", "warning: ", "info: ", "debug: "};
	va_list args;

	if (level > env.log_level)
		return;
	va_start(args, format);
	say(words[level], format, args);
	va_end(args);
}

void log_always(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("", format, args);
	va_end(args);
}
