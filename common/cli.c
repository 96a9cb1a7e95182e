/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/printable.h"

enum {
	LINE_MAX_BYTES = 8192,
	COMMAND_MAX_BYTES = 64,
	SHOWN_TEXTS = 8,
	SHOWN_MAX_BYTES = 4096,
};

static const char *program = "shift";
static int failure_status = 1;
static cli_line_fn *messages_to;

void cli_begin(const char *name, int failure)
{
	program = name;
	failure_status = failure;
}

/* ---- messages ------------------------------------------------------------------------------- */

const char *shown(const char *s)
{
	static char texts[SHOWN_TEXTS][SHOWN_MAX_BYTES];
	static unsigned int next;

	return printable(texts[next++ % SHOWN_TEXTS], SHOWN_MAX_BYTES, s ? s : "");
}

/* Whatever a message quotes, it stays one line, and a terminal obeys nothing in it. */
void cli_write_line(const char *line)
{
	char clean[LINE_MAX_BYTES];

	fprintf(stderr, "%s: %s\n", program, printable(clean, sizeof(clean), line));
}

cli_line_fn *cli_messages_to(cli_line_fn *fn)
{
	cli_line_fn *before = messages_to;

	messages_to = fn;
	return before;
}

static void deliver_line(const char *line)
{
	char clean[LINE_MAX_BYTES];

	if (messages_to)
		messages_to(printable(clean, sizeof(clean), line));
	else
		cli_write_line(line);
}

void say(const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	deliver_line(line);
}

void die(int status, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	deliver_line(line);
	exit(status);
}

/* ---- help, version, subcommands ------------------------------------------------------------- */

void print_and_exit(const char *text)
{
	fputs(text, stdout);
	exit(fflush(stdout) ? failure_status : 0);
}

void print_version(void)
{
	printf("%s %s\n", program, PACKAGE_VERSION);
	exit(fflush(stdout) ? failure_status : 0);
}

void cli_name_command(char **argv)
{
	static char name[COMMAND_MAX_BYTES];

	snprintf(name, sizeof(name), "%s: %s", program, argv[1]);
	argv[1] = name;
}

bool cli_run_command(const struct cli_command *commands, size_t count, int argc, char **argv,
		     int *status)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		cli_name_command(argv);
		*status = commands[i].run(argc - 1, argv + 1);
		return true;
	}
	return false;
}

/* ---- values --------------------------------------------------------------------------------- */

int64_t parse_ms(const char *s)
{
	char *end;
	double n = isdigit((unsigned char)*s) ? strtod(s, &end) : -1;
	double unit_ms = n < 0			      ? -1
			 : !strcmp(end, "ms")	      ? 1
			 : !*end || !strcmp(end, "s") ? 1000
			 : !strcmp(end, "m")	      ? 60000
			 : !strcmp(end, "h")	      ? 3600000
						      : -1;

	return n < 0 || unit_ms < 0 || n * unit_ms > INT_MAX ? -1 : (int64_t)(n * unit_ms);
}

long parse_number(const char *s, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(s, &end, 10);
	return errno || end == s || *end || n < min || n > max ? -1 : n;
}

void check_secret_file(const char *path, const struct stat *st, int status)
{
	if (st->st_uid && st->st_uid != geteuid())
		die(status, "%s belongs to another user (uid %u)", path, st->st_uid);
	if (!S_ISREG(st->st_mode) || st->st_mode & 077)
		die(status, "%s is open to others (mode %04o); try: chmod 0600 %s", path,
		    st->st_mode & 07777, path);
}

/* ---- memory, paths, time -------------------------------------------------------------------- */

void *check_alloc(void *p)
{
	if (!p)
		die(failure_status, "out of memory");
	return p;
}

char *format_text(const char *fmt, ...)
{
	static struct text {
		struct text *next;
		char *text;
	} * all;
	struct text *t = check_alloc(malloc(sizeof(*t)));
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&t->text, fmt, ap) < 0)
		check_alloc(NULL);
	va_end(ap);
	t->next = all;
	all = t;
	return t->text;
}

char *absolute_path(const char *path)
{
	char *dir, *full;

	if (*path == '/')
		return format_text("%s", path);
	dir = getcwd(NULL, 0);
	if (!dir)
		die(failure_status, "the working directory: %s", strerror(errno));
	full = format_text("%s/%s", dir, path);
	free(dir);
	return full;
}

int program_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = 0;
	return n > 0 ? 0 : -errno;
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000;
}
