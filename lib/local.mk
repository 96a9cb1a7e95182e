# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# libshift.so: core (the pure state machine), health, stats, verbs.

# lib/core sees no verbs: it is built and tested without a NIC, and driven by tests/sim.
CORE_SOURCES = \
	lib/core/conn.c lib/core/conn.h lib/core/conn_int.h \
	lib/core/cqe.c lib/core/failback.c lib/core/fast.c lib/core/fast.h lib/core/fence.c lib/core/giveup.c \
	lib/core/hello.c lib/core/msg.c lib/core/msg.h lib/core/mutants.h \
	lib/core/progress.c lib/core/psn.c lib/core/psn.h lib/core/rails.c \
	lib/core/replay.c lib/core/siphash.c lib/core/siphash.h \
	lib/core/switch.c lib/core/types.h lib/core/view.c \
	lib/core/wrlog.c lib/core/wrlog.h

noinst_LTLIBRARIES += lib/libshiftcore.la
lib_libshiftcore_la_SOURCES = $(CORE_SOURCES)

# The same sources, breakable on purpose (lib/core/mutants.h) and counting what was reached.
noinst_LTLIBRARIES += lib/libshiftcore-mutants.la
lib_libshiftcore_mutants_la_SOURCES = $(CORE_SOURCES)
lib_libshiftcore_mutants_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHIFT_MUTANTS -DSHIFT_COVERAGE

# What moves the core: threads, NICs, control links, link events, probes.
noinst_LTLIBRARIES += lib/libshiftverbs.la
lib_libshiftverbs_la_SOURCES = \
	lib/health/live.c lib/health/live.h lib/health/live_judge.c \
	lib/health/netlink.c lib/health/netlink.h \
	lib/health/probe.c lib/health/probe.h lib/health/probe_int.h lib/health/probe_qp.c \
	lib/verbs/bg.c lib/verbs/bg.h lib/verbs/bg_int.h lib/verbs/bg_timer.c \
	lib/verbs/control.c lib/verbs/control.h \
	lib/verbs/env.h lib/verbs/gid.c lib/verbs/hooks.h \
	lib/verbs/link.c lib/verbs/link.h lib/verbs/link_int.h lib/verbs/link_open.c \
	lib/verbs/link_qp.c \
	lib/verbs/log.h lib/verbs/nic.c lib/verbs/nic.h lib/verbs/nic_int.h \
	lib/verbs/nic_psn.c lib/verbs/nic_watch.c lib/verbs/patience.h lib/verbs/real.h \
	lib/verbs/worker.c lib/verbs/worker.h
lib_libshiftverbs_la_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)

EXTRA_DIST += doc/protocol.md

# The library that is preloaded. What is exported stands in its own sources: --exclude-libs hides
# whatever comes from a convenience library. Bound lazily (most programs that a launcher starts
# never open an RDMA device); never unloaded, as contexts keep pointers to our functions. It depends
# on libibverbs even if it calls nothing there by name: programs get it from a handle of ours.
pkglib_LTLIBRARIES += lib/libshift.la
lib_libshift_la_SOURCES = \
	lib/verbs/exports.c lib/verbs/hooks.h lib/verbs/dv.c lib/verbs/dv.h lib/verbs/around.c \
	lib/verbs/arm.c lib/verbs/async.c lib/verbs/cq.c lib/verbs/device.c lib/verbs/enter.c lib/verbs/fence.c lib/verbs/gate.c lib/verbs/gate.h lib/verbs/jobs.c \
	lib/verbs/keys.c lib/verbs/keys.h lib/verbs/meet.c lib/verbs/memory.c \
	lib/verbs/operator.c lib/verbs/scarce.c \
	lib/verbs/path.c lib/verbs/path.h lib/verbs/pause.c lib/verbs/pause.h lib/verbs/poll.c lib/verbs/post.c lib/verbs/qp.c \
	lib/verbs/table.c lib/verbs/table.h lib/verbs/told.c lib/verbs/told.h lib/verbs/twin.c lib/verbs/vobj.c lib/verbs/vobj.h \
	lib/verbs/windows.c \
	lib/verbs/real.c lib/verbs/real.h lib/verbs/dlopen.c lib/verbs/dlopen.S \
	lib/verbs/env.c lib/verbs/env.h lib/verbs/log.c lib/verbs/log.h \
	lib/verbs/rails.c lib/verbs/rails.h lib/verbs/sysfs.c
SHIFT_SO_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -fvisibility=hidden -ftls-model=initial-exec
lib_libshift_la_CFLAGS = $(SHIFT_SO_CFLAGS) $(HOOKS_CFLAGS)
lib_libshift_la_LIBADD = lib/libshiftverbs.la lib/libshiftstats.la lib/libshiftcore.la kv/libkvclient.la $(IBVERBS_LIBS)
lib_libshift_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--no-as-needed,-libverbs \
	-Wl,-z,nodelete -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--no-undefined-version \
	-Wl,--version-script,$(srcdir)/lib/libshift.map
lib_libshift_la_DEPENDENCIES = lib/libshiftverbs.la lib/libshiftstats.la lib/libshiftcore.la kv/libkvclient.la lib/libshift.map
EXTRA_DIST += lib/libshift.map

# What a dlopen of libmlx5 gets: nothing but dependencies, in this order (lib/verbs/dlopen.c).
if HAVE_MLX5
pkglib_LTLIBRARIES += lib/libshift-mlx5.la
lib_libshift_mlx5_la_SOURCES = lib/verbs/mlx5.c
lib_libshift_mlx5_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--no-as-needed,lib/.libs/libshift.so,-lmlx5
lib_libshift_mlx5_la_DEPENDENCIES = lib/libshift.la
endif

# libshift.so with pause points, for tests: never installed.
check_LTLIBRARIES += lib/libshift-hooks.la
lib_libshift_hooks_la_SOURCES = $(lib_libshift_la_SOURCES)
lib_libshift_hooks_la_CFLAGS = $(SHIFT_SO_CFLAGS) -DSHIFT_TEST_HOOKS
lib_libshift_hooks_la_LIBADD = $(lib_libshift_la_LIBADD)
lib_libshift_hooks_la_LDFLAGS = $(lib_libshift_la_LDFLAGS) -rpath /nowhere
lib_libshift_hooks_la_DEPENDENCIES = $(lib_libshift_la_DEPENDENCIES)

# They are preloaded or loaded, never linked with; and without the .la, libtool would leave it behind.
install-exec-hook:
	rm -f $(DESTDIR)$(pkglibdir)/libshift.la $(DESTDIR)$(pkglibdir)/libshift-mlx5.la
uninstall-hook:
	rm -f $(DESTDIR)$(pkglibdir)/libshift.so $(DESTDIR)$(pkglibdir)/libshift-mlx5.so

include lib/stats/local.mk
