# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs for tests/preload.bats.
check_PROGRAMS += tests/preload/lookup tests/preload/compat
tests_preload_lookup_SOURCES = tests/preload/lookup.c
tests_preload_lookup_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)

tests_preload_compat_SOURCES = tests/preload/compat.c
tests_preload_compat_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_compat_LDADD = $(IBVERBS_LIBS)
