/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the processes of this host have recorded, as files for the analysers. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/shift-diag/collect.h"
#include "cmd/shift-diag/diag_live.h"

static const char help[] =
	"usage: shift-diag collect [options] DIR\n"
	"Writes what each process of this host has recorded, also one that has crashed, to\n"
	"DIR/HOST.PID.records: its queue pairs, its moves, and its collectives (shift-run\n"
	"--collectives). DIR is made if it is not there.\n"
	"\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"      --help      this text\n";

struct collection {
	struct collected *first, **end;
	size_t refused;
};

enum { REFUSALS_SAID = 32 }; /* another user could fill root's terminal with them */

static bool is_of(const struct collected *c, const struct coll_header *h)
{
	const struct stats_header *s = c->stats ? &c->stats->h : NULL;
	const struct coll_header *other = c->colls ? &c->coll[0]->h : NULL;

	if (s)
		return s->pid == h->pid && s->start_ticks == h->start_ticks &&
		       s->pid_namespace == h->pid_namespace && !strcmp(s->boot_id, h->boot_id) &&
		       !strcmp(s->job, h->job);
	return other->pid == h->pid && other->start_ticks == h->start_ticks &&
	       other->pid_namespace == h->pid_namespace && !strcmp(other->boot_id, h->boot_id) &&
	       !strcmp(other->job, h->job);
}

static struct collected *collection_add(struct collection *all)
{
	struct collected *c = check_alloc(calloc(1, sizeof(*c)));

	*all->end = c;
	all->end = &c->next;
	return c;
}

static void add_processes(struct collection *all, const struct processes *found)
{
	for (struct process *p = found->first; p; p = p->next)
		collection_add(all)->stats = &p->copy;
}

/* The same file again: it became a crash record meanwhile. */
static bool has_source(const struct collected *c, const char *source)
{
	for (unsigned int i = 0; i < c->colls; i++)
		if (!strcmp(c->coll[i]->h.source, source))
			return true;
	return false;
}

static void add_coll(struct collection *all, struct coll_copy *copy)
{
	struct collected *c = all->first;

	while (c && !is_of(c, &copy->h))
		c = c->next;
	if (!c)
		c = collection_add(all);
	if (c->colls == COLLECTED_COLLS_MAX || has_source(c, copy->h.source)) {
		coll_free(copy);
		free(copy);
		return;
	}
	c->coll[c->colls++] = copy;
}

static const char *refusal_text(int err)
{
	switch (err) {
	case -EBADMSG: return "not a file of collectives";
	case -EPROTONOSUPPORT: return "of another version of shift";
	case -EPERM: return "not believed: its owner is not that of its directory";
	case -ESRCH: return "not believed: it claims the process of another user";
	default: return strerror(-err);
	}
}

static bool gather_coll(void *arg, const struct stats_place *place)
{
	struct collection *all = arg;
	struct coll_copy *copy = check_alloc(calloc(1, sizeof(*copy)));
	int err = coll_read_of(place->owner, place->path, copy);

	if (!err) {
		*place->kept_bytes += coll_copy_bytes(copy);
		add_coll(all, copy);
		return true;
	}
	free(copy);
	/* A file that is just being made or removed is not an error. */
	if (err != -ENOENT && err != -EAGAIN && all->refused++ < REFUSALS_SAID)
		say("collect: %s: %s", place->path, refusal_text(err));
	return false;
}

static void collection_free(struct collection *all)
{
	struct collected *c;

	while ((c = all->first)) {
		all->first = c->next;
		for (unsigned int i = 0; i < c->colls; i++) {
			coll_free(c->coll[i]);
			free(c->coll[i]);
		}
		free(c);
	}
}

/* ---- files ------------------------------------------------------------------------------------
 */

/* For the name of a file: a process may call its host anything. */
static void plain_host(char *to, size_t bytes, const char *host)
{
	size_t n = 0;

	for (; host[n] && n < bytes - 1; n++) {
		bool plain = (host[n] >= 'a' && host[n] <= 'z') ||
			     (host[n] >= 'A' && host[n] <= 'Z') ||
			     (host[n] >= '0' && host[n] <= '9') || (n && strchr(".-_", host[n]));

		to[n] = plain ? host[n] : '_';
	}
	to[n] = 0;
}

