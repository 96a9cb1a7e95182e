# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that know nothing of shift: built always, as they run inside the hosts.
noinst_PROGRAMS += tests/clients/rc_trace
tests_clients_rc_trace_SOURCES = tests/clients/rc_trace.c
tests_clients_rc_trace_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_clients_rc_trace_LDADD = $(IBVERBS_LIBS)

noinst_PROGRAMS += tests/clients/qp_record
tests_clients_qp_record_SOURCES = tests/clients/qp_record.c
tests_clients_qp_record_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(CJSON_CFLAGS)
tests_clients_qp_record_LDADD = $(IBVERBS_LIBS) $(CJSON_LIBS)
