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
	tests/unit/test_conn_atomics \
	tests/unit/test_invariants tests/unit/test_progress tests/unit/test_rails tests/unit/test_conn_fence \
	tests/unit/test_no_progress tests/unit/test_completions tests/unit/test_conn_switch \
	tests/unit/test_conn_timers tests/unit/test_conn_replay tests/unit/test_log_reuse \
	tests/unit/test_conn_failback tests/unit/test_conn_quiet tests/unit/test_log_rules tests/unit/test_log_room tests/unit/test_posting tests/unit/test_conn_lives \
	tests/unit/test_srq tests/unit/test_srq_share tests/unit/test_srq_missing tests/unit/test_srq_schedules
check_PROGRAMS += $(CORE_TESTS)
TESTS += $(CORE_TESTS)

core_test_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -DSHIFT_CHECKED
core_test_libs = lib/libshiftcore-checked.la $(CMOCKA_LIBS)

tests_unit_test_psn_SOURCES = tests/unit/test_psn.c
tests_unit_test_psn_CFLAGS = $(core_test_cflags)
tests_unit_test_psn_LDADD = $(core_test_libs)

tests_unit_test_srq_SOURCES = tests/unit/test_srq.c tests/unit/srq_books.h
tests_unit_test_srq_CFLAGS = $(core_test_cflags)
tests_unit_test_srq_LDADD = $(core_test_libs)

tests_unit_test_srq_share_SOURCES = tests/unit/test_srq_share.c tests/unit/srq_books.h
tests_unit_test_srq_share_CFLAGS = $(core_test_cflags)
tests_unit_test_srq_share_LDADD = $(core_test_libs)

tests_unit_test_srq_missing_SOURCES = tests/unit/test_srq_missing.c tests/unit/srq_books.h
tests_unit_test_srq_missing_CFLAGS = $(core_test_cflags)
tests_unit_test_srq_missing_LDADD = $(core_test_libs)

tests_unit_test_srq_schedules_SOURCES = tests/unit/test_srq_schedules.c
tests_unit_test_srq_schedules_CFLAGS = $(core_test_cflags)
tests_unit_test_srq_schedules_LDADD = $(core_test_libs)

tests_unit_test_wrlog_SOURCES = tests/unit/test_wrlog.c
tests_unit_test_wrlog_CFLAGS = $(core_test_cflags)
tests_unit_test_wrlog_LDADD = $(core_test_libs)

tests_unit_test_log_room_SOURCES = tests/unit/test_log_room.c
tests_unit_test_log_room_CFLAGS = $(core_test_cflags)
tests_unit_test_log_room_LDADD = $(core_test_libs)

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

tests_unit_test_conn_atomics_SOURCES = tests/unit/test_conn_atomics.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_atomics_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_atomics_LDADD = $(core_test_libs)

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

tests_unit_test_rails_SOURCES = tests/unit/test_rails.c $(conn_world)
tests_unit_test_rails_CFLAGS = $(core_test_cflags)
tests_unit_test_rails_LDADD = $(core_test_libs)

tests_unit_test_conn_fence_SOURCES = tests/unit/test_conn_fence.c $(conn_world)
tests_unit_test_conn_fence_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_fence_LDADD = $(core_test_libs)

tests_unit_test_no_progress_SOURCES = tests/unit/test_no_progress.c $(conn_world)
tests_unit_test_no_progress_CFLAGS = $(core_test_cflags)
tests_unit_test_no_progress_LDADD = $(core_test_libs)

tests_unit_test_completions_SOURCES = tests/unit/test_completions.c $(conn_world)
tests_unit_test_completions_CFLAGS = $(core_test_cflags)
tests_unit_test_completions_LDADD = $(core_test_libs)

tests_unit_test_conn_switch_SOURCES = tests/unit/test_conn_switch.c $(conn_world)
tests_unit_test_conn_switch_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_switch_LDADD = $(core_test_libs)

tests_unit_test_conn_timers_SOURCES = tests/unit/test_conn_timers.c $(conn_world)
tests_unit_test_conn_timers_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_timers_LDADD = $(core_test_libs)

tests_unit_test_conn_replay_SOURCES = tests/unit/test_conn_replay.c $(conn_world)
tests_unit_test_conn_replay_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_replay_LDADD = $(core_test_libs)

tests_unit_test_log_reuse_SOURCES = tests/unit/test_log_reuse.c
tests_unit_test_log_reuse_CFLAGS = $(core_test_cflags)
tests_unit_test_log_reuse_LDADD = $(core_test_libs)

