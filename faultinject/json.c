/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Members of journals and of what other commands print: there or not, of that type or not. */
#include <cjson/cJSON.h>

#include "faultinject/inject.h"

const char *json_text(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return s ? s : "";
}

double json_number(const cJSON *o, const char *key, double none)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(n) ? n->valuedouble : none;
}
