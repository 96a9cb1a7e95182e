# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
unit_tests = tests/unit/test_chan tests/unit/test_kv_proto
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

tests_unit_test_chan_SOURCES = tests/unit/test_chan.c testbed/chan.c testbed/chan.h
tests_unit_test_chan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_chan_LDADD = $(CMOCKA_LIBS)

tests_unit_test_kv_proto_SOURCES = tests/unit/test_kv_proto.c
tests_unit_test_kv_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_proto_LDADD = kv/libkvclient.la $(CMOCKA_LIBS)
