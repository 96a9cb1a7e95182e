# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The rendezvous client, and shift-kvd over etcd.

# libc only: it ends up inside libshift.so.
noinst_LTLIBRARIES += kv/libkvclient.la
kv_libkvclient_la_SOURCES = \
	kv/proto.c kv/proto.h kv/table.c kv/table.h \
	kv/client.c kv/client.h kv/client-io.c kv/client-priv.h

bin_PROGRAMS += kv/shift-kvd
kv_shift_kvd_SOURCES = \
	kv/shift-kvd.c kv/kvd.h kv/kvd-options.c kv/kvd-run.c kv/kvd-loop.c kv/kvd-status.c \
	kv/kvd-clients.c kv/kvd-store.c kv/kvd-session.c kv/kvd-txn.c kv/kvd-watch.c kv/kvd-crash.c \
	kv/etcd.c kv/etcd.h kv/etcd-json.c kv/ask.c kv/ask.h \
	kv/kvd-etcd.c kv/kvd-etcd.h kv/kvd-guard.c
kv_shift_kvd_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(CURL_CFLAGS)
kv_shift_kvd_LDADD = kv/libkvclient.la $(REPORT_LIBS) $(CURL_LIBS)

noinst_PROGRAMS += tests/kv/kv_shell
tests_kv_kv_shell_SOURCES = tests/kv/kv_shell.c
tests_kv_kv_shell_LDADD = kv/libkvclient.la lib/libshiftbase.la
