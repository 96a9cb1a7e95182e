# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The rendezvous client, and shift-kvd over etcd.

# libc only: it ends up inside libshift.so.
noinst_LTLIBRARIES += kv/libkvclient.la
kv_libkvclient_la_SOURCES = \
	kv/proto.c kv/proto.h kv/table.c kv/table.h \
	kv/client.c kv/client.h kv/client-io.c kv/client-priv.h

noinst_PROGRAMS += tests/kv/kv_shell
tests_kv_kv_shell_SOURCES = tests/kv/kv_shell.c
tests_kv_kv_shell_LDADD = kv/libkvclient.la
