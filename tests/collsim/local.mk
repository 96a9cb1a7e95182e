# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Simulated training jobs with faults, for the tests of shift-diag's analysers.
check_LTLIBRARIES += tests/collsim/libcollsim.la
tests_collsim_libcollsim_la_SOURCES = \
	tests/collsim/collsim.h tests/collsim/collsim.c tests/collsim/cases.c tests/collsim/scenario.h \
	tests/collsim/programs.c tests/collsim/faults.c tests/collsim/faults_net.c \
	tests/collsim/job.h tests/collsim/job.c tests/collsim/job_run.c tests/collsim/job_algorithms.c \
	tests/collsim/net.h tests/collsim/net.c tests/collsim/net_rates.h tests/collsim/net_rates.c \
	tests/collsim/topology.h tests/collsim/topology.c tests/collsim/telemetry.c \
	tests/collsim/emit_records.c tests/collsim/emit_text.c tests/collsim/rng.h
tests_collsim_libcollsim_la_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
collsim_libs = tests/collsim/libcollsim.la common/libcli.la $(CJSON_LIBS) -lm

check_PROGRAMS += tests/collsim/collsim
tests_collsim_collsim_SOURCES = tests/collsim/main.c cmd/shift-diag/records_add.c
tests_collsim_collsim_LDADD = $(collsim_libs)

COLLSIM_TESTS = tests/collsim/test_collsim_net tests/collsim/test_collsim_jobs tests/collsim/test_collsim_pulse \
	tests/collsim/test_collsim_path tests/collsim/test_collsim_scale
check_PROGRAMS += $(COLLSIM_TESTS)
TESTS += $(COLLSIM_TESTS)
tests_collsim_test_collsim_net_SOURCES = tests/collsim/test_collsim_net.c
tests_collsim_test_collsim_net_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_collsim_test_collsim_net_LDADD = tests/collsim/libcollsim.la $(CMOCKA_LIBS) -lm
tests_collsim_test_collsim_jobs_SOURCES = tests/collsim/test_collsim_jobs.c $(DIAG_RECORDS_SOURCES)
tests_collsim_test_collsim_jobs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_collsim_test_collsim_jobs_LDADD = $(collsim_libs) $(CMOCKA_LIBS)
tests_collsim_test_collsim_pulse_SOURCES = tests/collsim/test_collsim_pulse.c $(DIAG_PULSE_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_collsim_test_collsim_pulse_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_collsim_test_collsim_pulse_LDADD = $(collsim_libs) $(CMOCKA_LIBS)
tests_collsim_test_collsim_path_SOURCES = tests/collsim/test_collsim_path.c $(DIAG_PATH_SOURCES) $(DIAG_RECORDS_SOURCES) \
	cmd/shift-diag/path_verdict.h cmd/shift-diag/path_verdict.c
tests_collsim_test_collsim_path_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_collsim_test_collsim_path_LDADD = $(collsim_libs) $(CMOCKA_LIBS)
tests_collsim_test_collsim_scale_SOURCES = tests/collsim/test_collsim_scale.c cmd/shift-diag/path.h cmd/shift-diag/path_graph.c \
	$(DIAG_PULSE_SOURCES) $(DIAG_RECORDS_SOURCES)
tests_collsim_test_collsim_scale_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
tests_collsim_test_collsim_scale_LDADD = common/libcli.la $(CJSON_LIBS) -lm $(CMOCKA_LIBS)
