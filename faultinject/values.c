/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Values of options, on the command line and in scenarios. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/inject.h"

/* A number that is not negative, and the unit behind it. */
static double number_and_unit(const char *s, const char **unit)
{
	char *end;
	double n;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return -1;
	n = strtod(s, &end);
	*unit = end;
	/* strtod() also takes hexadecimal and 1e9, which are typing errors here. */
	for (; s < end; s++)
		if (!isdigit((unsigned char)*s) && *s != '.')
			return -1;
	return n;
}

static double unit_of(const char *unit, const char *const *names, const double *values)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(unit, names[i]))
			return values[i];
	return -1;
}

int parse_us(const char *s, int64_t *us)
{
	static const char *const names[] = {"us", "ms", "", "s", "m", "h", NULL};
	static const double values[] = {1, 1e3, 1e6, 1e6, 60e6, 3600e6};
	const char *unit;
	double n = number_and_unit(s, &unit), factor = n < 0 ? -1 : unit_of(unit, names, values);

	if (factor < 0 || n * factor > 1e15)
		return -1;
	*us = (int64_t)(n * factor + 0.5);
	return 0;
}

int parse_share(const char *s, double *share)
{
	const char *unit;
	double n = number_and_unit(s, &unit);

	if (n < 0 || n > 100 || strcmp(unit, "%"))
		return -1;
	*share = n / 100;
	return 0;
}

int parse_bits(const char *s, uint64_t *bits)
{
	static const char *const names[] = {"bit", "kbit", "mbit", "gbit", NULL};
	static const double values[] = {1, 1e3, 1e6, 1e9};
	const char *unit;
	double n = number_and_unit(s, &unit), factor = n < 0 ? -1 : unit_of(unit, names, values);

	/* netem counts bytes. */
	if (factor < 0 || n * factor < 8 || n * factor > 1e13)
		return -1;
	*bits = (uint64_t)(n * factor);
	return 0;
}

int parse_uint64(const char *s, uint64_t min, uint64_t max, uint64_t *n)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return -1;
	*n = strtoull(s, &end, 0);
	return *end || *n < min || *n > max ? -1 : 0;
}
