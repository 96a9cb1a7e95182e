/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "kv/sorted.h"

/* splitmix64. Without random bytes, which is early in the boot of a host, all works the same. */
static uint64_t draw_rank(void)
{
	static uint64_t state;
	uint64_t z;

	if (!state && getrandom(&state, sizeof(state), GRND_NONBLOCK) != sizeof(state))
		state = 1;
	z = state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* What is before the key, and what is behind it. */
static void split_tree(struct kv_node *t, const char *key, struct kv_node **before,
		       struct kv_node **behind)
{
	while (t) {
		if (strcmp(t->key, key) < 0) {
			*before = t;
			before = &t->right;
			t = t->right;
		} else {
			*behind = t;
			behind = &t->left;
			t = t->left;
		}
	}
	*before = *behind = NULL;
}

static struct kv_node *join_trees(struct kv_node *before, struct kv_node *behind)
{
	struct kv_node *root = NULL, **at = &root;

	while (before && behind) {
		if (before->rank > behind->rank) {
			*at = before;
			at = &before->right;
			before = before->right;
		} else {
			*at = behind;
			at = &behind->left;
			behind = behind->left;
		}
	}
	*at = before ? before : behind;
	return root;
}

void kv_sorted_add(struct kv_node **root, struct kv_node *n, const char *key)
{
	n->key = key;
	n->rank = draw_rank();
	while (*root && (*root)->rank >= n->rank)
		root = strcmp((*root)->key, key) < 0 ? &(*root)->right : &(*root)->left;
	split_tree(*root, key, &n->left, &n->right);
	*root = n;
}

void kv_sorted_remove(struct kv_node **root, const struct kv_node *n)
{
	while (*root != n)
		root = strcmp((*root)->key, n->key) < 0 ? &(*root)->right : &(*root)->left;
	*root = join_trees(n->left, n->right);
}

struct kv_node *kv_sorted_after(const struct kv_node *root, const char *key, bool or_at)
{
	const struct kv_node *best = NULL;

	while (root) {
		int order = strcmp(root->key, key);

		if (order > 0 || (or_at && !order))
			best = root;
		root = order > 0 || (or_at && !order) ? root->left : root->right;
	}
	return (struct kv_node *)best;
}
