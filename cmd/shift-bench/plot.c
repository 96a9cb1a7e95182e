/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-bench/bench.h"
#include "cmd/shift-bench/plot.h"
#include "common/html.h"

enum { LABEL_MAX = 128, LABEL_TEXTS = 8 };

/* ---- the program ---------------------------------------------------------------------------- */

static char *find_gnuplot(void)
{
	const char *path = getenv("PATH");
	char file[4096];

	while (path && *path) {
		size_t n = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/gnuplot", (int)n, path);
		if (*file == '/' && !access(file, X_OK))
			return check_alloc(strdup(file));
		path += n + (path[n] == ':');
	}
	return NULL;
}

bool plots_can(void)
{
	char *program = find_gnuplot();

	free(program);
	return program != NULL;
}

void plots_need(void)
{
	if (!plots_can())
		die(EXIT_MISSING, "--html: gnuplot, which draws the plots, is missing; install it "
				  "with: apt-get install gnuplot-nox");
}

/* With -d it reads no file of the user. It runs in the directory, so no path is in the script. */
static bool run_gnuplot(const char *directory)
{
	char *program = find_gnuplot(), *words[] = {program, (char *)"-d", (char *)"script", NULL};
	pid_t pid = program ? fork() : -1;
	int status = -1;

	if (pid == 0) {
		int log = chdir(directory) ? -1 : open("log", O_CREAT | O_WRONLY, 0600);

		dup2(log, 1);
		dup2(log, 2);
		signal(SIGPIPE, SIG_DFL);
		if (log >= 0)
			execv(program, words);
		_exit(127);
	}
	free(program);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *file_of(const struct plots *p, const char *name)
{
	size_t size = sizeof(p->directory) + 32;
	char *path = check_alloc(malloc(size));

	snprintf(path, size, "%s/%s", p->directory, name);
	return path;
}

static char *read_file(const struct plots *p, const char *name)
{
	char *path = file_of(p, name), *text = NULL;
	FILE *f = fopen(path, "re");
	size_t size = 0;

	if (f && getdelim(&text, &size, 0, f) < 0) {
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	free(path);
	return text;
}

static void remove_file(const struct plots *p, const char *name)
{
	char *path = file_of(p, name);

	unlink(path);
	free(path);
}

static const char *svg_name(char name[32], size_t number)
{
	snprintf(name, 32, "%zu.svg", number);
	return name;
}

bool plots_begin(struct plots *p)
{
	char *path;

	memset(p, 0, sizeof(*p));
	strcpy(p->directory, "/tmp/shift-bench.XXXXXX");
	if (!mkdtemp(p->directory)) {
		say("%s: %s", p->directory, strerror(errno));
		*p->directory = 0;
		return false;
	}
	path = file_of(p, "script");
	p->script = check_alloc(fopen(path, "we"));
	free(path);
	return true;
}

void plots_end(struct plots *p)
{
	char name[32];

	if (p->script)
		fclose(p->script);
	for (size_t i = 0; i < p->count; i++) {
		free(p->svg[i]);
		remove_file(p, svg_name(name, i));
	}
	for (size_t i = 0; i < p->label_count; i++)
		free(p->labels[i]);
	free(p->svg);
	free(p->labels);
	if (*p->directory) {
		remove_file(p, "script");
		remove_file(p, "log");
		rmdir(p->directory);
	}
	memset(p, 0, sizeof(*p));
}

/* ---- the script ----------------------------------------------------------------------------- */

size_t plot_begin(struct plots *p, int width, int height)
{
	p->svg = check_alloc(realloc(p->svg, (p->count + 1) * sizeof(*p->svg)));
	p->svg[p->count] = NULL;
	fprintf(p->script,
		"reset\n"
		"set terminal svg size %d,%d dynamic noenhanced font 'sans-serif,12'\n"
		"set output '%zu.svg'\n"
		"set border 3 lc " RGB "\n"
		"set tics nomirror out scale 0.6 textcolor " RGB "\n"
		"set grid lc " RGB " lw 1 dt solid\n"
		"set errorbars small\n"
		"unset key\n",
		width, height, p->count, COLOUR_MUTED, COLOUR_TEXT, COLOUR_GRID);
	return p->count++;
}

const char *plot_label(struct plots *p, const char *text, size_t most)
{
	static char places[LABEL_TEXTS][LABEL_MAX];
	char *place = places[p->label_count % LABEL_TEXTS], *escaped = NULL;
	size_t size, length = strlen(text) < most ? strlen(text) : most, n;
	FILE *f = check_alloc(open_memstream(&escaped, &size));

	html_clipped(f, text, most);
	fclose(f);
	p->labels = check_alloc(realloc(p->labels, (p->label_count + 1) * sizeof(*p->labels)));
	p->labels[p->label_count] = check_alloc(escaped);
	n = (size_t)snprintf(place, LABEL_MAX, "S%zuS", p->label_count++);
	/* gnuplot makes room for as many characters. */
	while (n < length && n < LABEL_MAX - 1)
		place[n++] = '_';
	place[n] = 0;
	return place;
}

/* ---- what gnuplot has drawn becomes a part of the page --------------------------------------- */

static const char *const colour_names[] = {
	[COLOUR_TEXT] = "currentColor",
	[COLOUR_GRID] = "var(--grid)",
	[COLOUR_BASELINE] = "var(--without)",
	[COLOUR_SHIFT] = "var(--with)",
	[COLOUR_MUTED] = "var(--muted)",
	[COLOUR_MARK] = "var(--mark)",
	[COLOUR_WORSE] = "var(--worse)",
	[COLOUR_BETTER] = "var(--better)",
	[COLOUR_PART] = "var(--p0)",
	"var(--p1)",
	"var(--p2)",
	"var(--p3)",
	"var(--p4)",
	"var(--p5)",
	"var(--p6)",
	"var(--p7)",
};

/* Each of these, if s begins with it, is written to f; the length of what was read, or 0. */
static size_t take_colour(FILE *f, const char *s)
{
	int r, g, b, n = 0;

	if (strncmp(s, "rgb(", 4) || sscanf(s, "rgb( %d , %d , %d )%n", &r, &g, &b, &n) != 3 || !n)
		return 0;
	if (r != 1 || g != 1 || b < 0 || b >= (int)(sizeof(colour_names) / sizeof(*colour_names)))
		b = COLOUR_TEXT;
	fputs(colour_names[b], f);
	return (size_t)n;
}

static size_t take_label(FILE *f, const struct plots *p, const char *s)
{
	size_t number;
	int n = 0;

	if (*s != 'S' || sscanf(s, "S%zuS%n", &number, &n) != 1 || !n || number >= p->label_count)
		return 0;
	fputs(p->labels[number], f);
	return (size_t)n + strspn(s + n, "_");
}

/* What the page says itself, or in its style. */
static size_t take_needless(const char *s)
{
	static const char *const starts[] = {" color=\"",
					     " class=\"gridline\"",
					     " font-family=\"",
					     " font-size=\"",
					     " id=\"",
					     " stroke-linecap=\"butt\"",
					     " stroke-linejoin=\"miter\"",
					     " stroke-width=\"1.00\""};

	if (!strncmp(s, "<title>", 7) && strstr(s, "</title>"))
		return (size_t)(strstr(s, "</title>") - s) + 8;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		const char *quote = strchr(starts[i], '"');
		size_t to_quote = (size_t)(quote - starts[i]) + 1;

		if (!strncmp(s, starts[i], strlen(starts[i])) && strchr(s + to_quote, '"'))
			return (size_t)(strchr(s + to_quote, '"') - s) + 1;
	}
	return 0;
}

/* A group that has nothing in it, of which gnuplot makes many. */
static size_t take_empty_group(const char *s)
{
	const char *end = strncmp(s, "<g ", 3) ? NULL : strchr(s, '>');

	if (!end)
		return 0;
	end += 1 + strspn(end + 1, " \t\n");
	return strncmp(end, "</g>", 4) ? 0 : (size_t)(end - s) + 4;
}

static size_t take_blank(FILE *f, const char *s)
{
	size_t n = strspn(s, "\t\n");

	if (n)
		fputc('\n', f);
	return n;
}

/* The viewBox and what is drawn; the definitions of the points are the page's. */
static char *part_of_page(const struct plots *p, const char *svg)
{
	const char *box = strstr(svg, "viewBox="), *s = strstr(svg, "</defs>");
	char *text = NULL;
	size_t size, n;
	FILE *f = check_alloc(open_memstream(&text, &size));

	if (box && s) {
		fprintf(f, "%.*s>", (int)strcspn(box, "\n>"), box);
		fputs("<g>", f);
		for (s += strlen("</defs>"); *s; s += n) {
			n = take_needless(s);
			n = n ? n : take_empty_group(s);
			n = n ? n : take_colour(f, s);
			n = n ? n : take_label(f, p, s);
			n = n ? n : take_blank(f, s);
			if (!n && !strncmp(s, "xlink:href", 10))
				n = 6; /* href is enough, without a namespace */
			else if (!n)
				fputc(s[n++], f);
		}
	}
	fclose(f);
	return check_alloc(text);
}

bool plots_draw(struct plots *p)
{
	char name[32], *log;
	bool drawn = fclose(p->script) == 0;

	p->script = NULL;
	drawn = drawn && run_gnuplot(p->directory);
	for (size_t i = 0; i < p->count && drawn; i++) {
		char *svg = read_file(p, svg_name(name, i));

		drawn = svg && strstr(svg, "</svg>");
		p->svg[i] = drawn ? part_of_page(p, svg) : NULL;
		free(svg);
	}
	if (!drawn) {
		log = read_file(p, "log");
		say("gnuplot has not drawn the plots: %s", log ? log : "it says nothing");
		free(log);
	}
	return drawn;
}
