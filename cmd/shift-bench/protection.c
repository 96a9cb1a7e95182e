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

/* What no job can help, and what leads to no other host (UCX connects a queue pair with itself). Of
 * an unknown job also queue pairs that it made to see whether it could, and never connected. */
static bool counts(const char *reason, bool unknown_job)
{
	return strcmp(reason, "LOOPBACK") != 0 && strcmp(reason, "NOT_RC") != 0 &&
	       !(unknown_job && !strcmp(reason, "SETUP"));
}

/* Returns how many do not count; *reason: of the first that does. */
static long left_out(const cJSON *unprotected, bool unknown_job, const char **reason)
{
	const cJSON *o;
	long n = 0;

	cJSON_ArrayForEach (o, unprotected) {
		if (!counts(o->string, unknown_job))
			n += lround(cJSON_GetNumberValue(o));
		else if (!*reason)
			*reason = o->string;
	}
	return n;
}

struct protection protection_of(const cJSON *report, bool unknown_job)
{
	const cJSON *totals = member(report, "totals");
	struct protection p = {.setup_ms = slowest_setup_ms(report)};
	const char *reason = NULL;

	if (!totals) {
		p.reason = "shift-run left no report";
		return p;
	}
	p.connections = lround(json_number(totals, "connections")) -
			left_out(member(totals, "unprotected"), unknown_job, &reason);
	p.protected = lround(json_number(totals, "protected"));
	if (!p.connections)
		p.reason = "the library saw no connection";
	else if (p.protected < p.connections)
		p.reason = reason ? reason : "no reason is told";
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
