/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/progress.h"
#include "cmd/shift-bench/sample.h"

enum { STEP_MAX = 1000000000 };

static void points_add(struct progress_points *p, double at_ms, long step)
{
	p->list = check_alloc(realloc(p->list, (p->count + 1) * sizeof(*p->list)));
	p->list[p->count++] = (struct progress_point){at_ms, step};
}

/* The number behind the word, or -1. */
static long number_behind(const char *line, const char *word)
{
	size_t n = strlen(word);
	char *end;
	long number;

	if (strncmp(line, word, n) != 0 || line[n] < '0' || line[n] > '9')
		return -1;
	number = strtol(line + n, &end, 10);
	return (*end && !strchr(" \t", *end)) || number > STEP_MAX ? -1 : number;
}

void progress_add(struct progress *p, const char *line, double at_ms)
{
	long n;

	/* The last one is the end of the line, where that is written so. */
	for (const char *s = strchr(line, '\r'); s && s[1]; s = strchr(s + 1, '\r'))
		line = s + 1;
	while (*line == ' ' || *line == '\t')
		line++;
	n = number_behind(line, "step ");
	if (n >= 0)
		points_add(&p->steps, at_ms, n);
	n = number_behind(line, "checkpoint ");
	if (n >= 0)
		points_add(&p->checkpoints, at_ms, n);
}

void progress_free(struct progress *p)
{
	free(p->steps.list);
	free(p->checkpoints.list);
	memset(p, 0, sizeof(*p));
}

/* Of the lines that are one after the other and go forward, from..to; the caller frees them. */
static double *step_times(const struct progress_points *p, double from_ms, double to_ms,
			  size_t *count)
{
	double *ms = check_alloc(calloc(p->count + 1, sizeof(*ms)));

	*count = 0;
	for (size_t i = 1; i < p->count; i++) {
		const struct progress_point *a = &p->list[i - 1], *b = &p->list[i];

		if (a->at_ms >= from_ms && b->at_ms <= to_ms && b->step > a->step)
			ms[(*count)++] = (b->at_ms - a->at_ms) / (double)(b->step - a->step);
	}
	return ms;
}

static double median_step_ms(const struct progress_points *p, double from_ms, double to_ms)
{
	size_t count;
	double *ms = step_times(p, from_ms, to_ms, &count), median = summary_of(ms, count).median;

	free(ms);
	return median;
}

static double longest_gap_ms(const struct progress_points *p)
{
	double longest = 0;

	for (size_t i = 1; i < p->count; i++)
		longest = fmax(longest, p->list[i].at_ms - p->list[i - 1].at_ms);
	return longest;
}

/* How many steps lie between two lines: a job may say every tenth. */
static double stride_of(const struct progress_points *p)
{
	double *strides = check_alloc(calloc(p->count + 1, sizeof(*strides))), median;
	size_t count = 0;

	for (size_t i = 1; i < p->count; i++)
		if (p->list[i].step > p->list[i - 1].step)
			strides[count++] = (double)(p->list[i].step - p->list[i - 1].step);
	median = count ? summary_of(strides, count).median : 1;
	free(strides);
	return median;
}

/* Where the numbers go back, the steps between were done once more. */
static double lost_steps(const struct progress_points *p)
{
	double stride = stride_of(p), lost = 0;

	for (size_t i = 1; i < p->count; i++)
		if (p->list[i].step <= p->list[i - 1].step)
			lost += (double)(p->list[i - 1].step - p->list[i].step) + stride;
	return lost;
}

struct progress_figures progress_figures_of(const struct progress *p, double fault_ms)
{
	const struct progress_points *s = &p->steps;
	struct progress_figures f = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
	const struct progress_point *first, *last;

	if (s->count < 2)
		return f;
	first = s->list;
	last = s->list + s->count - 1;
	f.total_s = last->at_ms / 1000;
	f.first_step_s = first->at_ms / 1000;
	f.training_s = (last->at_ms - first->at_ms) / 1000;
	f.step_ms = median_step_ms(s, 0, isnan(fault_ms) ? INFINITY : fault_ms);
	f.standstill_ms = longest_gap_ms(s);
	f.lost_steps = lost_steps(s);
	if (isnan(fault_ms))
		return f;
	f.step_after_ms = median_step_ms(s, fault_ms, INFINITY);
	f.lost_s = (last->at_ms - first->at_ms - (double)(last->step - first->step) * f.step_ms) /
		   1000;
	return f;
}

cJSON *progress_points_json(const struct progress_points *p)
{
	cJSON *list = check_alloc(cJSON_CreateArray());

	for (size_t i = 0; i < p->count; i++) {
		cJSON *pair = check_alloc(cJSON_CreateArray());

		cJSON_AddItemToArray(pair, json_round(p->list[i].at_ms));
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)p->list[i].step));
		cJSON_AddItemToArray(list, pair);
	}
	return list;
}
