/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which rank or host hangs, has failed or is slow, from what was recorded. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/live/live.h"
#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/aegis_live.h"
#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/diag_page.h"
#include "cmd/shift-diag/each_file.h"
#include "cmd/shift-diag/foreign.h"
#include "cmd/shift-diag/timeline.h"

#define INPUTS                                                                                \
	"\n"                                                                                  \
	"Without a PATH: of the jobs that run on this host, or on those of --hosts. A PATH\n" \
	"is a file of shift-records(5), a log HOST.log, what ncclras -f json has printed\n"   \
	"(NAME.json) or rdma -j statistic (HOST.rdma.json, HOST.rdma.SECONDS.json), or a\n"   \
	"directory with files NAME.records, HOST.log and NAME.json.\n"                        \
	"\n"
#define OPTIONS                                                                                  \
	"  -H, --hosts H1,H2    ask these hosts, by ssh; shift-diag must be in the PATH there\n" \
	"  -t, --timeout TIME   for each of them (20s)\n"                                        \
	"  -J, --job NAME       only of this job\n"                                              \
	"      --watch TIME     look again and again, so often, as long as all is fine\n"        \
	"  -w, --window TIME    how far back from the last event records count (10m)\n"          \
	"  -j, --json           short for --format json\n"                                       \
	"      --format FORMAT  text or json\n"                                                  \
	"      --help           this text\n"

enum { OPTION_TIMELINE = 1004, OPTION_HTML, OPTION_WATCH, TIMEOUT_MS = 20000 };

static const char hang_help[] = "usage: shift-diag hang [options] [PATH ...]\n"
				"Which rank keeps the others of a job waiting?\n" INPUTS OPTIONS;
static const char fail_help[] = "usage: shift-diag fail [options] [PATH ...]\n"
				"Which host or NIC made a job fail?\n" INPUTS OPTIONS;
static const char slow_help[] = "usage: shift-diag slow [options] [PATH ...]\n"
				"       shift-diag slow --timeline FILE\n"
				"Which rank, host or NIC makes a job slow?\n" INPUTS
				"      --timeline FILE  of a training in a pipeline, a trace for "
				"Chrome, and no PATH\n"
				"      --html FILE      also a page with pictures\n" OPTIONS;

/* Of the three commands. */
struct analyser {
	const char *name;
	struct verdict (*judge)(const struct records *r, const struct logs *logs,
				const struct aegis_options *o);
	enum verdict_class ras_class; /* of what NCCL's RAS tells; CLASS_FINE: it is of no use */
	bool of_dead; /* also of a job none of whose processes runs, while another's do */
};

struct inputs {
	const struct analyser *analyser;
	enum diag_format format;
	struct records records;
	struct logs logs;
	struct foreign foreign;
	struct aegis_options options;
	struct live_request live;
	bool was_live_asked;	     /* an option of those was given */
	int64_t watch_ms;	     /* 0: once */
	const char *timeline, *html; /* NULL: none */
};

static int64_t parse_time(const char *option, const char *value)
{
	int64_t ms = parse_ms(value);

	if (ms <= 0)
		die(EXIT_BAD_USAGE, "--%s %s: not a time; say 10m", option, value);
	return ms;
}

static void take_hosts(struct inputs *in, const char *value)
{
	const char *why = "given twice";

	if (in->live.hosts || !live_parse_hosts(&in->live, value, &why))
		die(EXIT_BAD_USAGE, "--hosts %s: %s", value, why);
}

