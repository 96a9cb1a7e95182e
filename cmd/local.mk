# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The shift-* commands, one file each.

# Whose backups are which NICs: for shift-run and shift-diag.
RAILS_SOURCES = common/rails.c common/rails.h lib/base/rail_list.c lib/base/rail_list.h lib/base/sysfs.c lib/base/sysfs.h

# The protected processes of this host: for shift-ctl and shift-diag.
LIVE_SOURCES = cmd/live/live.h cmd/live/processes.c cmd/live/live_show.c cmd/live/live_status.c cmd/live/live_events.c cmd/live/live_notes.c

bin_PROGRAMS += cmd/shift-ctl/shift-ctl
cmd_shift_ctl_shift_ctl_SOURCES = \
	cmd/shift-ctl/shift-ctl.c cmd/shift-ctl/ctl.h cmd/shift-ctl/ctl_options.c \
	cmd/shift-ctl/ask_all.c cmd/shift-ctl/cmd_status.c cmd/shift-ctl/cmd_events.c \
	cmd/shift-ctl/cmd_migrate.c cmd/shift-ctl/cmd_failback.c $(LIVE_SOURCES)
cmd_shift_ctl_shift_ctl_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_ctl_shift_ctl_LDADD = common/libcli.la $(REPORT_LIBS)

bin_PROGRAMS += cmd/shift-run/shift-run
cmd_shift_run_shift_run_SOURCES = \
	cmd/shift-run/shift-run.c cmd/shift-run/run.h cmd/shift-run/run_options.c \
	cmd/shift-run/settings.c cmd/shift-run/target.c cmd/shift-run/elf.c \
	cmd/shift-run/library.c cmd/shift-run/rails.c cmd/shift-run/job.c cmd/shift-run/kv_spec.c \
	cmd/shift-run/rendezvous.c cmd/shift-run/kvd.c cmd/shift-run/show.c cmd/shift-run/exec.c \
	cmd/shift-run/report.c cmd/shift-run/collectives.c cmd/shift-run/launchers.c cmd/shift-run/access.c kv/ask.c kv/ask.h \
	kv/job_key.c kv/job_key.h kv/endpoint.c kv/endpoint.h kv/listener.c kv/listener.h $(RAILS_SOURCES)
cmd_shift_run_shift_run_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"' -DBINDIR='"$(bindir)"'
cmd_shift_run_shift_run_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_run_shift_run_LDADD = common/libcli.la kv/libkvclient.la lib/libshiftcore.la $(REPORT_LIBS)

bin_PROGRAMS += cmd/shift-inject/shift-inject
cmd_shift_inject_shift_inject_SOURCES = \
	cmd/shift-inject/shift-inject.c cmd/shift-inject/command.h cmd/shift-inject/inject_options.c cmd/shift-inject/host.c \
	cmd/shift-inject/cmd_list.c cmd/shift-inject/cmd_undo.c \
	cmd/shift-inject/cmd_run.c cmd/shift-inject/cmd_random.c cmd/shift-inject/play.c \
	cmd/shift-inject/watch.c
cmd_shift_inject_shift_inject_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_inject_shift_inject_LDADD = common/libcli.la $(INJECT_LIBS)

# The page of --html.
shift_bench_report = \
	cmd/shift-bench/report_page.c cmd/shift-bench/report.h cmd/shift-bench/report_tree.c cmd/shift-bench/report_tree.h \
	cmd/shift-bench/report_figures.c cmd/shift-bench/report_details.c cmd/shift-bench/report_tables.c \
	cmd/shift-bench/plot.c cmd/shift-bench/plot.h
