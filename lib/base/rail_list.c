/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/rail_list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The length of the device name that begins at text, 0 if there is none. */
static size_t name_length(const char *text)
{
	size_t n = strcspn(text, "=+, \t\n/");

	return n < RAIL_NAME_MAX ? n : 0;
}

/* The end of NAME=NAME[+NAME...] at text; NULL if something else stands there. */
static const char *skip_entry(const char *text)
{
	char expected = '=';

	for (;;) {
		size_t n = name_length(text);

		if (n == 0)
			return NULL;
		text += n;
		if (*text != expected)
			return expected == '+' ? text : NULL;
		expected = '+';
		text++;
	}
}

bool rails_valid(const char *text)
{
	if (strcmp(text, "auto") == 0)
		return true;
	for (;;) {
		text = skip_entry(text);
		if (!text)
			return false;
		if (*text == '\0')
			return true;
		if (*text++ != ',')
			return false;
	}
}

/* text begins behind the '=' of an entry. */
static unsigned int copy_names(const char *text, char (*names)[RAIL_NAME_MAX], unsigned int max)
{
	unsigned int n = 0;

	while (n < max) {
		size_t length = name_length(text);

		memcpy(names[n], text, length);
		names[n++][length] = '\0';
		if (text[length] != '+')
			break;
		text += length + 1;
	}
	return n;
}

unsigned int rails_listed(const char *text, const char *device, char (*backups)[RAIL_NAME_MAX],
			  unsigned int max)
{
	size_t length = strlen(device);

	while (text) {
		if (strncmp(text, device, length) == 0 && text[length] == '=')
			return copy_names(text + length + 1, backups, max);
		text = strchr(text, ',');
		if (text)
			text++;
	}
	return 0;
}

int rails_compare(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			char *a_end, *b_end;
			unsigned long x = strtoul(a, &a_end, 10);
			unsigned long y = strtoul(b, &b_end, 10);

			if (x != y)
				return x < y ? -1 : 1;
			a = a_end;
			b = b_end;
		} else if (*a != *b) {
			break;
		} else {
			a++;
			b++;
		}
	}
	return (unsigned char)*a - (unsigned char)*b;
}

static int compare_devices(const void *a, const void *b)
{
	const struct rail_device *x = a, *y = b;

	return rails_compare(x->name, y->name);
}

unsigned int rails_auto(struct rail_device *devices, unsigned int n, const char *device,
			char (*backups)[RAIL_NAME_MAX], unsigned int max)
{
	unsigned int stored = 0;
	unsigned int self = 0;

	qsort(devices, n, sizeof(*devices), compare_devices);
	while (self < n && strcmp(devices[self].name, device) != 0)
		self++;
	if (self == n)
		return 0;
	for (int same_node = 1; same_node >= 0; same_node--) {
		for (unsigned int i = 1; i < n && stored < max; i++) {
			const struct rail_device *d = &devices[(self + i) % n];

			if ((d->numa_node == devices[self].numa_node) == same_node &&
			    (d->link_layers & devices[self].link_layers))
				memcpy(backups[stored++], d->name, RAIL_NAME_MAX);
		}
	}
	if (!stored && max) /* a second QP on it survives what its retries do not */
		memcpy(backups[stored++], devices[self].name, RAIL_NAME_MAX);
	return stored;
}
