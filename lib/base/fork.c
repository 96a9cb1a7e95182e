/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/log.h"

static atomic_bool forked;

static void mark_child(void)
{
	atomic_store(&forked, true);
}

int fork_watch(void)
{
	static bool watched;
	int err = watched ? 0 : pthread_atfork(NULL, NULL, mark_child);

	watched |= !err;
	return -err;
}

bool fork_in_child(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

bool fork_in_child_warn(void)
{
	static _Atomic bool warned;

	if (!fork_in_child())
		return false;
	if (!atomic_exchange(&warned, true))
		log_warn(
			"this process is the child of a fork(): its connections are not protected");
	return true;
}
