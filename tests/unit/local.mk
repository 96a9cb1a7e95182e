# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
unit_tests = tests/unit/test_chan tests/unit/test_kv_proto
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

tests_unit_test_chan_SOURCES = tests/unit/test_chan.c testbed/chan.c testbed/chan.h
tests_unit_test_chan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_chan_LDADD = $(CMOCKA_LIBS)
# One program per part of lib/core.

CORE_TESTS = tests/unit/test_psn tests/unit/test_wrlog tests/unit/test_msg tests/unit/test_conn \
	tests/unit/test_edges tests/unit/test_progress tests/unit/test_sceptic tests/unit/test_chaos
check_PROGRAMS += $(CORE_TESTS)
TESTS += $(CORE_TESTS)

core_test_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -DSHIFT_MUTANTS -DSHIFT_COVERAGE
core_test_libs = lib/libshiftcore-mutants.la $(CMOCKA_LIBS)

tests_unit_test_psn_SOURCES = tests/unit/test_psn.c
tests_unit_test_psn_CFLAGS = $(core_test_cflags)
tests_unit_test_psn_LDADD = $(core_test_libs)

tests_unit_test_wrlog_SOURCES = tests/unit/test_wrlog.c
tests_unit_test_wrlog_CFLAGS = $(core_test_cflags)
tests_unit_test_wrlog_LDADD = $(core_test_libs)

tests_unit_test_msg_SOURCES = tests/unit/test_msg.c
tests_unit_test_msg_CFLAGS = $(core_test_cflags)
tests_unit_test_msg_LDADD = $(core_test_libs)

tests_unit_test_conn_SOURCES = tests/unit/test_conn.c tests/unit/world.c tests/unit/world.h tests/unit/fixture.h
tests_unit_test_conn_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_LDADD = $(core_test_libs)

tests_unit_test_chaos_SOURCES = tests/unit/test_chaos.c tests/unit/world.c tests/unit/world.h
tests_unit_test_chaos_CFLAGS = $(core_test_cflags)
tests_unit_test_chaos_LDADD = $(core_test_libs)

tests_unit_test_edges_SOURCES = tests/unit/test_edges.c tests/unit/world.c tests/unit/world.h tests/unit/fixture.h
tests_unit_test_edges_CFLAGS = $(core_test_cflags)
tests_unit_test_edges_LDADD = $(core_test_libs)

tests_unit_test_progress_SOURCES = tests/unit/test_progress.c tests/unit/world.c tests/unit/world.h tests/unit/fixture.h
tests_unit_test_progress_CFLAGS = $(core_test_cflags)
tests_unit_test_progress_LDADD = $(core_test_libs)

tests_unit_test_kv_proto_SOURCES = tests/unit/test_kv_proto.c
tests_unit_test_kv_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_proto_LDADD = kv/libkvclient.la $(CMOCKA_LIBS)

tests_unit_test_sceptic_SOURCES = tests/unit/test_sceptic.c tests/unit/world.c tests/unit/world.h tests/unit/fixture.h
tests_unit_test_sceptic_CFLAGS = $(core_test_cflags)
tests_unit_test_sceptic_LDADD = $(core_test_libs)

check_PROGRAMS += tests/unit/test_env
TESTS += tests/unit/test_env
tests_unit_test_env_SOURCES = tests/unit/test_env.c \
	lib/verbs/env.c lib/verbs/env.h lib/verbs/log.c lib/verbs/log.h \
	lib/verbs/rails.c lib/verbs/rails.h lib/verbs/sysfs.c
tests_unit_test_env_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_env_LDADD = $(CMOCKA_LIBS)
# The sources themselves: the rest of the library needs the layers above it.
check_PROGRAMS += tests/unit/test_bg
TESTS += tests/unit/test_bg
tests_unit_test_bg_SOURCES = tests/unit/test_bg.c lib/verbs/bg.c lib/verbs/bg.h \
	lib/verbs/bg_int.h lib/verbs/bg_timer.c lib/verbs/patience.h lib/verbs/worker.c \
	lib/verbs/worker.h
tests_unit_test_bg_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_bg_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_gate tests/unit/test_fast
TESTS += tests/unit/test_gate tests/unit/test_fast
tests_unit_test_gate_SOURCES = tests/unit/test_gate.c lib/verbs/gate.c lib/verbs/gate.h
tests_unit_test_gate_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_gate_LDADD = $(CMOCKA_LIBS)

tests_unit_test_fast_SOURCES = tests/unit/test_fast.c
tests_unit_test_fast_CFLAGS = $(core_test_cflags)
tests_unit_test_fast_LDADD = $(core_test_libs)

check_PROGRAMS += tests/unit/test_table
TESTS += tests/unit/test_table
tests_unit_test_table_SOURCES = tests/unit/test_table.c lib/verbs/table.c lib/verbs/table.h
tests_unit_test_table_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_table_LDADD = $(CMOCKA_LIBS)

# Parts of lib/verbs with the rest of the library faked.
check_PROGRAMS += tests/unit/test_scarce tests/unit/test_keys tests/unit/test_async
TESTS += tests/unit/test_scarce tests/unit/test_keys tests/unit/test_async
tests_unit_test_scarce_SOURCES = tests/unit/test_scarce.c lib/verbs/scarce.c
tests_unit_test_scarce_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_scarce_LDADD = $(CMOCKA_LIBS)

tests_unit_test_keys_SOURCES = tests/unit/test_keys.c lib/verbs/keys.c lib/verbs/told.c
tests_unit_test_keys_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_keys_LDADD = $(CMOCKA_LIBS)

tests_unit_test_async_SOURCES = tests/unit/test_async.c lib/verbs/async.c
tests_unit_test_async_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_async_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_probe
TESTS += tests/unit/test_probe
tests_unit_test_probe_SOURCES = tests/unit/test_probe.c lib/health/probe.c
tests_unit_test_probe_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_probe_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_packet_bpf
TESTS += tests/unit/test_packet_bpf
tests_unit_test_packet_bpf_SOURCES = tests/unit/test_packet_bpf.c \
	faultinject/bpf.c faultinject/bpf.h faultinject/packet_bpf.c faultinject/packet_bpf.h
tests_unit_test_packet_bpf_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_packet_bpf_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_live
TESTS += tests/unit/test_live
tests_unit_test_live_SOURCES = tests/unit/test_live.c lib/health/live_judge.c lib/health/live.h
tests_unit_test_live_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_live_LDADD = lib/libshiftcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_live_nic
TESTS += tests/unit/test_live_nic
tests_unit_test_live_nic_SOURCES = tests/unit/test_live_nic.c \
	lib/health/live.c lib/health/live.h lib/health/live_judge.c
tests_unit_test_live_nic_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_live_nic_LDADD = lib/libshiftcore.la $(CMOCKA_LIBS)
