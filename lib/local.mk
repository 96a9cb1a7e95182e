# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# libshift.so, room by room: doc/architecture.md says what each is for, and its order.

# What libshift.so, shift-kvd and the tools must agree on; libc only.
noinst_LTLIBRARIES += lib/libshiftbase.la
lib_libshiftbase_la_SOURCES = lib/base/run_dir.c lib/base/run_dir.h \
	common/printable.c common/printable.h

# lib/core sees no verbs: it is built and tested without a NIC, and driven by tests/sim.
CORE_SOURCES = \
	lib/core/conn.c lib/core/conn.h lib/core/conn_int.h lib/core/conn_state.c \
	lib/core/atomics.c lib/core/cqe.c lib/core/failback.c lib/core/fast.c lib/core/fast.h lib/core/fence.c lib/core/giveup.c \
	lib/core/hello.c lib/core/invariants.c lib/core/lives.c lib/core/msg.c lib/core/msg.h \
	lib/core/progress.c lib/core/psn.c lib/core/psn.h lib/core/rails.c \
	lib/core/replay.c lib/core/siphash.c lib/core/siphash.h \
	lib/core/srq.c lib/core/srq.h lib/core/srq_int.h lib/core/srq_share.c \
	lib/core/switch.c lib/core/types.h lib/core/view.c \
	lib/core/wrlog.c lib/core/wrlog.h

noinst_LTLIBRARIES += lib/libshiftcore.la
lib_libshiftcore_la_SOURCES = $(CORE_SOURCES)

# The same sources, counting what was reached, and checking invariants: for tests.
noinst_LTLIBRARIES += lib/libshiftcore-checked.la
lib_libshiftcore_checked_la_SOURCES = $(CORE_SOURCES)
lib_libshiftcore_checked_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHIFT_CHECKED

# What moves the core: threads, NICs, control links, link events, probes. tests/clients/link_test runs
# them without the rooms above.
noinst_LTLIBRARIES += lib/libshiftnic.la
lib_libshiftnic_la_SOURCES = \
	lib/base/background.c lib/base/background.h lib/base/background_wait.c lib/base/control_socket.c \
	lib/base/control_socket.h lib/base/thread.c lib/base/thread.h lib/base/timers.c \
	lib/base/timers.h lib/base/worker.c lib/base/worker.h lib/base/poll_deadline.h lib/base/readable.h \
	lib/nic/ctrl_link.c lib/nic/ctrl_link.h lib/nic/ctrl_link_int.h lib/nic/ctrl_link_open.c \
	lib/nic/ctrl_link_qp.c lib/nic/netlink.c lib/nic/netlink.h lib/nic/nic.c lib/nic/nic.h \
	lib/nic/nic_gid.c lib/nic/nic_int.h lib/nic/nic_psn.c lib/nic/nic_vlan.c lib/nic/nic_watch.c lib/nic/peer_path.h \
	lib/nic/probe.c lib/nic/probe.h lib/nic/probe_int.h lib/nic/probe_qp.c lib/nic/rc_qp.c lib/nic/rc_qp.h lib/nic/rq_psn.c \
	lib/nic/rq_psn.h lib/nic/rq_psn_judge.c
lib_libshiftnic_la_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)