static void take_option(void *arg, int letter, const char *value)
{
	struct inputs *in = arg;

	in->was_live_asked |= letter != OPTION_TIMELINE && letter != OPTION_HTML && letter != 'w';
	switch (letter) {
	case OPTION_TIMELINE: in->timeline = value; break;
	case OPTION_HTML: in->html = value; break;
	case OPTION_WATCH: in->watch_ms = parse_time("watch", value); break;
	case 'w': in->options.window_ns = (uint64_t)parse_time("window", value) * 1000000; break;
	case 't': in->live.timeout_ms = parse_time("timeout", value); break;
	case 'J': in->live.job = live_parse_job(value, EXIT_BAD_USAGE); break;
	case 'H': take_hosts(in, value); break;
	}
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static void read_path(struct inputs *in, const char *command, const char *path)
{
	bool is_log = has_ending(path, ".log"), is_json = has_ending(path, ".json");
	int records = is_log || is_json ? 0 : records_read(path, &in->records);
	int logs = is_log || is_directory(path) ? logs_read(path, &in->logs) : 0;
	int foreign = is_json || is_directory(path) ? foreign_read(path, &in->foreign, &in->records)
						    : 0;
	int err = records < 0 ? records : logs < 0 ? logs : foreign < 0 ? foreign : 0;

	if (err)
		die(EXIT_BAD_USAGE, "%s: %s: %s", command, path, strerror(-err));
	if (!records && !logs && !foreign)
		die(EXIT_BAD_USAGE, "%s: %s: no records that can be used; see shift-records(5)",
		    command, path);
}

static void inputs_free(struct inputs *in)
{
	records_free(&in->records);
	logs_free(&in->logs);
	foreign_free(&in->foreign);
}

/* Prints and frees them. The worst one's status. */
static int tell(struct verdict *v, size_t n, enum diag_format format)
{
	int status = EXIT_FINE;
	cJSON *o = diag_json(), *all = check_alloc(cJSON_AddArrayToObject(o, "verdicts"));

	for (size_t i = 0; i < n; i++) {
		status = diag_worse(status, verdict_status(v + i));
		if (format == FORMAT_JSON)
			cJSON_AddItemToArray(all, verdict_json(v + i));
		else
			verdict_print(v + i);
		verdict_free(v + i);
	}
	if (format == FORMAT_JSON)
		diag_print_json(o);
	else
		cJSON_Delete(o);
	return fflush(stdout) ? EXIT_FAILED : status;
}

/* ---- jobs that run -------------------------------------------------------------------------- */

struct judged {
	struct verdict *v;
	size_t n;
};

static void judge_job(const struct inputs *in, const struct live_answer *a, const char *job,
		      const struct records *r, struct judged *all)
{
	struct verdict *v;

	all->v = check_alloc(reallocarray(all->v, all->n + 1, sizeof(*all->v)));
	v = all->v + all->n++;
	*v = in->analyser->judge(r, NULL, &in->options);
	snprintf(v->job, sizeof(v->job), "%s", job);
	live_tell_gaps(a, v);
}

static bool does_any_run(const struct live_job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (jobs[i].is_running)
			return true;
	return false;
}

/* Nothing is known of a job: that is no healthy one. */
static void judge_nothing(const struct inputs *in, const struct live_answer *a, struct judged *all)
{
	const struct records none = {0};
	const char *job = in->live.job ? in->live.job : "";

	judge_job(in, a, job, &none, all);
	verdict_undecided(all->v);
	verdict_says(all->v, "no process%s%s%s runs under shift-run %s", *job ? " of job " : "",
		     job, *job ? "" : " of this user",
		     in->live.hosts ? "on these hosts" : "on this host");
	verdict_advises(all->v, "name the hosts of the job (--hosts), and be its user or root");
}

static struct judged judge_live(const struct inputs *in)
{
	struct judged all = {0};
	struct live_answer a;
	struct live_job *jobs;
	bool running;
	size_t n;

	live_read(&in->live, &a);
	jobs = live_jobs(&a, &n);
	running = does_any_run(jobs, n);
	for (size_t i = 0; i < n; i++)
		if (jobs[i].is_running || !running || in->analyser->of_dead)
			judge_job(in, &a, jobs[i].name, &jobs[i].records, &all);
	if (!all.n)
		judge_nothing(in, &a, &all);
	live_jobs_free(jobs, n);
	live_answer_free(&a);
	return all;
}

static bool is_fine(const struct judged *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].class != CLASS_FINE)
			return false;
	return true;
}

static void judged_free(struct judged *all)
{
	for (size_t i = 0; i < all->n; i++)
		verdict_free(all->v + i);
	free(all->v);
}

static int run_live(const struct inputs *in)
{
	struct judged all = judge_live(in);
	int status;

	if (in->watch_ms)
		live_catch_end();
	while (in->watch_ms && is_fine(&all)) {
		poll(NULL, 0, (int)in->watch_ms); /* a signal ends it */
		if (live_is_interrupted())
			break;
		judged_free(&all);
		all = judge_live(in);
	}
	status = tell(all.v, all.n, in->format);
	free(all.v);
	return status;
}

