/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Counters of all protected processes, and of the NICs, for Prometheus. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/shift-diag/metrics.h"

static const char help[] =
	"usage: shift-diag export [options]\n"
	"Counters of the protected processes and of the NICs of this host, for Prometheus.\n"
	"\n"
	"      --format FORMAT  prometheus (default) or openmetrics\n"
	"      --textfile FILE  write it there, for node_exporter: the old file is replaced at "
	"once\n"
	"      --help           this text\n";

enum { OPTION_TEXTFILE = 1001 };

static void take_textfile(void *arg, int letter, const char *value)
{
	(void)letter;
	*(const char **)arg = value;
	if (!*value || value[strlen(value) - 1] == '/')
		die(EXIT_BAD_USAGE, "export: --textfile %s: not the name of a file", value);
}

static void make_printable(char *text, size_t bytes)
{
	snprintf(text, bytes, "%.*s", (int)bytes - 1, shown(text));
}

/* Labels are told apart as they will be printed: else a process could have the same series twice,
 * for which node_exporter gives up all that it has. */
static void make_labels_printable(struct processes *found)
{
	for (struct process *p = found->first; p; p = p->next) {
		make_printable(p->copy.h.job, sizeof(p->copy.h.job));
		for (size_t i = 0; i < p->copy.conn_count; i++) {
			struct stats_conn *c = p->copy.conns + i;

			make_printable(c->nic[c->rail], STATS_NIC_BYTES);
		}
	}
}

/* A number may have been used again: by the labels the two would be one. The crash record goes, as
 * it stands behind the process that lives. */
static void drop_doubles(struct processes *found)
{
	for (struct process *p = found->first; p; p = p->next)
		for (struct process **at = &p->next; *at;) {
			struct process *q = *at;

			if (q->copy.h.pid != p->copy.h.pid ||
			    strcmp(q->copy.h.job, p->copy.h.job)) {
				at = &q->next;
				continue;
			}
			*at = q->next;
			process_free(q);
		}
}

/* False: not all could be written. */
static bool export_to(FILE *out, enum diag_format format)
{
	const struct live_select all = {0};
	struct metrics m = {.out = out, .format = format};
	struct processes found = processes_read(&all, false);
	struct diag_nics nics = diag_nics_list();

	make_labels_printable(&found);
	drop_doubles(&found);
	metrics_of_processes(&m, &found);
	metrics_of_nics(&m, &nics);
	metrics_end(&m);
	diag_nics_close(&nics);
	processes_free(&found);
	return !ferror(out) && !fflush(out);
}

/* A rename would put a file in the place of /dev/stdout. */
static void check_textfile(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		die(EXIT_BAD_USAGE, "export: --textfile %s: it is there, and no file", path);
}

/* Under a name that does not end in .prom, which node_exporter would read half written. */
static int export_file(const char *path, enum diag_format format)
{
	char *tmp = format_text("%s.%d.tmp", path, getpid());
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool ok;

	if (!out) {
		say("export: %s: %s", tmp, strerror(errno));
		return EXIT_FAILED;
	}
	ok = export_to(out, format);
	if (fclose(out) || !ok || rename(tmp, path)) {
		say("export: %s: %s", path, strerror(errno));
		unlink(tmp);
		return EXIT_FAILED;
	}
	return EXIT_FINE;
}

int cmd_export(int argc, char **argv)
{
	const char *path = NULL;
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_PROMETHEUS) |
						      FORMAT_BIT(FORMAT_OPENMETRICS),
					   .otherwise = FORMAT_PROMETHEUS,
					   .own = {{"textfile", OPTION_TEXTFILE, true}},
					   .take = take_textfile,
					   .arg = &path};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);

	diag_no_arguments(argc, argv);
	if (path && format == FORMAT_OPENMETRICS)
		die(EXIT_BAD_USAGE, "export: --textfile: node_exporter reads no OpenMetrics there");
	if (!path)
		return export_to(stdout, format) ? EXIT_FINE : EXIT_FAILED;
	check_textfile(path);
	return export_file(path, format);
}