tests_unit_test_conn_quiet_SOURCES = tests/unit/test_conn_quiet.c $(conn_world)
tests_unit_test_conn_quiet_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_quiet_LDADD = $(core_test_libs)

tests_unit_test_conn_failback_SOURCES = tests/unit/test_conn_failback.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_failback_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_failback_LDADD = $(core_test_libs)

tests_unit_test_log_rules_SOURCES = tests/unit/test_log_rules.c
tests_unit_test_log_rules_CFLAGS = $(core_test_cflags)
tests_unit_test_log_rules_LDADD = $(core_test_libs)

tests_unit_test_posting_SOURCES = tests/unit/test_posting.c tests/unit/planned.h $(conn_world)
tests_unit_test_posting_CFLAGS = $(core_test_cflags)
tests_unit_test_posting_LDADD = $(core_test_libs)

# What each file of lib/core promises, with its bounds.
CORE_BOUND_TESTS = tests/unit/test_conn_config tests/unit/test_conn_hello tests/unit/test_conn_answers \
	tests/unit/test_conn_times tests/unit/test_conn_view tests/unit/test_conn_last tests/unit/test_conn_left tests/unit/test_msg_fields \
	tests/unit/test_conn_actions tests/unit/test_siphash
check_PROGRAMS += $(CORE_BOUND_TESTS)
TESTS += $(CORE_BOUND_TESTS)

tests_unit_test_conn_config_SOURCES = tests/unit/test_conn_config.c $(conn_world)
tests_unit_test_conn_config_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_config_LDADD = $(core_test_libs)

tests_unit_test_conn_hello_SOURCES = tests/unit/test_conn_hello.c $(conn_world)
tests_unit_test_conn_hello_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_hello_LDADD = $(core_test_libs)

tests_unit_test_conn_answers_SOURCES = tests/unit/test_conn_answers.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_answers_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_answers_LDADD = $(core_test_libs)

tests_unit_test_conn_times_SOURCES = tests/unit/test_conn_times.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_times_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_times_LDADD = $(core_test_libs)

tests_unit_test_conn_view_SOURCES = tests/unit/test_conn_view.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_view_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_view_LDADD = $(core_test_libs)

tests_unit_test_conn_left_SOURCES = tests/unit/test_conn_left.c $(conn_world)
tests_unit_test_conn_left_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_left_LDADD = $(core_test_libs)
tests_unit_test_conn_last_SOURCES = tests/unit/test_conn_last.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_last_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_last_LDADD = $(core_test_libs)

tests_unit_test_conn_actions_SOURCES = tests/unit/test_conn_actions.c tests/unit/planned.h $(conn_world)
tests_unit_test_conn_actions_CFLAGS = $(core_test_cflags)
tests_unit_test_conn_actions_LDADD = $(core_test_libs)

tests_unit_test_msg_fields_SOURCES = tests/unit/test_msg_fields.c
tests_unit_test_msg_fields_CFLAGS = $(core_test_cflags)
tests_unit_test_msg_fields_LDADD = $(core_test_libs)

tests_unit_test_siphash_SOURCES = tests/unit/test_siphash.c
tests_unit_test_siphash_CFLAGS = $(core_test_cflags)
tests_unit_test_siphash_LDADD = $(core_test_libs)

tests_unit_test_kv_proto_SOURCES = tests/unit/test_kv_proto.c
tests_unit_test_kv_proto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_proto_LDADD = kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_env
TESTS += tests/unit/test_env
tests_unit_test_env_SOURCES = tests/unit/test_env.c \
	lib/base/env.c lib/base/env.h lib/base/log.c lib/base/log.h common/printable.c \
	lib/base/rail_list.c lib/base/rail_list.h lib/base/sysfs.c
tests_unit_test_env_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_env_LDADD = $(CMOCKA_LIBS)
# The sources themselves: the rest of the library needs the layers above it.
check_PROGRAMS += tests/unit/test_bg
TESTS += tests/unit/test_bg
tests_unit_test_bg_SOURCES = tests/unit/test_bg.c lib/base/background.c lib/base/background_wait.c lib/base/fork.c \
	lib/base/reentry.c lib/base/thread.c lib/base/timers.c lib/base/worker.c
tests_unit_test_bg_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_bg_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_short_lock
TESTS += tests/unit/test_short_lock
tests_unit_test_short_lock_SOURCES = tests/unit/test_short_lock.c lib/base/short_lock.c lib/base/short_lock.h
tests_unit_test_short_lock_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_short_lock_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_vsrq tests/unit/test_srq_drainer tests/unit/test_passed_cq
TESTS += tests/unit/test_vsrq tests/unit/test_srq_drainer tests/unit/test_passed_cq
tests_unit_test_passed_cq_SOURCES = tests/unit/test_passed_cq.c lib/object/passed_cq.c lib/base/table.c
tests_unit_test_passed_cq_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_passed_cq_LDADD = $(CMOCKA_LIBS)
tests_unit_test_srq_drainer_SOURCES = tests/unit/test_srq_drainer.c lib/object/srq_drainer.c \
	lib/nic/rc_qp.c
