/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A doubly linked list without memory of its own: its links are members of what it holds. */
#ifndef SHIFT_KV_LIST_H
#define SHIFT_KV_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The head of a list, or a member's place in one. Zeroed: in no list. */
struct kv_link {
	struct kv_link *before, *after;
};

/* What has this link as its member. */
#define KV_HOLDER(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void kv_list_init(struct kv_link *head)
{
	head->before = head->after = head;
}

static inline bool kv_list_is_empty(const struct kv_link *head)
{
	return head->after == head;
}

static inline bool kv_link_is_held(const struct kv_link *l)
{
	return l->after;
}

static inline void kv_list_append(struct kv_link *head, struct kv_link *l)
{
	l->before = head->before;
	l->after = head;
	head->before->after = l;
	head->before = l;
}

/* Nothing happens to one that is in no list. */
static inline void kv_list_remove(struct kv_link *l)
{
	if (!l->after)
		return;
	l->before->after = l->after;
	l->after->before = l->before;
	l->before = l->after = NULL;
}

#endif