bin_PROGRAMS += cmd/shift-bench/shift-bench
cmd_shift_bench_shift_bench_SOURCES = \
	cmd/shift-bench/shift-bench.c cmd/shift-bench/bench.h cmd/shift-bench/options.c \
	cmd/shift-bench/stats.c cmd/shift-bench/stats.h cmd/shift-bench/histogram.c cmd/shift-bench/histogram.h \
	cmd/shift-bench/machine.c cmd/shift-bench/machine.h cmd/shift-bench/sample.c cmd/shift-bench/sample.h \
	cmd/shift-bench/hosts.c cmd/shift-bench/hosts.h cmd/shift-bench/run.c cmd/shift-bench/pair.c \
	cmd/shift-bench/protection.c cmd/shift-bench/protection.h cmd/shift-bench/perftest.c cmd/shift-bench/perftest.h cmd/shift-bench/plan.c cmd/shift-bench/plan.h \
	cmd/shift-bench/table.c cmd/shift-bench/table.h cmd/shift-bench/compare.c cmd/shift-bench/compare.h \
	cmd/shift-bench/cmd_latency.c cmd/shift-bench/cmd_bandwidth.c cmd/shift-bench/parts.h cmd/shift-bench/parts.c cmd/shift-bench/cmd_all.c cmd/shift-bench/cmd_failover.c cmd/shift-bench/cmd_timeline.c cmd/shift-bench/cmd_setup.c \
	cmd/shift-bench/cmd_training.c cmd/shift-bench/training.c cmd/shift-bench/training.h cmd/shift-bench/progress.c cmd/shift-bench/progress.h \
	cmd/shift-bench/fault.c cmd/shift-bench/fault.h cmd/shift-bench/marks.c cmd/shift-bench/marks.h cmd/shift-bench/idle.c cmd/shift-bench/idle.h \
	cmd/shift-bench/scene.c cmd/shift-bench/scene.h cmd/shift-bench/outage.c cmd/shift-bench/outage.h \
	cmd/shift-bench/bins.c cmd/shift-bench/bins.h cmd/shift-bench/cmd_compare.c cmd/shift-bench/cmd_report.c $(shift_bench_report) $(BENCH_VERBS_SOURCES)
cmd_shift_bench_shift_bench_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBDIR='"$(pkglibdir)"' -DPKGLIBEXECDIR='"$(pkglibexecdir)"'
cmd_shift_bench_shift_bench_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_bench_shift_bench_LDADD = common/libcli.la $(CJSON_LIBS) -lm

# What the analysers of shift-diag share: records in, verdicts out. Also for their tests.
DIAG_RECORDS_SOURCES = cmd/shift-diag/records.h cmd/shift-diag/records.c cmd/shift-diag/records_add.c \
	cmd/shift-diag/verdict.h cmd/shift-diag/verdict.c

AEGIS_SOURCES = cmd/shift-diag/aegis.h cmd/shift-diag/aegis_view.c cmd/shift-diag/aegis_hang.c \
	cmd/shift-diag/aegis_fail.c cmd/shift-diag/aegis_slow.c cmd/shift-diag/aegis_network.c cmd/shift-diag/logs.h cmd/shift-diag/logs.c cmd/shift-diag/each_file.h cmd/shift-diag/each_file.c \
	cmd/shift-diag/timeline.h cmd/shift-diag/timeline.c \
	cmd/shift-diag/foreign.h cmd/shift-diag/foreign.c cmd/shift-diag/foreign_ras.c
# Vedrfolnir's: the engine, and its readers. Also for their tests.
DIAG_PATH_SOURCES = cmd/shift-diag/path.h cmd/shift-diag/path_graph.c cmd/shift-diag/path_telemetry.c \
	cmd/shift-diag/path_provenance.c cmd/shift-diag/path_rating.c cmd/shift-diag/path_signatures.c \
	cmd/shift-diag/path_sim.h cmd/shift-diag/path_sim.c cmd/shift-diag/path_topology.c \
	cmd/shift-diag/path_telemetry_read.c cmd/shift-diag/path_records.c
