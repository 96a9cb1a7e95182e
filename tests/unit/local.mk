# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
unit_tests = tests/unit/test_chan
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

tests_unit_test_chan_SOURCES = tests/unit/test_chan.c testbed/chan.c testbed/chan.h
tests_unit_test_chan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_chan_LDADD = $(CMOCKA_LIBS)
