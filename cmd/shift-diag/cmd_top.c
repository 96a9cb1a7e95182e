/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A live table of NICs, processes and connections, with rates. */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-diag/diag_live.h"
#include "cmd/shift-diag/nics.h"
#include "lib/base/sysfs.h"

static const char help[] =
	"usage: shift-diag top [options]\n"
	"NICs, protected processes and their connections, live, with rates.\n"
	"\n"
	"  -i, --interval TIME  between two tables (1s)\n"
	"  -n, --count N        so many tables, then end; default: until interrupted\n"
	"  -J, --job NAME       only of this job\n"
	"  -p, --pid PID        only this process\n"
	"  -j, --json           short for --format json: one object per line\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { INTERVAL_MS = 1000, ROWS_DEFAULT = 24 };

struct top_options {
	struct live_select which;
	int64_t interval_ms;
	long count; /* 0: no end */
};

struct nic_counts {
	bool known;
	uint64_t received, sent; /* bytes */
	uint64_t errors;
};

/* Everything at one moment. */
struct sample {
	int64_t at_ms;
	struct processes found;
	struct diag_nics nics;
	struct nic_counts counts[DIAG_NICS_MAX];
};

/* Rates between two samples; negative: not known. */
struct nic_rates {
	double received, sent, errors;
};

struct conn_rates {
	double sends, receives;
};

/* ---- samples -------------------------------------------------------------------------------- */

static bool read_number(const char *path, uint64_t *n)
{
	char line[32], *end;

	if (!sysfs_read_line(path, line, sizeof(line)))
		return false;
	*n = strtoull(line, &end, 10);
	return end != line && !*end;
}

static bool port_number(const struct diag_nic *n, const char *file, uint64_t *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/%s", n->rail.name,
		 n->nic.port, file);
	return read_number(path, value);
}

static bool netdev_number(const struct diag_nic *n, const char *file, uint64_t *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", n->netdev, file);
	return *n->netdev && read_number(path, value);
}

/* Signs of lost packets, by the names of several drivers. */
static uint64_t count_errors(const struct diag_nic *n)
{
	static const char *const files[] = {
		"counters/port_rcv_errors",	    "counters/symbol_error",
		"hw_counters/out_of_sequence",	    "hw_counters/packet_seq_err",
		"hw_counters/rx_icrc_encapsulated", "hw_counters/local_ack_timeout_err",
		"hw_counters/rcvd_seq_err",	    "hw_counters/out_of_seq_request",
		"hw_counters/retry_exceeded_err",   "hw_counters/completer_retry_err"};
	uint64_t sum = 0, value;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (port_number(n, files[i], &value))
			sum += value;
	return sum;
}

/* The port's own counters are in words of four bytes. A soft NIC has none: then those of its
 * netdev, which count other traffic, too. */
static struct nic_counts count_nic(const struct diag_nic *n)
{
	struct nic_counts c = {.errors = count_errors(n)};

	if (port_number(n, "counters/port_rcv_data", &c.received) &&
	    port_number(n, "counters/port_xmit_data", &c.sent)) {
		c.received *= 4;
		c.sent *= 4;
		c.known = true;
	} else {
		c.known = netdev_number(n, "rx_bytes", &c.received) &&
			  netdev_number(n, "tx_bytes", &c.sent);
	}
	return c;
}

static struct sample *sample_take(const struct live_select *which)
{
	struct sample *s = check_alloc(calloc(1, sizeof(*s)));

	s->found = processes_read(which, false);
	s->nics = diag_nics_list();
	for (unsigned int i = 0; i < s->nics.count; i++)
		s->counts[i] = count_nic(s->nics.nic + i);
	s->at_ms = now_ms();
	return s;
}

static void sample_free(struct sample *s)
{
	processes_free(&s->found);
	diag_nics_close(&s->nics);
	free(s);
}

/* ---- rates ---------------------------------------------------------------------------------- */

