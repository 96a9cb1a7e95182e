# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
SIM_SOURCES = \
	tests/sim/arm.c tests/sim/cause.c tests/sim/doubt.c tests/sim/fault.c tests/sim/heap.c \
	tests/sim/host.c tests/sim/lives.c tests/sim/main.c tests/sim/net.c tests/sim/nic.c tests/sim/nic_rx.c \
	tests/sim/outage.c tests/sim/post.c tests/sim/prog.c tests/sim/ref.c tests/sim/report.c \
	tests/sim/run.c tests/sim/sim.h tests/sim/srq.c tests/sim/trace.c

check_PROGRAMS += tests/sim/sim tests/sim/replay
tests_sim_sim_SOURCES = $(SIM_SOURCES)
tests_sim_sim_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -DSHIFT_CHECKED
tests_sim_sim_LDADD = lib/libshiftcore-checked.la

# The model of a NIC repeats what real ones did (tests/sim/traces/*.jsonl).
tests_sim_replay_SOURCES = \
	tests/sim/heap.c tests/sim/net.c tests/sim/nic.c tests/sim/nic_rx.c tests/sim/replay.c \
	tests/sim/sim.h tests/sim/trace.c
tests_sim_replay_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_sim_replay_LDADD = lib/libshiftcore.la $(CJSON_LIBS)
tests_sim_replay_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)

SIM_TESTS = tests/sim/sim.test tests/sim/traces.test
TESTS += $(SIM_TESTS)
EXTRA_DIST += $(SIM_TESTS) tests/sim/traces/README tests/sim/traces/record \
	tests/sim/traces/scenarios.json tests/sim/traces/rxe-6.1.jsonl tests/sim/traces/rxe-6.12.jsonl

# 1,000,000 schedules: some minutes of one core; with SRQs 20.
SIM_JOBS = 1
.PHONY: check-long-sim
CHECK_LONG_TARGETS += check-long-sim
check-long-sim: tests/sim/sim
	tests/sim/sim --seeds 1..1000000 -j $(SIM_JOBS) --coverage
	tests/sim/sim --srq --seeds 152180001..153180000 -j $(SIM_JOBS)

# Which lines of lib/core are reached; fails below 95 %.
EXTRA_DIST += tests/coverage.sh
.PHONY: check-long-coverage
CHECK_LONG_TARGETS += check-long-coverage
check-long-coverage:
	$(srcdir)/tests/coverage.sh $(srcdir)
