/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The timeline of ranks: when each was in an operation, and what it sent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag_page.h"
#include "common/cli.h"
#include "common/html.h"
#include "common/page.h"

enum { ROWS_MAX = 48, BARS_MAX = 1500, BINS = 240, ROW = 26, TOP = 8 };

/* An operation of a rank. end 0: it is open. */
struct bar {
	size_t row;
	uint64_t start, end;
	bool is_message;
};

struct timeline_of {
	const struct diag_page *page;
	const struct rec_file *file[ROWS_MAX];
	bool blamed[ROWS_MAX];
	size_t rows, left_out;
	struct bar *bar;
	size_t bars;
	uint64_t from, to;
	double bytes[ROWS_MAX][BINS], bytes_max;
	bool some_blamed, some_message, some_open;
};

/* ---- rows ----------------------------------------------------------------------------------- */

static int by_rank(const void *x, const void *y)
{
	const struct rec_file *a = *(const struct rec_file *const *)x;
	const struct rec_file *b = *(const struct rec_file *const *)y;

	if (a->rank != b->rank)
		return a->rank > b->rank ? 1 : -1;
	return (a->read_ns > b->read_ns) - (a->read_ns < b->read_ns);
}

/* Of several files of one rank the last; culprits whatever their number. */
static void choose_rows(struct timeline_of *t)
{
	const struct records *r = t->page->records;
	const struct rec_file **all = check_alloc(
		calloc(r->files + 1, sizeof(const struct rec_file *)));
	size_t n = 0, plain;

	for (size_t i = 0; i < r->files; i++)
		if (r->file[i].pid || r->file[i].rank != REC_NONE)
			all[n++] = r->file + i;
	if (n)
		qsort(all, n, sizeof(const struct rec_file *), by_rank);
	plain = ROWS_MAX;
	for (size_t i = 0; i < n; i++)
		plain -= plain && diag_page_blames(t->page, all[i]->rank, all[i]->host);
	for (size_t i = 0; i < n; i++) {
		bool blamed = diag_page_blames(t->page, all[i]->rank, all[i]->host);

		if (i + 1 < n && all[i]->rank != REC_NONE && all[i + 1]->rank == all[i]->rank)
			continue;
		if (t->rows == ROWS_MAX || (!blamed && !plain)) {
			t->left_out++;
			continue;
		}
		plain -= !blamed;
		t->blamed[t->rows] = blamed;
		t->some_blamed |= blamed;
		t->file[t->rows++] = all[i];
	}
	free(all);
}

static void add_bar(struct timeline_of *t, size_t row, uint64_t start, uint64_t end,
		    bool is_message)
{
	if (!start)
		return;
	if (!(t->bars & (t->bars + 1)))
		t->bar = check_alloc(reallocarray(t->bar, 2 * t->bars + 2, sizeof(*t->bar)));
	t->bar[t->bars++] = (struct bar){row, start, end, is_message};
	t->some_message |= is_message && end;
	t->some_open |= !end;
}

static void collect_bars(struct timeline_of *t)
{
	for (size_t i = 0; i < t->rows; i++) {
		const struct rec_file *f = t->file[i];

		for (size_t k = 0; k < f->coll_n; k++)
			add_bar(t, i, f->coll[k].launch_ns, f->coll[k].end_ns, false);
		for (size_t k = 0; k < f->p2p_n; k++)
			add_bar(t, i, f->p2p[k].launch_ns, f->p2p[k].end_ns, true);
	}
}

/* ---- which part of time --------------------------------------------------------------------- */

static bool is_inside(const struct timeline_of *t, const struct bar *b)
{
	return b->start < t->to && (!b->end || b->end > t->from);
}

static size_t count_inside(const struct timeline_of *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->bars; i++)
		n += is_inside(t, t->bar + i);
	return n;
}

/* When this process has sent something last; 0: never. */
static uint64_t last_traffic(const struct rec_file *f)
{
	uint64_t last = 0;

	for (size_t k = 0; k < f->epochs_n; k++) {
		const struct rec_epochs *e = f->epochs + k;
		size_t n = e->n;

		while (n && !e->bytes[n - 1])
			n--;
		if (n && e->t_ns + n * f->epoch_ns > last)
			last = e->t_ns + n * f->epoch_ns;
	}
	return last;
}

