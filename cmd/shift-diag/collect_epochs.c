/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/collect_epochs.h"

#include <stdlib.h>

#include "common/cli.h"

static int in_order(const void *a, const void *b)
{
	const struct told_epoch *x = a, *y = b;

	if (x->qp != y->qp)
		return x->qp < y->qp ? -1 : 1;
	return x->epoch < y->epoch ? -1 : x->epoch > y->epoch;
}

/* Each of its epochs has as much; the first ones what cannot be divided. */
static size_t tell_run(struct told_epoch *to, const struct epoch_run *r)
{
	uint64_t each = r->bytes / r->epochs, more = r->bytes % r->epochs;

	for (uint32_t i = 0; i < r->epochs; i++)
		to[i] = (struct told_epoch){
			.qp = r->qp, .epoch = r->first + i, .bytes = each + (i < more)};
	to[0].wr = r->wr;
	to[0].wc = r->wc;
	return r->epochs;
}

static size_t merge(struct told_epoch *t, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct told_epoch *last = kept ? t + kept - 1 : NULL;

		if (last && !in_order(last, t + i)) {
			last->bytes += t[i].bytes;
			last->wr += t[i].wr;
			last->wc += t[i].wc;
		} else {
			t[kept++] = t[i];
		}
	}
	return kept;
}

/* The first run of those that there is room for, and how many epochs they have. */
static size_t find_first(const struct epoch_run *runs, size_t n, size_t max, size_t *epochs)
{
	*epochs = 0;
	while (n && *epochs + runs[n - 1].epochs <= max)
		*epochs += runs[--n].epochs;
	return n;
}

size_t epochs_told_bytes(const struct epoch_run *runs, size_t n)
{
	size_t epochs;

	find_first(runs, n, EPOCHS_TOLD_MAX, &epochs);
	return epochs * sizeof(struct told_epoch);
}

size_t epochs_tell(const struct epoch_run *runs, size_t n, size_t max, struct told_epoch **told,
		   uint64_t *lost)
{
	size_t epochs, first = find_first(runs, n, max, &epochs), count = 0;
	struct told_epoch *t = check_alloc(malloc((epochs + 1) * sizeof(*t)));

	for (size_t i = first; i < n; i++)
		count += tell_run(t + count, runs + i);
	qsort(t, count, sizeof(*t), in_order);
	*told = t;
	*lost = first;
	return merge(t, count);
}

size_t epochs_of_record(const struct told_epoch *t, size_t n)
{
	size_t i = 1;

	while (i < n && t[i].qp == t->qp && t[i].epoch - t[i - 1].epoch <= EPOCHS_GAP &&
	       t[i].epoch - t->epoch < EPOCHS_RECORD_MAX)
		i++;
	return i;
}
