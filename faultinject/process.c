/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of processors and processes. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faultinject/device.h"
#include "faultinject/inject.h"

enum { PATH_BYTES = 600, PERIOD_US = 100000, JOURNALS_MAX = 256 };

static int check_process(struct injection *in, uint64_t *began, struct problem *p)
{
	*began = process_began(in->o.pid);
	if (!*began)
		return problem_set(p, INJECT_NOT_FOUND, "--pid %d: no such process", in->o.pid);
	if (in->o.pid == 1 || in->o.pid == getpid())
		return problem_set(p, INJECT_REFUSED,
				   "--pid %d: neither init nor shift-inject itself can be meant",
				   in->o.pid);
	if (!kill(in->o.pid, 0))
		return 0;
	return problem_set(p, INJECT_NO_PERMISSION, "--pid %d: %s", in->o.pid, strerror(errno));
}

static cJSON *signal_step(pid_t pid, uint64_t began, int sig)
{
	cJSON *step = cJSON_CreateObject();

	cJSON_AddNumberToObject(step, "pid", pid);
	cJSON_AddNumberToObject(step, "began", (double)began);
	cJSON_AddNumberToObject(step, "signal", sig);
	return step;
}

/* --- sigstop --------------------------------------------------------------------------------- */

int sigstop_check(struct injection *in, struct problem *p)
{
	uint64_t began;

	snprintf(in->detail, sizeof(in->detail), "process %d stopped", in->o.pid);
	return check_process(in, &began, p);
}

int sigstop_begin(struct injection *in, struct problem *p)
{
	uint64_t began;
	int status = check_process(in, &began, p);

	/* Somebody else has stopped it: after SIGCONT it would run, which is not the state before.
	 */
	if (!status && process_is_stopped(in->o.pid))
		status = problem_set(p, INJECT_REFUSED, "process %d is stopped already", in->o.pid);

	if (!status)
		status = journal_step(in, "signal", signal_step(in->o.pid, began, SIGCONT), p);
	if (status || dry_run(in, "send SIGSTOP to process %d", in->o.pid))
		return status;
	if (!kill(in->o.pid, SIGSTOP))
		return 0;
	return problem_set(p, INJECT_FAILED, "process %d: %s", in->o.pid, strerror(errno));
}

/* --- children -------------------------------------------------------------------------------- */

int child_start(struct injection *in, void (*work)(void *arg), void *arg, struct problem *p)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return problem_set(p, INJECT_FAILED, "fork: %s", strerror(errno));
	if (!pid) {
		sigset_t none;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		/* Closes the lock and the guard's pipe: the guard must see when the parent ends. */
		closefrom(3);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGINT, SIG_IGN); /* a terminal's is for the parent */
		work(arg);
		_exit(0);
	}
	return journal_step(in, "signal", signal_step(pid, process_began(pid), SIGKILL), p);
}

static _Noreturn void spin_cpu(void *arg)
{
	(void)arg;
	for (volatile unsigned long n = 0;; n++)
		;
}

int stress_begin(struct injection *in, struct problem *p)
{
	unsigned int n = in->o.given & OPT_CPUS ? in->o.cpus
						: (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	int status = 0;

	snprintf(in->detail, sizeof(in->detail), "%u process%s that compute", n,
		 n == 1 ? "" : "es");
	if (dry_run(in, "start %s", in->detail))
		return 0;
	for (unsigned int i = 0; i < n && !status; i++)
		status = child_start(in, spin_cpu, NULL, p);
	return status;
}

/* --- cpu-throttle ---------------------------------------------------------------------------- */

/* Where cgroup v2 is, and the process's own group there ("/" is its root). */
static bool cgroup_of(pid_t pid, char root[256], char group[256])
{
	char path[64], line[512];
	bool found = false;
	FILE *f = fopen("/proc/self/mounts", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %255s cgroup2", root) == 1 && strstr(line, " cgroup2 ");
	if (f)
		fclose(f);
	if (!found)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	f = fopen(path, "re");
	found = false;
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "0::%255s", group) == 1;
	if (f)
		fclose(f);
	return found;
}

static bool has_word(const char *path, const char *word)
{
	char text[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	bool found = false;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	for (char *save, *s = strtok_r(text, " \n", &save); s; s = strtok_r(NULL, " \n", &save))
		found |= !strcmp(s, word);
	return found;
}

/* Counts the active faults that need the controller that was enabled there. The kernel has a switch
 * in each group. */
static unsigned int count_throttles(const char *control)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX, NULL), found = 0;

	for (unsigned int i = 0; i < n; i++) {
		const cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItem(list[i], "steps"), 0);

		found += !journal_is_of_another_boot(list[i]) &&
			 !strcmp(json_text(list[i], "fault"), "cpu-throttle") &&
			 !strcmp(json_text(step, "control"), control);
		cJSON_Delete(list[i]);
	}
	return found;
}

