/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Text and numbers in a page of HTML. Whatever comes from a file goes through here. */
#ifndef SHIFT_COMMON_HTML_H
#define SHIFT_COMMON_HTML_H

#include <stdio.h>

/* Escaped for text and for attributes in quotes; what is not printable ASCII is shown as \xNN
 * (common/printable.h says why). NULL is nothing. */
void html_text(FILE *f, const char *s);

/* The same, of at most that many characters; what is cut off is shown as "..". */
void html_clipped(FILE *f, const char *s, size_t most);

/* "12.35", "12350", or a dash if it was not measured. Valid until the eighth call after this. */
const char *html_number(double value);

/* "us" with a micro sign, "1/s" as "per s"; others as they are, escaped. */
void html_unit(FILE *f, const char *unit);

/* "+1.6 %", "-3.0 %"; from a factor of 3 on "5.2 times". As html_number(). */
const char *html_change(double ratio);

#endif
