/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-run: preloads libshift.so into a program, or says why that is not possible. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

enum { VARIABLES_MAX = SETTINGS + ACCESS_FILES + 10 };

/* Lists the variables that are added to the environment of the command. */
static void list_variables(struct variable *first, const struct options *o, const struct meeting *m,
			   const char *preload, const char *job, const char *report_dir)
{
	const char *run_dir = getenv("SHIFT_RUN_DIR");
	struct variable *v = first;

	*v++ = (struct variable){"LD_PRELOAD", format_text("%s", preload)};
	*v++ = (struct variable){"SHIFT_JOB", format_text("%s", job)};
	if (run_dir && *run_dir)
		*v++ = (struct variable){"SHIFT_RUN_DIR", format_text("%s", run_dir)};
	if (m->kind != MEET_HERE) /* for a shift-run of the job on another host */
		*v++ = (struct variable){"SHIFT_KV", format_text("%s", m->urls)};
	if (*m->user.name) {
		*v++ = (struct variable){"SHIFT_KV_USER", format_text("%s", m->user.name)};
		*v++ = (struct variable){"SHIFT_KV_PASSWORD", format_text("%s", m->user.password)};
	}
	if (access_key_file())
		*v++ = (struct variable){"SHIFT_KEY_FILE", format_text("%s", access_key_file())};
	for (int f = 0; f < ACCESS_FILES; f++)
		if (access_value(f))
			*v++ = (struct variable){access_variable(f),
						 format_text("%s", access_value(f))};
	for (int s = 0; s < SETTINGS; s++)
		if (setting_value(s))
			*v++ = (struct variable){setting_variable(s),
						 format_text("%s", setting_value(s))};
	if (o->report)
		*v++ = (struct variable){"SHIFT_REPORT_DIR", format_text("%s", report_dir)};
	*v = (struct variable){0};
	*v = mpirun_variable(first, m);
	if (v->name)
		v[1] = (struct variable){0};
}

static void set_variables(const struct variable *v)
{
	for (; v->name; v++)
		if (setenv(v->name, v->value, 1))
			die(EXIT_OURS, "out of memory");
}

/* True inside a command of another shift-run of this host, which has done everything already. */
static bool is_nested(const struct options *o, const struct meeting *m)
{
	const char *outer = getenv("SHIFT_JOB"), *conflict = settings_conflict();
	const char *kv = getenv("SHIFT_KV");
	struct kvd_state s;

	if (!outer || !kv_job_is_valid(outer, strlen(outer)) || !library_is_active())
		return false;
	if (kvd_hold(outer, &s))
		return false; /* brought here from another host, or killed */
	kvd_state_free(&s);
	if (o->job && strcmp(o->job, outer))
		conflict = "job";
	if (o->kv && (!kv || strcmp(m->urls, kv)))
		conflict = "kv";
	if (o->report)
		conflict = "report";
	if (o->on_switch)
		conflict = "on-switch";
	if (conflict)
		die(EXIT_OURS,
		    "--%s: this is inside job %s already; give the option to the outer shift-run",
		    conflict, outer);
	say("inside job %s already: the command runs as a part of it", outer);
	return true;
}

static int run_with_variables(const struct options *o, const struct variable *variables,
			      struct run_report *r)
{
	set_variables(variables);
	if (!o->report)
		return exec_command(o->command);
	r->wait_status = run_command(o->command);
	collect_report(r);
	end_as(r->wait_status);
}

static int protect_command(const struct options *o, const struct target *target)
{
	struct run_report r = {.file = o->report, .command = o->command};
	struct variable variables[VARIABLES_MAX + 1];
	const char *library = library_find(), *job, *recorders[COLLECTIVES_LIBRARIES_MAX];
	size_t count = collectives_libraries(target, recorders);
	const char *preload = library_preload(library, recorders, count);
	struct meeting meeting;

	kv_spec_parse(&meeting, o->kv ? o->kv : getenv("SHIFT_KV"));
	if (!o->dry_run && is_nested(o, &meeting))
		return exec_command(o->command);
	job = r.job = job_name(o->job);
	rails_check(setting_value(SET_RAILS));
	access_prepare(&meeting, o);
	if (o->dry_run) {
		list_variables(variables, o, &meeting, preload, job, "(a new directory)");
		show_plan(&(struct plan){o, library, job, recorders, count, target, &meeting,
					 variables});
		return fflush(stdout) ? EXIT_OURS : EXIT_OK;
	}
	rendezvous_join(&meeting, o, job);
	access_forget_key();
	if (o->report)
		report_begin(&r);
	list_variables(variables, o, &meeting, preload, job, r.dir);
	return run_with_variables(o, variables, &r);
}

int main(int argc, char **argv)
{
	const char *run_dir = getenv("SHIFT_RUN_DIR");
	struct target target;
	struct options o;
	int status;

	cli_begin("shift-run", EXIT_OURS);
	wait_for_children();
	argv[0] = "shift-run"; /* getopt's messages begin with this */
	run_options_parse(&o, argc, argv);
	if (run_dir && *run_dir && setenv("SHIFT_RUN_DIR", absolute_path(run_dir), 1))
		die(EXIT_OURS, "out of memory");
	status = target_check(o.command, &target);
	if (o.check)
		return show_check(&o, &target, status, status ? NULL : library_find());
	if (status)
		die(status, "%s", target.why);
	return protect_command(&o, &target);
}
