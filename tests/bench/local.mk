# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The bound on the cost of the library; tests/bench/datapath in the build directory prints it.
EXTRA_DIST += tests/bench/datapath

# Files of shift-bench --json for the tests of its page.
check_PROGRAMS += tests/bench/bench_results
tests_bench_bench_results_SOURCES = tests/bench/bench_results.c \
	cmd/shift-bench/sample.c cmd/shift-bench/histogram.c cmd/shift-bench/machine.c cmd/shift-bench/stats.c
tests_bench_bench_results_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_bench_bench_results_LDADD = common/libcli.la $(CJSON_LIBS) -lm
