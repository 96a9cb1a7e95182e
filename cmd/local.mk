# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The shift-* commands.

bin_PROGRAMS += cmd/shift-run
cmd_shift_run_SOURCES = \
	cmd/run/shift-run.c cmd/run/run.h cmd/run/options.c cmd/run/settings.c \
	cmd/run/target.c cmd/run/elf.c cmd/run/library.c cmd/run/rails.c cmd/run/job.c \
	cmd/run/words.c cmd/run/meet.c cmd/run/kvd.c cmd/run/show.c cmd/run/exec.c \
	cmd/run/report.c kv/ask.c kv/ask.h
cmd_shift_run_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"' -DBINDIR='"$(bindir)"'
cmd_shift_run_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_run_LDADD = kv/libkvclient.la $(CJSON_LIBS)