tests_unit_test_srq_drainer_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_srq_drainer_LDADD = $(IBVERBS_LIBS) $(CMOCKA_LIBS)
tests_unit_test_vsrq_SOURCES = tests/unit/test_vsrq.c lib/object/vsrq.c lib/object/srq_limit.c lib/object/made_events.c lib/base/short_lock.c lib/base/table.c \
	lib/base/gate.c lib/base/assoc.c
tests_unit_test_vsrq_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS) -DSHIFT_CHECKED
tests_unit_test_vsrq_LDADD = $(core_test_libs)

check_PROGRAMS += tests/unit/test_assoc tests/unit/test_gate tests/unit/test_fast
TESTS += tests/unit/test_assoc tests/unit/test_gate tests/unit/test_fast
tests_unit_test_assoc_SOURCES = tests/unit/test_assoc.c lib/base/assoc.c lib/base/assoc.h \
	lib/base/plain_read.h
tests_unit_test_gate_SOURCES = tests/unit/test_gate.c lib/base/gate.c lib/base/gate.h \
	lib/base/assoc.c lib/base/assoc.h lib/base/plain_read.h
tests_unit_test_assoc_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_assoc_LDFLAGS = $(AM_LDFLAGS) $(wrap)aligned_alloc
tests_unit_test_assoc_LDADD = $(CMOCKA_LIBS)
tests_unit_test_gate_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS)
tests_unit_test_gate_LDFLAGS = $(AM_LDFLAGS) $(wrap)aligned_alloc
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
check_PROGRAMS += tests/unit/test_memlock tests/unit/test_keys tests/unit/test_async_events tests/unit/test_rdmacm
TESTS += tests/unit/test_memlock tests/unit/test_keys tests/unit/test_async_events tests/unit/test_rdmacm
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

tests_unit_test_async_events_SOURCES = tests/unit/test_async_events.c lib/verbs/async_events.c lib/object/made_events.c \
	lib/base/short_lock.c
tests_unit_test_async_events_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_async_events_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_event_waker
TESTS += tests/unit/test_event_waker
tests_unit_test_event_waker_SOURCES = tests/unit/test_event_waker.c lib/object/event_waker.c lib/object/made_events.c \
	lib/base/short_lock.c lib/nic/rc_qp.c
