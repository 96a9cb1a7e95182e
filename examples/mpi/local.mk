# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
EXTRA_DIST += examples/mpi/train.c examples/mpi/README.md
