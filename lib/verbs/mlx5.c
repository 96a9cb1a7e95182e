// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* libshift-mlx5.so has no code: lib/verbs/dlopen.c says what it is for. */