tests_unit_test_event_waker_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_event_waker_LDADD = $(IBVERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_cm_ids tests/unit/test_cm_threads tests/unit/test_cm_races
TESTS += tests/unit/test_cm_ids tests/unit/test_cm_threads tests/unit/test_cm_races
cm_world = tests/unit/cm_world.c tests/unit/cm_world.h lib/verbs/cm_ids.c lib/verbs/cm_reading.c lib/base/table.c
cm_wraps = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock
tests_unit_test_cm_ids_SOURCES = tests/unit/test_cm_ids.c $(cm_world)
tests_unit_test_cm_ids_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_cm_ids_LDFLAGS = $(cm_wraps)
tests_unit_test_cm_ids_LDADD = $(CMOCKA_LIBS)

tests_unit_test_cm_threads_SOURCES = tests/unit/test_cm_threads.c $(cm_world)
tests_unit_test_cm_threads_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_cm_threads_LDFLAGS = $(cm_wraps)
tests_unit_test_cm_threads_LDADD = $(CMOCKA_LIBS)

tests_unit_test_cm_races_SOURCES = tests/unit/test_cm_races.c $(cm_world)
tests_unit_test_cm_races_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_cm_races_LDFLAGS = $(cm_wraps)
tests_unit_test_cm_races_LDADD = $(CMOCKA_LIBS)

tests_unit_test_rdmacm_SOURCES = tests/unit/test_rdmacm.c lib/preload/rdmacm.c
tests_unit_test_rdmacm_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_rdmacm_LDADD = $(CMOCKA_LIBS)

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

check_PROGRAMS += tests/unit/test_own_address
TESTS += tests/unit/test_own_address
tests_unit_test_own_address_SOURCES = tests/unit/test_own_address.c lib/session/own_address.c
tests_unit_test_own_address_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_own_address_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_nic_gid
TESTS += tests/unit/test_nic_gid
tests_unit_test_nic_gid_SOURCES = tests/unit/test_nic_gid.c lib/nic/nic_gid.c
tests_unit_test_nic_gid_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_nic_gid_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_nic_watch
TESTS += tests/unit/test_nic_watch
tests_unit_test_nic_watch_SOURCES = tests/unit/test_nic_watch.c lib/nic/nic.c lib/nic/nic_watch.c
tests_unit_test_nic_watch_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_nic_watch_LDADD = $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rq_psn_judge
TESTS += tests/unit/test_rq_psn_judge
tests_unit_test_rq_psn_judge_SOURCES = tests/unit/test_rq_psn_judge.c lib/nic/rq_psn_judge.c lib/nic/rq_psn.h
tests_unit_test_rq_psn_judge_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_rq_psn_judge_LDADD = lib/libshiftcore.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rq_psn
TESTS += tests/unit/test_rq_psn
tests_unit_test_rq_psn_SOURCES = tests/unit/test_rq_psn.c \
	lib/nic/rc_qp.c lib/nic/rc_qp.h lib/nic/rq_psn.c lib/nic/rq_psn.h lib/nic/rq_psn_judge.c
tests_unit_test_rq_psn_CFLAGS = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
tests_unit_test_rq_psn_LDADD = lib/libshiftcore.la $(IBVERBS_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_run_dir
TESTS += tests/unit/test_run_dir
tests_unit_test_run_dir_SOURCES = tests/unit/test_run_dir.c
tests_unit_test_run_dir_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_run_dir_LDADD = kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la $(CMOCKA_LIBS)

# The rooms above lib/core in a world that the test scripts, lib/core included (tests/unit/rooms.h).
ROOMS_TESTS = tests/unit/test_rooms_qp tests/unit/test_rooms_destroy tests/unit/test_rooms_meeting tests/unit/test_rooms_lives \
	tests/unit/test_rooms_atomics tests/unit/test_twin_address tests/unit/test_rooms_messages \
	tests/unit/test_rooms_arm tests/unit/test_rooms_rails tests/unit/test_rooms_post tests/unit/test_rooms_batch \
	tests/unit/test_rooms_recv tests/unit/test_rooms_rails_ready \
	tests/unit/test_rooms_poll tests/unit/test_channel \
	tests/unit/test_rooms_fence tests/unit/test_deaths tests/unit/test_bye tests/unit/test_disconnects tests/unit/test_directory \
	tests/unit/test_peer_paths tests/unit/test_two_ends tests/unit/test_self_qp \
	tests/unit/test_self_qp_end tests/unit/test_spare_rails tests/unit/test_rooms_hang tests/unit/test_rooms_srq
check_PROGRAMS += $(ROOMS_TESTS)
TESTS += $(ROOMS_TESTS)
rooms_world = tests/unit/rooms.c tests/unit/rooms.h tests/unit/scripted_core.c
rooms_cflags = $(AM_CFLAGS) -pthread $(CMOCKA_CFLAGS) $(IBVERBS_CFLAGS)
rooms_libs = lib/libshiftrooms.la $(ROOMS_BELOW) $(IBVERBS_LIBS) $(CMOCKA_LIBS)
wrap = -Wl,--wrap=
rooms_wraps = $(world_wraps) $(core_wraps)
world_wraps = $(wrap)now_ns $(wrap)bg_awake_ns $(wrap)bg_is_self $(wrap)bg_call $(wrap)bg_timer_set \
	$(wrap)nanosleep $(wrap)pthread_cond_wait $(wrap)pthread_cond_timedwait \
	$(wrap)pthread_cond_broadcast $(wrap)gate_sync $(wrap)vcq_take $(wrap)log_at \
	$(wrap)worker_submit $(wrap)worker_submit_first $(wrap)worker_cancel $(wrap)worker_busy_since_ns $(wrap)ctrl_link_send \
	$(wrap)ctrl_link_flush_unless_bg $(wrap)vdev_find $(wrap)vpd_find $(wrap)vcq_find \
	$(wrap)vmr_lkey $(wrap)peer_keys_get $(wrap)peer_keys_reset $(wrap)exported_keys_reset \
	$(wrap)rq_psn_look $(wrap)rq_psn_query $(wrap)stats_conn_protect $(wrap)stats_bypass \
	$(wrap)stats_conn_add $(wrap)stats_conn_reposted $(wrap)peer_keys_deadline \
	$(wrap)nic_gid_at $(wrap)nic_gid_find $(wrap)nic_gid_is_lost
core_wraps = \
	$(wrap)shift_conn_init $(wrap)shift_conn_start $(wrap)shift_conn_meet $(wrap)shift_conn_past \
	$(wrap)shift_conn_event $(wrap)shift_conn_action $(wrap)shift_conn_completion \
	$(wrap)shift_conn_cqe $(wrap)shift_conn_post_send $(wrap)shift_conn_post_recv \
	$(wrap)shift_conn_unpost_send $(wrap)shift_conn_unpost_recv $(wrap)shift_conn_repost \
	$(wrap)shift_conn_recv_at $(wrap)shift_conn_release $(wrap)shift_conn_release_due \
	$(wrap)shift_conn_atomic_releases $(wrap)shift_conn_fast \
	$(wrap)shift_conn_secret_due $(wrap)shift_conn_head $(wrap)shift_conn_view \
	$(wrap)shift_conn_state $(wrap)shift_conn_rail $(wrap)shift_conn_protected $(wrap)shift_conn_matched \
	$(wrap)shift_conn_stats $(wrap)shift_conn_lazy_deadline $(wrap)shift_conn_idle \
	$(wrap)shift_conn_activity $(wrap)shift_conn_dump \
	$(wrap)shift_conn_tombstone $(wrap)shift_fast_post_other $(wrap)shift_fast_post_list \
	$(wrap)shift_fast_fold

tests_unit_test_rooms_qp_SOURCES = tests/unit/test_rooms_qp.c $(rooms_world)
tests_unit_test_rooms_qp_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_qp_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_qp_LDADD = $(rooms_libs)

tests_unit_test_rooms_destroy_SOURCES = tests/unit/test_rooms_destroy.c $(rooms_world)
tests_unit_test_rooms_destroy_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_destroy_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps) $(wrap)cq_events_doubt
tests_unit_test_rooms_destroy_LDADD = $(rooms_libs)

tests_unit_test_rooms_rails_SOURCES = tests/unit/test_rooms_rails.c $(rooms_world)
tests_unit_test_rooms_rails_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_rails_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_rails_LDADD = $(rooms_libs)

tests_unit_test_rooms_srq_SOURCES = tests/unit/test_rooms_srq.c $(rooms_world)
tests_unit_test_rooms_srq_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_srq_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_srq_LDADD = $(rooms_libs)

tests_unit_test_rooms_poll_SOURCES = tests/unit/test_rooms_poll.c $(rooms_world)
tests_unit_test_rooms_poll_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_poll_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps) $(wrap)stats_conn_met_failure \
	$(wrap)vqp_any_switching
