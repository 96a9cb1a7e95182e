/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which rank or host hangs, has failed or is slow, from what was recorded. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/timeline.h"

#define PATHS                                                                               \
	"\n"                                                                                \
	"A PATH is a file of shift-records(5), a log HOST.log, or a directory with files\n" \
	"NAME.records and HOST.log.\n"                                                      \
	"\n"
#define OPTIONS                                                                         \
	"  -w, --window TIME    how far back from the last event records count (10m)\n" \
	"  -j, --json           short for --format json\n"                              \
	"      --format FORMAT  text or json\n"                                         \
	"      --help           this text\n"

enum { OPTION_TIMELINE = 1004 };

static const char hang_help[] = "usage: shift-diag hang [options] PATH ...\n"
				"Which rank keeps the others of a job waiting?\n" PATHS OPTIONS;
static const char fail_help[] = "usage: shift-diag fail [options] PATH ...\n"
				"Which host or NIC made a job fail?\n" PATHS OPTIONS;
static const char slow_help[] = "usage: shift-diag slow [options] PATH ...\n"
				"       shift-diag slow --timeline FILE\n"
				"Which rank, host or NIC makes a job slow?\n" PATHS
				"      --timeline FILE  of a training in a pipeline, a trace for "
				"Chrome, and no PATH\n" OPTIONS;

struct inputs {
	struct records records;
	struct logs logs;
	struct aegis_options options;
	const char *timeline; /* NULL: none */
};

static void take_option(void *arg, int letter, const char *value)
{
	struct inputs *in = arg;
	int64_t ms;

	if (letter == OPTION_TIMELINE) {
		in->timeline = value;
		return;
	}
	ms = parse_ms(value);
	if (ms <= 0)
		die(EXIT_BAD_USAGE, "--window %s: not a time; say 10m", value);
	in->options.window_ns = (uint64_t)ms * 1000000;
}

static bool is_log(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".log");
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static void read_path(struct inputs *in, const char *command, const char *path)
{
	int records = is_log(path) ? 0 : records_read(path, &in->records);
	int logs = is_log(path) || is_directory(path) ? logs_read(path, &in->logs) : 0;

	if (records < 0 || logs < 0)
		die(EXIT_BAD_USAGE, "%s: %s: %s", command, path,
		    strerror(-(records < 0 ? records : logs)));
	if (!records && !logs)
		die(EXIT_BAD_USAGE, "%s: %s: no records that can be used; see shift-records(5)",
		    command, path);
}

static void inputs_free(struct inputs *in)
{
	records_free(&in->records);
	logs_free(&in->logs);
}

static int tell(struct verdict *v, enum diag_format format)
{
	int status = verdict_status(v);

	if (format == FORMAT_JSON) {
		cJSON *o = diag_json();

		cJSON_AddItemToArray(check_alloc(cJSON_AddArrayToObject(o, "verdicts")),
				     verdict_json(v));
		diag_print_json(o);
	} else {
		verdict_print(v);
	}
	verdict_free(v);
	return fflush(stdout) ? EXIT_FAILED : status;
}

static enum diag_format begin(struct inputs *in, struct diag_syntax syntax, int argc, char **argv)
{
	const char *command = argv[0] + strlen("shift-diag: ");
	enum diag_format format;

	*in = (struct inputs){.options.window_ns = AEGIS_WINDOW_S * 1000000000ull};
	syntax.formats = FORMAT_BIT(FORMAT_JSON);
	syntax.take = take_option;
	syntax.arg = in;
	format = diag_options_parse(&syntax, argc, argv);
	if (in->timeline && optind < argc)
		die(EXIT_BAD_USAGE, "%s: --timeline, or records; not both", command);
	if (!in->timeline && optind == argc)
		die(EXIT_BAD_USAGE, "%s: a file or directory of records is needed", command);
	for (int i = optind; i < argc; i++)
		read_path(in, command, argv[i]);
	return format;
}

int cmd_hang(int argc, char **argv)
{
	const struct diag_syntax syntax = {.help = hang_help, .own = {{"window", 'w', true}}};
	struct inputs in;
	enum diag_format format = begin(&in, syntax, argc, argv);
	struct verdict v = aegis_hang(&in.records, &in.options);
	int status = tell(&v, format);

	inputs_free(&in);
	return status;
}

int cmd_fail(int argc, char **argv)
{
	const struct diag_syntax syntax = {.help = fail_help, .own = {{"window", 'w', true}}};
	struct inputs in;
	enum diag_format format = begin(&in, syntax, argc, argv);
	struct verdict v = aegis_fail(&in.records, &in.logs, &in.options);
	int status = tell(&v, format);

	inputs_free(&in);
	return status;
}

static struct verdict judge_timeline(const char *path)
{
	FILE *file = fopen(path, "re");
	struct timeline t = {0};
	int status = file ? timeline_read(file, &t) : -errno;
	struct verdict v;

	if (file)
		fclose(file);
	if (status == -EINVAL)
		die(EXIT_BAD_USAGE,
		    "slow: %s: no trace with threads \"PP rank P, TP rank T, "
		    "compute\"; see shift-diag(1)",
		    path);
	if (status)
		die(EXIT_BAD_USAGE, "slow: %s: %s", path, strerror(-status));
	v = timeline_judge(&t);
	timeline_free(&t);
	return v;
}

int cmd_slow(int argc, char **argv)
{
	const struct diag_syntax syntax = {
		.help = slow_help,
		.own = {{"window", 'w', true}, {"timeline", OPTION_TIMELINE, true}}};
	struct inputs in;
	enum diag_format format = begin(&in, syntax, argc, argv);
	struct verdict v = in.timeline ? judge_timeline(in.timeline)
				       : aegis_slow(&in.records, &in.options);
	int status = tell(&v, format);

	inputs_free(&in);
	return status;
}
