# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The shift-* commands.

bin_PROGRAMS += cmd/shift-run/shift-run
cmd_shift_run_shift_run_SOURCES = \
	cmd/shift-run/shift-run.c cmd/shift-run/run.h cmd/shift-run/options.c \
	cmd/shift-run/settings.c cmd/shift-run/target.c cmd/shift-run/elf.c \
	cmd/shift-run/library.c cmd/shift-run/rails.c cmd/shift-run/job.c cmd/shift-run/words.c \
	cmd/shift-run/meet.c cmd/shift-run/kvd.c cmd/shift-run/show.c cmd/shift-run/exec.c \
	cmd/shift-run/report.c kv/ask.c kv/ask.h lib/verbs/rails.c lib/verbs/rails.h \
	lib/verbs/sysfs.c
cmd_shift_run_shift_run_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"' -DBINDIR='"$(bindir)"'
cmd_shift_run_shift_run_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_run_shift_run_LDADD = kv/libkvclient.la $(CJSON_LIBS)
