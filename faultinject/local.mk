# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The faults under shift-inject.
noinst_LTLIBRARIES += faultinject/libfaultinject.la
faultinject_libfaultinject_la_SOURCES = \
	faultinject/inject.h faultinject/problem.c faultinject/clock.c faultinject/json.c faultinject/values.c faultinject/faults.c faultinject/run.c faultinject/nic.c faultinject/reach.c \
	faultinject/journal.c faultinject/journal_owner.c faultinject/netns.c faultinject/undo.c \
	faultinject/guard.c \
	faultinject/rtnl.h faultinject/rtnl.c faultinject/rtnl_ways.c faultinject/link_addrs.c faultinject/rtnl_restore.c \
	faultinject/link_state.h faultinject/link_state.c faultinject/tc.c \
	faultinject/bpf.h faultinject/bpf.c faultinject/packet_bpf.h faultinject/packet_bpf.c \
	faultinject/link.c faultinject/packet.c faultinject/queue.c faultinject/process.c \
	faultinject/device.h faultinject/device.c faultinject/congest.c \
	faultinject/scenario.h faultinject/scenario.c
faultinject_libfaultinject_la_CFLAGS = $(AM_CFLAGS) $(LIBNL_CFLAGS) $(CJSON_CFLAGS) $(IBVERBS_CFLAGS)
INJECT_LIBS = faultinject/libfaultinject.la $(REPORT_LIBS) $(LIBNL_LIBS) $(IBVERBS_LIBS)

scenariosdir = $(pkgdatadir)/scenarios
dist_scenarios_DATA = \
	faultinject/scenarios/ack-drop-storm.json faultinject/scenarios/both-rails-flap-in-turn.json \
	faultinject/scenarios/congestion.json faultinject/scenarios/cpu-contention.json \
	faultinject/scenarios/double-failure.json faultinject/scenarios/ecn-storm.json \
	faultinject/scenarios/large-packets-lost.json faultinject/scenarios/maintenance.json \
	faultinject/scenarios/nic-down-receiver.json faultinject/scenarios/nic-down.json \
	faultinject/scenarios/nic-flap.json faultinject/scenarios/packet-corruption.json \
	faultinject/scenarios/packet-loss.json faultinject/scenarios/pause-storm.json \
	faultinject/scenarios/reordering.json faultinject/scenarios/silent-blackhole.json \
	faultinject/scenarios/slow-receiver.json