/* A counter that went down began anew. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now < before || seconds <= 0 ? -1 : (double)(now - before) / seconds;
}

static struct nic_rates nic_rates(const struct sample *before, const struct sample *now,
				  unsigned int i)
{
	double seconds = (double)(now->at_ms - before->at_ms) / 1000;
	const struct diag_nic *n = now->nics.nic + i;

	for (unsigned int k = 0; k < before->nics.count; k++) {
		const struct diag_nic *old = before->nics.nic + k;
		const struct nic_counts *a = before->counts + k, *b = now->counts + i;

		if (strcmp(old->rail.name, n->rail.name) || old->nic.port != n->nic.port)
			continue;
		return (struct nic_rates){
			a->known && b->known ? rate(a->received, b->received, seconds) : -1,
			a->known && b->known ? rate(a->sent, b->sent, seconds) : -1,
			rate(a->errors, b->errors, seconds)};
	}
	return (struct nic_rates){-1, -1, -1};
}

static const struct stats_conn *conn_before(const struct sample *before, const struct process *p,
					    const struct stats_conn *c)
{
	const struct process *q = before->found.first;

	while (q && !stats_same_process(&q->copy.h, &p->copy.h))
		q = q->next;
	for (size_t i = 0; q && i < q->copy.conn_count; i++)
		if (q->copy.conns[i].id == c->id)
			return q->copy.conns + i;
	return NULL;
}

/* The library brings the numbers up to date now and then, and not while nothing happens. */
static struct conn_rates conn_rates(const struct sample *before, const struct process *p,
				    const struct stats_conn *c)
{
	const struct stats_conn *old = conn_before(before, p, c);
	double seconds = old ? (double)(c->updated_ns - old->updated_ns) * 1e-9 : 0;

	if (!old)
		return (struct conn_rates){-1, -1};
	if (c->updated_ns == old->updated_ns)
		return (struct conn_rates){0, 0};
	return (struct conn_rates){rate(old->send_done, c->send_done, seconds),
				   rate(old->recv_done, c->recv_done, seconds)};
}

/* ---- showing -------------------------------------------------------------------------------- */

/* "1.2 G", "-" if it is negative: up to 15 bytes. */
static const char *show_rate(char text[16], double n)
{
	static const char units[] = " kMGT";
	unsigned int unit = 0;

	if (n < 0)
		return strcpy(text, "-");
	for (; n >= 999.5 && unit + 1 < sizeof(units) - 1; unit++)
		n /= 1000;
	if (unit)
		snprintf(text, 16, "%.*f %c", n < 10, n, units[unit]);
	else
		snprintf(text, 16, "%.0f", n);
	return text;
}

struct screen {
	int rows; /* that are left; INT_MAX: not a terminal */
};

static bool row(struct screen *s)
{
	return s->rows > 0 && s->rows--;
}

static void show_nics(struct screen *s, const struct sample *before, const struct sample *now)
{
	char a[16], b[16], c[16];

	if (row(s))
		printf("%-12s %4s  %-8s %12s %12s %10s\n", "NIC", "PORT", "STATE", "RECEIVED B/s",
		       "SENT B/s", "ERRORS/s");
	for (unsigned int i = 0; i < now->nics.count; i++) {
		const struct diag_nic *n = now->nics.nic + i;
		struct nic_rates r = nic_rates(before, now, i);

		if (row(s))
			printf("%-12s %4u  %-8s %12s %12s %10s\n", shown(n->rail.name), n->nic.port,
			       shown(n->state), show_rate(a, r.received), show_rate(b, r.sent),
			       show_rate(c, r.errors));
	}
}

static void show_conn(const struct sample *before, const struct process *p,
		      const struct stats_conn *c)
{
	struct conn_rates r = conn_rates(before, p, c);
	char peer[80], a[16], b[16], moves[16], outage[16];

	snprintf(moves, sizeof(moves), "%" PRIu64, c->moves);
	printf("  %-8" PRIu32 " %-20s %-10s %-10s %8s %8s %8" PRIu64 " %5s %9s  %s\n", c->qpn,
	       live_peer(peer, sizeof(peer), c), shown(c->nic[c->rail]), shift_state_name(c->state),
	       show_rate(a, r.sends), show_rate(b, r.receives), c->send_posted - c->send_done,
	       moves, c->moves ? show_ns(outage, c->outage_max_ns) : "-",
	       c->is_protected ? "yes" : stats_unprotected_name(c->unprotected));
}

static void show_process(struct screen *s, const struct sample *before, const struct process *p)
{
	if (row(s))
		putchar('\n');
	if (row(s))
		printf("process %" PRIu32 " %s, job %s, %s\n", p->copy.h.pid, shown(p->copy.h.comm),
		       shown(p->copy.h.job), stats_life_name(p->copy.life));
	if (p->copy.conn_count && row(s))
		printf("  %-8s %-20s %-10s %-10s %8s %8s %8s %5s %9s  %s\n", "QPN", "PEER", "NIC",
		       "STATE", "SENDS/s", "RECV/s", "WAITING", "MOVES", "OUTAGE", "PROTECTED");
	for (size_t i = 0; i < p->copy.conn_count; i++)
		if (row(s))
			show_conn(before, p, p->copy.conns + i);
}

static int terminal_rows(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row)
		return ROWS_DEFAULT;
	return size.ws_row;
}

static void show_text(const struct sample *before, const struct sample *now)
{
	struct screen s = {.rows = INT_MAX};
	time_t t = time(NULL);
	char when[32] = "";
	struct tm tm;

	if (isatty(STDOUT_FILENO)) {
		fputs("\033[H\033[2J\033[?7l", stdout); /* lines are cut: each is one row */
		s.rows = terminal_rows() - 1;
	}
	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	if (row(&s))
		printf("%s, rates over %.1f s\n", when,
		       (double)(now->at_ms - before->at_ms) / 1000);
	show_nics(&s, before, now);
	if (!now->found.first && row(&s))
		puts("no protected process runs here");
	for (const struct process *p = now->found.first; p; p = p->next)
		show_process(&s, before, p);
	fputs(isatty(STDOUT_FILENO) ? "\033[?7h" : "\n", stdout); /* behind each table */
}