/* ---- commands ------------------------------------------------------------------------------- */

static void check_inputs(const struct inputs *in, const char *command, bool has_paths)
{
	if (in->timeline && has_paths)
		die(EXIT_BAD_USAGE, "%s: --timeline, or records; not both", command);
	if (in->html && !in->timeline && !has_paths)
		die(EXIT_BAD_USAGE, "%s: --html draws what is in files: name some", command);
	if (in->was_live_asked && (in->timeline || has_paths))
		die(EXIT_BAD_USAGE,
		    "%s: --hosts, --timeout, --job and --watch are for jobs that run, without "
		    "files",
		    command);
}

static void begin(struct inputs *in, struct diag_syntax syntax, int argc, char **argv)
{
	const char *command = argv[0] + strlen("shift-diag: ");

	in->options.window_ns = AEGIS_WINDOW_S * 1000000000ull;
	in->live.timeout_ms = TIMEOUT_MS;
	syntax.formats = FORMAT_BIT(FORMAT_JSON);
	syntax.take = take_option;
	syntax.arg = in;
	in->format = diag_options_parse(&syntax, argc, argv);
	check_inputs(in, command, optind < argc);
	for (int i = optind; i < argc; i++)
		read_path(in, command, argv[i]);
	foreign_finish(&in->foreign, &in->records);
}

#define OWN_OPTIONS                                                                              \
	{"window", 'w', true}, {"hosts", 'H', true}, {"timeout", 't', true}, {"job", 'J', true}, \
	{                                                                                        \
		"watch", OPTION_WATCH, true                                                      \
	}

static void draw_page(const struct inputs *in, const struct verdict *v, const struct records *r)
{
	const struct diag_page page = {
		.command = in->analyser->name, .verdict = v, .verdicts = 1, .records = r};

	if (in->html)
		diag_page_write(&page, in->html);
}

static int run(struct inputs *in, bool has_paths)
{
	struct verdict v;
	int status;

	if (!has_paths)
		return run_live(in);
	v = in->analyser->judge(&in->records, &in->logs, &in->options);
	if (in->analyser->ras_class != CLASS_FINE)
		foreign_tell(&in->foreign, in->analyser->ras_class, &v);
	draw_page(in, &v, &in->records);
	status = tell(&v, 1, in->format);
	inputs_free(in);
	return status;
}

static struct verdict judge_hang(const struct records *r, const struct logs *logs,
				 const struct aegis_options *o)
{
	(void)logs;
	return aegis_hang(r, o);
}

int cmd_hang(int argc, char **argv)
{
	static const struct analyser analyser = {"hang", judge_hang, CLASS_STOPPED, false};
	const struct diag_syntax syntax = {.help = hang_help, .own = {OWN_OPTIONS}};
	struct inputs in = {.analyser = &analyser};

	begin(&in, syntax, argc, argv);
	return run(&in, optind < argc);
}

int cmd_fail(int argc, char **argv)
{
	static const struct analyser analyser = {"fail", aegis_fail, CLASS_FAILED, true};
	const struct diag_syntax syntax = {.help = fail_help, .own = {OWN_OPTIONS}};
	struct inputs in = {.analyser = &analyser};

	begin(&in, syntax, argc, argv);
	return run(&in, optind < argc);
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

static struct verdict judge_slow(const struct records *r, const struct logs *logs,
				 const struct aegis_options *o)
{
	(void)logs;
	return aegis_slow(r, o);
}

int cmd_slow(int argc, char **argv)
{
	static const struct analyser analyser = {"slow", judge_slow, CLASS_FINE, false};
	const struct diag_syntax syntax = {.help = slow_help,
					   .own = {OWN_OPTIONS,
						   {"timeline", OPTION_TIMELINE, true},
						   {"html", OPTION_HTML, true}}};
	struct inputs in = {.analyser = &analyser};
	struct verdict v;

	begin(&in, syntax, argc, argv);
	if (!in.timeline)
		return run(&in, optind < argc);
	v = judge_timeline(in.timeline);
	draw_page(&in, &v, NULL);
	return tell(&v, 1, in.format);
}
