/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the processes of this host have recorded, as files for the analysers. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/shift-diag/collect.h"
#include "cmd/shift-diag/collect_epochs.h"
#include "cmd/shift-diag/diag_live.h"

static const char help[] =
	"usage: shift-diag collect [options] DIR|-\n"
	"Writes what each process of this host has recorded, also one that has crashed, to\n"
	"DIR/HOST.PID.records: its queue pairs, its moves, its collectives (shift-run\n"
	"--collectives) and its traffic (shift-run --trace epochs). DIR is made if it is\n"
	"not there; -: all to standard output.\n"
	"\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"      --help      this text\n";

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
	ok = collect_write(out, c, EPOCHS_TOLD_MAX);
	if (fclose(out) || !ok || rename(tmp, path)) {
		say("collect: %s: %s", path, strerror(errno));
		unlink(tmp);
		return false;
	}
	return true;
}

static int write_all(const char *dir, const struct collection *all)
{
	for (const struct collected *c = all->first; c; c = c->next) {
		char *path = name_file(dir, all, c);

		if (!write_file(path, c))
			return EXIT_FAILED;
		printf("%s\n", shown(path));
	}
	return fflush(stdout) ? EXIT_FAILED : EXIT_FINE;
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

static int write_directory(const char *dir, const struct collection *all,
			   const struct live_select *which)
{
	if (!all->first)
		die_none(which, EXIT_UNDECIDED);
	make_directory(dir);
	return write_all(dir, all);
}

/* For another shift-diag. That nothing runs here is an answer, too. */
static int write_stream(const struct collection *all)
{
	return collection_write(stdout, all) ? EXIT_FINE : EXIT_FAILED;
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
	struct collection all;
	bool to_stdout;
	int status;

	diag_options_parse(&syntax, argc, argv);
	if (optind + 1 != argc)
		die(EXIT_BAD_USAGE,
		    "collect: one directory is needed, or -; see shift-diag collect --help");
	to_stdout = !strcmp(argv[optind], "-");
	collection_read(&all, &which);
	status = to_stdout ? write_stream(&all) : write_directory(argv[optind], &all, &which);
	if (status == EXIT_FINE && !collection_is_whole(&all))
		status = EXIT_WARNING;
	collection_free(&all);
	return status;
}
