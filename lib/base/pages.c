/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, LINE_BYTES = 64, LINES_APART = 5 };

static bool huge_unasked;

static void look_for_huge_pages(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	char text[64] = "";

	if (fd < 0)
		return;
	huge_unasked = read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "[always]");
	close(fd);
}

/* A huge page would be there as a whole. Only where such come unasked, as what was told so has a
 * mapping of its own, and a process has only so many. */
static void keep_pages_small(void *p, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_for_huge_pages);
	if (huge_unasked)
		madvise(p, bytes, MADV_NOHUGEPAGE);
}

/* Not each at the same place in its page: the same parts of many of them would share a few lines of
 * the first cache. */
void *pages_get(size_t bytes)
{
	static _Atomic unsigned int made;
	size_t lines = atomic_fetch_add_explicit(&made, LINES_APART, memory_order_relaxed);
	int err = errno;
	char *p = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	keep_pages_small(p, bytes + PAGE_BYTES);
	errno = err;
	return p + lines * LINE_BYTES % PAGE_BYTES;
}

void pages_put(void *memory, size_t bytes)
{
	if (memory)
		munmap((void *)((uintptr_t)memory & ~(uintptr_t)(PAGE_BYTES - 1)),
		       bytes + PAGE_BYTES);
}
