# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# libshift.so: core (the pure state machine), health, stats, verbs.

# lib/core sees no verbs: it is built and tested without a NIC, and driven by tests/sim.
CORE_SOURCES = \
	lib/core/conn.c lib/core/conn.h lib/core/conn_int.h \
	lib/core/cqe.c lib/core/failback.c lib/core/fence.c lib/core/giveup.c \
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

# lib/stats: the writer goes into libshift.so (libc only).
noinst_LTLIBRARIES += lib/libshiftstats.la
lib_libshiftstats_la_SOURCES = \
	lib/stats/layout.h lib/stats/stats.h lib/stats/writer.h \
	lib/stats/file.c lib/stats/stats.c lib/stats/switch.c lib/stats/text.c

# The reader and its JSON: for the tools, which link REPORT_LIBS.
noinst_LTLIBRARIES += lib/libshiftreport.la
lib_libshiftreport_la_SOURCES = \
	lib/stats/read.c lib/stats/read.h lib/stats/places.c lib/stats/totals.c lib/stats/text.c \
	lib/stats/json.c lib/stats/json.h lib/stats/report.c lib/stats/report.h \
	lib/stats/ask.c lib/stats/ask.h
lib_libshiftreport_la_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
REPORT_LIBS = lib/libshiftreport.la lib/libshiftcore.la kv/libkvclient.la $(CJSON_LIBS)

EXTRA_DIST += doc/protocol.md doc/report.md
