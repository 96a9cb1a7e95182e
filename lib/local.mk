# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# libshift.so: core (the pure state machine), health, stats, verbs.
