/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/diag_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/shift-diag/diag.h"
#include "common/html.h"
#include "common/page.h"

enum { CARDS_MAX = 8 };

/* ---- drawings ------------------------------------------------------------------------------- */

void drawing_begin(FILE *f, const char *id, const char *title, const char *description, int height)
{
	fprintf(f,
		"<figure class=\"whole\"><div class=\"scroll\"><svg role=\"img\" class=\"drawing\" "
		"aria-labelledby=\"%s-t %s-d\" viewBox=\"0 0 %d %d\"><title id=\"%s-t\">",
		id, id, DRAWING_WIDTH, height, id);
	html_text(f, title);
	fprintf(f, "</title><desc id=\"%s-d\">", id);
	html_text(f, description);
	fputs("</desc>\n", f);
}

void drawing_end(FILE *f, const char *caption)
{
	fputs("</svg></div>", f);
	if (caption) {
		fputs("<figcaption>", f);
		html_text(f, caption);
		fputs("</figcaption>", f);
	}
	fputs("</figure>\n", f);
}

double drawing_x(double t_ns, double span_ns)
{
	double part = span_ns > 0 ? t_ns / span_ns : 0;

	return DRAWING_LEFT + fmin(fmax(part, 0), 1) * (DRAWING_RIGHT - DRAWING_LEFT);
}

/* 1, 2 or 5 times a power of ten; six or so of them are in span. */
static double tick_of(double span)
{
	double tick = pow(10, floor(log10(span / 6)));

	if (span / tick > 30)
		return 5 * tick;
	return span / tick > 12 ? 2 * tick : tick;
}

void drawing_axis(FILE *f, double span_ns, int y, int bottom)
{
	bool in_s = span_ns >= 2e9, in_us = span_ns < 2e5;
	double unit = in_s ? 1e9 : in_us ? 1e3 : 1e6, tick = tick_of(fmax(span_ns, 1));

	fputs("<g stroke=\"var(--grid)\">", f);
	for (double t = 0; t < span_ns; t += tick)
		fprintf(f, "<path d=\"M%.1f %dV%d\"/>", drawing_x(t, span_ns), y, bottom);
	fputs("</g><g fill=\"var(--muted)\" text-anchor=\"middle\">", f);
	for (double t = 0; t < span_ns; t += tick)
		fprintf(f, "<text x=\"%.1f\" y=\"%d\">%g%s</text>", drawing_x(t, span_ns),
			bottom + 15, t / unit,
			t > 0	? ""
			: in_s	? " s"
			: in_us ? " &micro;s"
				: " ms");
	fputs("</g>\n", f);
}

/* ---- who ------------------------------------------------------------------------------------ */

static bool is_him(const struct culprit *c, int rank, const char *host)
{
	if (c->rank != REC_NONE)
		return c->rank == rank;
	return *c->host && !strcmp(c->host, host);
}

bool diag_page_blames(const struct diag_page *p, int rank, const char *host)
{
	for (size_t i = 0; p->answer && i < p->answer->blamed; i++)
		if (is_him(&p->answer->culprit[i].who, rank, host))
			return true;
	for (size_t i = 0; !p->answer && i < p->verdicts; i++)
		for (size_t k = 0; k < p->verdict[i].culprits_n; k++)
			if (is_him(p->verdict[i].culprits + k, rank, host))
				return true;
	return false;
}

