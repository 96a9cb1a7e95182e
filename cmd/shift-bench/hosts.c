/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-bench/hosts.h"
#include "cmd/shift-bench/plan.h"
#include "config.h"

enum { UP_MS = 180000, ASK_MS = 20000, MEET_MS = 60000 };

/* ---- the programs of this project ----------------------------------------------------------- */

/* Beside this program when it is installed, and where the build has put it else. */
static char *own_program(const char *built, const char *name)
{
	char self[PATH_MAX], path[PATH_MAX + 64];

	program_path(self);
	if (strrchr(self, '/'))
		*strrchr(self, '/') = 0;
	snprintf(path, sizeof(path), "%s/%s", self, name);
	if (!access(path, X_OK))
		return check_alloc(strdup(path));
	snprintf(path, sizeof(path), "%s/../../%s/%s", self, built, name);
	if (!access(path, X_OK))
		return realpath(path, NULL);
	snprintf(path, sizeof(path), "%s/%s", PKGLIBEXECDIR, name);
	return realpath(path, NULL);
}

/* The directory that guests must see. */
static char *tree_of(const char *program)
{
	char *tree = check_alloc(strdup(program));

	for (int i = 0; i < 3 && strrchr(tree, '/') > tree; i++)
		*strrchr(tree, '/') = 0;
	return tree;
}

/* ---- the testbed ---------------------------------------------------------------------------- */

/* Waits until we have ended, and ends the testbed. */
static _Noreturn void guard(const struct hosts *h, int fd)
{
	char byte;

	setsid();
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_IGN);
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	signal(SIGCHLD, SIG_DFL);
	execl(h->tool, h->tool, "down", "--name", h->name, NULL);
	_exit(1);
}

static bool start_guardian(struct hosts *h)
{
	int pipe_of[2];

	if (pipe2(pipe_of, O_CLOEXEC))
		return false;
	h->guardian = fork();
	if (h->guardian == 0) {
		close(pipe_of[1]);
		guard(h, pipe_of[0]);
	}
	close(pipe_of[0]);
	h->guardian_fd = pipe_of[1];
	return h->guardian > 0;
}

/* A program of this machine that is to succeed; what it said goes to standard error if not. */
static int succeed(char **words, int64_t limit_ms, char **output)
{
	struct run run;
	char *errors;

	if (!process_start(&run, words))
		return EXIT_FAILED;
	run.deadline_ms = now_ms() + limit_ms;
	run_wait(&run);
	errors = run_errors(&run);
	errors[strcspn(errors, "\n")] = 0;
	if (run.status && !interrupted())
		say("%s", *errors ? errors : format_text("%s %s failed", words[0], words[1]));
	free(errors);
	if (output)
		*output = run_output(&run);
	run_free(&run);
	return run.status;
}

/* shift-testbed's statuses as ours. */
static int status_of(int theirs)
{
	if (interrupted())
		return EXIT_INTERRUPTED;
	return theirs == 5 ? EXIT_MISSING : theirs ? EXIT_HOST : EXIT_OK;
}

static int start_testbed(struct hosts *h, const struct bench_options *o)
{
	char *tree = tree_of(h->shift_run), *words[20], *output;
	int n = 0, status;

	h->name = format_text("bench-%ld", (long)getpid());
	words[n++] = h->tool;
	words[n++] = (char *)"up";
	words[n++] = (char *)"--name";
	words[n++] = h->name;
	if (o->hosts) {
		words[n++] = (char *)"--ssh";
		words[n++] = (char *)o->hosts;
	} else {
		words[n++] = (char *)"--share";
		words[n++] = tree;
		words[n++] = (char *)"--layout";
		words[n++] = (char *)(o->layout ? o->layout : "pair");
		words[n++] = (char *)"--kernel";
		words[n++] = (char *)(o->kernel ? o->kernel : "6.1");
		words[n++] = (char *)"--rails";
		words[n++] = format_text("%ld", o->rails ? o->rails : 2);
	}
	if (o->config) {
		words[n++] = (char *)"--config";
		words[n++] = (char *)o->config;
	}
	words[n] = NULL;
	start_guardian(h);
	status = status_of(succeed(words, UP_MS, &output));
	free(tree);
	free(output);
	return status;
}

/* NICs and GIDs of rail 0, as shift-testbed status tells them. */
static void take_host(struct hosts *h, enum host i, const cJSON *host)
{
	const cJSON *rail = cJSON_GetArrayItem(cJSON_GetObjectItem(host, "rails"), 0);

	if (!rail)
		return;
	h->nic[i] = check_alloc(strdup(json_text(rail, "nic")));
	h->gid_index[i] = (long)json_number(rail, "gid_index");
	for (int k = 0; k < BACKUPS_MAX; k++) {
		rail = cJSON_GetArrayItem(cJSON_GetObjectItem(host, "rails"), k + 1);
		if (rail)
			h->backup[i][k] = check_alloc(strdup(json_text(rail, "nic")));
		if (rail && !k)
			h->backup_gid_index[i] = (long)json_number(rail, "gid_index");
	}
}

