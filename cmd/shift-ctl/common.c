/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Options, messages, and the processes that there are. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-ctl/ctl.h"
#include "kv/client.h"

static void vcomplain(const char *fmt, va_list ap)
{
	fputs("shift-ctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
}

void die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
	exit(status);
}

void help(const char *text)
{
	fputs(text, stdout);
	exit(fflush(stdout) ? EXIT_FAILED : EXIT_OK);
}

static pid_t parse_pid(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (*end || n <= 0 || n > INT32_MAX)
		die(EXIT_BAD_USAGE, "--pid %s: not a process number", s);
	return (pid_t)n;
}

static const char *parse_job(const char *s)
{
	char path[128];

	if (kv_socket_path(path, sizeof(path), s) == -EINVAL)
		die(EXIT_BAD_USAGE, "%s is no name for a job", s);
	return s;
}

/* It goes into a line of the protocol. */
static const char *parse_nic(const char *s)
{
	if (!*s || strlen(s) > 63 || strpbrk(s, " \t\r\n"))
		die(EXIT_BAD_USAGE, "--nic %s: not the name of an RDMA device", s);
	return s;
}

void options_parse(struct ctl_options *o, const char *allowed, const char *text, int argc,
		   char **argv)
{
	static const struct option all[] = {
		{"job", required_argument, NULL, 'J'}, {"pid", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},      {"help", no_argument, NULL, 'h'},
		{"nic", required_argument, NULL, 'n'}, {"follow", no_argument, NULL, 'f'},
	};
	struct option options[7] = {0};
	char letters[16] = "J:p:j";
	int c, n = 4;

	memcpy(options, all, 4 * sizeof(*all));
	for (int i = 4; i < 6; i++)
		if (strchr(allowed, all[i].val))
			options[n++] = all[i];
	strcat(letters, strchr(allowed, 'n') ? "n:" : "");
	strcat(letters, strchr(allowed, 'f') ? "f" : "");
	memset(o, 0, sizeof(*o));
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		switch (c) {
		case 'J': o->job = parse_job(optarg); break;
		case 'p': o->pid = parse_pid(optarg); break;
		case 'j': o->json = true; break;
		case 'n': o->nic = parse_nic(optarg); break;
		case 'f': o->follow = true; break;
		case 'h': help(text);
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "%s: unexpected argument %s", argv[0] + strlen("shift-ctl: "),
		    argv[optind]);
}

struct gathering {
	struct process *first, **end;
};

static bool is_known(const struct process *list, const struct stats_header *h)
{
	while (list && !stats_same_process(&list->copy.h, h))
		list = list->next;
	return list;
}

static bool gather(void *arg, const struct stats_place *place)
{
	struct gathering *g = arg;
	struct process *p = calloc(1, sizeof(*p));
	int err = p ? stats_read(place->path, &p->copy) : -ENOMEM;

	if (!err && is_known(g->first, &p->copy.h)) {
		stats_free(&p->copy);
		err = -ENOENT;
	}
	if (!err) {
		p->path = strdup(place->path);
		p->is_crash = place->is_crash;
		*g->end = p;
		g->end = &p->next;
		return true;
	}
	free(p);
	/* One that ends just now, or is being made, is nothing to speak of. */
	if (err != -ENOENT && err != -EAGAIN)
		complain("%s: %s", place->path,
			 err == -EBADMSG	   ? "not a statistics file"
			 : err == -EPROTONOSUPPORT ? "of another version of shift"
						   : strerror(-err));
	return false;
}

struct process *processes_read(const struct ctl_options *o)
{
	struct gathering g = {.end = &g.first};

	stats_each(o->job, o->pid, gather, &g);
	return g.first;
}

void processes_free(struct process *list)
{
	while (list) {
		struct process *next = list->next;

		stats_free(&list->copy);
		free(list->path);
		free(list);
		list = next;
	}
}

void die_none(const struct ctl_options *o)
{
	char pid[32] = "", job[96] = "";

	if (o->pid)
		snprintf(pid, sizeof(pid), " %d", o->pid);
	if (o->job)
		snprintf(job, sizeof(job), " of job %.64s", o->job);
	die(EXIT_NONE, "no protected process%s%s runs here", pid, job);
}

const char *show_ns(char *text, uint64_t ns)
{
	if (ns < 1000000)
		sprintf(text, "%" PRIu64 " us", ns / 1000);
	else if (ns < 10000000)
		sprintf(text, "%.1f ms", (double)ns / 1e6);
	else if (ns < 10000000000)
		sprintf(text, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(text, 15, "%.0f s", (double)ns / 1e9);
	return text;
}

void print_json(cJSON *o, bool one_line)
{
	char *s = one_line ? cJSON_PrintUnformatted(o) : cJSON_Print(o);

	if (!s)
		die(EXIT_FAILED, "out of memory");
	puts(s);
	free(s);
	cJSON_Delete(o);
}
