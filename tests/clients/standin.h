/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef TESTS_CLIENTS_STANDIN_H
#define TESTS_CLIENTS_STANDIN_H

/* Before anything of lib/verbs: the real verbs are plainly libibverbs', and logs go to stderr. */
void standin_init(void);

#endif
