# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The shift-* commands, one file each.
