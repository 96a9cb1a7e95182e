# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The cost of the library; tests/bench/datapath in the build directory prints it.
check_PROGRAMS += tests/bench/datapath_client
tests_bench_datapath_client_SOURCES = tests/bench/datapath_client.c
tests_bench_datapath_client_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_bench_datapath_client_LDADD = $(IBVERBS_LIBS)
EXTRA_DIST += tests/bench/datapath

# Files of shift-bench --json for the tests of its page.
check_PROGRAMS += tests/bench/bench_results
tests_bench_bench_results_SOURCES = tests/bench/bench_results.c \
	cmd/shift-bench/sample.c cmd/shift-bench/histogram.c cmd/shift-bench/machine.c cmd/shift-bench/stats.c
tests_bench_bench_results_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_bench_bench_results_LDADD = common/libcli.la $(CJSON_LIBS) -lm
