/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The MPI library below ours, and what differs between Open MPI's ABI and MPICH's. Nothing of it is
 * linked: it is there when the program has it. Any thread, no lock.
 */
#ifndef SHIFT_COLLECTIVES_MPI_REAL_H
#define SHIFT_COLLECTIVES_MPI_REAL_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The function or object of that name: of the program, of what it is linked with, or of an MPI
 * library that was loaded later. NULL: there is none. */
void *mpi_symbol(const char *name);

/* The same for a function that the program has called already by its other name. Ends the process
 * with a message if there is none, as the loader would have done without us. */
void *mpi_function(void **known, const char *name);

/* PMPI_name of the MPI library, to be called. */
#define PMPI_CALL(name)                                                            \
	((__typeof__(&PMPI_##name))__extension__({                                 \
		static void *known;                                                \
		void *f = __atomic_load_n(&known, __ATOMIC_RELAXED);               \
		__builtin_expect(!f, 0) ? mpi_function(&known, "PMPI_" #name) : f; \
	}))

/* What the program's call of MPI_name is for, were it not for us: a tool that it is linked with,
 * which wraps it, or MPI. Such a tool, or a library in place of MPI, may have no PMPI_name. */
void *mpi_next(void **known, const char *name);

#define NEXT_CALL(name)                                                       \
	((__typeof__(&PMPI_##name))__extension__({                            \
		static void *known;                                           \
		void *f = __atomic_load_n(&known, __ATOMIC_RELAXED);          \
		__builtin_expect(!f, 0) ? mpi_next(&known, "MPI_" #name) : f; \
	}))

/* A predefined handle: an object of Open MPI's library, a number of MPICH's. */
#ifdef OPEN_MPI
#define MPI_HANDLE(type, number, object) ((type)mpi_symbol(object))
#else
#define MPI_HANDLE(type, number, object) (number)
#endif

/* As a key of a handle_map. */
#ifdef OPEN_MPI
#define MPI_KEY(handle) ((uint64_t)(uintptr_t)(handle))
#else
#define MPI_KEY(handle) ((uint64_t)(uint32_t)(handle))
#endif

#endif
