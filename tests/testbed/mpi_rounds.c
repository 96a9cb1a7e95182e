/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Ranks that compute (sleep) and then add up an array, again and again, for SECONDS:
 *
 *   mpi_rounds KB COMPUTE_MS SECONDS
 *
 * SIGUSR1: the rank stops (SIGSTOP) before its next collective, until SIGCONT.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t shall_stop;

static void note_stop(int signal)
{
	(void)signal;
	shall_stop = 1;
}

static void compute(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&t, &t))
		;
}

int main(int argc, char **argv)
{
	long n = argc > 3 ? atol(argv[1]) * 128 : 0, ms = n ? atol(argv[2]) : 0, rounds = 0;
	double end = n ? atof(argv[3]) : 0, began, *mine, *sum;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	mine = calloc((size_t)n + 1, sizeof(*mine));
	sum = calloc((size_t)n + 1, sizeof(*sum));
	if (n < 1 || !mine || !sum)
		MPI_Abort(MPI_COMM_WORLD, 2);
	signal(SIGUSR1, note_stop);
	began = MPI_Wtime();
	/* All end after the same round. */
	for (sum[0] = 0; !sum[0]; rounds++) {
		compute(ms);
		if (shall_stop) {
			shall_stop = 0;
			raise(SIGSTOP);
		}
		mine[0] = !rank && MPI_Wtime() - began > end;
		MPI_Allreduce(mine, sum, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (!rank)
		printf("%ld rounds, %.1f ms each\n", rounds,
		       (MPI_Wtime() - began) * 1000 / (double)rounds);
	MPI_Finalize();
	return 0;
}