uint64_t diag_page_first_seen(const struct diag_page *p)
{
	if (p->answer)
		return p->answer->first_seen_ns;
	for (size_t i = 0; i < p->verdicts; i++)
		if (p->verdict[i].first_seen_ns)
			return p->verdict[i].first_seen_ns;
	return 0;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void finding(FILE *f, enum verdict_class class, enum verdict_component component,
		    double confidence)
{
	const char *where = verdict_component_name(component);

	if (class == CLASS_FINE)
		fputs("Nothing is wrong that can be seen in these records", f);
	else if (class == CLASS_UNDECIDED)
		fputs("It could not be decided", f);
	else
		fprintf(f, "It %s%s%s",
			class == CLASS_STOPPED ? "stands still"
			: class == CLASS_SLOW  ? "is slow"
					       : "has failed",
			where ? ", in " : "", where ? where : "");
	if (class != CLASS_UNDECIDED)
		fprintf(f, " <span class=\"note\">(confidence %.2f)</span>", confidence);
}

static void lead(FILE *f, const struct diag_page *p)
{
	fputs("<p class=\"lead\">", f);
	if (p->answer)
		finding(f, p->answer->class, p->answer->component, p->answer->confidence);
	else
		finding(f, p->verdict->class, p->verdict->component, p->verdict->confidence);
	fputs(".</p>\n", f);
}

static void card(FILE *f, const char *standing, const char *color, enum verdict_level level,
		 const struct culprit *c, enum verdict_class class,
		 enum verdict_component component, double confidence)
{
	const char *where = verdict_component_name(component);
	char text[CULPRIT_BYTES];

	culprit_describe(c, text, sizeof(text));
	fprintf(f, "<li><div class=\"verdict%s\">%s, a %s</div><h3>", color, standing,
		verdict_level_name(level));
	html_clipped(f, text, 120);
	fprintf(f, "</h3><div>%s%s%s</div><div class=\"note\">confidence %.2f",
		verdict_class_name(class), where ? ", " : "", where ? where : "", confidence);
	if (c->score > 0 && c->score < 1)
		fprintf(f, "; %.0f&nbsp;%% of what was lost", c->score * 100);
	fputs("</div></li>\n", f);
}

static size_t cards_of_answer(FILE *f, const struct answer *a)
{
	size_t n = 0;

	for (; n < a->culprits_n && n < CARDS_MAX; n++) {
		const struct answer_culprit *c = a->culprit + n;
		bool blamed = n < a->blamed;

		card(f,
		     blamed			       ? n ? "Culprit" : "First culprit"
		     : c->confidence >= ANSWER_SUSPECT ? "Suspect"
						       : "Outvoted",
		     blamed ? " worse" : "", c->level, &c->who, c->class, c->component,
		     c->confidence);
	}
	return a->culprits_n - n;
}

static size_t cards_of_verdicts(FILE *f, const struct diag_page *p)
{
	size_t n = 0, all = 0;

	for (size_t i = 0; i < p->verdicts; i++) {
		const struct verdict *v = p->verdict + i;

		all += v->culprits_n;
		for (size_t k = 0; k < v->culprits_n && n < CARDS_MAX; k++, n++)
			card(f, "Culprit", " worse", v->level, v->culprits + k, v->class,
			     v->component, v->confidence);
	}
	return all - n;
}

static void cards(FILE *f, const struct diag_page *p)
{
	size_t more;

	fputs("<ul class=\"cards\">\n", f);
	more = p->answer ? cards_of_answer(f, p->answer) : cards_of_verdicts(f, p);
	fputs("</ul>\n", f);
	if (more)
		fprintf(f, "<p class=\"note\">And %zu more, below.</p>\n", more);
}

static void what_to_do(FILE *f, const char *action)
{
	if (!action)
		return;
	fputs("<p><b>Do:</b> ", f);
	html_text(f, action);
	fputs(".</p>\n", f);
}

static void rests_on(FILE *f, const struct diag_page *p)
{
	const struct coverage *c = p->answer ? &p->answer->coverage : &p->verdict->coverage;
	uint64_t seen = diag_page_first_seen(p);
	time_t s = (time_t)(seen / 1000000000);
	char text[32] = "";
	struct tm tm;

	fputs("<p class=\"note\">It rests on ", f);
	if (c->ranks_expected != REC_NONE)
		fprintf(f, "%d of %d ranks", c->ranks_seen, c->ranks_expected);
	else
		fprintf(f, "%d ranks; how many there are is not known", c->ranks_seen);
	if (c->dropped)
		fprintf(f, "; <b>%" PRIu64 " records were lost</b>", c->dropped);
	if (c->clock_error_ns != REC_NONE)
		fprintf(f, "; clocks agree to %.3f&nbsp;ms", (double)c->clock_error_ns / 1e6);
	if (seen && gmtime_r(&s, &tm) && strftime(text, sizeof(text), "%F %T", &tm))
		fprintf(f, "; first seen %s.%03u UTC", text, (unsigned int)(seen / 1000000 % 1000));
	fputs(".</p>\n", f);
}

/* ---- evidence ------------------------------------------------------------------------------- */

static void sentences(FILE *f, const struct verdict *v)
{
	for (size_t i = 0; i < v->evidence_n; i++) {
		fputs(i ? "<br>" : "", f);
		html_text(f, v->evidence[i]);
	}
	if (v->class == CLASS_FINE && !v->evidence_n)
		fputs("sees nothing wrong", f);
}

static void thresholds(FILE *f, const struct verdict *v)
{
	const cJSON *t;
	bool some = false;

	cJSON_ArrayForEach (t, v->thresholds) {
		fputs(some ? ", " : "", f);
		html_text(f, t->string);
		fprintf(f, "&nbsp;%s", html_number(t->valuedouble));
		some = true;
	}
}

static void verdict_row(FILE *f, const char *command, const struct verdict *v)
{
	char text[CULPRIT_BYTES];

	fprintf(f,
		"<tr><th class=\"t\">%s</th><td class=\"t\">%s</td><td "
		"class=\"t\">%s</td><td>%.2f</td>",
		command, verdict_class_name(v->class), v->rule, v->confidence);
	fputs("<td class=\"w\">", f);
	for (size_t i = 0; i < v->culprits_n; i++) {
		culprit_describe(v->culprits + i, text, sizeof(text));
		fputs(i ? "<br>" : "", f);
		html_text(f, text);
	}
	fputs("</td><td class=\"w\">", f);
	sentences(f, v);
	fputs("</td><td class=\"w\">", f);
	thresholds(f, v);
	fputs("</td></tr>\n", f);
}

static void analysers(FILE *f, const struct diag_page *p)
{
	fputs("<h2 id=\"evidence\">What each analyser has found</h2>\n<div class=\"scroll\"><table>"
	      "<thead><tr><th class=\"t\">command</th><th class=\"t\">finding</th><th class=\"t\">"
	      "rule</th><th>confidence</th><th class=\"t\">names</th><th class=\"t\">evidence</th>"
	      "<th class=\"t\">thresholds</th></tr></thead><tbody>\n",
	      f);
	for (size_t i = 0; !p->answer && i < p->verdicts; i++)
		verdict_row(f, p->command, p->verdict + i);
	for (size_t i = 0; p->answer && i < p->answer->sources; i++) {
		const struct answer_source *s = p->answer->source + i;

		for (size_t k = 0; k < s->n; k++)
			verdict_row(f, s->command, s->verdict + k);
		if (s->why_not) {
			fprintf(f,
				"<tr><th class=\"t\">%s</th><td class=\"w\" colspan=\"6\">not "
				"asked: ",
				s->command);
			html_text(f, s->why_not);
			fputs("</td></tr>\n", f);
		}
	}
	fputs("</tbody></table></div>\n", f);
}

static void votes(FILE *f, const struct answer_vote *v, size_t n)
{
	if (!n)
		fputs("&ndash;", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%s <span class=\"note\">(%s%s, %.2f)</span>", i ? "<br>" : "",
			v[i].source->command,
			v[i].culprit			    ? ""
			: v[i].verdict->class == CLASS_FINE ? "sees nothing wrong: "
							    : "names others: ",
			v[i].verdict->rule, v[i].verdict->confidence);
}

static void for_and_against(FILE *f, const struct answer *a)
{
	char text[CULPRIT_BYTES];

	if (!a->culprits_n)
		return;
	fputs("<h2 id=\"votes\">For and against each</h2>\n<div class=\"scroll\"><table><thead><tr>"
	      "<th>place</th><th class=\"t\">who</th><th>confidence</th><th class=\"t\">for</th>"
	      "<th class=\"t\">against</th></tr></thead><tbody>\n",
	      f);
	for (size_t i = 0; i < a->culprits_n; i++) {
		const struct answer_culprit *c = a->culprit + i;

		culprit_describe(&c->who, text, sizeof(text));
		fprintf(f, "<tr><td>%zu</td><th class=\"t\">", i + 1);
		html_text(f, text);
		fprintf(f, "</th><td>%.2f</td><td class=\"w\">", c->confidence);
		votes(f, c->named_by, c->named_by_n);
		fputs("</td><td class=\"w\">", f);
		votes(f, c->against, c->against_n);
		fputs("</td></tr>\n", f);
	}
	fputs("</tbody></table></div>\n", f);
}

/* ---- the page ------------------------------------------------------------------------------- */

static const char markers[] =
	"<svg class=\"points\" aria-hidden=\"true\"><defs>"
	"<marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
	"markerHeight=\"7\" orient=\"auto-start-reverse\" markerUnits=\"userSpaceOnUse\">"
	"<path d=\"M0 0l8 4-8 4z\" fill=\"context-stroke\"/></marker></defs></svg>\n";

static const char *title_of(const struct diag_page *p)
{
	static const char *const titles[][2] = {
		{"analyze", "Who was it? All analysers on one incident"},
		{"pulse", "Who stops or slows down the job, by its traffic"},
		{"slow", "Who makes the job slow"},
		{"path", "What made a collective slow, and whose traffic did it"},
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		if (!strcmp(titles[i][0], p->command))
			return titles[i][1];
	return "Diagnosis";
}

static void fill(FILE *f, void *arg)
{
	const struct diag_page *p = arg;

	page_begin(f, title_of(p), markers);
	lead(f, p);
	cards(f, p);
	what_to_do(f, p->answer ? p->answer->action : p->verdict->action);
	rests_on(f, p);
	if (p->records)
		page_timeline(f, p);
	if (p->path) {
		page_waiting(f, p);
		page_provenance(f, p);
	}
	if (p->answer)
		for_and_against(f, p->answer);
	analysers(f, p);
	page_end(f);
}

void diag_page_write(const struct diag_page *p, const char *file)
{
	struct diag_page copy = *p;
	int status = page_write(file, fill, &copy);

	if (status)
		die(EXIT_FAILED, "%s: %s: %s", p->command, file, strerror(-status));
}
