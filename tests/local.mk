# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB

include tests/unit/local.mk
include tests/fuzz/local.mk
include tests/model/local.mk
include tests/sim/local.mk
