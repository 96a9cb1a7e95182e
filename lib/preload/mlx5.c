/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* libshift-mlx5.so has no code. lib/base/dlopen.c says what it is for. */
