# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# A libibverbs.so.1 without RDMA (nullverbs.h), for tests and for shift-bench verbs. It is installed where nothing
# looks for it: it is found through LD_LIBRARY_PATH only.
nulldir = $(pkglibdir)/null
null_LTLIBRARIES = tests/nullverbs/libibverbs.la
tests_nullverbs_libibverbs_la_SOURCES = \
	tests/nullverbs/nullverbs.h tests/nullverbs/builder.c tests/nullverbs/channel.c tests/nullverbs/device.c tests/nullverbs/events.c tests/nullverbs/objects.c \
	tests/nullverbs/poll_ex.c tests/nullverbs/qp.c tests/nullverbs/data.c tests/nullverbs/psn.c tests/nullverbs/srq.c tests/nullverbs/ud.c
tests_nullverbs_libibverbs_la_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_nullverbs_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 \
	-Wl,-z,defs -Wl,--version-script,$(srcdir)/tests/nullverbs/nullverbs.map
tests_nullverbs_libibverbs_la_DEPENDENCIES = tests/nullverbs/nullverbs.map
EXTRA_DIST += tests/nullverbs/nullverbs.map

# A libmlx5.so.1 over it.
if HAVE_MLX5
check_LTLIBRARIES += tests/nullverbs/libmlx5.la
tests_nullverbs_libmlx5_la_SOURCES = \
	tests/nullverbs/nullverbs.h tests/nullverbs/mlx5.c lib/preload/direct_verbs.h
tests_nullverbs_libmlx5_la_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_nullverbs_libmlx5_la_LDFLAGS = $(AM_LDFLAGS) -shared -rpath /nowhere -version-info 1:0:0 \
	-Wl,-z,defs -Wl,--version-script,$(srcdir)/tests/nullverbs/mlx5.map
tests_nullverbs_libmlx5_la_LIBADD = $(IBVERBS_LIBS)
tests_nullverbs_libmlx5_la_DEPENDENCIES = tests/nullverbs/mlx5.map
endif
EXTRA_DIST += tests/nullverbs/mlx5.map
