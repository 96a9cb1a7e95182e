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
	tests/unit/test_conn_proof tests/unit/test_conn_planned tests/unit/test_conn_promise tests/unit/test_conn_end \
	tests/unit/test_conn_lives tests/unit/test_invariants tests/unit/test_progress
check_PROGRAMS += $(CORE_TESTS)
TESTS += $(CORE_TESTS)

core_test_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -DSHIFT_CHECKED
core_test_libs = lib/libshiftcore-checked.la $(CMOCKA_LIBS)

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

tests_unit_test_conn_planned_SOURCES = tests/unit/test_conn_planned.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_planned_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_planned_LDADD = $(core_test_libs)

tests_unit_test_invariants_SOURCES = tests/unit/test_invariants.c $(conn_world)
tests_unit_test_invariants_CFLAGS = $(core_test_cflags)
tests_unit_test_invariants_LDADD = $(core_test_libs)

tests_unit_test_conn_promise_SOURCES = tests/unit/test_conn_promise.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_promise_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_promise_LDADD = $(core_test_libs)

tests_unit_test_conn_end_SOURCES = tests/unit/test_conn_end.c $(conn_world)
tests_unit_test_conn_end_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_end_LDADD = $(core_test_libs)

tests_unit_test_conn_lives_SOURCES = tests/unit/test_conn_lives.c $(conn_world)
tests_unit_test_conn_lives_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_lives_LDADD = $(core_test_libs)

tests_unit_test_conn_random_SOURCES = tests/unit/test_conn_random.c tests/unit/world.c tests/unit/world.h
tests_unit_test_conn_random_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_random_LDADD = $(core_test_libs)

tests_unit_test_progress_SOURCES = tests/unit/test_progress.c $(conn_world)
tests_unit_test_progress_CFLAGS = $(core_test_cflags)
tests_unit_test_progress_LDADD = $(core_test_libs)

tests_unit_test_kv_proto_SOURCES = tests/unit/test_kv_proto.c
tests_unit_test_kv_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_proto_LDADD = kv/libkvclient.la lib/libshiftbase.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_env
TESTS += tests/unit/test_env
tests_unit_test_env_SOURCES = tests/unit/test_env.c \
	lib/base/env.c lib/base/env.h lib/base/log.c lib/base/log.h \
	lib/base/rail_list.c lib/base/rail_list.h lib/base/sysfs.c
tests_unit_test_env_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_env_LDADD = $(CMOCKA_LIBS)
# The sources themselves: the rest of the library needs the layers above it.
check_PROGRAMS += tests/unit/test_bg
TESTS += tests/unit/test_bg
tests_unit_test_bg_SOURCES = tests/unit/test_bg.c lib/base/background.c lib/base/fork.c \
	lib/base/reentry.c lib/base/thread.c lib/base/timers.c lib/base/worker.c
tests_unit_test_bg_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_bg_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_gate tests/unit/test_fast
TESTS += tests/unit/test_gate tests/unit/test_fast
tests_unit_test_gate_SOURCES = tests/unit/test_gate.c lib/base/gate.c lib/base/gate.h
tests_unit_test_gate_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_gate_LDADD = $(CMOCKA_LIBS)

tests_unit_test_fast_SOURCES = tests/unit/test_fast.c
tests_unit_test_fast_CFLAGS = $(core_test_cflags)
tests_unit_test_fast_LDADD = $(core_test_libs)

check_PROGRAMS += tests/unit/test_table
TESTS += tests/unit/test_table
tests_unit_test_table_SOURCES = tests/unit/test_table.c lib/base/table.c lib/base/table.h
tests_unit_test_table_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_table_LDADD = $(CMOCKA_LIBS)

# Parts of lib/conn and lib/verbs with the rest of the library faked.
check_PROGRAMS += tests/unit/test_memlock tests/unit/test_keys tests/unit/test_async_events
TESTS += tests/unit/test_memlock tests/unit/test_keys tests/unit/test_async_events
tests_unit_test_memlock_SOURCES = tests/unit/test_memlock.c lib/conn/memlock.c lib/conn/protection.c
tests_unit_test_memlock_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_memlock_LDADD = $(CMOCKA_LIBS)

tests_unit_test_keys_SOURCES = tests/unit/test_keys.c
tests_unit_test_keys_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_keys_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=now_ns,--wrap=nanosleep,--wrap=log_at,--wrap=nic_get,--wrap=ctrl_link_send
tests_unit_test_keys_LDADD = lib/libshiftrooms.la $(ROOMS_BELOW) $(IBVERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_ctrl_link
TESTS += tests/unit/test_ctrl_link
tests_unit_test_ctrl_link_SOURCES = tests/unit/test_ctrl_link.c lib/base/fork.c lib/base/reentry.c
tests_unit_test_ctrl_link_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_ctrl_link_LDADD = lib/libshiftnic.la lib/libshiftcore.la $(IBVERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_reset
TESTS += tests/unit/test_reset
tests_unit_test_reset_SOURCES = tests/unit/test_reset.c
tests_unit_test_reset_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_reset_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ctrl_link_send,--wrap=bg_timer_set,--wrap=shift_conn_event,--wrap=stats_path,--wrap=control_open
tests_unit_test_reset_LDADD = lib/libshiftrooms.la $(ROOMS_BELOW) $(IBVERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_fence
TESTS += tests/unit/test_fence
tests_unit_test_fence_SOURCES = tests/unit/test_fence.c lib/conn/fence_qp.c
tests_unit_test_fence_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_fence_LDADD = $(CMOCKA_LIBS)

tests_unit_test_async_events_SOURCES = tests/unit/test_async_events.c lib/verbs/async_events.c
tests_unit_test_async_events_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_async_events_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_probe
TESTS += tests/unit/test_probe
tests_unit_test_probe_SOURCES = tests/unit/test_probe.c lib/nic/probe.c
tests_unit_test_probe_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_probe_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_packet_bpf
TESTS += tests/unit/test_packet_bpf
tests_unit_test_packet_bpf_SOURCES = tests/unit/test_packet_bpf.c \
	faultinject/bpf.c faultinject/bpf.h faultinject/packet_bpf.c faultinject/packet_bpf.h
tests_unit_test_packet_bpf_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_packet_bpf_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rq_psn_judge
TESTS += tests/unit/test_rq_psn_judge
tests_unit_test_rq_psn_judge_SOURCES = tests/unit/test_rq_psn_judge.c lib/nic/rq_psn_judge.c lib/nic/rq_psn.h
tests_unit_test_rq_psn_judge_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_rq_psn_judge_LDADD = lib/libshiftcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rq_psn
TESTS += tests/unit/test_rq_psn
tests_unit_test_rq_psn_SOURCES = tests/unit/test_rq_psn.c \
	lib/nic/rq_psn.c lib/nic/rq_psn.h lib/nic/rq_psn_judge.c
tests_unit_test_rq_psn_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_rq_psn_LDADD = lib/libshiftcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_run_dir
TESTS += tests/unit/test_run_dir
tests_unit_test_run_dir_SOURCES = tests/unit/test_run_dir.c
tests_unit_test_run_dir_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_run_dir_LDADD = kv/libkvclient.la lib/libshiftbase.la $(CMOCKA_LIBS)