static int take_status(struct hosts *h, struct results *r)
{
	char *words[] = {h->tool, (char *)"status", (char *)"--name",
			 h->name, (char *)"--json", NULL};
	char *output = NULL;
	int status = status_of(succeed(words, ASK_MS, &output));
	cJSON *all = cJSON_Parse(output ? output : ""), *testbed;

	free(output);
	testbed = cJSON_DetachItemFromArray(cJSON_GetObjectItem(all, "testbeds"), 0);
	cJSON_Delete(all);
	if (status || !testbed)
		return status ? status : EXIT_HOST;
	/* Those of --hosts have any names; the first is host a. */
	for (int i = 0; i < HOSTS; i++)
		take_host(h, i, cJSON_GetArrayItem(cJSON_GetObjectItem(testbed, "hosts"), i));
	cJSON_AddItemToObject(r->root, "testbed", testbed);
	for (int i = 0; i < HOSTS; i++)
		if (!h->nic[i]) {
			say("host %s has no RDMA device, or is not up; see shift-testbed status",
			    host_name(i));
			return EXIT_HOST;
		}
	return EXIT_OK;
}

/* ---- what the hosts have -------------------------------------------------------------------- */

static const char inventory[] =
	"echo \"kernel $(uname -r)\"; echo \"processors $(nproc)\"\n"
	"echo \"processor $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)\"\n"
	"echo \"perftest $(ib_write_lat --version 2>/dev/null)\"\n"
	"echo \"shift $(\"$0\" --version 2>/dev/null)\"\n"
	"echo \"libibverbs $(ls -L /usr/lib/*/libibverbs.so.1.* /usr/lib64/libibverbs.so.1.* "
	"2>/dev/null | head -n 1)\"\n"
	"echo \"peer $SHIFT_PEER_ADDR\"\n";

static cJSON *fields_of(char *text)
{
	cJSON *o = check_alloc(cJSON_CreateObject());
	char *rest = NULL;

	for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		char *blank = strchr(l, ' ');

		if (!blank)
			continue;
		*blank = 0;
		cJSON_AddStringToObject(o, l, blank + 1);
	}
	return o;
}

static int ask_host(const struct hosts *h, enum host host, cJSON **found)
{
	const char *words[] = {"sh", "-c", inventory, h->shift_run, NULL};
	char *out, *err;
	int status = host_runs(h, host, words, ASK_MS, &out, &err);

	*found = NULL;
	err[strcspn(err, "\n")] = 0;
	if (!status)
		*found = fields_of(out);
	else if (!interrupted())
		say("host %s does not answer: %s", host_name(host), *err ? err : "it is too slow");
	free(out);
	free(err);
	return !status ? EXIT_OK : interrupted() ? EXIT_INTERRUPTED : EXIT_HOST;
}

static int check_versions(const struct hosts *h, const struct bench_options *o,
			  cJSON *const found[HOSTS])
{
	static const char *const same[] = {"perftest", "shift", "libibverbs"};

	for (int i = 0; i < HOSTS; i++) {
		const char *shift = json_text(found[i], "shift");

		if (!*json_text(found[i], "perftest")) {
			say("host %s has no perftest; install it there with: apt-get install "
			    "perftest",
			    host_name(i));
			return EXIT_MISSING;
		}
		if (o->control)
			continue;
		if (!*shift) {
			say("host %s cannot run %s", host_name(i), h->shift_run);
			return EXIT_MISSING;
		}
		if (strcmp(shift, "shift-run " PACKAGE_VERSION)) {
			say("host %s has %s, this is shift-bench %s", host_name(i), shift,
			    PACKAGE_VERSION);
			return EXIT_VERSIONS;
		}
	}
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		const char *a = json_text(found[HOST_A], same[i]),
			   *b = json_text(found[HOST_B], same[i]);

		if (strcmp(a, b)) {
			say("the hosts differ: %s is \"%s\" on a, \"%s\" on b", same[i], a, b);
			return EXIT_VERSIONS;
		}
	}
	return EXIT_OK;
}

