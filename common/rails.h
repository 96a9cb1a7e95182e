/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * --rails of shift-run and shift-diag: which NICs of this host are whose backups. words: auto, or
 * a list like mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0; NULL: auto. One thread.
 */
#ifndef SHIFT_COMMON_RAILS_H
#define SHIFT_COMMON_RAILS_H

/* NULL: words are well-formed; else the reason, as of format_text(). Not for NULL. */
char *rails_refusal(const char *words);

/* The first device in a well-formed list that does not exist here; NULL: all do. Valid until the
 * next call. */
const char *rails_missing(const char *words);

/* Calls back for each device, with its backups ("mlx5_1+mlx5_2", or ""). */
void rails_each(const char *words, void (*fn)(void *arg, const char *device, const char *backups),
		void *arg);

#endif
