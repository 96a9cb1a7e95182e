/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>

#include "cmd/shift-bench/protection.h"
#include "cmd/shift-bench/sample.h"

static const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static double slowest_setup_ms(const cJSON *report)
{
	const cJSON *process, *connection;
	double slowest = NAN, us;

	cJSON_ArrayForEach (process, member(report, "processes"))
		cJSON_ArrayForEach (connection, member(process, "connections")) {
			us = json_number(connection, "setup_us");
			if (us > 0)
				slowest = fmax(slowest,
					       us / 1000); /* of a number and NAN, the number */
		}
	return slowest;
}

static const char *first_name(const cJSON *object)
{
	return object && object->child ? object->child->string : NULL;
}

struct protection protection_of(const cJSON *report)
{
	const cJSON *totals = member(report, "totals");
	struct protection p = {.setup_ms = slowest_setup_ms(report)};

	if (!totals) {
		p.reason = "shift-run left no report";
		return p;
	}
	p.connections = lround(json_number(totals, "connections"));
	p.protected = lround(json_number(totals, "protected"));
	if (!p.connections)
		p.reason = "the library saw no connection";
	else if (p.protected < p.connections)
		p.reason = first_name(member(totals, "unprotected"));
	if (p.protected < p.connections && !p.reason)
		p.reason = "no reason is told";
	return p;
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

double protection_setup_ms(const cJSON *detail)
{
	const cJSON *host;
	double slowest = NAN;

	cJSON_ArrayForEach (host, member(detail, "protection"))
		slowest = fmax(slowest, json_number(host, "setup_ms"));
	return slowest;
}
