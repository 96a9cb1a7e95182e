# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The rendezvous client, and shift-kvd over etcd.

# libc only: it ends up inside libshift.so.
noinst_LTLIBRARIES += kv/libkvclient.la
kv_libkvclient_la_SOURCES = \
	kv/proto.c kv/proto.h kv/table.c kv/table.h kv/list.h \
	kv/client.c kv/client.h kv/client_io.c kv/client_priv.h

bin_PROGRAMS += kv/shift-kvd
kv_shift_kvd_SOURCES = \
	kv/shift-kvd.c kv/kvd.h kv/kvd_options.c kv/kvd_run.c kv/kvd_loop.c kv/kvd_status.c \
	kv/kvd_clients.c kv/kvd_subs.c kv/kvd_deaths.c kv/kvd_store.c kv/kvd_session.c kv/kvd_txn.c kv/kvd_read.c kv/kvd_watch.c kv/kvd_crash.c kv/kvd_switch.c \
	kv/sorted.c kv/sorted.h \
	kv/etcd.c kv/etcd.h kv/etcd_json.c kv/ask.c kv/ask.h \
	kv/job_key.c kv/job_key.h kv/endpoint.c kv/endpoint.h kv/listener.c kv/listener.h \
	$(COLL_READER) \
	kv/kvd_etcd.c kv/kvd_etcd.h kv/kvd_etcd_query.c kv/kvd_etcd_listen.c kv/kvd_guard.c
kv_shift_kvd_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(CURL_CFLAGS)
kv_shift_kvd_LDADD = common/libcli.la kv/libkvclient.la lib/libshiftcore.la $(REPORT_LIBS) $(CURL_LIBS)

noinst_PROGRAMS += tests/kv/kv_shell
tests_kv_kv_shell_SOURCES = tests/kv/kv_shell.c
tests_kv_kv_shell_LDADD = kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la

noinst_PROGRAMS += tests/kv/kv_storm
tests_kv_kv_storm_SOURCES = tests/kv/kv_storm.c kv/ask.c
tests_kv_kv_storm_LDADD = kv/libkvclient.la lib/libshiftcore.la lib/libshiftbase.la
EXTRA_DIST += tests/kv/hostile_etcd.py tests/kv/etcd_proxy.py tests/kv/crowd.py
