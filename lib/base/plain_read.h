/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SHIFT_BASE_PLAIN_READ_H
#define SHIFT_BASE_PLAIN_READ_H

#include <stdatomic.h>

/*
 * PLAIN_READ reads a word that another thread may write. The load is a plain one where the
 * processor does not reorder loads, because the compiler does not fold an atomic load into the
 * comparison. PLAIN_INCREMENT writes a word that another thread may read: one instruction instead
 * of three.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define PLAIN_READ(type, word) (*(const type *)(word))
#define PLAIN_INCREMENT(word)  ((void)++*(word))
#else
#define PLAIN_READ(type, word) atomic_load_explicit(word, memory_order_acquire)
#define PLAIN_INCREMENT(word)  __atomic_store_n(word, *(word) + 1, __ATOMIC_RELAXED)
#endif

#endif
