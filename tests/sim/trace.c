/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The last events, kept as numbers, and turned into text only when they are printed. */
#include <stdarg.h>
#include <stdio.h>

#include "tests/sim/sim.h"

const char tr_state[] = "core: %lu -> %lu, %lu, rail %lu";
const char tr_send[] = "sends %lu, epoch %lu, heard %lu, on rail %lu";
const char tr_fault[] = "--- fault %lu begins: %lu host %lu rail %lu";
const char tr_heal[] = "--- fault %lu ends: %lu host %lu rail %lu";
const char tr_got[] = "gets %lu, epoch %lu, heard %lu, on rail %lu";

/* States and messages by name. */
static bool show_named(const struct trace_rec *t, char *line, size_t len)
{
	if (t->fmt == tr_state)
		snprintf(line, len, "core: %s -> %s (%s), rail %lu",
			 shift_state_name((unsigned int)t->a[0]),
			 shift_state_name((unsigned int)t->a[1]),
			 shift_reason_name((unsigned int)t->a[2]), (unsigned long)t->a[3]);
	else if (t->fmt == tr_send || t->fmt == tr_got)
		snprintf(line, len, "%s %s, epoch %lu, heard %lu, on rail %lu",
			 t->fmt == tr_send ? "sends" : "gets",
			 shift_msg_type_name((uint8_t)t->a[0]), (unsigned long)t->a[1],
			 (unsigned long)t->a[2], (unsigned long)t->a[3]);
	else if (t->fmt == tr_fault || t->fmt == tr_heal)
		snprintf(line, len, "--- fault %lu %s: %s, host %c, rail %lu",
			 (unsigned long)t->a[0], t->fmt == tr_fault ? "begins" : "ends",
			 fault_name((unsigned int)t->a[1]), (char)('A' + t->a[2]),
			 (unsigned long)t->a[3]);
	else
		return false;
	return true;
}

static void show_plain(const struct trace_rec *t, char *line, size_t len)
{
	/* The formats are literals of ours that take at most four unsigned long. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(line, len, t->fmt, (unsigned long)t->a[0], (unsigned long)t->a[1],
		 (unsigned long)t->a[2], (unsigned long)t->a[3]);
#pragma GCC diagnostic pop
}

static void show(const struct trace_rec *t)
{
	char line[256];

	if (!show_named(t, line, sizeof(line)))
		show_plain(t, line, sizeof(line));
	printf("%11.3f us  %c", (double)t->at / 1000, t->h < HOSTS ? 'A' + t->h : '-');
	if (conns > 1)
		printf("%u", t->conn);
	printf("  %s\n", line);
}

void tr(unsigned int h, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct trace_rec *t = &worlds[0].tr[worlds[0].tr_n++ % TRACE_MAX];

	t->at = W.now;
	t->fmt = fmt;
	t->h = (uint8_t)h;
	t->conn = (uint8_t)W.conn;
	t->a[0] = a;
	t->a[1] = b;
	t->a[2] = c;
	t->a[3] = d;
	if (W.opt.trace)
		show(t);
}

void tr_show(uint32_t last)
{
	const struct world *w = &worlds[0];
	uint64_t i = w->tr_n > last ? w->tr_n - last : 0;

	if (w->tr_n > TRACE_MAX && i < w->tr_n - TRACE_MAX)
		i = w->tr_n - TRACE_MAX;
	for (; i < w->tr_n; i++)
		show(&w->tr[i % TRACE_MAX]);
}

void violation(const char *fmt, ...)
{
	va_list ap;

	if (W.failed)
		return; /* the first one tells */
	for (uint32_t i = 0; i < conns; i++)
		worlds[i].failed = true;
	va_start(ap, fmt);
	vsnprintf(worlds[0].why, sizeof(worlds[0].why), fmt, ap);
	va_end(ap);
	tr(HOSTS, "*** violation", 0, 0, 0, 0);
}

/* From here on the design promises nothing: the schedule ends, and is counted. */
void known_limit(enum limit which)
{
	static const char *const why[LIMITS] = {"(twice: 7.26)", "(a receive cannot be fetched)"};

	if (W.failed)
		return;
	for (uint32_t i = 0; i < conns; i++)
		worlds[i].failed = worlds[i].limited = true;
	T.limits[which]++;
	tr(HOSTS, "*** no promise holds from here on", 0, 0, 0, 0);
	tr(HOSTS, why[which], 0, 0, 0, 0);
}
