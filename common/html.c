/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "common/html.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TEXTS = 8, TEXT_MAX = 48 };

static void put_character(FILE *f, unsigned char c)
{
	switch (c) {
	case '&': fputs("&amp;", f); break;
	case '<': fputs("&lt;", f); break;
	case '>': fputs("&gt;", f); break;
	case '"': fputs("&quot;", f); break;
	case '\'': fputs("&#39;", f); break;
	default:
		if (c < 0x20 || c > 0x7e)
			fprintf(f, "\\x%02X", c);
		else
			fputc(c, f);
	}
}

void html_clipped(FILE *f, const char *s, size_t most)
{
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n && i < most; i++) {
		if (n > most && i + 2 == most) {
			fputs("..", f);
			break;
		}
		put_character(f, (unsigned char)s[i]);
	}
}

void html_text(FILE *f, const char *s)
{
	html_clipped(f, s, SIZE_MAX);
}

static char *next_text(void)
{
	static char texts[TEXTS][TEXT_MAX];
	static size_t at;

	return texts[at++ % TEXTS];
}

const char *html_number(double value)
{
	char *text = next_text();

	if (!isfinite(value))
		snprintf(text, TEXT_MAX, "&ndash;");
	else if (fabs(value) >= 1e4 && fabs(value) < 1e12)
		snprintf(text, TEXT_MAX, "%.0f", value);
	else
		snprintf(text, TEXT_MAX, "%.4g", value);
	return text;
}

void html_unit(FILE *f, const char *unit)
{
	if (!strcmp(unit, "us"))
		fputs("&micro;s", f);
	else if (!strcmp(unit, "1/s"))
		fputs("per s", f);
	else
		html_text(f, unit);
}

const char *html_change(double ratio)
{
	char *text = next_text();
	double percent = (ratio - 1) * 100;

	if (!isfinite(ratio))
		snprintf(text, TEXT_MAX, "&ndash;");
	else if (ratio >= 3)
		snprintf(text, TEXT_MAX, "%.3g times", ratio);
	else
		snprintf(text, TEXT_MAX, "%s%.*f&nbsp;%%",
			 percent >= 0.05    ? "+"
			 : percent <= -0.05 ? "&minus;"
					    : "&plusmn;",
			 fabs(percent) < 20 ? 1 : 0, fabs(percent));
	return text;
}
