/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The page of --html: the answer first, then figures, then everything in tables. It is one file
 * without scripts, that refers to nothing outside. The tree may be somebody else's.
 */
#ifndef SHIFT_BENCH_REPORT_H
#define SHIFT_BENCH_REPORT_H

#include "cmd/shift-bench/plot.h"
#include "cmd/shift-bench/sample.h"

/* Replaces the file, whole or not at all. EXIT_OK, or EXIT_FAILED after one line. Cases that have
 * no results get them. */
int report_write(cJSON *root, const char *path);

/* ---- of report*.c --------------------------------------------------------------------------- */

enum section {
	SECTION_PROGRESS,
	SECTION_RATIOS,
	SECTION_GROWTH,
	SECTION_DISTRIBUTIONS,
	SECTION_PHASES,
	SECTION_TIMELINES,
	SECTION_BARS,
	SECTION_MACHINE,
	SECTIONS,
};

enum { NO_PLOT = -1 };

/* Texts live as long as the process, and are not escaped yet. */
struct figure {
	enum section section;
	const char *title, *description, *caption; /* caption: or NULL */
	const char **marks; /* a numbered list below, NULL at the end, or NULL */
	const char **parts; /* the legend of a stack, the same */
	long wide, narrow;  /* numbers of plots; wide: NO_PLOT if it is small anyway */
};

struct figures {
	struct plots plots;
	struct figure *list;
	size_t count;
};

/* Fills the list, and the script of the plots. */
void figures_make(struct figures *f, const cJSON *root);

struct figure *figure_add(struct figures *f, enum section section);

/* Those of details: distributions, series, phases. */
void figures_of_details(struct figures *f, const cJSON *root);

/* Ticks at 1, 2, 5, 10, ... for an axis with a logarithm. */
void tics_125(struct figures *f, const char *axis, double low, double high);

/* Below the figures. */
void report_tables(FILE *f, const cJSON *root);
void report_environment(FILE *f, const cJSON *root);

#endif
