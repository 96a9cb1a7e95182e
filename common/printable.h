/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Text that another process, another user, etcd or a file gave us, on its way to a terminal, a log
 * or --json. A terminal obeys control characters: it would change its title, hide what stands
 * above, or type an answer. Some terminals obey the bytes 0x80 to 0x9f too, and in UTF-8 these look
 * like parts of letters. So only printable ASCII goes out as it is.
 *
 * libc only, no state, for any thread. shown() of common/cli.h is this for printf().
 */
#ifndef SHIFT_COMMON_PRINTABLE_H
#define SHIFT_COMMON_PRINTABLE_H

#include <stddef.h>

/*
 * Copies s, with \xNN in place of every byte outside 0x20..0x7e, and a NUL behind it. What does not
 * fit in `size` is cut off, but never amid a \xNN. A text that is printable stays as it is. Returns
 * buf; size is at least 1.
 */
const char *printable(char *buf, size_t size, const char *s);

/*
 * The same JSON in printable ASCII, but for the newlines and tabs between its values: a character
 * outside becomes \uNNNN, and bytes that are no UTF-8 become \ufffd. Bytes like that occur in
 * strings only, so a reader gets the same values. To be freed; NULL: no memory, or json is NULL.
 */
char *printable_json(const char *json);

#endif
