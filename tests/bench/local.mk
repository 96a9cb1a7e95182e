# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The bounds on the cost of the library; run in the build directory these print it.
EXTRA_DIST += tests/bench/datapath tests/bench/scale tests/bench/null_job.bash

# In front of libc for libshift.so, so that it counts what goes to the rendezvous.
check_PROGRAMS += tests/bench/scale_ends
tests_bench_scale_ends_SOURCES = tests/bench/scale_ends.c tests/bench/ends.h
tests_bench_scale_ends_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_bench_scale_ends_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic-symbol=send
tests_bench_scale_ends_LDADD = common/libcli.la $(REPORT_LIBS) $(IBVERBS_LIBS)

# One connection of several moves: tests/bench/moved-path in the build directory.
EXTRA_DIST += tests/bench/moved-path
check_PROGRAMS += tests/bench/moved_path
tests_bench_moved_path_SOURCES = tests/bench/moved_path.c tests/bench/ends.h
tests_bench_moved_path_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_bench_moved_path_LDADD = common/libcli.la $(REPORT_LIBS) $(IBVERBS_LIBS)

# Files of shift-bench --json for the tests of its page.
check_PROGRAMS += tests/bench/bench_results
tests_bench_bench_results_SOURCES = tests/bench/bench_results.c \
	cmd/shift-bench/sample.c cmd/shift-bench/histogram.c cmd/shift-bench/machine.c cmd/shift-bench/stats.c
tests_bench_bench_results_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_bench_bench_results_LDADD = common/libcli.la $(CJSON_LIBS) -lm

# The rendezvous of a job, with simulated processes: tests/bench/job-scale in the build directory.
EXTRA_DIST += tests/bench/job-scale tests/bench/job_scale/world.py tests/bench/job_scale/model.py
check_PROGRAMS += tests/bench/job_scale/processes
tests_bench_job_scale_processes_SOURCES = tests/bench/job_scale/processes.c lib/base/fork.c lib/base/reentry.c
tests_bench_job_scale_processes_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS) $(CJSON_CFLAGS)
tests_bench_job_scale_processes_LDFLAGS = $(AM_LDFLAGS) $(wrap)ctrl_link_address
tests_bench_job_scale_processes_LDADD = lib/libshiftrooms.la $(ROOMS_BELOW) common/libcli.la $(IBVERBS_LIBS) $(CJSON_LIBS)
