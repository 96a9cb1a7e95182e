/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>

#include "cmd/shift-bench/histogram.h"
#include "cmd/shift-bench/sample.h"

static const double width = 1.01; /* of a bin, a factor */

static long bin_of(double value)
{
	return value > 0 ? lround(log(value) / log(width)) : -1000000;
}

static double middle_of(long bin)
{
	return bin == -1000000 ? 0 : pow(width, (double)bin);
}

cJSON *histogram_json(const double *sorted, size_t count, const char *unit)
{
	cJSON *o = cJSON_CreateObject(), *bins = cJSON_CreateArray();
	size_t from = 0;

	while (from < count) {
		long bin = bin_of(sorted[from]);
		cJSON *pair = cJSON_CreateArray();
		size_t to = from;

		while (to < count && bin_of(sorted[to]) == bin)
			to++;
		cJSON_AddItemToArray(pair, json_round(middle_of(bin)));
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)(to - from)));
		cJSON_AddItemToArray(bins, pair);
		from = to;
	}
	cJSON_AddStringToObject(o, "unit", unit);
	cJSON_AddNumberToObject(o, "count", (double)count);
	cJSON_AddItemToObject(o, "bins", bins);
	return o;
}
