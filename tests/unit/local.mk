# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
unit_tests = tests/unit/test_chan tests/unit/test_kv_proto
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

tests_unit_test_chan_SOURCES = tests/unit/test_chan.c testbed/chan.c testbed/chan.h
tests_unit_test_chan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_chan_LDADD = $(CMOCKA_LIBS)
# One program per part of lib/core.

CORE_TESTS = tests/unit/test_conn_random tests/unit/test_psn tests/unit/test_wrlog tests/unit/test_msg \
	tests/unit/test_conn_setup tests/unit/test_conn_trigger tests/unit/test_conn_handshake \
	tests/unit/test_conn_proof tests/unit/test_conn_planned tests/unit/test_conn_end tests/unit/test_progress
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

# A connection and its peer, in a model small enough to try each rule by hand.
conn_world = tests/unit/world.c tests/unit/world.h tests/unit/fixture.h
tests_unit_test_conn_setup_SOURCES = tests/unit/test_conn_setup.c $(conn_world)
tests_unit_test_conn_setup_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_setup_LDADD = $(core_test_libs)

tests_unit_test_conn_trigger_SOURCES = tests/unit/test_conn_trigger.c $(conn_world)
tests_unit_test_conn_trigger_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_trigger_LDADD = $(core_test_libs)

tests_unit_test_conn_handshake_SOURCES = tests/unit/test_conn_handshake.c $(conn_world)
tests_unit_test_conn_handshake_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_handshake_LDADD = $(core_test_libs)

tests_unit_test_conn_proof_SOURCES = tests/unit/test_conn_proof.c $(conn_world)
tests_unit_test_conn_proof_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_proof_LDADD = $(core_test_libs)

tests_unit_test_conn_planned_SOURCES = tests/unit/test_conn_planned.c $(conn_world)
tests_unit_test_conn_planned_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_planned_LDADD = $(core_test_libs)

tests_unit_test_conn_end_SOURCES = tests/unit/test_conn_end.c $(conn_world)
tests_unit_test_conn_end_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_end_LDADD = $(core_test_libs)

tests_unit_test_conn_random_SOURCES = tests/unit/test_conn_random.c tests/unit/world.c tests/unit/world.h
tests_unit_test_conn_random_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_random_LDADD = $(core_test_libs)

tests_unit_test_progress_SOURCES = tests/unit/test_progress.c $(conn_world)
tests_unit_test_progress_CFLAGS = $(core_test_cflags)
tests_unit_test_progress_LDADD = $(core_test_libs)

tests_unit_test_kv_proto_SOURCES = tests/unit/test_kv_proto.c
tests_unit_test_kv_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_proto_LDADD = kv/libkvclient.la $(CMOCKA_LIBS)

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

check_PROGRAMS += tests/unit/test_program
TESTS += tests/unit/test_program
tests_unit_test_program_SOURCES = tests/unit/test_program.c \
	faultinject/bpf.c faultinject/bpf.h faultinject/program.c faultinject/program.h
tests_unit_test_program_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_program_LDADD = $(CMOCKA_LIBS)

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
