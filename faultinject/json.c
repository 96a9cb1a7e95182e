/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Reads members of journals and of other commands' JSON, which may lack them. */
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
