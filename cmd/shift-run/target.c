/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Can a library be preloaded into this command? LD_PRELOAD fails open: a static or privileged
 * program runs without the library, silently. The check follows #! lines and env to the program
 * that runs in the end. Programs that the command starts inherit LD_PRELOAD.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

enum { DEPTH_MAX = 8, WORDS_MAX = 64 };

struct walk {
	struct target *t;
	int depth;
};

static int check_words(struct walk *w, const char *const *words);

static int refuse_target(struct walk *w, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse_target(struct walk *w, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->t->why, sizeof(w->t->why), fmt, ap);
	va_end(ap);
	return status;
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !euidaccess(path, X_OK);
}

/* As execvp(): a file that is not executable counts only if no other one is found. */
static int find_in_path(const char *name, char path[PATH_MAX])
{
	const char *p = getenv("PATH");
	int status = EXIT_NOT_FOUND;

	for (p = p ? p : "/bin:/usr/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		int n = strcspn(p, ":");

		if (snprintf(path, PATH_MAX, "%.*s%s%s", n, p, n ? "/" : "", name) >= PATH_MAX)
			continue;
		if (is_program(path))
			return 0;
		if (!access(path, F_OK))
			status = EXIT_NOT_EXECUTABLE;
	}
	return status;
}

int find_command(const char *name, char path[PATH_MAX])
{
	if (!*name)
		return EXIT_NOT_FOUND;
	if (!strchr(name, '/'))
		return find_in_path(name, path);
	if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
		return EXIT_NOT_FOUND;
	if (is_program(path))
		return 0;
	return access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR) ? EXIT_NOT_FOUND
									   : EXIT_NOT_EXECUTABLE;
}

static bool takes_ours_away(const char *name, size_t bytes)
{
	return (bytes == 10 && !strncmp(name, "LD_PRELOAD", bytes)) ||
	       (bytes > 6 && !strncmp(name, "SHIFT_", 6));
}

/* The words of env -S; quotes are not understood and end in "not found". */
static int check_split(struct walk *w, const char *s, const char *const *rest)
{
	char copy[4096], *save = NULL;
	const char *words[WORDS_MAX + 1] = {"env"};
	int n = 1;

	snprintf(copy, sizeof(copy), "%s", s);
	for (char *p = strtok_r(copy, " \t", &save); p && n < WORDS_MAX / 2;
	     p = strtok_r(NULL, " \t", &save))
		words[n++] = p;
	while (*rest && n < WORDS_MAX)
		words[n++] = *rest++;
	return check_words(w, words);
}

/*
 * Checks a word of env that begins with a dash. -1: go on with the next word (*skip: with the one
 * after it). Else the result.
 */
static int check_env_option(struct walk *w, const char *const *words, int *skip)
{
	const char *o = *words, *value;

	*skip = 0;
	if (!strcmp(o, "-") || !strcmp(o, "--ignore-environment"))
		return refuse_target(w, EXIT_OURS, "env %s takes LD_PRELOAD away", o);
	if (!strncmp(o, "--split-string=", 15))
		return check_split(w, o + 15, words + 1);
	if (!strncmp(o, "--unset=", 8) && takes_ours_away(o + 8, strlen(o + 8)))
		return refuse_target(w, EXIT_OURS, "env %s takes it away", o);
	if (o[1] == '-')
		return -1;
	for (o++; *o; o++) {
		value = o[1] ? o + 1 : words[1] ? words[1] : "";
		switch (*o) {
		case 'i': return refuse_target(w, EXIT_OURS, "env -i takes LD_PRELOAD away");
		case 'S': return check_split(w, value, words + (o[1] ? 1 : 2));
		case 'u':
			if (takes_ours_away(value, strlen(value)))
				return refuse_target(w, EXIT_OURS, "env -u %s takes it away",
						     value);
			/* fall through */
		case 'C': *skip = !o[1]; return -1;
		}
	}
	return -1;
}

static int check_env(struct walk *w, const char *const *words)
{
	for (words++; *words; words++) {
		const char *word = *words;
		int skip, status;

		if (!strcmp(word, "--")) {
			words++;
			break;
		}
		if (*word == '-') {
			status = check_env_option(w, words, &skip);
			if (status >= 0)
				return status;
			words += skip && words[1];
		} else if (!strchr(word, '=')) {
			break;
		} else if (takes_ours_away(word, strcspn(word, "="))) {
			return refuse_target(w, EXIT_OURS, "env sets %.*s", (int)strcspn(word, "="),
					     word);
		}
	}
	while (*words && strchr(*words, '='))
		words++;
	return *words ? check_words(w, words) : 0;
}

/* line: after "#!", NUL-terminated. The kernel passes the rest as one argument. */
static int check_script(struct walk *w, char *line, const char *const *words, const char *path)
{
	const char *next[WORDS_MAX + 1] = {0};
	char *argument;
	int n = 0;

	line[strcspn(line, "\n")] = 0;
	line += strspn(line, " \t");
	argument = line + strcspn(line, " \t");
	if (*argument)
		*argument++ = 0;
	argument += strspn(argument, " \t");
	for (size_t i = strlen(argument); i && strchr(" \t", argument[i - 1]);)
		argument[--i] = 0;
	if (!*line)
		return refuse_target(w, EXIT_NOT_EXECUTABLE, "%s: #! and no interpreter", path);
	next[n++] = line;
	if (*argument)
		next[n++] = argument;
	next[n++] = path;
	for (words++; *words && n < WORDS_MAX; words++)
		next[n++] = *words;
	return check_words(w, next);
}

static int check_file(struct walk *w, const char *path, const char *const *words)
{
	static const char *const shell[] = {"/bin/sh", NULL};
	const char *name = strrchr(path, '/'), *why;
	char head[512] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);

	if (fd >= 0)
		close(fd);
	if (n >= 2 && !memcmp(head, "#!", 2))
		return check_script(w, head + 2, words, path);
	if (n >= 0 && (n < 4 || memcmp(head, "\177ELF", 4)))
		return check_words(w, shell); /* as execvp() does */
	snprintf(w->t->program, sizeof(w->t->program), "%s", path);
	why = elf_refusal(path);
	if (why)
		return refuse_target(w, EXIT_OURS, "%s cannot be protected: %s", path, why);
	if (!strcmp(name ? name + 1 : path, "env"))
		return check_env(w, words);
	return 0;
}

static int check_words(struct walk *w, const char *const *words)
{
	char path[PATH_MAX] = "";
	int status = find_command(*words, path);

	if (!w->depth)
		strcpy(w->t->path, path);
	if (w->depth++ > DEPTH_MAX)
		return refuse_target(w, EXIT_OURS, "%s: too many interpreters of interpreters",
				     *words);
	if (status == EXIT_NOT_FOUND)
		return refuse_target(w, status, "%s: not found", *words);
	if (status)
		return refuse_target(w, status, "%s: not executable", *words);
	return check_file(w, path, words);
}

int target_check(char *const *command, struct target *t)
{
	struct walk w = {.t = t};

	memset(t, 0, sizeof(*t));
	return check_words(&w, (const char *const *)command);
}
