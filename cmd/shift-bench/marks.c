/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <string.h>

#include "cmd/shift-bench/marks.h"

void marks_add(cJSON *list, double at_ms, const char *what, enum host host)
{
	cJSON *o;
	const cJSON *other;
	int before = 0, after = 0;

	if (isnan(at_ms))
		return;
	cJSON_ArrayForEach (other, list)
		*(json_number(other, "at_ms") <= at_ms ? &before : &after) += 1;
	o = check_alloc(cJSON_CreateObject());
	cJSON_AddItemToObject(o, "at_ms", json_round(at_ms));
	cJSON_AddStringToObject(o, "what", what);
	cJSON_AddStringToObject(o, "host", host_name(host));
	cJSON_AddItemToArray(list, o);
	/* cJSON_InsertItemInArray() of Debian 12 refuses all places but the first and the last. */
	while (after--)
		cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(list, before));
}

void marks_add_switches(cJSON *list, const cJSON *report, double began_unix_ms, enum host host)
{
	const cJSON *process, *s;

	cJSON_ArrayForEach (process, cJSON_GetObjectItemCaseSensitive(report, "processes"))
		cJSON_ArrayForEach (s, cJSON_GetObjectItemCaseSensitive(process, "switches"))
			if (!strcmp(json_text(s, "outcome"), "committed"))
				marks_add(list, json_number(s, "unix_s") * 1000 - began_unix_ms,
					  json_text(s, "kind"), host);
}
