/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Records in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/records.h"

/* Room for one more behind n. The arrays double, so n says how large one is. NULL: no memory. */
static void *grow(void *array, size_t n, size_t size)
{
	size_t room = n ? 2 * n : 1;

	if (n & (n - 1))
		return array;
	return room > SIZE_MAX / size ? NULL : realloc(array, room * size);
}

struct rec_file *records_add(struct records *r)
{
	struct rec_file *grown = grow(r->file, r->files, sizeof(*grown)), *f;

	if (!grown)
		return NULL;
	r->file = grown;
	f = grown + r->files++;
	memset(f, 0, sizeof(*f));
	f->rank = REC_NONE;
	f->clock_error_ns = REC_NONE;
	return f;
}

#define RECORDS_ADD(type)                                                              \
	struct rec_##type *rec_add_##type(struct rec_file *f)                          \
	{                                                                              \
		struct rec_##type *grown = grow(f->type, f->type##_n, sizeof(*grown)); \
                                                                                       \
		if (!grown)                                                            \
			return NULL;                                                   \
		f->type = grown;                                                       \
		return memset(grown + f->type##_n++, 0, sizeof(*grown));               \
	}
RECORDS_TYPES(RECORDS_ADD)
#undef RECORDS_ADD

void rec_comm_clear(struct rec_comm *c)
{
	for (int i = 0; c->hosts && i < c->size; i++)
		free(c->hosts[i]);
	free(c->hosts);
	c->hosts = NULL;
}

void rec_epochs_clear(struct rec_epochs *e)
{
	free(e->bytes);
	free(e->wr);
	free(e->wc);
	e->bytes = e->wr = e->wc = NULL;
}

static void file_clear(struct rec_file *f)
{
	for (size_t i = 0; i < f->comm_n; i++)
		rec_comm_clear(f->comm + i);
	for (size_t i = 0; i < f->epochs_n; i++)
		rec_epochs_clear(f->epochs + i);
#define RECORDS_FREE(type) free(f->type);
	RECORDS_TYPES(RECORDS_FREE)
#undef RECORDS_FREE
	free(f->path);
}

void records_drop_last(struct records *r)
{
	file_clear(r->file + --r->files);
}

void records_free(struct records *r)
{
	while (r->files)
		records_drop_last(r);
	free(r->file);
	r->file = NULL;
}
