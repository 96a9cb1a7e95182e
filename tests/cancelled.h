/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Threads that are cancelled. AddressSanitizer does not notice that such a thread leaves its
 * frames: what it has marked around their variables stays, and is in its own way when the thread
 * ends. To be called by pthread_cleanup_push() in the thread's first function.
 */
#ifndef SHIFT_TESTS_CANCELLED_H
#define SHIFT_TESTS_CANCELLED_H

#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);
#endif

enum { CANCELLED_FRAMES_BYTES = 1 << 16 };

static inline void cancelled_frames_are_gone(void *arg)
{
	(void)arg;
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region((char *)__builtin_frame_address(0) - CANCELLED_FRAMES_BYTES,
				      CANCELLED_FRAMES_BYTES);
#endif
}

#endif
