/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/protection.h"
#include "cmd/shift-bench/sample.h"

static const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

/* Connections that were destroyed have left their events only. */
static double slowest_setup_ms(const cJSON *report)
{
	const cJSON *process, *event;
	double slowest = NAN;

	cJSON_ArrayForEach (process, member(report, "processes"))
		cJSON_ArrayForEach (event, member(process, "events")) {
			double s = json_number(event, "unix_s") - json_number(process, "unix_s");

			/* of a number and NAN, fmax() takes the number */
			if (!strcmp(json_text(event, "from"), "SETUP") &&
			    !strcmp(json_text(event, "to"), "ACTIVE"))
				slowest = fmax(slowest, s * 1000);
		}
	return slowest;
}

static const char loopback[] = "LOOPBACK";

static const char *reason_of(const cJSON *unprotected)
{
	const cJSON *o = unprotected ? unprotected->child : NULL;

	while (o && !strcmp(o->string, loopback))
		o = o->next;
	return o ? o->string : NULL;
}

struct protection protection_of(const cJSON *report)
{
	const cJSON *totals = member(report, "totals"),
		    *unprotected = member(totals, "unprotected");
	struct protection p = {.setup_ms = slowest_setup_ms(report)};

	if (!totals) {
		p.reason = "shift-run left no report";
		return p;
	}
	p.connections = lround(json_number(totals, "connections"));
	/* UCX connects a queue pair with itself, which leads to no other host. */
	if (member(unprotected, loopback))
		p.connections -= lround(json_number(unprotected, loopback));
	p.protected = lround(json_number(totals, "protected"));
	if (!p.connections)
		p.reason = "the library saw no connection";
	else if (p.protected < p.connections)
		p.reason = reason_of(unprotected);
	if (p.protected < p.connections && !p.reason)
		p.reason = "no reason is told";
	return p;
}

double *protected_after_ms(const cJSON *status, size_t *count)
{
	double *ms = check_alloc(calloc(1, sizeof(*ms)));
	const cJSON *process, *c;

	*count = 0;
	cJSON_ArrayForEach (process, member(status, "processes")) {
		if (strcmp(json_text(process, "life"), "running") != 0)
			continue; /* the record of an earlier one that crashed */
		cJSON_ArrayForEach (c, member(process, "connections")) {
			if (!cJSON_IsTrue(member(c, "protected")))
				continue;
			ms = check_alloc(realloc(ms, (*count + 1) * sizeof(*ms)));
			ms[(*count)++] = json_number(c, "setup_us") / 1000;
		}
	}
	return ms;
}

cJSON *protection_json(const struct protection *p)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddNumberToObject(o, "connections", (double)p->connections);
	cJSON_AddNumberToObject(o, "protected", (double)p->protected);
	cJSON_AddItemToObject(o, "setup_ms", json_round(p->setup_ms));
	if (p->reason)
		cJSON_AddStringToObject(o, "reason", p->reason);
	return o;
}