static void add_rate(cJSON *o, const char *name, double n)
{
	if (n < 0)
		cJSON_AddNullToObject(o, name);
	else
		cJSON_AddNumberToObject(o, name, n);
}

static void json_add_nics(cJSON *o, const struct sample *before, const struct sample *now)
{
	cJSON *nics = cJSON_AddArrayToObject(o, "nics"), *n;

	for (unsigned int i = 0; i < now->nics.count; i++) {
		struct nic_rates r = nic_rates(before, now, i);

		cJSON_AddItemToArray(nics, n = cJSON_CreateObject());
		cJSON_AddStringToObject(n, "device", now->nics.nic[i].rail.name);
		cJSON_AddNumberToObject(n, "port", now->nics.nic[i].nic.port);
		cJSON_AddStringToObject(n, "state", now->nics.nic[i].state);
		add_rate(n, "received_bytes_per_second", r.received);
		add_rate(n, "sent_bytes_per_second", r.sent);
		add_rate(n, "errors_per_second", r.errors);
	}
}

static void json_add_conns(cJSON *o, const struct sample *before, const struct process *p)
{
	cJSON *conns = cJSON_AddArrayToObject(o, "connections"), *c;

	for (size_t i = 0; i < p->copy.conn_count; i++) {
		const struct stats_conn *s = p->copy.conns + i;
		struct conn_rates r = conn_rates(before, p, s);

		cJSON_AddItemToArray(conns, c = cJSON_CreateObject());
		cJSON_AddNumberToObject(c, "qpn", s->qpn);
		cJSON_AddStringToObject(c, "nic", s->nic[s->rail]);
		cJSON_AddStringToObject(c, "state", shift_state_name(s->state));
		cJSON_AddBoolToObject(c, "protected", s->is_protected);
		add_rate(c, "sends_per_second", r.sends);
		add_rate(c, "receives_per_second", r.receives);
		cJSON_AddNumberToObject(c, "sends_waiting",
					(double)(s->send_posted - s->send_done));
		cJSON_AddNumberToObject(c, "moves", (double)s->moves);
		cJSON_AddNumberToObject(c, "outage_max_us", (double)s->outage_max_ns / 1000);
	}
}

static void show_json(const struct sample *before, const struct sample *now)
{
	cJSON *o = diag_json(), *processes, *p;

	cJSON_AddNumberToObject(o, "seconds", (double)(now->at_ms - before->at_ms) / 1000);
	json_add_nics(o, before, now);
	processes = cJSON_AddArrayToObject(o, "processes");
	for (const struct process *q = now->found.first; q; q = q->next) {
		cJSON_AddItemToArray(processes, p = cJSON_CreateObject());
		cJSON_AddNumberToObject(p, "pid", q->copy.h.pid);
		cJSON_AddStringToObject(p, "job", q->copy.h.job);
		cJSON_AddStringToObject(p, "life", stats_life_name(q->copy.life));
		json_add_conns(p, before, q);
	}
	live_print_json(o, true);
}

static void take_option(void *arg, int letter, const char *value)
{
	struct top_options *o = arg;

	diag_take_select(&o->which, letter, value);
	if (letter == 'i' && ((o->interval_ms = parse_ms(value)) < 10 || o->interval_ms > 3600000))
		die(EXIT_BAD_USAGE, "top: --interval %s: not a time from 10ms to 1h", value);
	if (letter == 'n' && (o->count = parse_number(value, 1, LONG_MAX)) < 0)
		die(EXIT_BAD_USAGE, "top: --count %s: not a number from 1", value);
}

int cmd_top(int argc, char **argv)
{
	struct top_options o = {.interval_ms = INTERVAL_MS};
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"interval", 'i', true},
						   {"count", 'n', true},
						   {"job", 'J', true},
						   {"pid", 'p', true}},
					   .take = take_option,
					   .arg = &o};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct sample *before, *now;

	diag_no_arguments(argc, argv);
	live_catch_end();
	before = sample_take(&o.which);
	for (long round = 1; !poll(NULL, 0, (int)o.interval_ms) && !live_is_interrupted();
	     round++) {
		now = sample_take(&o.which);
		(format == FORMAT_JSON ? show_json : show_text)(before, now);
		sample_free(before);
		before = now;
		if (fflush(stdout) || round == o.count)
			break;
	}
	sample_free(before);
	return ferror(stdout) ? EXIT_FAILED : EXIT_FINE;
}
