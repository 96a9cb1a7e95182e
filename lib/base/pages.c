/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/pages.h"

#include <errno.h>
#include <sys/mman.h>

void *pages_get(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = errno;

	if (p == MAP_FAILED)
		return NULL;
	/* A huge page would be there as a whole. A kernel that knows none refuses. */
	madvise(p, bytes, MADV_NOHUGEPAGE);
	errno = err;
	return p;
}

void pages_put(void *pages, size_t bytes)
{
	if (pages)
		munmap(pages, bytes);
}
