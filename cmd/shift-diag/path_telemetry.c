/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What switches have measured, as a table: flows and ports by name, samples by time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

/* Room for one more of n in array. */
#define GROW(array, n)                                                                       \
	do {                                                                                 \
		if (!((n) & ((n)-1)))                                                        \
			(array) = check_alloc(                                               \
				reallocarray((array), (n) ? 2 * (n) : 1, sizeof(*(array)))); \
	} while (0)

static size_t hash_name(const char *name)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 1099511628211u;
	return (size_t)(h ^ h >> 29);
}

typedef const char *name_fn(const struct telemetry *t, int i);

static const char *flow_name(const struct telemetry *t, int i)
{
	return t->flow[i].name;
}

static const char *port_name(const struct telemetry *t, int i)
{
	return t->port[i].name;
}

/* The slot of a name, or the free one where it belongs. */
static size_t slot_of(const struct telemetry *t, const int *slot, size_t slots, name_fn *name_of,
		      const char *name)
{
	size_t i = hash_name(name) & (slots - 1);

	while (slot[i] != PATH_NONE && strcmp(name_of(t, slot[i]), name))
		i = (i + 1) & (slots - 1);
	return i;
}

/* At least twice as many slots as names. */
static void slots_reserve(const struct telemetry *t, int **slot, size_t *slots, size_t n,
			  name_fn *name_of)
{
	size_t want = *slots ? *slots : 64;
	int *made;

	while (want < 2 * (n + 1))
		want *= 2;
	if (want == *slots)
		return;
	made = check_alloc(calloc(want, sizeof(*made)));
	for (size_t i = 0; i < want; i++)
		made[i] = PATH_NONE;
	for (size_t i = 0; i < n; i++)
		made[slot_of(t, made, want, name_of, name_of(t, (int)i))] = (int)i;
	free(*slot);
	*slot = made;
	*slots = want;
}

int tele_flow_find(struct telemetry *t, const char *name)
{
	char cut[PATH_NAME_BYTES];
	size_t at;

	snprintf(cut, sizeof(cut), "%s", name);
	slots_reserve(t, &t->flow_slot, &t->flow_slots, t->flow_n, flow_name);
	at = slot_of(t, t->flow_slot, t->flow_slots, flow_name, cut);
	if (t->flow_slot[at] != PATH_NONE || t->flow_n == TELE_FLOWS_MAX)
		return t->flow_slot[at];
	GROW(t->flow, t->flow_n);
	t->flow[t->flow_n] = (struct tele_flow){0};
	memcpy(t->flow[t->flow_n].name, cut, sizeof(cut));
	return t->flow_slot[at] = (int)t->flow_n++;
}

int tele_port_find(struct telemetry *t, const char *node, const char *port, bool is_host)
{
	struct tele_port made = {.is_host = is_host, .peer = PATH_NONE, .group = PATH_NONE};
	size_t at;

	snprintf(made.node, sizeof(made.node), "%s%.48s", is_host ? "host " : "switch ", node);
	snprintf(made.name, sizeof(made.name), "%.40s port %.16s", made.node, port);
	slots_reserve(t, &t->port_slot, &t->port_slots, t->port_n, port_name);
	at = slot_of(t, t->port_slot, t->port_slots, port_name, made.name);
	if (t->port_slot[at] != PATH_NONE || t->port_n == TELE_PORTS_MAX)
		return t->port_slot[at];
	GROW(t->port, t->port_n);
	t->port[t->port_n] = made;
	return t->port_slot[at] = (int)t->port_n++;
}

struct tele_sample *tele_sample_add(struct telemetry *t, uint64_t t_ns, int port)
{
	GROW(t->sample, t->sample_n);
	t->sample[t->sample_n] = (struct tele_sample){
		.t_ns = t_ns, .port = port, .first_line = t->line_n};
	return t->sample + t->sample_n++;
}

void tele_line_add(struct telemetry *t, struct tele_line line)
{
	GROW(t->line, t->line_n);
	t->line[t->line_n++] = line;
	t->sample[t->sample_n - 1].lines++;
}

void tele_meter_add(struct telemetry *t, struct tele_meter meter)
{
	GROW(t->meter, t->meter_n);
	t->meter[t->meter_n++] = meter;
}

void tele_pause_add(struct telemetry *t, struct tele_pause pause)
{
	GROW(t->pause, t->pause_n);
	t->pause[t->pause_n++] = pause;
}

void telemetry_free(struct telemetry *t)
{
	free(t->flow);
	free(t->port);
	free(t->sample);
	free(t->line);
	free(t->meter);
	free(t->pause);
	free(t->flow_slot);
	free(t->port_slot);
	*t = (struct telemetry){0};
}

static int sample_compare(const void *a, const void *b)
{
	const struct tele_sample *x = a, *y = b;

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns ? -1 : 1;
	return x->first_line < y->first_line ? -1 : x->first_line > y->first_line;
}

static int meter_compare(const void *a, const void *b)
{
	const struct tele_meter *x = a, *y = b;

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int pause_compare(const void *a, const void *b)
{
	const struct tele_pause *x = a, *y = b;

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns ? -1 : 1;
	return x->port < y->port ? -1 : x->port > y->port;
}

void telemetry_sort(struct telemetry *t)
{
	if (t->sample_n)
		qsort(t->sample, t->sample_n, sizeof(*t->sample), sample_compare);
	if (t->meter_n)
		qsort(t->meter, t->meter_n, sizeof(*t->meter), meter_compare);
	if (t->pause_n)
		qsort(t->pause, t->pause_n, sizeof(*t->pause), pause_compare);
}
