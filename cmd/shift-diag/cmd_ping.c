/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Do datagrams of all sizes arrive, on all paths, in both directions? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/ping.h"

static const char help[] =
	"usage: shift-diag ping [options] HOST[:PORT]...\n"
	"       shift-diag ping --listen [--bind ADDRESS] [--port PORT]\n"
	"Sends datagrams of several sizes from each NIC of this host to those of the others, "
	"where\n"
	"shift-diag ping --listen sends them back: losses by size and direction, and round trips.\n"
	"\n"
	"  -s, --size LIST      payloads in bytes (64,512,1024,2048,4096,16384); one that is "
	"larger than\n"
	"                       the MTU is sent as several datagrams\n"
	"  -c, --count N        so many of each size on each path (20)\n"
	"  -i, --interval TIME  between two of them (5ms)\n"
	"  -w, --wait TIME      for the last ones: what is later is lost (1s)\n"
	"  -n, --nic DEVICE     from this NIC only\n"
	"  -x, --cross          from each NIC to all of the others'; default: to the one of its "
	"name\n"
	"  -l, --listen         answer until interrupted\n"
	"      --bind ADDRESS   --listen: at this address; default: at all\n"
	"      --port PORT      --listen: at this port (" PING_PORT ")\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { OPTION_BIND = 1002, OPTION_PORT };

struct ping_options {
	struct ping_plan plan;
	bool listen;
	const char *bind, *port;
};

static int size_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void parse_sizes(struct ping_plan *plan, const char *list)
{
	char word[16];
	size_t n;

	plan->sizes = 0;
	for (const char *p = list; p; p = p[n] ? p + n + 1 : NULL) {
		long bytes;

		n = strcspn(p, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, p);
		bytes = n < sizeof(word) ? parse_number(word, PING_BYTES_MIN, PING_BYTES_MAX) : -1;
		if (bytes < 0 || plan->sizes == PING_SIZES_MAX)
			die(EXIT_BAD_USAGE,
			    "ping: --size %s: not up to %d numbers from %d to %d, with commas",
			    list, PING_SIZES_MAX, PING_BYTES_MIN, PING_BYTES_MAX);
		plan->size[plan->sizes++] = (uint32_t)bytes;
	}
	qsort(plan->size, plan->sizes, sizeof(*plan->size), size_compare);
}

static int64_t parse_wait(const char *option, const char *value)
{
	int64_t ms = parse_ms(value);

	if (ms < 1 || ms > 60000)
		die(EXIT_BAD_USAGE, "ping: %s %s: not a time from 1ms to 60s", option, value);
	return ms;
}

static void take_option(void *arg, int letter, const char *value)
{
	struct ping_options *o = arg;
	long n;

	switch (letter) {
	case 's': parse_sizes(&o->plan, value); break;
	case 'c':
		n = parse_number(value, 1, PING_COUNT_MAX);
		if (n < 0)
			die(EXIT_BAD_USAGE, "ping: --count %s: not a number from 1 to %d", value,
			    PING_COUNT_MAX);
		o->plan.count = (unsigned int)n;
		break;
	case 'i': o->plan.interval_us = parse_wait("--interval", value) * 1000; break;
	case 'w': o->plan.wait_ms = parse_wait("--wait", value); break;
	case 'n': o->plan.nic = value; break;
	case 'x': o->plan.cross = true; break;
	case 'l': o->listen = true; break;
	case OPTION_BIND: o->bind = value; break;
	case OPTION_PORT:
		if (parse_number(value, 1, 65535) < 0)
			die(EXIT_BAD_USAGE, "ping: --port %s: not a port", value);
		o->port = value;
		break;
	}
}

static void options_check(const struct ping_options *o, int argc, char **argv)
{
	if (o->listen)
		diag_no_arguments(argc, argv);
	else if (o->bind || o->port)
		die(EXIT_BAD_USAGE,
		    "ping: --bind and --port are for --listen; HOST:PORT otherwise");
	else if (optind == argc)
		die(EXIT_BAD_USAGE, "ping: a HOST is needed, or --listen");
}

/* Queue pairs of the NICs that can be used. */
static void mesh_open(struct ping_mesh *m)
{
	for (unsigned int i = 0; i < m->nics.count; i++) {
		struct diag_nic *n = m->nics.nic + i;
		const char *trouble = diag_nic_trouble(n);
		int err;

		if (n->nic.port != 1 || (m->plan->nic && strcmp(m->plan->nic, n->rail.name)))
			continue;
		err = trouble ? 0 : ping_end_open(m->end + i, n, false);
		if (!trouble && !err)
			continue;
		say("ping: %s is not tried: %s", n->rail.name, trouble ? trouble : strerror(-err));
		m->incomplete = true;
	}
}

static void path_free(struct ping_path *p, unsigned int sizes)
{
	if (p->to.ah)
		ibv_destroy_ah(p->to.ah);
	for (unsigned int s = 0; s < sizes; s++)
		free(p->result[s].rtt_ns);
	free(p->sent_ns);
	free(p->parts);
	free(p);
}

static void mesh_close(struct ping_mesh *m)
{
	struct ping_path *p;

	/* All paths to a host follow one another, and share its connection. */
	while ((p = m->paths)) {
		m->paths = p->next;
		if (!p->next || p->next->control != p->control)
			fclose(p->control);
		path_free(p, m->plan->sizes);
	}
	for (unsigned int i = 0; i < m->nics.count; i++)
		if (m->end[i].nic)
			ping_end_close(m->end + i);
	diag_nics_close(&m->nics);
}

int cmd_ping(int argc, char **argv)
{
	struct ping_options o = {.plan = {.size = {64, 512, 1024, 2048, 4096, 16384},
					  .sizes = 6,
					  .count = 20,
					  .interval_us = 5000,
					  .wait_ms = 1000}};
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"size", 's', true},
						   {"count", 'c', true},
						   {"interval", 'i', true},
						   {"wait", 'w', true},
						   {"nic", 'n', true},
						   {"cross", 'x', false},
						   {"listen", 'l', false},
						   {"bind", OPTION_BIND, true},
						   {"port", OPTION_PORT, true}},
					   .take = take_option,
					   .arg = &o};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct ping_mesh m = {.plan = &o.plan};
	int status;

	options_check(&o, argc, argv);
	m.nics = diag_nics_open();
	if (o.plan.nic && !diag_nic_find(&m.nics, o.plan.nic))
		die(EXIT_BAD_USAGE, "ping: %s: no such RDMA device; see rdma link", o.plan.nic);
	if (!m.nics.count)
		say("ping: there is no RDMA device here; see rdma link");
	if (o.listen) {
		status = ping_listen(o.bind, o.port ? o.port : PING_PORT, &m.nics);
		diag_nics_close(&m.nics);
		return status;
	}
	mesh_open(&m);
	for (int i = optind; i < argc; i++)
		ping_meet(&m, argv[i]);
	ping_run(&m);
	status = ping_show(&m, format);
	mesh_close(&m);
	return fflush(stdout) ? EXIT_FAILED : status;
}
