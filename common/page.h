/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the pages of --html have in common: one file without scripts, that refers to nothing
 * outside; light and dark, for screens, phones and paper. Its colours are variables: --page,
 * --text,
 * --muted, --grid, --card, --line; --without and --with; --mark, --worse, --better; --p0 to --p7
 * for parts. Texts of others go through common/html.h. One thread.
 */
#ifndef SHIFT_COMMON_PAGE_H
#define SHIFT_COMMON_PAGE_H

#include <stdio.h>

/* Up to and with the heading. definitions: SVG that others refer to, or "". */
void page_begin(FILE *f, const char *title, const char *definitions);
void page_end(FILE *f);

/* One entry of a list with the class "legend". shape: SVG in 30 times 12; text is escaped. */
void page_swatch(FILE *f, const char *shape, const char *text);

/* What fill() writes replaces the file, whole or not at all. 0 or a negative errno. */
int page_write(const char *path, void (*fill)(FILE *f, void *arg), void *arg);

#endif
