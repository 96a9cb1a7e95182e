# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Under make check: a bounded, deterministic run with whatever compiler there is. With clang and
# its libFuzzer runtime (libclang-rt-*-dev): make fuzz_msg-libfuzzer && ./fuzz_msg-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_msg
TESTS += tests/fuzz/fuzz_msg
tests_fuzz_fuzz_msg_SOURCES = tests/fuzz/fuzz_msg.c tests/fuzz/rnd.h
tests_fuzz_fuzz_msg_LDADD = lib/libshiftcore.la

FUZZ_CC = clang
fuzz_msg-libfuzzer: $(srcdir)/tests/fuzz/fuzz_msg.c $(srcdir)/lib/core/msg.c
	$(FUZZ_CC) -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -DSHIFT_LIBFUZZER \
		-I$(srcdir) -o $@ $(srcdir)/tests/fuzz/fuzz_msg.c $(srcdir)/lib/core/msg.c \
		$(srcdir)/lib/core/siphash.c $(srcdir)/lib/core/psn.c
CLEANFILES += fuzz_msg-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_stats
TESTS += tests/fuzz/fuzz_stats
tests_fuzz_fuzz_stats_SOURCES = tests/fuzz/fuzz_stats.c tests/fuzz/rnd.h
tests_fuzz_fuzz_stats_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_fuzz_fuzz_stats_LDADD = $(REPORT_LIBS)

fuzz_stats_libfuzzer_sources = tests/fuzz/fuzz_stats.c lib/stats/read.c lib/stats/json.c lib/stats/note_names.c \
	lib/stats/totals.c lib/stats/layout.c lib/stats/summary.c $(filter %.c,$(CORE_SOURCES))
fuzz_stats-libfuzzer: $(fuzz_stats_libfuzzer_sources)
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER $(CJSON_CFLAGS) -I$(srcdir) -o $@ $^ $(CJSON_LIBS)
CLEANFILES += fuzz_stats-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_scenario
TESTS += tests/fuzz/fuzz_scenario
tests_fuzz_fuzz_scenario_SOURCES = tests/fuzz/fuzz_scenario.c tests/fuzz/mutate_text.h tests/fuzz/rnd.h
tests_fuzz_fuzz_scenario_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_fuzz_fuzz_scenario_LDADD = $(INJECT_LIBS)

# Only the reader is instrumented; the faults behind it come from the library.
fuzz_scenario-libfuzzer: $(srcdir)/tests/fuzz/fuzz_scenario.c $(srcdir)/faultinject/scenario.c \
		faultinject/libfaultinject.la lib/libshiftreport.la
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER $(CJSON_CFLAGS) -I$(srcdir) -o $@ \
		$(srcdir)/tests/fuzz/fuzz_scenario.c $(srcdir)/faultinject/scenario.c \
		faultinject/.libs/libfaultinject.a lib/.libs/libshiftreport.a \
		lib/.libs/libshiftcore.a lib/.libs/libshiftbase.a \
		$(CJSON_LIBS) $(LIBNL_LIBS) $(IBVERBS_LIBS)
CLEANFILES += fuzz_scenario-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_journal
TESTS += tests/fuzz/fuzz_journal
tests_fuzz_fuzz_journal_SOURCES = tests/fuzz/fuzz_journal.c tests/fuzz/mutate_text.h tests/fuzz/rnd.h
tests_fuzz_fuzz_journal_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(LIBNL_CFLAGS)
tests_fuzz_fuzz_journal_LDADD = $(INJECT_LIBS)

fuzz_journal_libfuzzer_sources = tests/fuzz/fuzz_journal.c faultinject/journal.c faultinject/json.c \
	faultinject/link_state.c faultinject/rtnl_restore.c
