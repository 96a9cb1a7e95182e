/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Counters of bytes that were read now and then, as rates in bins of equal length. Pure. */
#ifndef SHIFT_BENCH_BINS_H
#define SHIFT_BENCH_BINS_H

#include <stddef.h>

enum { BIN_MS = 100, COLUMNS_MAX = 4 };

struct counts {
	double began_unix_ms; /* of the first line */
	size_t lines, columns;
	double *at_ms; /* since then; ascending */
	double *bytes[COLUMNS_MAX];
};

/* Lines "SECONDS BYTES...", each with as many columns as the first; others are left out. No line:
 * lines is 0. counts_free() in any case. */
void counts_parse(struct counts *c, const char *text);
void counts_free(struct counts *c);

/* MiB/s of each whole bin; what was counted between two lines is spread evenly. The caller frees.
 */
double *counts_rates(const struct counts *c, size_t column, size_t *count);

/* The median rate of the bins that lie within from..to; NAN: there is none. */
double rates_median(const double *rates, size_t count, double from_ms, double to_ms);

/* The longest time without as much as share of rate, in whole bins. */
double rates_gap_ms(const double *rates, size_t count, double rate, double share);

#endif
