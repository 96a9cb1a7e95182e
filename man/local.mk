# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
dist_man_MANS += man/shift-testbed.1 man/shift-kvd.1 man/shift-ctl.1 man/shift-run.1 man/shift-inject.1 man/shift-bench.1 man/shift-diag.1 \
	man/shift-report.5 man/shift-records.5 man/shift-telemetry.5 man/shift-scenario.5 man/shift.7
