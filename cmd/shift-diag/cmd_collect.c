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
	"DIR/HOST.PID.records: its queue pairs, its moves, its collectives (shift-run\n"
	"--collectives) and its traffic (shift-run --trace epochs). DIR is made if it is\n"
	"not there.\n"
	"\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"      --help      this text\n";

struct collection {
	struct collected *first, **end;
	size_t refused;
};

enum { REFUSALS_SAID = 32 }; /* another user could fill root's terminal with them */

static bool is_same(const struct collected_process *a, const struct collected_process *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       a->pid_namespace == b->pid_namespace && !strcmp(a->boot_id, b->boot_id) &&
	       !strcmp(a->job, b->job);
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

/* What is known of that process so far, or a new one. */
static struct collected *find_process(struct collection *all, const struct collected *like)
{
	const struct collected_process wanted = collected_process(like);

	for (struct collected *c = all->first; c; c = c->next) {
		const struct collected_process p = collected_process(c);

		if (is_same(&p, &wanted))
			return c;
	}
	return collection_add(all);
}

static void add_coll(struct collection *all, struct coll_copy *copy)
{
	const struct collected like = {.coll = {copy}, .colls = 1};
	struct collected *c = find_process(all, &like);

	if (c->colls == COLLECTED_COLLS_MAX || has_source(c, copy->h.source)) {
		coll_free(copy);
		free(copy);
		return;
	}
	c->coll[c->colls++] = copy;
}

static void add_epochs(struct collection *all, struct epoch_copy *copy)
{
	const struct collected like = {.epochs = copy};
	struct collected *c = find_process(all, &like);

	if (!c->epochs) {
		c->epochs = copy;
		return;
	}
	epoch_free(copy);
	free(copy);
}

static const char *refusal_text(int err)
{
	switch (err) {
	case -EBADMSG: return "not what its name says";
	case -EPROTONOSUPPORT: return "of another version of shift";
	case -EPERM: return "not believed: its owner is not that of its directory";
	case -ESRCH: return "not believed: it claims the process of another user";
	default: return strerror(-err);
	}
}

/* A file that is just being made or removed is not an error. */
static void refuse(struct collection *all, const char *path, int err)
{
	if (err != -ENOENT && err != -EAGAIN && all->refused++ < REFUSALS_SAID)
		say("collect: %s: %s", path, refusal_text(err));
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
	refuse(all, place->path, err);
	return false;
}

static bool gather_epochs(void *arg, const struct stats_place *place)
{
	struct collection *all = arg;
	struct epoch_copy *copy = check_alloc(calloc(1, sizeof(*copy)));
	int err = epoch_read_of(place->owner, place->path, copy);

	if (!err) {
		*place->kept_bytes += epoch_copy_bytes(copy);
		add_epochs(all, copy);
		return true;
	}
	free(copy);
	refuse(all, place->path, err);
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
		if (c->epochs)
			epoch_free(c->epochs);
		free(c->epochs);
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

/* How many before it have the same number on the same host: it was used again, or is another
 * container's. */
static unsigned int namesakes(const struct collection *all, const struct collected *c,
			      const struct collected_process *p)
{
	unsigned int n = 0;

	for (const struct collected *o = all->first; o != c; o = o->next) {
		const struct collected_process other = collected_process(o);

		n += other.pid == p->pid && !strcmp(other.host, p->host);
	}
	return n;
}

static char *name_file(const char *dir, const struct collection *all, const struct collected *c)
{
	const struct collected_process p = collected_process(c);
	unsigned int n = namesakes(all, c, &p);
	char host[80], again[16] = "";

	plain_host(host, sizeof(host), p.host);
	if (n)
		snprintf(again, sizeof(again), ".%u", n + 1);
	return format_text("%s/%s.%u%s.records", dir, *host ? host : "_", p.pid, again);
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
	struct stats_cut cut, epochs_cut;
	struct processes found;
	int status;

	diag_options_parse(&syntax, argc, argv);
	if (optind + 1 != argc)
		die(EXIT_BAD_USAGE,
		    "collect: one directory is needed; see shift-diag collect --help");
	found = processes_read(&which, false);
	add_processes(&all, &found);
	stats_each_of_ending(COLL_ENDING, which.job, which.pid, gather_coll, &all, &cut);
	stats_each_of_ending(EPOCH_ENDING, which.job, which.pid, gather_epochs, &all, &epochs_cut);
	if (!all.first)
		die_none(&which, EXIT_UNDECIDED);
	make_directory(argv[optind]);
	status = write_all(argv[optind], &all);
	if (status == EXIT_FINE && (cut.users || cut.err || epochs_cut.users || epochs_cut.err ||
				    found.cut.users || found.cut.err))
		status = EXIT_WARNING;
	collection_free(&all);
	processes_free(&found);
	return status;
}
