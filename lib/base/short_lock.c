/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/short_lock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100, NAP_NS = 50000, NAP_MAX_NS = 1600000 };

/* nanosleep() by name is a point of cancellation. errno is the program's. */
static void short_lock_nap(long ns)
{
	const struct timespec t = {.tv_nsec = ns};
	int saved = errno;

	syscall(SYS_nanosleep, &t, NULL);
	errno = saved;
}

void short_lock_wait(struct short_lock *l)
{
	long nap_ns = NAP_NS;
	int spins = 0;

	do {
		while (atomic_load_explicit(&l->taken, memory_order_relaxed)) {
			if (++spins <= SPINS)
				continue;
			short_lock_nap(nap_ns);
			nap_ns = nap_ns < NAP_MAX_NS ? 2 * nap_ns : nap_ns;
		}
	} while (!short_lock_try(l));
}
