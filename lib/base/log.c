/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/printable.h"
#include "lib/base/env.h"

#define LINE_MAX_BYTES 1024

/* The file does not stay open, because programs close and reuse descriptors that they do not know.
 */
static void write_line(const char *line, size_t length)
{
	ssize_t written; /* an error of the log itself cannot be reported */
	int fd = -1;

	if (env.log_file[0])
		fd = open(env.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	written = write(fd >= 0 ? fd : STDERR_FILENO, line, length);
	(void)written;
	if (fd >= 0)
		close(fd);
}

/* word: "level: ", or nothing. */
static void log_write(const char *word, const char *format, va_list args)
{
	int saved = errno;
	char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
	size_t room = sizeof(line) - 1; /* for the newline */
	size_t used = (size_t)snprintf(line, room, "shift[%d]: %s", (int)getpid(), word);

	/* A message may quote the rendezvous, a peer, or a NIC's name. */
	vsnprintf(text, sizeof(text), format, args);
	used += strlen(printable(line + used, room - used, text));
	line[used++] = '\n';
	write_line(line, used);
	errno = saved;
}

/* At level debug the time of day, in UTC, so that lines of several hosts can be compared. */
static void add_time(char *word, size_t size)
{
	struct timespec t;
	size_t used = strlen(word);
	unsigned int second;

	if (env.log_level < LOG_DEBUG || clock_gettime(CLOCK_REALTIME, &t))
		return;
	second = (unsigned int)(t.tv_sec % 86400);
	snprintf(word + used, size - used, "%02u:%02u:%02u.%03u ", second / 3600, second / 60 % 60,
		 second % 60, (unsigned int)(t.tv_nsec / 1000000));
}

void log_at(enum log_level level, const char *format, ...)
{
	static const char *const words[] = {"error: ", "warning: ", "info: ", "debug: "};
	char word[64];
	va_list args;

	if (level > env.log_level)
		return;
	snprintf(word, sizeof(word), "%s", words[level]);
	add_time(word, sizeof(word));
	va_start(args, format);
	log_write(word, format, args);
	va_end(args);
}

void log_always(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_write("", format, args);
	va_end(args);
}