struct groups {
	char from[PATH_BYTES], to[PATH_BYTES], control[PATH_BYTES + 32];
	bool was_controlled;
};

/* A group beside the process's own (below it, if that is the root), so that all limits that apply
 * to the process still do. */
static int find_groups(struct injection *in, struct groups *g, struct problem *p)
{
	char root[256], group[256], parent[PATH_BYTES], path[PATH_BYTES + 32];

	if (!cgroup_of(in->o.pid, root, group))
		return problem_set(p, INJECT_REFUSED,
				   "cpu-throttle needs cgroup v2, which is not mounted here");
	snprintf(g->from, sizeof(g->from), "%s%s", root, strcmp(group, "/") ? group : "");
	strcpy(parent, g->from);
	if (strcmp(group, "/"))
		*strrchr(parent, '/') = 0;
	snprintf(g->to, sizeof(g->to), "%.500s/%.63s", parent, in->id);
	snprintf(path, sizeof(path), "%s/cgroup.controllers", parent);
	if (!has_word(path, "cpu"))
		return problem_set(p, INJECT_REFUSED,
				   "%s: the cpu controller is not to be had there", parent);
	snprintf(g->control, sizeof(g->control), "%s/cgroup.subtree_control", parent);
	g->was_controlled = has_word(g->control, "cpu") && !count_throttles(g->control);
	return 0;
}

int throttle_check(struct injection *in, struct problem *p)
{
	struct groups g;
	uint64_t began;
	int status = check_process(in, &began, p);

	snprintf(in->detail, sizeof(in->detail), "process %d gets %.6g %% of one processor",
		 in->o.pid, 100 * in->o.share);
	return status ? status : find_groups(in, &g, p);
}

static int move_process(pid_t pid, const char *group)
{
	char path[PATH_BYTES + 32], text[32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	snprintf(text, sizeof(text), "%d", pid);
	return write_text(path, text);
}

static int throttle_process(struct injection *in, const struct groups *g)
{
	char path[PATH_BYTES + 32], text[64];
	int err = 0;

	if (!g->was_controlled)
		err = write_text(g->control, "+cpu");
	if (!err && mkdir(g->to, 0755))
		err = -errno;
	snprintf(path, sizeof(path), "%s/cpu.max", g->to);
	snprintf(text, sizeof(text), "%ld %d", (long)(in->o.share * PERIOD_US), PERIOD_US);
	if (!err)
		err = write_text(path, text);
	return err ? err : move_process(in->o.pid, g->to);
}

int throttle_begin(struct injection *in, struct problem *p)
{
	cJSON *step = cJSON_CreateObject();
	struct groups g;
	int err, status = find_groups(in, &g, p);

	if (status) {
		cJSON_Delete(step);
		return status;
	}
	cJSON_AddNumberToObject(step, "pid", in->o.pid);
	cJSON_AddNumberToObject(step, "began", (double)process_began(in->o.pid));
	cJSON_AddStringToObject(step, "from", g.from);
	cJSON_AddStringToObject(step, "to", g.to);
	if (!g.was_controlled)
		cJSON_AddStringToObject(step, "control", g.control);
	status = journal_step(in, "cgroup", step, p);
	if (status || dry_run(in, "make %s with cpu.max %ld %d, and move process %d there", g.to,
			      (long)(in->o.share * PERIOD_US), PERIOD_US, in->o.pid))
		return status;
	err = throttle_process(in, &g);
	return err ? problem_set(p, INJECT_FAILED, "%s: %s", g.to, strerror(-err)) : 0;
}

/* Moves everything in the group back, also children that the process has started since. */
static void empty_group(const char *group, const char *to)
{
	char path[PATH_BYTES + 32];
	int pid, moved;

	snprintf(path, sizeof(path), "%.600s/cgroup.procs", group);
	do {
		FILE *f = fopen(path, "re");

		moved = 0;
		while (f && fscanf(f, "%d", &pid) == 1)
			moved += !move_process(pid, to);
		if (f)
			fclose(f);
	} while (moved);
}

int throttle_undo(const cJSON *step, struct problem *p)
{
	const char *to = json_text(step, "to"), *control = json_text(step, "control");

	empty_group(to, json_text(step, "from"));
	if (rmdir(to) && errno != ENOENT)
		return problem_set(p, INJECT_NOT_UNDONE, "%s: %s", to, strerror(errno));
	/* The last one switches the controller off again. */
	if (*control && count_throttles(control) <= 1 && write_text(control, "-cpu"))
		return problem_set(p, INJECT_NOT_UNDONE, "%s: %s", control, strerror(errno));
	return 0;
}
