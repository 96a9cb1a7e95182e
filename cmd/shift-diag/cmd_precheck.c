/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Is this host fit to start a job? */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-diag/precheck.h"

static const char help[] =
	"usage: shift-diag precheck [options]\n"
	"Is this host fit to start a job? Each check passes, warns, fails, or is skipped, with a "
	"reason.\n"
	"\n"
	"      --light          only what takes no time: not whether the library can be loaded\n"
	"      --kv WORDS       as for shift-run: is that etcd reachable? Default: $SHIFT_KV\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text, json or npd (one line for Kubernetes' "
	"node-problem-detector)\n"
	"      --help           this text\n";

enum { OPTION_LIGHT = 1004, OPTION_KV, LIGHT_S = 4, FULL_S = 55, NPD_BYTES = 80 };

/* Exit statuses of a plugin of node-problem-detector. */
enum { NPD_OK, NPD_PROBLEM, NPD_UNKNOWN };

struct precheck_options {
	bool light;
	const char *kv;
};

struct telling {
	enum diag_format format;
	cJSON *checks; /* JSON */
	unsigned int count[CHECK_SKIP + 1];
	char first[512]; /* the first that failed, or else that warned */
};

static const char *const result_names[] = {"pass", "warn", "fail", "skip"};

static void tell(struct precheck *p, const char *check, enum check_result result, const char *fmt,
		 ...)
{
	struct telling *t = p->arg;
	char text[512];
	cJSON *o;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if ((result == CHECK_FAIL && !t->count[CHECK_FAIL]) ||
	    (result == CHECK_WARN && !t->count[CHECK_FAIL] && !t->count[CHECK_WARN]))
		snprintf(t->first, sizeof(t->first), "%s: %.480s", check, text);
	t->count[result]++;
	if (t->format == FORMAT_TEXT) {
		printf("%s  %-11s  %s\n", result_names[result], check, shown(text));
		fflush(stdout); /* the next one may hang */
	} else if (t->format == FORMAT_JSON) {
		cJSON_AddItemToArray(t->checks, o = cJSON_CreateObject());
		cJSON_AddStringToObject(o, "check", check);
		cJSON_AddStringToObject(o, "result", result_names[result]);
		cJSON_AddStringToObject(o, "text", text);
	}
}

static int verdict_of(const struct telling *t)
{
	return t->count[CHECK_FAIL]   ? EXIT_CULPRIT
	       : t->count[CHECK_WARN] ? EXIT_WARNING
				      : EXIT_FINE;
}

/* One line of at most 80 characters. A warning is no problem of the node. */
static int npd_tell(const struct telling *t)
{
	char line[600];

	if (*t->first)
		snprintf(line, sizeof(line), "%s", shown(t->first));
	else
		snprintf(line, sizeof(line), "%u checks passed", t->count[CHECK_PASS]);
	printf("%.*s\n", NPD_BYTES, line);
	return t->count[CHECK_FAIL] ? NPD_PROBLEM : NPD_OK;
}

static int precheck_tell(struct telling *t, cJSON *o)
{
	if (t->format == FORMAT_NPD)
		return npd_tell(t);
	if (t->format == FORMAT_JSON) {
		cJSON_AddStringToObject(o, "verdict",
					result_names[t->count[CHECK_FAIL]   ? CHECK_FAIL
						     : t->count[CHECK_WARN] ? CHECK_WARN
									    : CHECK_PASS]);
		diag_print_json(o);
	} else {
		printf("%u passed, %u warned, %u failed, %u skipped\n", t->count[CHECK_PASS],
		       t->count[CHECK_WARN], t->count[CHECK_FAIL], t->count[CHECK_SKIP]);
	}
	return verdict_of(t);
}

/* ---- a check that hangs --------------------------------------------------------------------- */

static const char *running = "the NICs"; /* what is tried now */
static enum diag_format hang_format;

static void write_text(const char *text)
{
	ssize_t n = write(STDOUT_FILENO, text, strlen(text));

	(void)n;
}

/* A NIC that hangs is no fit host, and there is no other way out of a system call of its driver. */
static void on_alarm(int sig)
{
	static const char json[] = "{\"schema_version\": 1, \"checks\": [{\"check\": \"hang\", "
				   "\"result\": \"fail\", \"text\": \"it hangs: ";
	bool is_json = hang_format == FORMAT_JSON; /* of which nothing is printed yet */

	(void)sig;
	write_text(is_json ? json : "fail: it hangs: ");
	write_text(running);
	write_text(is_json ? "\"}], \"verdict\": \"fail\"}\n" : "\n");
	_exit(hang_format == FORMAT_NPD ? NPD_PROBLEM : EXIT_CULPRIT);
}

static void limit_time(bool light, enum diag_format format)
{
	struct sigaction action = {.sa_handler = on_alarm};

	hang_format = format;
	sigaction(SIGALRM, &action, NULL);
	alarm(light ? LIGHT_S : FULL_S);
}

static const struct {
	const char *name;
	void (*check)(struct precheck *p);
	bool slow;
} checks[] = {
	{"the NICs", check_devices, false},
	{"backups", check_backups, false},
	{"the MTU", check_mtu, false},
	{"drivers", check_drivers, false},
	{"PCIe", check_pcie, false},
	{"ECN", check_ecn, false},
	{"memlock", check_memlock, false},
	{"descriptors", check_descriptors, false},
	{"hugepages", check_hugepages, false},
	{"the clock", check_clock, false},
	{"the run directory", check_run_dir, false},
	{"etcd", check_kv, false},
	{"the library", check_library, true},
};

static void take_option(void *arg, int letter, const char *value)
{
	struct precheck_options *o = arg;

	if (letter == OPTION_LIGHT)
		o->light = true;
	else
		o->kv = value;
}

int cmd_precheck(int argc, char **argv)
{
	struct precheck_options given = {.kv = getenv("SHIFT_KV")};
	const struct diag_syntax syntax = {
		.help = help,
		.formats = FORMAT_BIT(FORMAT_JSON) | FORMAT_BIT(FORMAT_NPD),
		.own = {{"light", OPTION_LIGHT, false}, {"kv", OPTION_KV, true}},
		.take = take_option,
		.arg = &given};
	struct telling t = {.format = diag_options_parse(&syntax, argc, argv)};
	struct precheck p = {.kv = given.kv, .tell = tell, .arg = &t};
	cJSON *o = t.format == FORMAT_JSON ? diag_json() : NULL;
	int status;

	diag_no_arguments(argc, argv);
	t.checks = o ? cJSON_AddArrayToObject(o, "checks") : NULL;
	limit_time(given.light, t.format);
	p.nics = diag_nics_open();
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (given.light && checks[i].slow)
			continue;
		running = checks[i].name;
		checks[i].check(&p);
	}
	alarm(0);
	status = precheck_tell(&t, o);
	diag_nics_close(&p.nics);
	if (fflush(stdout))
		return t.format == FORMAT_NPD ? NPD_UNKNOWN : EXIT_FAILED;
	return status;
}
