/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* SipHash-2-4, written from the description of Aumasson and Bernstein (2012). Pure. */
#ifndef SHIFT_CORE_SIPHASH_H
#define SHIFT_CORE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* 64-bit tag of len bytes under a 128-bit key (two words, little endian as in the paper). */
uint64_t shift_siphash(const uint64_t key[2], const void *data, size_t len);

/*
 * H24 of doc/protocol.md, rule 7: the PSN at which epoch e of a connection starts in one direction.
 * Both peers compute the same from the job's key, the connection's number, the epoch and
 * the side (0 or 1) that sends. 24 bits.
 */
uint32_t shift_h24(const uint64_t key[2], uint64_t conn, uint32_t epoch, unsigned int side);

#endif
