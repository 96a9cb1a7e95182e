# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
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