/* All, or what is around the moment when it was first seen. */
static void choose_time(struct timeline_of *t)
{
	uint64_t first = UINT64_MAX, last = 0, seen = diag_page_first_seen(t->page);

	for (size_t i = 0; i < t->bars; i++) {
		uint64_t end = t->bar[i].end > t->bar[i].start ? t->bar[i].end : t->bar[i].start;

		first = t->bar[i].start < first ? t->bar[i].start : first;
		last = end > last ? end : last;
	}
	for (size_t i = 0; i < t->rows; i++)
		last = last_traffic(t->file[i]) > last ? last_traffic(t->file[i]) : last;
	if (first >= last)
		last = first + 1000000;
	t->from = first;
	t->to = last + (last - first) / 12;
	if (seen < first || seen > last)
		seen = last;
	while (count_inside(t) > BARS_MAX) {
		uint64_t half = (t->to - t->from) / 4;

		if (half < 1000)
			break;
		t->from = seen > t->from + half ? seen - half : t->from;
		t->to = t->from + 2 * half;
	}
}

static void add_traffic(struct timeline_of *t, size_t row, const struct rec_epochs *e,
			uint64_t epoch_ns)
{
	double span = (double)(t->to - t->from);

	for (size_t i = 0; i < e->n; i++) {
		double at = ((double)(int64_t)(e->t_ns - t->from) + (double)(i * epoch_ns)) / span;

		if (at >= 0 && at < 1)
			t->bytes[row][(int)(at * BINS)] += e->bytes[i];
	}
}

static void collect_traffic(struct timeline_of *t)
{
	for (size_t i = 0; i < t->rows; i++) {
		for (size_t k = 0; k < t->file[i]->epochs_n; k++)
			add_traffic(t, i, t->file[i]->epochs + k, t->file[i]->epoch_ns);
		for (int b = 0; b < BINS; b++)
			t->bytes_max = fmax(t->bytes_max, t->bytes[i][b]);
	}
}

/* ---- drawing -------------------------------------------------------------------------------- */

static int row_y(size_t row)
{
	return TOP + (int)row * ROW;
}

static double x_of(const struct timeline_of *t, uint64_t ns)
{
	return drawing_x((double)(int64_t)(ns - t->from), (double)(t->to - t->from));
}

static void draw_label(FILE *f, const struct timeline_of *t, size_t row)
{
	const struct rec_file *file = t->file[row];
	char text[REC_NAME_BYTES + 32];

	if (file->rank != REC_NONE)
		snprintf(text, sizeof(text), "rank %d %s", file->rank, file->host);
	else
		snprintf(text, sizeof(text), "%d at %s", file->pid, file->host);
	if (t->blamed[row])
		fprintf(f,
			"<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"var(--card)\"/>"
			"<path d=\"M2 %dl9 6-9 6z\" fill=\"var(--worse)\"/>",
			row_y(row), DRAWING_RIGHT, ROW - 2, row_y(row) + 6);
	fprintf(f, "<text x=\"16\" y=\"%d\"%s>", row_y(row) + 16,
		t->blamed[row] ? " fill=\"var(--worse)\" font-weight=\"700\""
			       : " fill=\"currentColor\"");
	html_clipped(f, text, 20);
	fputs("</text>\n", f);
}

/* The outline of what was sent, below the operations. */
static void draw_traffic(FILE *f, const struct timeline_of *t, size_t row)
{
	int base = row_y(row) + ROW - 4;
	double width = (double)(DRAWING_RIGHT - DRAWING_LEFT) / BINS;
	bool up = false;

	if (t->bytes_max <= 0)
		return;
	fputs("<path fill=\"var(--muted)\" d=\"", f);
	for (int b = 0; b <= BINS; b++) {
		double h = b < BINS ? t->bytes[row][b] / t->bytes_max * 8 : 0;

		if (h < 0.05 && !up)
			continue;
		if (!up)
			fprintf(f, "M%.1f %d", DRAWING_LEFT + b * width, base);
		if (h < 0.05) {
			fprintf(f, "V%dz", base);
			up = false;
			continue;
		}
		fprintf(f, "V%.1fh%.2f", base - h, width);
		up = true;
	}
	fputs("\"/>\n", f);
}

