/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The dlopen beneath ours. libshift.so exports a dlopen of its own, which stands before libc's
 * (dlopen.c says why). */
#ifndef SHIFT_BASE_DLOPEN_H
#define SHIFT_BASE_DLOPEN_H

/* libc's dlopen: parameters, result and errors are the same. The caller whose RUNPATH counts is
 * this library. Any thread. */
void *real_dlopen(const char *file, int mode);

#endif
