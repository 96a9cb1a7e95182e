/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by bg.c, bg_timer.c and worker.c only. */
#ifndef SHIFT_VERBS_BG_INT_H
#define SHIFT_VERBS_BG_INT_H

#include <pthread.h>
#include <stdint.h>

/* A detached thread of ours: no signals, small stack. 0 or negative errno. Any thread. */
int bg_thread(pthread_t *thread, void *(*fn)(void *), void *arg);
/* What it does first: its name (15 bytes), its CPUs, and hooks_off. */
void bg_thread_begins(const char *name);

/* The timers' heap: background thread, or before it runs. */
int bg_heap_reserve(uint32_t count); /* 0 or -ENOMEM */
uint64_t bg_heap_next_ns(void);	     /* UINT64_MAX: none */
void bg_heap_run(uint64_t now);	     /* all that are due */

#endif
