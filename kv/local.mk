# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The rendezvous client, and shift-kvd over etcd.
