# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The faults under shift-inject.
noinst_LTLIBRARIES += faultinject/libfaultinject.la
faultinject_libfaultinject_la_SOURCES = \
	faultinject/inject.h faultinject/faults.c faultinject/run.c faultinject/nic.c \
	faultinject/journal.c faultinject/undo.c faultinject/guard.c \
	faultinject/rtnl.h faultinject/rtnl.c faultinject/belongings.c faultinject/tc.c \
	faultinject/bpf.h faultinject/bpf.c faultinject/program.h faultinject/program.c \
	faultinject/link.c faultinject/packet.c faultinject/queue.c faultinject/process.c \
	faultinject/device.h faultinject/device.c faultinject/congest.c
faultinject_libfaultinject_la_CFLAGS = $(AM_CFLAGS) $(LIBNL_CFLAGS) $(CJSON_CFLAGS) $(IBVERBS_CFLAGS)
INJECT_LIBS = faultinject/libfaultinject.la $(REPORT_LIBS) $(LIBNL_LIBS) $(IBVERBS_LIBS)
