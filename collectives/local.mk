# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Libraries that are preloaded behind libshift.so, and record collective operations (doc/architecture.md).
# They stand alone: libc only, nothing of MPI or NCCL is linked.

COLL_WRITER = collectives/coll_ring.c collectives/coll_ring.h collectives/coll_file.h collectives/handle_map.h \
	lib/stats/process_file.c lib/stats/process_file.h lib/base/run_dir.c lib/base/run_dir.h
COLL_MPI = collectives/mpi_collectives.c collectives/mpi_requests.c collectives/mpi_comms.c \
	collectives/mpi_world.c collectives/mpi_world.h collectives/mpi_real.c collectives/mpi_real.h $(COLL_WRITER)
COLL_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete -Wl,-z,defs -Wl,--no-undefined-version
COLL_CFLAGS = $(AM_CFLAGS) -pthread -ftls-model=initial-exec
COLL_INSTALLED = libshift-nccl

pkglib_LTLIBRARIES += collectives/libshift-nccl.la
collectives_libshift_nccl_la_SOURCES = collectives/nccl.c collectives/nccl_abi.h $(COLL_WRITER)
collectives_libshift_nccl_la_CFLAGS = $(COLL_CFLAGS)
collectives_libshift_nccl_la_LDFLAGS = $(COLL_LDFLAGS) -Wl,--version-script,$(srcdir)/collectives/nccl.map
collectives_libshift_nccl_la_DEPENDENCIES = collectives/nccl.map

if HAVE_OMPI
COLL_INSTALLED += libshift-mpi-ompi
pkglib_LTLIBRARIES += collectives/libshift-mpi-ompi.la
collectives_libshift_mpi_ompi_la_SOURCES = $(COLL_MPI)
collectives_libshift_mpi_ompi_la_CFLAGS = $(COLL_CFLAGS) $(OMPI_CFLAGS)
collectives_libshift_mpi_ompi_la_LDFLAGS = $(COLL_LDFLAGS) -Wl,--version-script,$(srcdir)/collectives/mpi.map
collectives_libshift_mpi_ompi_la_DEPENDENCIES = collectives/mpi.map
endif

if HAVE_MPICH
COLL_INSTALLED += libshift-mpi-mpich
pkglib_LTLIBRARIES += collectives/libshift-mpi-mpich.la
collectives_libshift_mpi_mpich_la_SOURCES = $(COLL_MPI)
collectives_libshift_mpi_mpich_la_CFLAGS = $(COLL_CFLAGS) $(MPICH_CFLAGS)
collectives_libshift_mpi_mpich_la_LDFLAGS = $(COLL_LDFLAGS) -Wl,--version-script,$(srcdir)/collectives/mpi.map
collectives_libshift_mpi_mpich_la_DEPENDENCIES = collectives/mpi.map
endif

EXTRA_DIST += $(COLL_MPI) collectives/mpi.map collectives/nccl.map

# The reader: for shift-diag and shift-kvd, which link REPORT_LIBS.
COLL_READER = collectives/coll_read.c collectives/coll_read.h collectives/coll_file.h
