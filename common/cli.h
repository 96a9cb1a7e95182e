/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the command lines of shift-run, shift-ctl, shift-inject, shift-kvd and shift-testbed share:
 * messages, help, values of options. Results go to standard output, messages to standard error.
 *
 * One thread. Functions that cannot fail end the process when there is no memory. This calls
 * nothing of the programs, and is never a part of libshift.so, which must not end a process.
 */
#ifndef SHIFT_COMMON_CLI_H
#define SHIFT_COMMON_CLI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * To be called first. Every message begins with the program's name, a static text. failure: the
 * exit status when there is no memory, or when standard output cannot be written.
 */
void cli_begin(const char *program, int failure);

/* ---- messages ------------------------------------------------------------------------------- */

/* One line on standard error, "PROGRAM: ...", cut at 8 KB; what is not printable in it is shown as
 * \xNN (common/printable.h). */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same, then exit(status). */
_Noreturn void die(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Messages go to fn from now on, without the program's name and the newline; NULL: to standard
 * error. fn may leave by longjmp(). Returns what was there before.
 */
typedef void cli_line_fn(const char *line);
cli_line_fn *cli_messages_to(cli_line_fn *fn);

/* Standard error as say() writes to it, for the end of such a function. */
void cli_write_line(const char *line);

/*
 * A text of somebody else, printable, for an argument of printf(): results need it, say() and die()
 * do it. Up to 4 KB. Valid until the eighth call after this one; NULL is shown as nothing.
 */
const char *shown(const char *s);

/* ---- help, version, subcommands ------------------------------------------------------------- */

/* On standard output, then exit. */
_Noreturn void print_and_exit(const char *text);
_Noreturn void print_version(void);

struct cli_command {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* Runs the command whose name is argv[1]. False: there is none of that name. */
bool cli_run_command(const struct cli_command *commands, size_t count, int argc, char **argv,
		     int *status);

/* What becomes of argv[1] before: "PROGRAM: NAME", with which getopt's messages begin. */
void cli_name_command(char **argv);

/* ---- values --------------------------------------------------------------------------------- */

/* "500ms", "10s", "2m", "1.5h", "10": seconds. At most INT_MAX milliseconds. -1: not a time. */
int64_t parse_ms(const char *s);

/* A whole decimal number in min..max, or -1. */
long parse_number(const char *s, long min, long max);

/* Ends the process with this status if a file with a secret is another user's or open to others. */
void check_secret_file(const char *path, const struct stat *st, int status);

/* ---- memory, paths, time -------------------------------------------------------------------- */

/* p, or the end of the process if that is NULL. */
void *check_alloc(void *p);

/* The text lives as long as the process. */
char *format_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A relative path means nothing to a program that changes its directory. As format_text(). */
char *absolute_path(const char *path);

/* The file of this program. 0 or a negative errno. */
int program_path(char path[PATH_MAX]);

/* CLOCK_MONOTONIC. */
int64_t now_ms(void);

#endif
