/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The matrix of losses, and what it says. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-diag/ping.h"

/* Up to 10 % of lost datagrams are a warning: something is wrong, but it does not stand still. */
static const double loss_culprit = 0.10;
static const double loss_all = 0.90;

double ping_loss_forward(const struct ping_result *r)
{
	if (!r->sent)
		return -1;
	return r->arrived < r->sent ? 1 - (double)r->arrived / r->sent : 0;
}

double ping_loss_back(const struct ping_result *r)
{
	if (!r->arrived)
		return -1;
	return r->echoed < r->arrived ? 1 - (double)r->echoed / r->arrived : 0;
}

/* One direction of a path. */
struct direction {
	const struct ping_path *path;
	const char *from, *from_nic, *to, *to_nic;
	double loss[PING_SIZES_MAX];
	/* The verdict. */
	int status;
	const char *rule; /* NULL: nothing is wrong, or nothing is known */
	char *text, *action;
};

static const char *own_host(void)
{
	static char name[256] = "?";

	gethostname(name, sizeof(name) - 1);
	return name;
}

/* The first size from which on all are lost, if those before it are not; else 0. */
static unsigned int first_lost_size(const struct direction *d, unsigned int sizes)
{
	unsigned int first = 0;

	while (first < sizes && d->loss[first] >= 0 && d->loss[first] < loss_culprit)
		first++;
	for (unsigned int s = first; s < sizes; s++)
		if (d->loss[s] < loss_culprit)
			return 0;
	return first < sizes ? first : 0;
}

static void conclude(struct direction *d, int status, const char *rule, char *text, char *action)
{
	d->status = status;
	d->rule = rule;
	d->text = text;
	d->action = action;
}

static void direction_judge(struct direction *d, const struct ping_plan *plan)
{
	double worst = -1, least = 2;
	unsigned int at;

	for (unsigned int s = 0; s < plan->sizes; s++) {
		worst = fmax(worst, d->loss[s]);
		if (d->loss[s] >= 0)
			least = fmin(least, d->loss[s]);
	}
	if (worst < 0) /* nothing came there, so nothing could come from there */
		d->status = EXIT_UNDECIDED;
	else if (least >= loss_all)
		conclude(d, EXIT_CULPRIT, "all-lost", format_text("nothing arrives"),
			 format_text("shift-diag rails at both ends; does anything drop UDP port "
				     "4791?"));
	else if ((at = first_lost_size(d, plan->sizes)))
		conclude(d, EXIT_CULPRIT, "large-lost",
			 format_text("datagrams of %u bytes arrive, those of %u and more are lost",
				     plan->size[at - 1],
				     plan->size[at] < d->path->mtu ? plan->size[at] : d->path->mtu),
			 format_text(
				 "compare the MTU of both netdevs and of each switch in between"));
	else if (worst >= loss_culprit)
		conclude(d, EXIT_CULPRIT, "lossy",
			 format_text("up to %.0f %% are lost", worst * 100),
			 format_text("error counters of NICs and switches: ethtool -S; cables"));
	else if (worst > 0)
		conclude(d, EXIT_WARNING, "few-lost",
			 format_text("up to %.1f %% are lost", worst * 100),
			 format_text("more probes tell more: --count; ethtool -S at both ends"));
}

static struct direction direction_of(const struct ping_path *p, bool back,
				     const struct ping_plan *plan)
{
	struct direction d = {.path = p};
	const char *own_nic = p->end->nic->rail.name;

	d.from = back ? p->host : own_host();
	d.from_nic = back ? p->rail : own_nic;
	d.to = back ? own_host() : p->host;
	d.to_nic = back ? own_nic : p->rail;
	for (unsigned int s = 0; s < plan->sizes; s++)
		d.loss[s] = (back ? ping_loss_back : ping_loss_forward)(p->result + s);
	if (p->error)
		d.status = EXIT_UNDECIDED;
	else
		direction_judge(&d, plan);
	return d;
}