fuzz_journal-libfuzzer: $(fuzz_journal_libfuzzer_sources) faultinject/libfaultinject.la lib/libshiftreport.la
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER $(CJSON_CFLAGS) $(LIBNL_CFLAGS) -I$(srcdir) -o $@ $(filter %.c,$^) \
		faultinject/.libs/libfaultinject.a lib/.libs/libshiftreport.a \
		lib/.libs/libshiftcore.a lib/.libs/libshiftbase.a \
		$(CJSON_LIBS) $(LIBNL_LIBS) $(IBVERBS_LIBS)
CLEANFILES += fuzz_journal-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_records
TESTS += tests/fuzz/fuzz_records
FUZZ_RECORDS_SOURCES = tests/fuzz/fuzz_records.c cmd/shift-diag/records.c cmd/shift-diag/records_add.c
tests_fuzz_fuzz_records_SOURCES = $(FUZZ_RECORDS_SOURCES) tests/fuzz/mutate_text.h tests/fuzz/rnd.h
tests_fuzz_fuzz_records_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_fuzz_fuzz_records_LDADD = common/libcli.la $(CJSON_LIBS) -lm

fuzz_records-libfuzzer: $(FUZZ_RECORDS_SOURCES) common/libcli.la
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER $(CJSON_CFLAGS) -I$(srcdir) -I. -o $@ \
		$(filter %.c,$^) common/.libs/libcli.a $(CJSON_LIBS) -lm
CLEANFILES += fuzz_records-libfuzzer

check_PROGRAMS += tests/fuzz/fuzz_telemetry
TESTS += tests/fuzz/fuzz_telemetry
FUZZ_TELEMETRY_SOURCES = tests/fuzz/fuzz_telemetry.c $(DIAG_PATH_SOURCES)
tests_fuzz_fuzz_telemetry_SOURCES = $(FUZZ_TELEMETRY_SOURCES) tests/fuzz/mutate_text.h tests/fuzz/rnd.h
tests_fuzz_fuzz_telemetry_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
tests_fuzz_fuzz_telemetry_LDADD = common/libcli.la $(CJSON_LIBS) -lm

fuzz_telemetry-libfuzzer: $(FUZZ_TELEMETRY_SOURCES) common/libcli.la
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER $(CJSON_CFLAGS) -I$(srcdir) -I. -o $@ \
		$(filter %.c,$^) common/.libs/libcli.a $(CJSON_LIBS) -lm
CLEANFILES += fuzz_telemetry-libfuzzer

# shift-kvd between its clients and its etcd, with a clock of the fuzzer's.
FUZZ_KVD_SOURCES = tests/fuzz/fuzz_kvd.c kv/kvd_clients.c kv/kvd_subs.c kv/kvd_deaths.c \
	kv/kvd_store.c kv/kvd_session.c kv/kvd_txn.c kv/kvd_read.c kv/kvd_watch.c kv/sorted.c kv/kvd_status.c kv/etcd_json.c \
	kv/job_key.c \
	kv/ask.c
check_PROGRAMS += tests/fuzz/fuzz_kvd
TESTS += tests/fuzz/fuzz_kvd
tests_fuzz_fuzz_kvd_SOURCES = $(FUZZ_KVD_SOURCES) tests/fuzz/rnd.h
tests_fuzz_fuzz_kvd_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) -Dnow_ms=fuzz_now_ms
tests_fuzz_fuzz_kvd_LDADD = common/libcli.la kv/libkvclient.la $(REPORT_LIBS)

# The daemon is instrumented; what it stands on comes from the libraries.
fuzz_kvd-libfuzzer: $(FUZZ_KVD_SOURCES) common/libcli.la kv/libkvclient.la lib/libshiftreport.la
	$(FUZZ_CC) -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
		-DSHIFT_LIBFUZZER -Dnow_ms=fuzz_now_ms $(CJSON_CFLAGS) -I$(srcdir) -I. -o $@ \
		$(filter %.c,$^) common/.libs/libcli.a kv/.libs/libkvclient.a \
		lib/.libs/libshiftreport.a lib/.libs/libshiftcore.a lib/.libs/libshiftbase.a $(CJSON_LIBS)
CLEANFILES += fuzz_kvd-libfuzzer
