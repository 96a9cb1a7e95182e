/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The processes of this host, each with all that it has left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/collect.h"
#include "cmd/shift-diag/collect_epochs.h"
#include "common/cli.h"

enum { REFUSALS_SAID = 32 }; /* another user could fill root's terminal with them */

/* What a user's file claims of a process is nothing of another user's. */
static bool is_same(const struct collected_process *a, const struct collected_process *b)
{
	return a->owner == b->owner && a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       a->pid_namespace == b->pid_namespace && !strcmp(a->boot_id, b->boot_id) &&
	       !strcmp(a->job, b->job);
}

static struct collected *collection_add(struct collection *all, uid_t owner)
{
	struct collected *c = check_alloc(calloc(1, sizeof(*c)));

	c->owner = owner;
	*all->end = c;
	all->end = &c->next;
	return c;
}

static void add_processes(struct collection *all, const struct processes *found)
{
	for (struct process *p = found->first; p; p = p->next)
		collection_add(all, p->copy.owner)->stats = &p->copy;
}

/* The same file again: it became a crash record meanwhile. */
static bool has_source(const struct collected *c, const char *source)
{
	for (unsigned int i = 0; i < c->colls; i++)
		if (!strcmp(c->coll[i]->h.source, source))
			return true;
	return false;
}

/* What is known of that process so far, or a new one. */
static struct collected *find_process(struct collection *all, const struct collected *like)
{
	const struct collected_process wanted = collected_process(like);

	for (struct collected *c = all->first; c; c = c->next) {
		const struct collected_process p = collected_process(c);

		if (is_same(&p, &wanted))
			return c;
	}
	return collection_add(all, like->owner);
}

static void add_coll(struct collection *all, uid_t owner, struct coll_copy *copy)
{
	const struct collected like = {.owner = owner, .coll = {copy}, .colls = 1};
	struct collected *c = find_process(all, &like);

	if (c->colls == COLLECTED_COLLS_MAX || has_source(c, copy->h.source)) {
		coll_free(copy);
		free(copy);
		return;
	}
	c->coll[c->colls++] = copy;
}

static void add_epochs(struct collection *all, uid_t owner, struct epoch_copy *copy)
{
	const struct collected like = {.owner = owner, .epochs = copy};
	struct collected *c = find_process(all, &like);

	if (!c->epochs) {
		c->epochs = copy;
		return;
	}
	epoch_free(copy);
	free(copy);
}

static const char *refusal_text(int err)
{
	switch (err) {
	case -EBADMSG: return "not what its name says";
	case -EPROTONOSUPPORT: return "of another version of shift";
	case -EPERM: return "not believed: its owner is not that of its directory";
	case -ESRCH: return "not believed: it claims the process of another user";
	default: return strerror(-err);
	}
}

/* A file that is just being made or removed is not an error. */
static void refuse(struct collection *all, const char *path, int err)
{
	if (err != -ENOENT && err != -EAGAIN && all->refused++ < REFUSALS_SAID)
		say("collect: %s: %s", path, refusal_text(err));
}

static bool gather_coll(void *arg, const struct stats_place *place)
{
	struct collection *all = arg;
	struct coll_copy *copy = check_alloc(calloc(1, sizeof(*copy)));
	int err = coll_read_of(place->owner, place->path, copy);

	if (!err) {
		*place->kept_bytes += coll_copy_bytes(copy);
		add_coll(all, place->owner, copy);
		return true;
	}
	free(copy);
	refuse(all, place->path, err);
	return false;
}

static bool gather_epochs(void *arg, const struct stats_place *place)
{
	struct collection *all = arg;
	struct epoch_copy *copy = check_alloc(calloc(1, sizeof(*copy)));
	int err = epoch_read_of(place->owner, place->path, copy);

	if (!err) {
		*place->kept_bytes += epoch_copy_bytes(copy) +
				      epochs_told_bytes(copy->runs, copy->count);
		add_epochs(all, place->owner, copy);
		return true;
	}
	free(copy);
	refuse(all, place->path, err);
	return false;
}

void collection_read(struct collection *all, const struct live_select *which)
{
	*all = (struct collection){.end = &all->first, .found = processes_read(which, false)};
	add_processes(all, &all->found);
	stats_each_of_ending(COLL_ENDING, which->job, which->pid, gather_coll, all, &all->cut);
	stats_each_of_ending(EPOCH_ENDING, which->job, which->pid, gather_epochs, all,
			     &all->epochs_cut);
}

bool collection_is_whole(const struct collection *all)
{
	return !all->refused && !all->found.refused && !all->cut.users && !all->cut.err &&
	       !all->epochs_cut.users && !all->epochs_cut.err && !all->found.cut.users &&
	       !all->found.cut.err;
}

void collection_free(struct collection *all)
{
	struct collected *c;

	while ((c = all->first)) {
		all->first = c->next;
		for (unsigned int i = 0; i < c->colls; i++) {
			coll_free(c->coll[i]);
			free(c->coll[i]);
		}
		if (c->epochs)
			epoch_free(c->epochs);
		free(c->epochs);
		free(c);
	}
	processes_free(&all->found);
}
