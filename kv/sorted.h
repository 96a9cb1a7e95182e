/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keys in their order, without memory of its own: nodes are members of what has the key. Adding,
 * removing and finding cost the logarithm of their number: it is a treap, whose ranks nobody can
 * guess, so that no order of keys makes it deep. One thread.
 */
#ifndef SHIFT_KV_SORTED_H
#define SHIFT_KV_SORTED_H

#include <stdbool.h>
#include <stdint.h>

struct kv_node {
	struct kv_node *left, *right;
	uint64_t rank;
	const char *key; /* of what has this node; each is there once */
};

void kv_sorted_add(struct kv_node **root, struct kv_node *n, const char *key);
void kv_sorted_remove(struct kv_node **root, const struct kv_node *n);

/* The first one behind a key, or at it, if that counts; NULL: there is none. */
struct kv_node *kv_sorted_after(const struct kv_node *root, const char *key, bool or_at);

#endif