tests_unit_test_rooms_poll_LDADD = $(rooms_libs)

tests_unit_test_channel_SOURCES = tests/unit/test_channel.c tests/unit/channel_world.h tests/cancelled.h $(rooms_world)
tests_unit_test_channel_CFLAGS = $(rooms_cflags)
tests_unit_test_channel_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_channel_LDADD = $(rooms_libs)

tests_unit_test_rooms_batch_SOURCES = tests/unit/test_rooms_batch.c $(rooms_world)
tests_unit_test_rooms_batch_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_batch_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_batch_LDADD = $(rooms_libs)
tests_unit_test_rooms_post_SOURCES = tests/unit/test_rooms_post.c $(rooms_world)
tests_unit_test_rooms_post_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_post_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_post_LDADD = $(rooms_libs)
tests_unit_test_rooms_recv_SOURCES = tests/unit/test_rooms_recv.c $(rooms_world)
tests_unit_test_rooms_recv_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_recv_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_recv_LDADD = $(rooms_libs)

tests_unit_test_rooms_arm_SOURCES = tests/unit/test_rooms_arm.c $(rooms_world)
tests_unit_test_rooms_arm_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_arm_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_arm_LDADD = $(rooms_libs)

tests_unit_test_rooms_fence_SOURCES = tests/unit/test_rooms_fence.c $(rooms_world)
tests_unit_test_rooms_fence_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_fence_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps) -Wl,--wrap=vcq_deliver
tests_unit_test_rooms_fence_LDADD = $(rooms_libs)

tests_unit_test_rooms_hang_SOURCES = tests/unit/test_rooms_hang.c $(rooms_world)
tests_unit_test_rooms_hang_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_hang_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps)
tests_unit_test_rooms_hang_LDADD = $(rooms_libs)

# With the real lib/core.
self_world = tests/unit/self_world.h $(rooms_world)
self_wraps = $(world_wraps) $(wrap)vmr_rkey $(wrap)nic_gid_for_twin $(wrap)stats_conn_met_failure
tests_unit_test_self_qp_SOURCES = tests/unit/test_self_qp.c $(self_world)
tests_unit_test_self_qp_CFLAGS = $(rooms_cflags)
tests_unit_test_self_qp_LDFLAGS = $(AM_LDFLAGS) $(self_wraps)
tests_unit_test_self_qp_LDADD = $(rooms_libs)

