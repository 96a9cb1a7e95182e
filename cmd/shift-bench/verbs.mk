# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
BENCH_VERBS_SOURCES = cmd/shift-bench/cmd_verbs.c cmd/shift-bench/verbs_run.c cmd/shift-bench/verbs_run.h \
	cmd/shift-bench/verbs_callgrind.c cmd/shift-bench/verbs_table.c cmd/shift-bench/verbs_table.h \
	cmd/shift-bench/verbs_patterns.c cmd/shift-bench/verbs_patterns.h

# The program that `shift-bench verbs` measures. Its functions keep their names in the dynamic symbol table, by which
# callgrind finds them.
pkglibexec_PROGRAMS += cmd/shift-bench/verbs_client/verbs-client
cmd_shift_bench_verbs_client_verbs_client_SOURCES = \
	cmd/shift-bench/verbs_client/client.h cmd/shift-bench/verbs_client/client.c \
	cmd/shift-bench/verbs_client/objects.c cmd/shift-bench/verbs_client/calls.c cmd/shift-bench/verbs_client/clock.c \
	cmd/shift-bench/verbs_client/threads.c cmd/shift-bench/verbs_client/pattern.c \
	cmd/shift-bench/verbs_client/mix.c cmd/shift-bench/verbs_client/controls.c \
	cmd/shift-bench/verbs_patterns.h cmd/shift-bench/verbs_patterns.c
cmd_shift_bench_verbs_client_verbs_client_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
cmd_shift_bench_verbs_client_verbs_client_LDADD = common/libcli.la $(IBVERBS_LIBS) -lm
cmd_shift_bench_verbs_client_verbs_client_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
