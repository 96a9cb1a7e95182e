/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/short_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The way of "Futexes Are Tricky" (Drepper 2011), mutex 2: who has waited once takes the lock as
 * awaited, as it cannot know whether others wait, too. errno is the program's. */
void short_lock_wait(struct short_lock *l)
{
	int saved = errno;

	while (atomic_exchange_explicit(&l->state, SHORT_LOCK_AWAITED, memory_order_acquire) !=
	       SHORT_LOCK_FREE)
		syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, SHORT_LOCK_AWAITED, NULL, NULL,
			0);
	errno = saved;
}

void short_lock_wake(struct short_lock *l)
{
	int saved = errno;

	syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
