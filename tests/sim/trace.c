/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What happened last, kept as numbers and made text only when somebody looks. */
#include <stdarg.h>
#include <stdio.h>

#include "tests/sim/sim.h"

static void show(const struct trace_rec *t)
{
	char line[256];

	/* The formats are literals of ours that take at most four unsigned long. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(line, sizeof(line), t->fmt, (unsigned long)t->a[0], (unsigned long)t->a[1],
		 (unsigned long)t->a[2], (unsigned long)t->a[3]);
#pragma GCC diagnostic pop
	printf("%11.3f us  %c  %s\n", (double)t->at / 1000, t->h < HOSTS ? 'A' + t->h : '-', line);
}

void tr(unsigned int h, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct trace_rec *t = &W.tr[W.tr_n++ % TRACE_MAX];

	t->at = W.now;
	t->fmt = fmt;
	t->h = (uint8_t)h;
	t->a[0] = a;
	t->a[1] = b;
	t->a[2] = c;
	t->a[3] = d;
	if (W.opt.trace)
		show(t);
}

void tr_show(uint32_t last)
{
	uint64_t i = W.tr_n > last ? W.tr_n - last : 0;

	if (W.tr_n > TRACE_MAX && i < W.tr_n - TRACE_MAX)
		i = W.tr_n - TRACE_MAX;
	for (; i < W.tr_n; i++)
		show(&W.tr[i % TRACE_MAX]);
}

void violation(const char *fmt, ...)
{
	va_list ap;

	if (W.failed)
		return; /* the first one tells */
	W.failed = true;
	va_start(ap, fmt);
	vsnprintf(W.why, sizeof(W.why), fmt, ap);
	va_end(ap);
	tr(HOSTS, "*** violation", 0, 0, 0, 0);
}
