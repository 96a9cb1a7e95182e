# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The cost of the library; tests/bench/datapath in the build directory prints it.
check_PROGRAMS += tests/bench/datapath_client
tests_bench_datapath_client_SOURCES = tests/bench/datapath_client.c
tests_bench_datapath_client_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_bench_datapath_client_LDADD = $(IBVERBS_LIBS)
EXTRA_DIST += tests/bench/datapath