static int status_of(const struct ping_path *p, const struct direction *there,
		     const struct direction *back)
{
	if (p->error)
		return EXIT_UNDECIDED;
	/* What is lost on the way there, cannot tell of the way back: that is no doubt of its own.
	 */
	if (back->status == EXIT_UNDECIDED && there->status == EXIT_CULPRIT)
		return EXIT_CULPRIT;
	return diag_worse(diag_worse(there->status, back->status),
			  p->other_mtu ? EXIT_WARNING : EXIT_FINE);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void show_title(const struct ping_plan *plan)
{
	printf("%-44s", "payload, bytes");
	for (unsigned int s = 0; s < plan->sizes; s++)
		printf(" %7u", plan->size[s]);
	putchar('\n');
}

static void show_direction(const struct direction *d, const struct ping_plan *plan)
{
	char name[128];

	snprintf(name, sizeof(name), "%.24s %.20s -> %.24s %.20s", shown(d->from),
		 shown(d->from_nic), shown(d->to), shown(d->to_nic));
	printf("%-38s lost ", name);
	for (unsigned int s = 0; s < plan->sizes; s++)
		if (d->loss[s] < 0)
			printf(" %7s", "-");
		else
			printf(" %5.*f %%", d->loss[s] > 0 && d->loss[s] < 0.1, d->loss[s] * 100);
	putchar('\n');
}

static double rtt_us(const struct ping_result *r, double share)
{
	return r->messages
		       ? (double)r->rtt_ns[(unsigned int)(share * (r->messages - 1) + 0.5)] / 1000
		       : -1;
}

static void show_rtt(const struct ping_path *p, const struct ping_plan *plan, const char *name,
		     double share)
{
	printf("%43s ", name);
	for (unsigned int s = 0; s < plan->sizes; s++) {
		double us = rtt_us(p->result + s, share);

		if (us < 0)
			printf(" %7s", "-");
		else
			printf(" %7.0f", us);
	}
	putchar('\n');
}

static void show_verdict(const struct direction *d)
{
	if (d->rule)
		printf("  %s %s -> %s %s: %s; %s\n", shown(d->from), shown(d->from_nic),
		       shown(d->to), shown(d->to_nic), d->text, d->action);
}

static int show_path(const struct ping_path *p, const struct ping_plan *plan)
{
	struct direction there = direction_of(p, false, plan), back = direction_of(p, true, plan);

	if (p->error) {
		printf("%s %s -> %s %s: not tried: %s\n", own_host(), p->end->nic->rail.name,
		       shown(p->host), shown(p->rail), shown(p->error));
		return EXIT_UNDECIDED;
	}
	show_direction(&there, plan);
	show_direction(&back, plan);
	show_rtt(p, plan, "round trip, us: median", 0.5);
	show_rtt(p, plan, "90 %", 0.9);
	show_rtt(p, plan, "99 %", 0.99);
	show_verdict(&there);
	show_verdict(&back);
	if (p->other_mtu)
		printf("  the MTU of %s is %u, that of %s %s is %u\n", p->end->nic->rail.name,
		       p->end->nic->nic.mtu_bytes, shown(p->host), shown(p->rail), p->other_mtu);
	return status_of(p, &there, &back);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_number(cJSON *o, const char *name, double n)
{
	if (n < 0)
		cJSON_AddNullToObject(o, name);
	else
		cJSON_AddNumberToObject(o, name, n);
}

static void add_result(cJSON *array, const struct ping_result *r, uint32_t bytes)
{
	cJSON *o = cJSON_CreateObject(), *rtt;

	cJSON_AddItemToArray(array, o);
	cJSON_AddNumberToObject(o, "payload_bytes", bytes);
	cJSON_AddNumberToObject(o, "sent", r->sent);
	cJSON_AddNumberToObject(o, "arrived", r->arrived);
	cJSON_AddNumberToObject(o, "echoed", r->echoed);
	add_number(o, "loss_forward", ping_loss_forward(r));
	add_number(o, "loss_back", ping_loss_back(r));
	rtt = cJSON_AddObjectToObject(o, "rtt_us");
	add_number(rtt, "p50", rtt_us(r, 0.5));
	add_number(rtt, "p90", rtt_us(r, 0.9));
	add_number(rtt, "p99", rtt_us(r, 0.99));
	add_number(rtt, "max", rtt_us(r, 1));
}

static void add_place(cJSON *o, const char *name, const char *host, const char *nic)
{
	cJSON *place = cJSON_AddObjectToObject(o, name);

	cJSON_AddStringToObject(place, "host", host);
	cJSON_AddStringToObject(place, "device", nic);
}

static void add_verdict(cJSON *verdicts, const struct direction *d)
{
	cJSON *o, *culprit;

	if (!d->rule)
		return;
	cJSON_AddItemToArray(verdicts, o = cJSON_CreateObject());
	cJSON_AddStringToObject(o, "class", "loss");
	cJSON_AddStringToObject(o, "component", "communication");
	cJSON_AddStringToObject(o, "level", "link");
	cJSON_AddStringToObject(o, "rule", d->rule);
	cJSON_AddBoolToObject(o, "culprit", d->status == EXIT_CULPRIT);
	culprit = cJSON_CreateObject();
	add_place(culprit, "from", d->from, d->from_nic);
	add_place(culprit, "to", d->to, d->to_nic);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "culprits"), culprit);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "evidence"), cJSON_CreateString(d->text));
	cJSON_AddStringToObject(o, "action", d->action);
}

static int add_path(cJSON *paths, cJSON *verdicts, const struct ping_path *p,
		    const struct ping_plan *plan)
{
	struct direction there = direction_of(p, false, plan), back = direction_of(p, true, plan);
	cJSON *o = cJSON_CreateObject(), *sizes;

	cJSON_AddItemToArray(paths, o);
	add_place(o, "from", there.from, there.from_nic);
	add_place(o, "to", there.to, there.to_nic);
	if (p->error)
		cJSON_AddStringToObject(o, "error", p->error);
	else
		cJSON_AddNullToObject(o, "error");
	cJSON_AddNumberToObject(o, "mtu_bytes", p->mtu);
	sizes = cJSON_AddArrayToObject(o, "sizes");
	for (unsigned int s = 0; !p->error && s < plan->sizes; s++)
		add_result(sizes, p->result + s, plan->size[s]);
	if (!p->error) {
		add_verdict(verdicts, &there);
		add_verdict(verdicts, &back);
	}
	return status_of(p, &there, &back);
}

int ping_show(const struct ping_mesh *m, enum diag_format format)
{
	int status = m->incomplete || !m->paths ? EXIT_UNDECIDED : EXIT_FINE;
	cJSON *o = NULL, *paths = NULL, *verdicts = NULL;

	if (format == FORMAT_JSON) {
		o = diag_json();
		paths = cJSON_AddArrayToObject(o, "paths");
		verdicts = cJSON_AddArrayToObject(o, "verdicts");
	} else if (m->paths) {
		show_title(m->plan);
	}
	for (const struct ping_path *p = m->paths; p; p = p->next)
		status = diag_worse(status, o ? add_path(paths, verdicts, p, m->plan)
					      : show_path(p, m->plan));
	if (o)
		diag_print_json(o);
	return status;
}
