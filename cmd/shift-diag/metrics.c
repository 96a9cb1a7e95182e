/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/metrics.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const char *suffix_of(enum metric_type type)
{
	static const char *const suffixes[] = {
		[METRIC_COUNTER] = "_total", [METRIC_GAUGE] = "", [METRIC_INFO] = "_info"};

	return suffixes[type];
}

/* OpenMetrics names the family, Prometheus its samples, and has no type for information. */
void metric_begin(struct metrics *m, const char *name, enum metric_type type, const char *help)
{
	static const char *const types[] = {
		[METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_INFO] = "info"};
	bool open = m->format == FORMAT_OPENMETRICS;
	const char *suffix = open ? "" : suffix_of(type);

	m->name = name;
	m->type = type;
	fprintf(m->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
		open || type != METRIC_INFO ? types[type] : "gauge");
}

/* In quotes. What is not printable is shown as \xNN, whose backslash is escaped, too. */
static void put_value(FILE *out, const char *value)
{
	putc('"', out);
	for (const char *p = shown(value); *p; p++) {
		if (*p == '"' || *p == '\\')
			putc('\\', out);
		putc(*p, out);
	}
	putc('"', out);
}

void metric_sample(struct metrics *m, double value, ...)
{
	const char *name, *before = "{";
	va_list labels;

	fprintf(m->out, "%s%s", m->name, suffix_of(m->type));
	va_start(labels, value);
	while ((name = va_arg(labels, const char *))) {
		fprintf(m->out, "%s%s=", before, name);
		put_value(m->out, va_arg(labels, const char *));
		before = ",";
	}
	va_end(labels);
	fprintf(m->out, "%s %.*g\n", *before == ',' ? "}" : "", value == floor(value) ? 17 : 9,
		value);
}

void metrics_end(struct metrics *m)
{
	if (m->format == FORMAT_OPENMETRICS)
		fputs("# EOF\n", m->out);
}
