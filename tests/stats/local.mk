# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# lib/stats, the control socket, shift-ctl.
noinst_PROGRAMS += tests/stats/stats_live
tests_stats_stats_live_SOURCES = tests/stats/stats_live.c \
	tests/unit/fake_bg.c tests/unit/fake_bg.h lib/base/control_socket.c lib/base/control_socket.h
tests_stats_stats_live_LDADD = lib/libshiftstats.la kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la

STATS_TESTS = tests/unit/test_stats tests/unit/test_stats_read tests/unit/test_stats_srq tests/unit/test_stats_notes tests/unit/test_control_socket tests/unit/test_report \
	tests/unit/test_places
check_PROGRAMS += $(STATS_TESTS)
TESTS += $(STATS_TESTS)

world = tests/unit/stats_world.c tests/unit/stats_world.h
tests_unit_test_stats_SOURCES = tests/unit/test_stats.c $(world)
tests_unit_test_stats_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_stats_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_stats_read_SOURCES = tests/unit/test_stats_read.c $(world)
tests_unit_test_stats_read_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_stats_read_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_stats_srq_SOURCES = tests/unit/test_stats_srq.c $(world)
tests_unit_test_stats_srq_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_unit_test_stats_srq_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pread
tests_unit_test_stats_srq_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_stats_notes_SOURCES = tests/unit/test_stats_notes.c $(world)
tests_unit_test_stats_notes_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(CJSON_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_stats_notes_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_places_SOURCES = tests/unit/test_places.c
tests_unit_test_places_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_places_LDADD = $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_report_SOURCES = tests/unit/test_report.c $(world)
tests_unit_test_report_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_unit_test_report_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_control_socket_SOURCES = tests/unit/test_control_socket.c \
	tests/unit/fake_bg.c tests/unit/fake_bg.h lib/base/control_socket.c lib/base/control_socket.h
tests_unit_test_control_socket_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_control_socket_LDADD = $(CMOCKA_LIBS)