tests_unit_test_self_qp_end_SOURCES = tests/unit/test_self_qp_end.c $(self_world)
tests_unit_test_self_qp_end_CFLAGS = $(rooms_cflags)
tests_unit_test_self_qp_end_LDFLAGS = $(AM_LDFLAGS) $(self_wraps)
tests_unit_test_self_qp_end_LDADD = $(rooms_libs)

# Those that have a peer to find.
meeting_world = tests/unit/meeting_world.c tests/unit/meeting_world.h $(rooms_world)
meeting_wraps = $(rooms_wraps) $(wrap)job_client $(wrap)job_nonce $(wrap)job_key_if_known \
	$(wrap)job_is_full $(wrap)job_has_room $(wrap)kv_client_put $(wrap)kv_client_watch \
	$(wrap)kv_client_unwatch $(wrap)ctrl_link_address $(wrap)ctrl_link_peer_new \
	$(wrap)ctrl_link_peer_free $(wrap)ctrl_link_peer_move $(wrap)contact_send $(wrap)nic_gid_for_twin $(wrap)path_health_answers \
	$(wrap)path_health_keep_for_peer $(wrap)vqp_enter $(wrap)stats_conn_psn $(wrap)stats_conn_peer

tests_unit_test_rooms_atomics_SOURCES = tests/unit/test_rooms_atomics.c $(meeting_world)
tests_unit_test_rooms_atomics_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_atomics_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_rooms_atomics_LDADD = $(rooms_libs)

tests_unit_test_twin_address_SOURCES = tests/unit/test_twin_address.c $(meeting_world)
tests_unit_test_twin_address_CFLAGS = $(rooms_cflags)
tests_unit_test_twin_address_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_twin_address_LDADD = $(rooms_libs)
tests_unit_test_rooms_meeting_SOURCES = tests/unit/test_rooms_meeting.c $(meeting_world)
tests_unit_test_rooms_meeting_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_meeting_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_rooms_meeting_LDADD = $(rooms_libs)
tests_unit_test_rooms_rails_ready_SOURCES = tests/unit/test_rooms_rails_ready.c $(meeting_world)
tests_unit_test_rooms_rails_ready_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_rails_ready_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_rooms_rails_ready_LDADD = $(rooms_libs)

tests_unit_test_rooms_lives_SOURCES = tests/unit/test_rooms_lives.c $(meeting_world)
tests_unit_test_rooms_lives_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_lives_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_rooms_lives_LDADD = $(rooms_libs)

tests_unit_test_deaths_SOURCES = tests/unit/test_deaths.c $(meeting_world)
tests_unit_test_deaths_CFLAGS = $(rooms_cflags)
tests_unit_test_deaths_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps) $(wrap)job_refute_death \
	$(wrap)shift_conn_waits $(wrap)peer_paths_silence $(wrap)vqp_each
tests_unit_test_deaths_LDADD = $(rooms_libs)

tests_unit_test_spare_rails_SOURCES = tests/unit/test_spare_rails.c $(meeting_world)
tests_unit_test_spare_rails_CFLAGS = $(rooms_cflags)
tests_unit_test_spare_rails_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps) $(wrap)shift_conn_waits \
	$(wrap)vdev_each $(wrap)rooms_create_qp
tests_unit_test_spare_rails_LDADD = $(rooms_libs)

tests_unit_test_bye_SOURCES = tests/unit/test_bye.c $(meeting_world)
tests_unit_test_bye_CFLAGS = $(rooms_cflags)
tests_unit_test_bye_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps) $(wrap)ctrl_link_flush $(wrap)vqp_each
tests_unit_test_bye_LDADD = $(rooms_libs)

tests_unit_test_disconnects_SOURCES = tests/unit/test_disconnects.c $(meeting_world)
tests_unit_test_disconnects_CFLAGS = $(rooms_cflags)
tests_unit_test_disconnects_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps) $(wrap)cm_ended $(wrap)vqp_rail
tests_unit_test_disconnects_LDADD = $(rooms_libs)

tests_unit_test_directory_SOURCES = tests/unit/test_directory.c $(meeting_world)
tests_unit_test_directory_CFLAGS = $(rooms_cflags)
tests_unit_test_directory_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_directory_LDADD = $(rooms_libs)