# All rooms of the library but what it exports, and the real libibverbs; unit tests link with them as
# they are, and bring verbs of their own.
ROOMS_SOURCES = \
	lib/base/assoc.c lib/base/assoc.h lib/base/plain_read.h lib/base/post_errors.h \
	lib/base/env.c lib/base/env.h lib/base/fds.h lib/base/find_symbol.h lib/base/fork.c lib/base/fork.h lib/base/gate.c lib/base/gate.h \
	lib/base/log.c lib/base/log.h lib/base/pages.c lib/base/pages.h lib/base/rail_list.c lib/base/rail_list.h lib/base/real_rdmacm.h lib/base/real_verbs.h \
	lib/base/read_wait.c lib/base/read_wait.h lib/base/reentry.c lib/base/reentry.h lib/base/uncancelled.h lib/base/sysfs.c lib/base/sysfs.h \
	lib/base/short_lock.c lib/base/short_lock.h lib/base/table.c lib/base/table.h \
	lib/object/channel.c lib/object/channel.h lib/object/cq.c lib/object/cq.h lib/object/device.c lib/object/device.h \
	lib/object/event_waker.c lib/object/event_waker.h lib/object/made_events.c lib/object/made_events.h lib/object/memory.c \
	lib/object/memory.h lib/object/object.c lib/object/object.h lib/object/passed_cq.c lib/object/passed_cq.h lib/object/passed_errors.c lib/object/passed_errors.h lib/object/vsrq.c lib/object/vsrq.h \
	lib/object/srq_drainer.c lib/object/srq_drainer.h lib/object/srq_limit.c lib/object/srq_limit.h \
	lib/conn/actions.c lib/conn/actions.h lib/conn/arm.c lib/conn/arm.h lib/conn/conn_lock.c \
	lib/conn/conn_lock.h lib/conn/conn_timers.c lib/conn/conn_timers.h lib/conn/cq_counts.c \
	lib/conn/cq_counts.h lib/conn/drain.c lib/conn/drain.h lib/conn/error_notes.c lib/conn/error_notes.h lib/conn/exported_keys.c \
	lib/conn/exported_keys.h lib/conn/fence_qp.c lib/conn/fence_qp.h lib/conn/job_deadlines.c \
	lib/conn/job_deadlines.h lib/conn/key_reuse.c lib/conn/key_reuse.h lib/conn/memlock.c \
	lib/conn/memlock.h lib/conn/pause_points.c lib/conn/pause_points.h lib/conn/peer_keys.c \
	lib/conn/peer_keys.h lib/conn/protection.c lib/conn/protection.h lib/conn/rail_jobs.c \
	lib/conn/rail_jobs.h lib/conn/repost.c lib/conn/repost.h \
	lib/conn/rail_links.c lib/conn/rail_links.h \
	lib/conn/self_qp.c lib/conn/self_qp.h lib/conn/srq_all.c lib/conn/srq_all.h lib/conn/srq_qps.c lib/conn/srq_qps.h \
	lib/conn/twin.c lib/conn/twin.h \
	lib/conn/vqp.c lib/conn/vqp.h \
	lib/verbs/async_events.c lib/verbs/async_events.h lib/verbs/bypass.c lib/verbs/bypass.h \
	lib/verbs/cm_ids.c lib/verbs/cm_ids.h lib/verbs/cm_reading.c lib/verbs/cm_reading.h lib/verbs/completion_events.c lib/verbs/completion_events.h \
	lib/verbs/context.c lib/verbs/context.h lib/verbs/cq_ex.c lib/verbs/cq_ex.h lib/verbs/memory_windows.c lib/verbs/memory_windows.h \
	lib/verbs/poll.c lib/verbs/poll.h lib/verbs/post_recv.c lib/verbs/post_recv.h \
	lib/verbs/post_send.c lib/verbs/post_send.h lib/verbs/qp.c lib/verbs/qp.h \
	lib/verbs/qp_ex.c lib/verbs/qp_ex.h lib/verbs/qp_life.c lib/verbs/qp_life.h lib/verbs/traced.c lib/verbs/traced.h lib/verbs/wr_builder.c lib/verbs/wr_builder.h \
	lib/session/bye.c lib/session/bye.h \
	lib/session/contacts.c lib/session/contacts.h lib/session/deaths.c lib/session/deaths.h \
	lib/session/directory.c lib/session/directory.h lib/session/session_msg.h \
	lib/session/own_address.c lib/session/own_address.h lib/session/told.c lib/session/told.h \
	lib/session/disconnects.c lib/session/disconnects.h lib/session/dispatch.c lib/session/dispatch.h lib/session/job.c lib/session/job.h \
	lib/session/nic_events.c lib/session/nic_events.h lib/session/operator.c \
	lib/session/operator.h lib/session/path_health.c lib/session/path_health.h \
	lib/session/meeting_rails.c lib/session/meeting_rails.h \
	lib/session/peer_paths.c lib/session/peer_paths.h lib/session/rendezvous.c \
	lib/session/rendezvous.h lib/session/spare_rails.c lib/session/spare_rails.h \
	lib/session/start.c lib/session/start.h lib/session/tombstones.c \
	lib/session/tombstones.h lib/session/twin_address.c lib/session/twin_address.h
