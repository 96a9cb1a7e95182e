# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# lib/stats: the writer goes into libshift.so (libc only).
noinst_LTLIBRARIES += lib/libshiftstats.la
lib_libshiftstats_la_SOURCES = \
	lib/stats/layout.c lib/stats/layout.h lib/stats/summary.c lib/stats/summary.h \
	lib/stats/stats.c lib/stats/stats.h lib/stats/stats_file.c lib/stats/stats_file.h \
	lib/stats/process_file.c lib/stats/process_file.h \
	lib/stats/epochs.c lib/stats/epochs.h lib/stats/epoch_file.h \
	lib/stats/srq_stats.c lib/stats/notes.c lib/stats/switch_record.c lib/stats/switch_record.h

# The reader and its JSON: for the tools, which link REPORT_LIBS.
noinst_LTLIBRARIES += lib/libshiftreport.la
lib_libshiftreport_la_SOURCES = \
	lib/stats/layout.c lib/stats/layout.h lib/stats/summary.c lib/stats/summary.h \
	lib/stats/read.c lib/stats/read.h lib/stats/note_names.c lib/stats/note_names.h lib/stats/places.c lib/stats/places.h \
	lib/stats/dir_names.c lib/stats/dir_names.h \
	lib/stats/totals.c lib/stats/totals.h lib/stats/json.c lib/stats/json.h \
	lib/stats/report.c lib/stats/report.h lib/stats/ask_process.c lib/stats/ask_process.h \
	lib/stats/files_in.c lib/stats/files_in.h \
	lib/stats/process_read.c lib/stats/process_read.h \
	lib/stats/epoch_read.c lib/stats/epoch_read.h lib/stats/epoch_file.h
lib_libshiftreport_la_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(IBVERBS_CFLAGS)
REPORT_LIBS = lib/libshiftreport.la lib/libshiftcore.la lib/libshiftbase.la $(CJSON_LIBS)
