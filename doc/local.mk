# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Documents for developers.
EXTRA_DIST += doc/protocol.md doc/extending.md
