# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# A plugin for NCCL, and what drives any: for those who have no GPU at hand.
noinst_LTLIBRARIES += examples/nccl/libnccl-net-verbs.la
examples_nccl_libnccl_net_verbs_la_SOURCES = examples/nccl/net_verbs.c examples/nccl/net_verbs.h \
	examples/nccl/net_connect.c examples/nccl/net_plugin.h
examples_nccl_libnccl_net_verbs_la_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)
examples_nccl_libnccl_net_verbs_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
examples_nccl_libnccl_net_verbs_la_LIBADD = $(IBVERBS_LIBS)

noinst_PROGRAMS += examples/nccl/net-allreduce
examples_nccl_net_allreduce_SOURCES = examples/nccl/net_allreduce.c examples/nccl/net_any.c \
	examples/nccl/net_any.h examples/nccl/net_plugin.h

EXTRA_DIST += examples/README.md examples/nccl/README.md examples/ssh/shift-on-hosts examples/slurm/job.sbatch \
	examples/kubernetes/job.yaml
