/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Functions of libraries that are no dependency of ours. */
#ifndef SHIFT_BASE_FIND_SYMBOL_H
#define SHIFT_BASE_FIND_SYMBOL_H

/* The function beneath ours of that name and version; NULL: the library is not loaded, or too old.
 * Any thread, nothing locked. */
void *find_symbol(const char *library, const char *name, const char *version);

#endif