static uint32_t pid_of(const struct collected *c)
{
	return c->stats ? c->stats->h.pid : c->coll[0]->h.pid;
}

static const char *host_of(const struct collected *c)
{
	return c->stats ? c->stats->h.host : c->coll[0]->h.host;
}

/* How many before it have the same number on the same host: it was used again, or is another
 * container's. */
static unsigned int namesakes(const struct collection *all, const struct collected *c)
{
	unsigned int n = 0;

	for (const struct collected *o = all->first; o != c; o = o->next)
		n += pid_of(o) == pid_of(c) && !strcmp(host_of(o), host_of(c));
	return n;
}

static char *name_file(const char *dir, const struct collection *all, const struct collected *c)
{
	unsigned int n = namesakes(all, c);
	char host[80], again[16] = "";

	plain_host(host, sizeof(host), host_of(c));
	if (n)
		snprintf(again, sizeof(again), ".%u", n + 1);
	return format_text("%s/%s.%u%s.records", dir, *host ? host : "_", pid_of(c), again);
}

/* Under another name first: a reader finds all of it, or nothing. */
static bool write_file(const char *path, const struct collected *c)
{
	char *tmp = format_text("%s.%d.tmp", path, getpid());
	int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool ok;

	if (!out) {
		say("collect: %s: %s", tmp, strerror(errno));
		return false;
	}
	ok = collect_write(out, c);
	if (fclose(out) || !ok || rename(tmp, path)) {
		say("collect: %s: %s", path, strerror(errno));
		unlink(tmp);
		return false;
	}
	return true;
}

static int write_all(const char *dir, const struct collection *all)
{
	int status = EXIT_FINE;

	for (const struct collected *c = all->first; c; c = c->next) {
		char *path = name_file(dir, all, c);

		if (!write_file(path, c))
			return EXIT_FAILED;
		printf("%s\n", shown(path));
	}
	if (all->refused)
		status = EXIT_WARNING;
	return fflush(stdout) ? EXIT_FAILED : status;
}

static void make_directory(const char *dir)
{
	struct stat st;

	if (mkdir(dir, 0700) && errno != EEXIST)
		die(EXIT_BAD_USAGE, "collect: %s: %s; name a directory that can be made", dir,
		    strerror(errno));
	if (stat(dir, &st) || !S_ISDIR(st.st_mode))
		die(EXIT_BAD_USAGE, "collect: %s: it is there, and no directory", dir);
	if (access(dir, W_OK | X_OK))
		die(EXIT_BAD_USAGE, "collect: %s: %s", dir, strerror(errno));
}

static void take_select(void *arg, int letter, const char *value)
{
	diag_take_select(arg, letter, value);
}

int cmd_collect(int argc, char **argv)
{
	struct live_select which = {0};
	const struct diag_syntax syntax = {
		.help = help,
		.own = {{"job", 'J', true}, {"pid", 'p', true}},
		.take = take_select,
		.arg = &which,
	};
	struct collection all = {.end = &all.first};
	struct stats_cut cut;
	struct processes found;
	int status;

	diag_options_parse(&syntax, argc, argv);
	if (optind + 1 != argc)
		die(EXIT_BAD_USAGE,
		    "collect: one directory is needed; see shift-diag collect --help");
	found = processes_read(&which, false);
	add_processes(&all, &found);
	stats_each_of_ending(COLL_ENDING, which.job, which.pid, gather_coll, &all, &cut);
	if (!all.first)
		die_none(&which, EXIT_UNDECIDED);
	make_directory(argv[optind]);
	status = write_all(argv[optind], &all);
	if (status == EXIT_FINE && (cut.users || cut.err || found.cut.users || found.cut.err))
		status = EXIT_WARNING;
	collection_free(&all);
	processes_free(&found);
	return status;
}