static int take_inventory(struct hosts *h, struct results *r)
{
	cJSON *found[HOSTS] = {0}, *list = cJSON_AddObjectToObject(r->root, "hosts");
	int status = EXIT_OK;

	for (int i = 0; i < HOSTS && !status; i++) {
		status = ask_host(h, i, &found[i]);
		if (!status)
			cJSON_AddItemToObject(list, host_name(i), found[i]);
	}
	if (status)
		return status;
	h->peer = format_text("%s", json_text(found[HOST_A], "peer"));
	h->kv = format_text("start@%s", h->peer);
	return check_versions(h, r->options, found);
}

/* ---- the meeting point ---------------------------------------------------------------------- */

/* One etcd for all runs: to start it takes longer than most runs, and its start would be measured.
 */
static int start_meeting(struct hosts *h)
{
	h->job = format_text("bench%ld", (long)getpid());
	for (int i = HOSTS - 1; i >= 0; i--) {
		const char *words[] = {h->shift_run, "--kv", h->kv,
				       "--job",	     h->job, "--",
				       "sh",	     "-c",   "echo met; exec sleep 86400",
				       NULL};
		int64_t until = now_ms() + MEET_MS;
		char *said = NULL;

		if (!run_start(&h->meeting[i], h, i, words, RUN_FOR_EVER_MS))
			return EXIT_FAILED;
		do {
			free(said);
			usleep(100000);
			said = run_output(&h->meeting[i]);
		} while (!strstr(said, "met\n") && run_alive(&h->meeting[i]) && now_ms() < until &&
			 !interrupted());
		if (!strstr(said, "met\n") && !interrupted()) {
			char *err = run_errors(&h->meeting[i]);

			err[strcspn(err, "\n")] = 0;
			say("host %s: the job has no meeting point: %s", host_name(i), err);
			free(err);
			free(said);
			return EXIT_FAILED;
		}
		free(said);
	}
	return interrupted() ? EXIT_INTERRUPTED : EXIT_OK;
}

int hosts_check(const struct hosts *h)
{
	for (int i = 0; i < HOSTS; i++) {
		const char *words[] = {"true", NULL};
		char *out, *err;
		int status = host_runs(h, i, words, ASK_MS, &out, &err);

		err[strcspn(err, "\n")] = 0;
		if (status && !interrupted())
			say("host %s does not answer: %s", host_name(i),
			    *err ? err : "it is too slow");
		free(out);
		free(err);
		if (status)
			return interrupted() ? EXIT_INTERRUPTED : EXIT_HOST;
	}
	return EXIT_OK;
}

int hosts_need(const char *program, const char *name)
{
	if (program)
		return EXIT_OK;
	say("%s is missing: the installation is not complete", name);
	return EXIT_MISSING;
}

int hosts_need_faults(const struct hosts *h)
{
	return hosts_need(h->shift_ctl, "shift-ctl") ||
			       hosts_need(h->shift_inject, "shift-inject") ||
			       hosts_need(h->integrity, "the integrity client")
		       ? EXIT_MISSING
		       : EXIT_OK;
}

int hosts_open(struct hosts *h, struct results *r)
{
	const struct bench_options *o = r->options;
	int status = EXIT_OK;

	memset(h, 0, sizeof(*h));
	h->guardian_fd = -1;
	h->tool = own_program("testbed", "shift-testbed");
	h->shift_run = own_program("cmd/shift-run", "shift-run");
	h->shift_ctl = own_program("cmd/shift-ctl", "shift-ctl");
	h->shift_inject = own_program("cmd/shift-inject", "shift-inject");
	h->integrity = own_program("tests/clients/integrity", "integrity");
	h->idle_qps = own_program("tests/clients", "idle-qps");
	h->train_steps = own_program("tests/clients", "train-steps");
	if (!h->tool || !h->shift_run) {
		say("%s is missing: the installation is not complete",
		    h->tool ? "shift-run" : "shift-testbed");
		return EXIT_MISSING;
	}
	if (o->testbed)
		h->name = check_alloc(strdup(o->testbed));
	else
		status = start_testbed(h, o);
	if (!status)
		status = take_status(h, r);
	if (!status)
		status = take_inventory(h, r);
	if (!status && !o->control)
		status = start_meeting(h);
	return status;
}

void hosts_close(struct hosts *h)
{
	for (int i = 0; i < HOSTS; i++)
		run_free(&h->meeting[i]);
	if (h->guardian_fd >= 0)
		close(h->guardian_fd);
	while (h->guardian > 0 && waitpid(h->guardian, NULL, 0) < 0 && errno == EINTR)
		;
	for (int i = 0; i < HOSTS; i++) {
		free(h->nic[i]);
		for (int k = 0; k < BACKUPS_MAX; k++)
			free(h->backup[i][k]);
	}
	free(h->shift_ctl);
	free(h->shift_inject);
	free(h->integrity);
	free(h->idle_qps);
	free(h->train_steps);
	free(h->tool);
	free(h->shift_run);
}