tests_unit_test_peer_paths_SOURCES = tests/unit/test_peer_paths.c $(meeting_world)
tests_unit_test_peer_paths_CFLAGS = $(rooms_cflags)
tests_unit_test_peer_paths_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps) $(wrap)probe_new \
	$(wrap)probe_free $(wrap)probe_address $(wrap)probe_on_address_change $(wrap)probe_connect
tests_unit_test_peer_paths_LDADD = $(rooms_libs)

tests_unit_test_two_ends_SOURCES = tests/unit/test_two_ends.c $(rooms_world)
tests_unit_test_two_ends_CFLAGS = $(rooms_cflags)
tests_unit_test_two_ends_LDFLAGS = $(AM_LDFLAGS) $(rooms_wraps) $(wrap)job_client $(wrap)job_nonce \
	$(wrap)job_key_if_known $(wrap)job_is_full $(wrap)kv_client_put $(wrap)kv_client_watch \
	$(wrap)kv_client_unwatch $(wrap)ctrl_link_address $(wrap)ctrl_link_peer_new $(wrap)ctrl_link_peer_free \
	$(wrap)ctrl_link_peer_move $(wrap)nic_gid_for_twin $(wrap)stats_conn_psn
tests_unit_test_two_ends_LDADD = $(rooms_libs)

tests_unit_test_rooms_messages_SOURCES = tests/unit/test_rooms_messages.c $(meeting_world)
tests_unit_test_rooms_messages_CFLAGS = $(rooms_cflags)
tests_unit_test_rooms_messages_LDFLAGS = $(AM_LDFLAGS) $(meeting_wraps)
tests_unit_test_rooms_messages_LDADD = $(rooms_libs)

# What reaches a terminal.
check_PROGRAMS += tests/unit/test_printable
TESTS += tests/unit/test_printable
tests_unit_test_printable_SOURCES = tests/unit/test_printable.c
tests_unit_test_printable_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_printable_LDADD = common/libcli.la $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_kv_client_retry
TESTS += tests/unit/test_kv_client_retry
tests_unit_test_kv_client_retry_SOURCES = tests/unit/test_kv_client_retry.c
tests_unit_test_kv_client_retry_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_kv_client_retry_LDADD = kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la $(CMOCKA_LIBS)

unit_tests_of_bench = tests/unit/test_bench_stats tests/unit/test_bench_perftest \
	tests/unit/test_bench_parts
check_PROGRAMS += $(unit_tests_of_bench)
TESTS += $(unit_tests_of_bench)
tests_unit_test_bench_stats_SOURCES = tests/unit/test_bench_stats.c cmd/shift-bench/stats.c cmd/shift-bench/stats.h
tests_unit_test_bench_stats_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_bench_stats_LDADD = common/libcli.la $(CMOCKA_LIBS) -lm

tests_unit_test_bench_perftest_SOURCES = tests/unit/test_bench_perftest.c cmd/shift-bench/perftest.c
tests_unit_test_bench_perftest_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_unit_test_bench_perftest_LDADD = common/libcli.la $(CMOCKA_LIBS) -lm

tests_unit_test_bench_parts_SOURCES = tests/unit/test_bench_parts.c cmd/shift-bench/protection.c cmd/shift-bench/outage.c \
	cmd/shift-bench/outage.h cmd/shift-bench/bins.c cmd/shift-bench/bins.h \
	cmd/shift-bench/sample.c cmd/shift-bench/stats.c cmd/shift-bench/machine.c
tests_unit_test_bench_parts_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_unit_test_bench_parts_LDADD = common/libcli.la $(CMOCKA_LIBS) $(CJSON_LIBS) -lm

unit_tests_of_diag = tests/unit/test_records tests/unit/test_verdict tests/unit/test_answer \
	tests/unit/test_aegis_hang tests/unit/test_aegis_fail tests/unit/test_aegis_slow tests/unit/test_aegis_network tests/unit/test_timeline
unit_tests_of_diag += tests/unit/test_path_graph tests/unit/test_path_provenance
check_PROGRAMS += $(unit_tests_of_diag)
TESTS += $(unit_tests_of_diag)
diag_test_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
diag_test_libs = common/libcli.la $(CMOCKA_LIBS) $(CJSON_LIBS) -lm
tests_unit_test_records_SOURCES = tests/unit/test_records.c $(DIAG_RECORDS_SOURCES)
tests_unit_test_records_CFLAGS = $(diag_test_cflags)
tests_unit_test_records_LDADD = $(diag_test_libs)

tests_unit_test_verdict_SOURCES = tests/unit/test_verdict.c $(DIAG_RECORDS_SOURCES)
tests_unit_test_verdict_CFLAGS = $(diag_test_cflags)
tests_unit_test_verdict_LDADD = $(diag_test_libs)