# The analyser Pulse, without its command line.
DIAG_PULSE_SOURCES = cmd/shift-diag/pulse.h cmd/shift-diag/pulse_segments.c cmd/shift-diag/pulse_algorithms.c \
	cmd/shift-diag/pulse_traffic.c cmd/shift-diag/pulse_comms.c cmd/shift-diag/pulse_ops.c cmd/shift-diag/pulse_infer.c \
	cmd/shift-diag/pulse_stops.c cmd/shift-diag/pulse_slow.c cmd/shift-diag/pulse_verdict.c cmd/shift-diag/pulse_parallelism.c
# One answer from the verdicts of all of them.
DIAG_ANSWER_SOURCES = cmd/shift-diag/answer.h cmd/shift-diag/answer.c cmd/shift-diag/answer_show.c

bin_PROGRAMS += cmd/shift-diag/shift-diag
cmd_shift_diag_shift_diag_SOURCES = \
	cmd/shift-diag/shift-diag.c cmd/shift-diag/diag.h cmd/shift-diag/diag_options.c \
	cmd/shift-diag/cmd_explain.c cmd/shift-diag/explain.h cmd/shift-diag/explain_wc.c \
	cmd/shift-diag/explain_vendor.c cmd/shift-diag/explain_shift.c \
	cmd/shift-diag/nics.c cmd/shift-diag/nics.h cmd/shift-diag/cmd_rails.c cmd/shift-diag/cmd_rq_psn.c \
	cmd/shift-diag/metrics.c cmd/shift-diag/metrics.h cmd/shift-diag/metrics_processes.c \
	cmd/shift-diag/metrics_nics.c cmd/shift-diag/cmd_export.c \
	cmd/shift-diag/cmd_collect.c cmd/shift-diag/collect.h cmd/shift-diag/collect_gather.c cmd/shift-diag/collect_records.c \
	cmd/shift-diag/collect_epochs.c cmd/shift-diag/collect_epochs.h $(COLL_READER) \
	cmd/shift-diag/cmd_live.c cmd/shift-diag/diag_live.h cmd/shift-diag/cmd_top.c \
	cmd/shift-diag/ping.h cmd/shift-diag/ping_end.c cmd/shift-diag/ping_listen.c cmd/shift-diag/ping_paths.c \
	cmd/shift-diag/ping_show.c cmd/shift-diag/cmd_ping.c \
	cmd/shift-diag/precheck.h cmd/shift-diag/precheck_nics.c cmd/shift-diag/precheck_host.c cmd/shift-diag/cmd_precheck.c \
	$(DIAG_RECORDS_SOURCES) $(AEGIS_SOURCES) cmd/shift-diag/cmd_aegis.c \
	cmd/shift-diag/aegis_live.h cmd/shift-diag/aegis_live.c cmd/shift-diag/remote.h cmd/shift-diag/remote.c \
	$(DIAG_PATH_SOURCES) cmd/shift-diag/path_verdict.c cmd/shift-diag/path_verdict.h \
	cmd/shift-diag/path_run.c cmd/shift-diag/path_run.h cmd/shift-diag/cmd_path.c \
	$(DIAG_PULSE_SOURCES) cmd/shift-diag/cmd_pulse.c $(DIAG_ANSWER_SOURCES) cmd/shift-diag/cmd_analyze.c \
	cmd/shift-diag/diag_page.h cmd/shift-diag/diag_page.c cmd/shift-diag/diag_page_timeline.c cmd/shift-diag/diag_page_path.c \
	kv/endpoint.c kv/endpoint.h $(LIVE_SOURCES) \
	$(RAILS_SOURCES) $(NIC_ALONE)
cmd_shift_diag_shift_diag_CPPFLAGS = $(AM_CPPFLAGS) -DBINDIR='"$(bindir)"'
cmd_shift_diag_shift_diag_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_diag_shift_diag_LDADD = common/libcli.la lib/libshiftnic.la $(REPORT_LIBS) $(IBVERBS_LIBS) -lm

include cmd/shift-bench/verbs.mk
