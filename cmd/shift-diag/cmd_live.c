/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* status and events: what shift-ctl shows, with a verdict. */
#include <stdio.h>

#include "cmd/shift-diag/diag_live.h"

static const char status_help[] = "usage: shift-diag status [options]\n"
				  "The protected processes of this host and their connections, as "
				  "shift-ctl status shows them,\n"
				  "and whether they are as they should be.\n"
				  "\n"
				  "  -J, --job NAME       only of this job\n"
				  "  -p, --pid PID        only this process\n"
				  "  -j, --json           short for --format json\n"
				  "      --format FORMAT  text or json\n"
				  "      --help           this text\n";

static const char events_help[] =
	"usage: shift-diag events [options]\n"
	"What happened to connections, as shift-ctl events tells it: changes of state, switches, "
	"error\n"
	"completions, asynchronous events. shift-diag explain says what their words mean.\n"
	"\n"
	"  -a, --all            also the life of every queue pair, protected or not\n"
	"  -f, --follow         go on until interrupted, or until the process of --pid ends\n"
	"  -J, --job NAME       only of this job\n"
	"  -p, --pid PID        only this process\n"
	"  -j, --json           short for --format json: one object per line\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

struct live_options {
	struct live_select which;
	bool follow, all;
};

void diag_take_select(struct live_select *which, int letter, const char *value)
{
	if (letter == 'J')
		which->job = live_parse_job(value, EXIT_BAD_USAGE);
	else if (letter == 'p')
		which->pid = live_parse_pid(value, EXIT_BAD_USAGE);
}

static void take_option(void *arg, int letter, const char *value)
{
	struct live_options *o = arg;

	o->follow |= letter == 'f';
	o->all |= letter == 'a';
	diag_take_select(&o->which, letter, value);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

static unsigned int unprotected_of(const struct stats_copy *copy)
{
	unsigned int n = 0;

	for (size_t i = 0; i < copy->conn_count; i++)
		n += !copy->conns[i].is_protected &&
		     copy->conns[i].unprotected != STATS_UNPROTECTED_SETUP;
	for (int i = 0; i < STATS_BYPASS_MAX; i++)
		n += copy->h.now.bypass[i].count > 0;
	return n;
}

int diag_live_verdict(const struct processes *found)
{
	for (const struct process *p = found->first; p; p = p->next) {
		struct shift_conn_stats sum = stats_sum(&p->copy);

		if (p->copy.life == STATS_DEAD || p->copy.h.now.given_up || sum.maybe_twice ||
		    sum.lost_atomics || unprotected_of(&p->copy))
			return EXIT_WARNING;
	}
	return EXIT_FINE;
}

int cmd_status(int argc, char **argv)
{
	struct live_options o = {0};
	const struct diag_syntax syntax = {.help = status_help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"job", 'J', true}, {"pid", 'p', true}},
					   .take = take_option,
					   .arg = &o};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct processes found;
	int verdict;

	diag_no_arguments(argc, argv);
	found = processes_read(&o.which, false);
	live_show_status(&found, &o.which, format == FORMAT_JSON);
	if (!found.first && (o.which.job || o.which.pid))
		die_none(&o.which, EXIT_UNDECIDED);
	verdict = diag_live_verdict(&found);
	processes_free(&found);
	return fflush(stdout) ? EXIT_FAILED : verdict;
}

int cmd_events(int argc, char **argv)
{
	struct live_options o = {0};
	const struct diag_syntax syntax = {.help = events_help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"job", 'J', true},
						   {"pid", 'p', true},
						   {"follow", 'f', false},
						   {"all", 'a', false}},
					   .take = take_option,
					   .arg = &o};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct live_how how = {.json = format == FORMAT_JSON, .follow = o.follow, .lives = o.all};

	diag_no_arguments(argc, argv);
	return live_events(&o.which, &how, EXIT_UNDECIDED) ? EXIT_FINE : EXIT_FAILED;
}
