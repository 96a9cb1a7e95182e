/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SHIFT_BASE_DLOPEN_H
#define SHIFT_BASE_DLOPEN_H

/* libc's dlopen, as ours stands before it (dlopen.c). The caller whose RUNPATH counts is this
 * library. Any thread. */
void *real_dlopen(const char *file, int mode);

#endif
