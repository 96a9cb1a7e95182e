# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The bound on the cost of the library; tests/bench/datapath in the build directory prints it.
EXTRA_DIST += tests/bench/datapath
