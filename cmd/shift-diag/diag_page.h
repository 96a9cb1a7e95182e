/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The page of --html: what was found and from what, and pictures of it. Everything in records may
 * be somebody else's text. One thread.
 */
#ifndef SHIFT_DIAG_PAGE_H
#define SHIFT_DIAG_PAGE_H

#include <stdio.h>

#include "cmd/shift-diag/answer.h"
#include "cmd/shift-diag/path_verdict.h"
#include "cmd/shift-diag/records.h"

struct diag_page {
	const char *command;	       /* of shift-diag */
	const struct answer *answer;   /* NULL: verdicts of one analyser */
	const struct verdict *verdict; /* without an answer */
	size_t verdicts;
	const struct records *records;	/* NULL: no timeline of ranks */
	const struct path_result *path; /* NULL: neither graph */
};

/* Replaces the file, whole or not at all. If that fails, one line and the end of the process. */
void diag_page_write(const struct diag_page *p, const char *file);

/* ---- of diag_page*.c ------------------------------------------------------------------------ */

/* Is this rank, or its host, to blame? */
bool diag_page_blames(const struct diag_page *p, int rank, const char *host);

/* When it began; 0: not known. */
uint64_t diag_page_first_seen(const struct diag_page *p);

enum { DRAWING_WIDTH = 960, DRAWING_LEFT = 150, DRAWING_RIGHT = 945 };

/* A figure with one drawing of DRAWING_WIDTH times height; between the two, SVG. id is unique. */
void drawing_begin(FILE *f, const char *id, const char *title, const char *description, int height);
void drawing_end(FILE *f, const char *caption);

/* Vertical lines at round times of [0, span_ns), from y to bottom, with their times below. */
void drawing_axis(FILE *f, double span_ns, int y, int bottom);
double drawing_x(double t_ns, double span_ns);

/* Sections with their headings; nothing if there is nothing to draw. */
void page_timeline(FILE *f, const struct diag_page *p);
void page_waiting(FILE *f, const struct diag_page *p);
void page_provenance(FILE *f, const struct diag_page *p);

#endif
