# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Documents for people, one file a line.
EXTRA_DIST += \
	doc/architecture.md \
	doc/extending.md \
	doc/grafana-dashboard.json \
	doc/measurements.md \
	doc/protocol.md \
	doc/report.html \
	doc/training.svg \
	doc/report.json \
	doc/security.md \
	doc/shift-diag.md \
	doc/shift-diag-incident.html \
	doc/soft-roce.md \
	doc/srq.md