static void draw_bars(FILE *f, const struct timeline_of *t, bool is_open, bool is_message,
		      const char *style)
{
	fprintf(f, "<g %s>", style);
	for (size_t i = 0; i < t->bars; i++) {
		const struct bar *b = t->bar + i;
		double x, to;

		if (!is_inside(t, b) || !b->end != is_open ||
		    (!is_open && b->is_message != is_message))
			continue;
		x = x_of(t, b->start > t->from ? b->start : t->from);
		to = b->end ? x_of(t, b->end < t->to ? b->end : t->to) : DRAWING_RIGHT;
		fprintf(f, "<path d=\"M%.1f %dH%.1fv9H%.1fz\"/>", x, row_y(b->row) + 4,
			fmax(to, x + 0.5), x);
	}
	fputs("</g>\n", f);
}

static void draw_first_seen(FILE *f, const struct timeline_of *t, int bottom)
{
	uint64_t seen = diag_page_first_seen(t->page);

	if (seen < t->from || seen > t->to)
		return;
	fprintf(f,
		"<path d=\"M%.1f %dV%d\" stroke=\"var(--mark)\" stroke-width=\"1.5\" "
		"stroke-dasharray=\"5 3\"/>",
		x_of(t, seen), TOP - 6, bottom);
}

static void legend(FILE *f, const struct timeline_of *t)
{
	fputs("<ul class=\"legend\">", f);
	if (t->some_blamed)
		page_swatch(f, "<path d=\"M6 0l9 6-9 6z\" fill=\"var(--worse)\"/>", "a culprit");
	page_swatch(f, "<path d=\"M0 2h30v8h-30z\" fill=\"var(--without)\"/>",
		    "in a collective operation");
	if (t->some_message)
		page_swatch(f, "<path d=\"M0 2h30v8h-30z\" fill=\"var(--p2)\"/>", "a message");
	if (t->some_open)
		page_swatch(f,
			    "<path d=\"M1 2h28v8h-28z\" fill=\"none\" stroke=\"var(--worse)\" "
			    "stroke-width=\"1.5\" stroke-dasharray=\"4 2\"/>",
			    "not ended");
	if (t->bytes_max > 0)
		page_swatch(f, "<path d=\"M0 11V7h8V3h10v5h12v3z\" fill=\"var(--muted)\"/>",
			    "what it sent");
	if (diag_page_first_seen(t->page))
		page_swatch(f,
			    "<path d=\"M15 0v12\" stroke=\"var(--mark)\" stroke-width=\"1.5\" "
			    "stroke-dasharray=\"5 3\"/>",
			    "first seen");
	fputs("</ul>\n", f);
}

static void draw(FILE *f, const struct timeline_of *t)
{
	int bottom = row_y(t->rows);

	drawing_begin(
		f, "ranks", "Timeline of ranks",
		"A row for each rank: bars are operations, gaps are computation; culprits are "
		"marked.",
		bottom + 24);
	for (size_t i = 0; i < t->rows; i++)
		draw_label(f, t, i);
	drawing_axis(f, (double)(t->to - t->from), TOP - 4, bottom);
	draw_bars(f, t, false, false, "fill=\"var(--without)\"");
	draw_bars(f, t, false, true, "fill=\"var(--p2)\"");
	draw_bars(f, t, true, false,
		  "fill=\"none\" stroke=\"var(--worse)\" stroke-width=\"1.2\" "
		  "stroke-dasharray=\"4 2\"");
	for (size_t i = 0; i < t->rows; i++)
		draw_traffic(f, t, i);
	draw_first_seen(f, t, bottom);
	drawing_end(f,
		    t->left_out ? format_text("%zu ranks more are not drawn.", t->left_out) : NULL);
}

void page_timeline(FILE *f, const struct diag_page *p)
{
	struct timeline_of *t = check_alloc(calloc(1, sizeof(*t)));

	t->page = p;
	choose_rows(t);
	collect_bars(t);
	if (t->bars) {
		choose_time(t);
		collect_traffic(t);
		fputs("<h2 id=\"timeline\">Timeline of ranks</h2>\n<p class=\"note\">Times are by "
		      "the "
		      "clock of each host. Between operations a rank computes.</p>\n",
		      f);
		legend(f, t);
		draw(f, t);
	}
	free(t->bar);
	free(t);
}
