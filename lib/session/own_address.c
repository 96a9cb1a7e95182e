/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/own_address.h"

#include <string.h>

#include "lib/base/background.h"
#include "lib/base/real_verbs.h"

#define GOOD_FOR_NS 50000000ull

enum { ANSWERS = 64 };

/* Compared as bytes. */
struct question {
	const struct nic *nic;
	enum { NOTHING, GID_AT, PKEY_AT, PKEY_INDEX, GID_FOR_TWIN } what;
	uint32_t look;
	int index;
	uint8_t port;
	__be16 pkey;
	struct nic_gid like;
};

struct answer {
	struct question question;
	uint64_t at_ns;
	int index; /* or a negative errno */
	struct nic_gid gid;
	__be16 pkey;
};

static struct answer answers[ANSWERS];

/* All of it is zero, padding too. */
static void question(struct question *q, const struct nic *nic, int what)
{
	memset(q, 0, sizeof(*q));
	q->nic = nic;
	q->what = what;
	q->look = nic->looks;
}

static struct answer *answer_to(const struct question *q)
{
	uint64_t now = now_ns();

	for (struct answer *a = answers; a < answers + ANSWERS; a++)
		if (!memcmp(&a->question, q, sizeof(*q)) && now - a->at_ns < GOOD_FOR_NS)
			return a;
	return NULL;
}

/* In the place of the oldest. */
static struct answer *answer_new(const struct question *q)
{
	static unsigned int next;
	struct answer *a = &answers[next++ % ANSWERS];

	memset(a, 0, sizeof(*a));
	memcpy(&a->question, q, sizeof(*q));
	a->at_ns = now_ns();
	return a;
}

/* What the NIC does not have is forgotten at once. */
static int answer_keep(struct answer *a, int index)
{
	if (index < 0)
		a->question.what = NOTHING;
	a->index = index;
	return index;
}

int own_gid_at(const struct nic *nic, int index, struct nic_gid *gid)
{
	struct question q;
	struct answer *a;

	question(&q, nic, GID_AT);
	q.index = index;
	a = answer_to(&q);
	if (!a) {
		a = answer_new(&q);
		answer_keep(a, nic_gid_at(nic, index, &a->gid));
	}
	*gid = a->gid;
	return a->index;
}

__be16 own_pkey_at(const struct nic *nic, uint8_t port, int index)
{
	struct question q;
	struct answer *a;

	question(&q, nic, PKEY_AT);
	q.index = index;
	q.port = port;
	a = answer_to(&q);
	if (!a) {
		a = answer_new(&q);
		if (answer_keep(a, real.query_pkey(nic->ctx, port, index, &a->pkey) ? -1 : 0) < 0)
			a->pkey = 0;
	}
	return a->pkey;
}

int own_pkey_index(const struct nic *nic, __be16 pkey)
{
	struct question q;
	struct answer *a;

	question(&q, nic, PKEY_INDEX);
	q.pkey = pkey;
	a = answer_to(&q);
	return a ? a->index : answer_keep(answer_new(&q), nic_pkey_index(nic, pkey));
}

int own_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	struct question q;
	struct answer *a;

	question(&q, nic, GID_FOR_TWIN);
	/* Not whole: padding would make others of it. */
	q.like.value = like->value;
	q.like.type = like->type;
	q.like.vlan = like->vlan;
	a = answer_to(&q);
	if (!a) {
		a = answer_new(&q);
		answer_keep(a, nic_gid_for_twin(nic, like, &a->gid));
	}
	*gid = a->gid;
	return a->index;
}
