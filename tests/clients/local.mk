# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that do not know of shift: built always, as they run inside the hosts.
rc_device = tests/clients/rc_device.c tests/clients/rc_device.h
tcp = tests/clients/tcp.c tests/clients/tcp.h

noinst_PROGRAMS += tests/clients/rc_trace
tests_clients_rc_trace_SOURCES = tests/clients/rc_trace.c $(rc_device)
tests_clients_rc_trace_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_clients_rc_trace_LDADD = $(IBVERBS_LIBS)

noinst_PROGRAMS += tests/clients/qp_record
tests_clients_qp_record_SOURCES = tests/clients/qp_record.c tests/clients/shell.h $(rc_device)
tests_clients_qp_record_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) $(CJSON_CFLAGS)
tests_clients_qp_record_LDADD = $(IBVERBS_LIBS) $(CJSON_LIBS)

noinst_PROGRAMS += tests/clients/srq_facts
tests_clients_srq_facts_SOURCES = tests/clients/srq_facts.c tests/clients/srq_facts.h \
	tests/clients/srq_drainer.c tests/clients/srq_cut.c \
	tests/clients/srq_lab.c tests/clients/srq_lab.h tests/clients/shell.h $(rc_device)
tests_clients_srq_facts_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)
tests_clients_srq_facts_LDADD = $(IBVERBS_LIBS)

pkglibexec_PROGRAMS += tests/clients/integrity/integrity tests/clients/integrity/integrity-dlopen
integrity = \
	tests/clients/integrity/integrity.h tests/clients/integrity/main.c \
	tests/clients/integrity/breaker.c tests/clients/integrity/cq.c \
	tests/clients/integrity/device.c tests/clients/integrity/drain.c \
	tests/clients/integrity/net.c tests/clients/integrity/options.c \
	tests/clients/integrity/pattern.c tests/clients/integrity/post.c \
	tests/clients/integrity/receive.c tests/clients/integrity/report.c \
	tests/clients/integrity/retire.c tests/clients/integrity/sequence.c \
	tests/clients/integrity/slots.c tests/clients/integrity/srq.c \
	tests/clients/integrity/srq_limit.c tests/clients/integrity/traffic.c \
	tests/clients/integrity/wr_api.c $(rc_device) $(tcp)
tests_clients_integrity_integrity_SOURCES = $(integrity) tests/clients/integrity/cm.c
tests_clients_integrity_integrity_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS) $(RDMACM_CFLAGS)
tests_clients_integrity_integrity_LDADD = $(RDMACM_LIBS) $(IBVERBS_LIBS)

# The same, which is linked with neither.
tests_clients_integrity_integrity_dlopen_SOURCES = $(integrity) tests/clients/integrity/by_dlopen.c
tests_clients_integrity_integrity_dlopen_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)

# What shift-bench runs beside a measurement, and as a training job.
rc_peer = tests/clients/rc_peer.c tests/clients/rc_peer.h $(rc_device) $(tcp)
pkglibexec_PROGRAMS += tests/clients/idle-qps tests/clients/train-steps
tests_clients_idle_qps_SOURCES = tests/clients/idle_qps.c $(rc_peer)
tests_clients_idle_qps_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_clients_idle_qps_LDADD = common/libcli.la $(IBVERBS_LIBS)
tests_clients_train_steps_SOURCES = tests/clients/train_steps.c $(rc_peer)
tests_clients_train_steps_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_clients_train_steps_LDADD = common/libcli.la $(IBVERBS_LIBS)

# Events of QPs on an SRQ, to a program that sleeps.
noinst_PROGRAMS += tests/clients/srq_events
tests_clients_srq_events_SOURCES = tests/clients/srq_events.c $(rc_peer)
tests_clients_srq_events_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)
tests_clients_srq_events_LDADD = common/libcli.la $(IBVERBS_LIBS)

# Finds libibverbs by itself, so it is not linked with it.
noinst_PROGRAMS += tests/clients/collective
tests_clients_collective_SOURCES = tests/clients/collective.c tests/clients/verbs_table.c \
	tests/clients/verbs_table.h $(tcp)
tests_clients_collective_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)

# lib/nic by itself.
noinst_PROGRAMS += tests/clients/link_test
tests_clients_link_test_SOURCES = tests/clients/link_test.c $(NIC_ALONE)
tests_clients_link_test_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)
tests_clients_link_test_LDADD = lib/libshiftnic.la lib/libshiftcore.la $(IBVERBS_LIBS)

# Plugins of NCCL's interface 9 and 10, for the tests of examples/nccl.
noinst_LTLIBRARIES += tests/clients/libnet9.la tests/clients/libnet10.la
net_wrapped = tests/clients/net_wrapped.c examples/nccl/net_plugin.h
tests_clients_libnet9_la_SOURCES = $(net_wrapped)
tests_clients_libnet9_la_CPPFLAGS = $(AM_CPPFLAGS) -DNET_VERSION=9
tests_clients_libnet9_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
tests_clients_libnet10_la_SOURCES = $(net_wrapped)
tests_clients_libnet10_la_CPPFLAGS = $(AM_CPPFLAGS) -DNET_VERSION=10
tests_clients_libnet10_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
