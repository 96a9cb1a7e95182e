/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Plots by gnuplot, as SVG that is a part of a page: its colours are variables of the page, its
 * texts are the page's font, it has no id.
 *
 * gnuplot gets numbers only. A text that may be anybody's is a placeholder in the script, and is
 * put in, escaped, when the plot has been drawn.
 */
#ifndef SHIFT_BENCH_PLOT_H
#define SHIFT_BENCH_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Colours of a script, as COLOUR(NAME) in a format: 'lc " COLOUR ", with an enum colour. */
enum colour {
	COLOUR_TEXT,
	COLOUR_GRID,
	COLOUR_BASELINE,
	COLOUR_SHIFT,
	COLOUR_MUTED,
	COLOUR_MARK,
	COLOUR_WORSE,
	COLOUR_BETTER,
	COLOUR_PART, /* of a stack: this one and PARTS - 1 after it */
	PARTS = 8,
};

#define RGB "rgb '#0101%02x'"

struct plots {
	char directory[32];
	FILE *script;
	size_t count, label_count;
	char **svg;    /* of each plot, after plots_draw() */
	char **labels; /* of the placeholders */
};

/* Is there a gnuplot? */
bool plots_can(void);

/* Ends the process with EXIT_MISSING if not. */
void plots_need(void);

/* False: no temporary directory; it was said. */
bool plots_begin(struct plots *p);

/* A plot of that many units; what follows in p->script is its commands. Returns its number. */
size_t plot_begin(struct plots *p, int width, int height);

/* The placeholder, for single quotes in the script; it is as long as what it stands for. Valid
 * until the eighth call after this. */
const char *plot_label(struct plots *p, const char *text, size_t most);

/* False: gnuplot failed; it was said. */
bool plots_draw(struct plots *p);
void plots_end(struct plots *p);

#endif
