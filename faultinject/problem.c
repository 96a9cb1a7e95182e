/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What all faults say: why not, and what they would do. */
#include <stdarg.h>
#include <stdio.h>

#include "faultinject/inject.h"

int problem_set(struct problem *p, int status, const char *fmt, ...)
{
	va_list ap;

	if (p->status)
		return status;
	p->status = status;
	va_start(ap, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
	return status;
}

bool dry_run(const struct injection *in, const char *fmt, ...)
{
	va_list ap;

	if (!in->o.dry_run)
		return false;
	fputs("would: ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return true;
}