tests_unit_test_answer_SOURCES = tests/unit/test_answer.c $(DIAG_ANSWER_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_unit_test_answer_CFLAGS = $(diag_test_cflags)
tests_unit_test_answer_LDADD = $(diag_test_libs)

aegis_test = tests/unit/diag_job.c tests/unit/diag_job.h $(AEGIS_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_unit_test_aegis_hang_SOURCES = tests/unit/test_aegis_hang.c $(aegis_test)
tests_unit_test_aegis_hang_CFLAGS = $(diag_test_cflags)
tests_unit_test_aegis_hang_LDADD = $(diag_test_libs)
tests_unit_test_aegis_fail_SOURCES = tests/unit/test_aegis_fail.c $(aegis_test)
tests_unit_test_aegis_fail_CFLAGS = $(diag_test_cflags)
tests_unit_test_aegis_fail_LDADD = $(diag_test_libs)
tests_unit_test_aegis_slow_SOURCES = tests/unit/test_aegis_slow.c $(aegis_test)
tests_unit_test_aegis_slow_CFLAGS = $(diag_test_cflags)
tests_unit_test_aegis_slow_LDADD = $(diag_test_libs)
tests_unit_test_aegis_network_SOURCES = tests/unit/test_aegis_network.c $(aegis_test)
tests_unit_test_aegis_network_CFLAGS = $(diag_test_cflags)
tests_unit_test_aegis_network_LDADD = $(diag_test_libs)
tests_unit_test_timeline_SOURCES = tests/unit/test_timeline.c $(AEGIS_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_unit_test_timeline_CPPFLAGS = $(AM_CPPFLAGS) -DDATA='"$(abs_srcdir)/tests/data"'
tests_unit_test_timeline_CFLAGS = $(diag_test_cflags)
tests_unit_test_timeline_LDADD = $(diag_test_libs)
# The file of collectives (collectives/).
check_PROGRAMS += tests/unit/test_coll_ring
TESTS += tests/unit/test_coll_ring
tests_unit_test_coll_ring_SOURCES = tests/unit/test_coll_ring.c $(COLL_WRITER) $(COLL_READER)
tests_unit_test_coll_ring_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -pthread
tests_unit_test_coll_ring_LDADD = $(REPORT_LIBS) $(CMOCKA_LIBS)
tests_unit_test_path_graph_SOURCES = tests/unit/test_path_graph.c $(DIAG_PATH_SOURCES)
tests_unit_test_path_graph_CFLAGS = $(diag_test_cflags)
tests_unit_test_path_graph_LDADD = $(diag_test_libs)
tests_unit_test_path_provenance_SOURCES = tests/unit/test_path_provenance.c $(DIAG_PATH_SOURCES)
tests_unit_test_path_provenance_CFLAGS = $(diag_test_cflags)
tests_unit_test_path_provenance_LDADD = $(diag_test_libs)
pulse_tests = tests/unit/test_pulse_cases tests/unit/test_pulse_parts tests/unit/test_pulse_records
check_PROGRAMS += $(pulse_tests)
TESTS += $(pulse_tests)
pulse_world = tests/unit/pulse_world.c tests/unit/pulse_world.h $(DIAG_PULSE_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_unit_test_pulse_cases_SOURCES = tests/unit/test_pulse_cases.c $(pulse_world)
tests_unit_test_pulse_cases_CFLAGS = $(diag_test_cflags)
tests_unit_test_pulse_cases_LDADD = $(diag_test_libs)
tests_unit_test_pulse_parts_SOURCES = tests/unit/test_pulse_parts.c $(pulse_world)
tests_unit_test_pulse_parts_CFLAGS = $(diag_test_cflags)
tests_unit_test_pulse_parts_LDADD = $(diag_test_libs)
tests_unit_test_pulse_records_SOURCES = tests/unit/test_pulse_records.c $(pulse_world)
tests_unit_test_pulse_records_CFLAGS = $(diag_test_cflags)
tests_unit_test_pulse_records_LDADD = $(diag_test_libs)

# Traffic by epochs (lib/stats/epochs.h), and how it is collected.
check_PROGRAMS += tests/unit/test_epochs
TESTS += tests/unit/test_epochs
tests_unit_test_epochs_SOURCES = tests/unit/test_epochs.c cmd/shift-diag/collect_epochs.c cmd/shift-diag/collect_epochs.h \
	common/cli.c common/cli.h
tests_unit_test_epochs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) -pthread
tests_unit_test_epochs_LDADD = lib/libshiftstats.la $(REPORT_LIBS) $(CMOCKA_LIBS)