SHIFT_SO_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -fvisibility=hidden -ftls-model=initial-exec
noinst_LTLIBRARIES += lib/libshiftrooms.la
lib_libshiftrooms_la_SOURCES = $(ROOMS_SOURCES)
lib_libshiftrooms_la_CFLAGS = $(SHIFT_SO_CFLAGS) $(HOOKS_CFLAGS)

# The library that is preloaded. What is exported stands in its own sources: --exclude-libs hides
# whatever comes from a convenience library. Bound lazily (most programs that a launcher starts
# never open an RDMA device); never unloaded, as contexts keep pointers to our functions. It depends
# on libibverbs even if it calls nothing there by name: programs get it from a handle of ours.
pkglib_LTLIBRARIES += lib/libshift.la
lib_libshift_la_SOURCES = lib/base/dlopen.S lib/base/dlopen.c lib/base/dlopen.h lib/base/find_symbol.c \
	lib/base/find_symbol.h lib/base/real_rdmacm.c lib/base/real_rdmacm.h lib/base/real_verbs.c \
	lib/base/real_verbs.h lib/preload/direct_verbs.c \
	lib/preload/direct_verbs.h lib/preload/exports.c lib/preload/rdmacm.c
lib_libshift_la_CFLAGS = $(SHIFT_SO_CFLAGS) $(HOOKS_CFLAGS)
ROOMS_BELOW = lib/libshiftnic.la lib/libshiftstats.la kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la
lib_libshift_la_LIBADD = lib/libshiftrooms.la $(ROOMS_BELOW) $(IBVERBS_LIBS)
lib_libshift_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--no-as-needed,-libverbs \
	-Wl,-z,nodelete -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--no-undefined-version \
	-Wl,--version-script,$(srcdir)/lib/preload/libshift.map
lib_libshift_la_DEPENDENCIES = lib/libshiftrooms.la $(ROOMS_BELOW) lib/preload/libshift.map
EXTRA_DIST += lib/preload/libshift.map

# What a dlopen of libmlx5 gets: nothing but dependencies, in this order (lib/base/dlopen.c).
if HAVE_MLX5
pkglib_LTLIBRARIES += lib/libshift-mlx5.la
lib_libshift_mlx5_la_SOURCES = lib/preload/mlx5.c
lib_libshift_mlx5_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--no-as-needed,lib/.libs/libshift.so,-lmlx5
lib_libshift_mlx5_la_DEPENDENCIES = lib/libshift.la
endif

# libshift.so with pause points, for tests: never installed.
check_LTLIBRARIES += lib/libshift-hooks.la
lib_libshift_hooks_la_SOURCES = $(lib_libshift_la_SOURCES) $(ROOMS_SOURCES)
lib_libshift_hooks_la_CFLAGS = $(SHIFT_SO_CFLAGS) -DSHIFT_TEST_HOOKS
lib_libshift_hooks_la_LIBADD = $(ROOMS_BELOW) $(IBVERBS_LIBS)
lib_libshift_hooks_la_LDFLAGS = $(lib_libshift_la_LDFLAGS) -rpath /nowhere
lib_libshift_hooks_la_DEPENDENCIES = $(ROOMS_BELOW) lib/preload/libshift.map

# They are preloaded or loaded, never linked with; and without the .la, libtool would leave it behind.
install-exec-hook:
	rm -f $(DESTDIR)$(pkglibdir)/libshift.la $(DESTDIR)$(pkglibdir)/libshift-mlx5.la
	for name in $(COLL_INSTALLED); do rm -f $(DESTDIR)$(pkglibdir)/$$name.la || exit; done
	rm -f $(DESTDIR)$(nulldir)/libibverbs.la $(DESTDIR)$(nulldir)/libibverbs.so
uninstall-hook:
	rm -f $(DESTDIR)$(pkglibdir)/libshift.so $(DESTDIR)$(pkglibdir)/libshift-mlx5.so
	for name in $(COLL_INSTALLED); do rm -f $(DESTDIR)$(pkglibdir)/$$name.so || exit; done
	rm -f $(DESTDIR)$(nulldir)/libibverbs.so.1*

include lib/stats/local.mk
