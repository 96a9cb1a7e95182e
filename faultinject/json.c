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

uint32_t json_uint32(const cJSON *o, const char *key)
{
	double n = json_number(o, key, 0);

	return n >= 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

pid_t json_pid(const cJSON *o, const char *key)
{
	uint32_t n = json_uint32(o, key);

	return n <= INT32_MAX ? (pid_t)n : 0;
}
