/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Trains a small network on handwritten digits, on all ranks of an MPI job together.
 *
 * Each rank has all weights, computes the gradients of its share of a batch, and MPI_Allreduce adds
 * those of all ranks. They are added as integers, so the order does not matter: the losses and the
 * weights are the same to the bit for any number of ranks, in any run, whatever happened on the
 * way. `train -n STEPS` by itself, without mpirun, says what they must be. Nothing here knows of
 * shift.
 *
 *	mpicc -O2 -ffp-contract=off -o train train.c
 */
#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"

enum {
	PIXELS = 64, /* of an image, 0 to 16 */
	HIDDEN = 64,
	CLASSES = 10,
	SAMPLES_MAX = 4000,
	BATCH = 60,
	UNITS_BITS = 32, /* a gradient of 1 is so many bits */
	/* Where a layer's weights begin, each neuron's in a row, its bias last. */
	FIRST = 0,
	SECOND = HIDDEN * (PIXELS + 1),
	WEIGHTS = SECOND + CLASSES * (HIDDEN + 1),
	LOSS = WEIGHTS, /* of what is added up over all ranks, the last */
	SUMS,
};

static struct {
	float pixel[PIXELS];
	int label;
} sample[SAMPLES_MAX];
static int samples, training_samples;
static int order[SAMPLES_MAX]; /* of this epoch */
static double weight[WEIGHTS], velocity[WEIGHTS];
static int64_t own_sum[SUMS], sum[SUMS];
static int rank, ranks;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "train: %s: %s\n", what, why);
	exit(1);
}

/* 0 to below n. */
static uint32_t next_random(uint64_t *state, uint32_t n)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(((*state >> 32) * n) >> 32);
}

/* ---- data ---------------------------------------------------------------------------------- */

static bool read_sample(char *line)
{
	char *field = strtok(line, ","), *end;

	for (int i = 0; i <= PIXELS; i++, field = strtok(NULL, ",\n")) {
		double value = field ? strtod(field, &end) : 0;

		if (!field || end == field)
			return false;
		if (i < PIXELS)
			sample[samples].pixel[i] = (float)value / 16;
		else
			sample[samples].label = (int)value;
	}
	return sample[samples].label >= 0 && sample[samples].label < CLASSES;
}

/* Before MPI_Init: a process with open queue pairs had better not fork. */
static void read_digits(const char *path)
{
	size_t n = strlen(path);
	bool packed = n > 3 && !strcmp(path + n - 3, ".gz");
	FILE *f;
	char line[1024];

	if (access(path, R_OK) || setenv("DATA", path, 1))
		die(path, strerror(errno));
	f = packed ? popen("gzip -dc -- \"$DATA\"", "r") : fopen(path, "r");
	if (!f)
		die(path, strerror(errno));
	while (samples < SAMPLES_MAX && fgets(line, sizeof(line), f))
		if (read_sample(line))
			samples++;
	if ((packed ? pclose(f) : fclose(f)) || samples < 2 * BATCH)
		die(path, "not the digits of scikit-learn (64 pixels and a label in a line)");
}

/* Digits that nobody wrote: each a random picture of its class, with noise. */
static void make_digits(void)
{
	float picture[CLASSES][PIXELS];
	uint64_t state = 1;

	for (int c = 0; c < CLASSES; c++)
		for (int p = 0; p < PIXELS; p++)
			picture[c][p] = (float)next_random(&state, 17) / 16;
	for (samples = 0; samples < 1797; samples++) {
		sample[samples].label = (int)next_random(&state, CLASSES);
		for (int p = 0; p < PIXELS; p++)
			sample[samples].pixel[p] = (picture[sample[samples].label][p] +
						    (float)next_random(&state, 33) / 16) /
						   3;
	}
}

/* ---- the network --------------------------------------------------------------------------- */

/*
 * exp(x) for x <= 0, by additions and multiplications only, which have the same result on each
 * machine; the one of libm has not. e^x = (e^(x/1024))^1024.
 */
static double exponential(double x)
{
	double y = x < -700 ? -700.0 / 1024 : x / 1024, e = 1;

	for (int n = 12; n; n--)
		e = 1 + y * e / n;
	for (int i = 0; i < 10; i++)
		e *= e;
	return e;
}

static double neuron(const double *w, const double *in, int n)
{
	double x = w[n];

	for (int i = 0; i < n; i++)
		x += w[i] * in[i];
	return x;
}

/* What each class is given, of 1; and the largest. */
static int classify(const float *pixel, double in[PIXELS], double hidden[HIDDEN],
		    double share[CLASSES])
{
	double total = 0, most;
	int best = 0;

	for (int p = 0; p < PIXELS; p++)
		in[p] = pixel[p];
	for (int h = 0; h < HIDDEN; h++) {
		hidden[h] = neuron(weight + FIRST + h * (PIXELS + 1), in, PIXELS);
		if (hidden[h] < 0)
			hidden[h] = 0;
	}
	for (int c = 0; c < CLASSES; c++) {
		share[c] = neuron(weight + SECOND + c * (HIDDEN + 1), hidden, HIDDEN);
		if (share[c] > share[best])
			best = c;
	}
	most = share[best];
	for (int c = 0; c < CLASSES; c++)
		total += share[c] = exponential(share[c] - most);
	for (int c = 0; c < CLASSES; c++)
		share[c] /= total;
	return best;
}

/* Rounded once for each sample, so that it does not matter who adds it to what. */
static void add(int i, double x)
{
	own_sum[i] += (int64_t)(x * (1LL << UNITS_BITS));
}

static void add_row(int at, double error, const double *in, int n)
{
	for (int i = 0; i < n; i++)
		add(at + i, error * in[i]);
	add(at + n, error);
}

/* -ln(share), to 1 / 2^20: what is shown as the loss. */
static double minus_log(double share)
{
	double low = 0, high = 64;

	while (high - low > 1.0 / (1 << 20)) {
		double middle = (low + high) / 2;

		*(exponential(-middle) > share ? &low : &high) = middle;
	}
	return low;
}

static void add_gradients(int s)
{
	double in[PIXELS], hidden[HIDDEN], error[CLASSES], back;
	int label = sample[s].label;

	classify(sample[s].pixel, in, hidden, error);
	add(LOSS, minus_log(error[label]));
	error[label] -= 1;
	for (int c = 0; c < CLASSES; c++)
		add_row(SECOND + c * (HIDDEN + 1), error[c], hidden, HIDDEN);
	for (int h = 0; h < HIDDEN; h++) {
		if (hidden[h] == 0)
			continue;
		back = 0;
		for (int c = 0; c < CLASSES; c++)
			back += error[c] * weight[SECOND + c * (HIDDEN + 1) + h];
		add_row(FIRST + h * (PIXELS + 1), back, in, PIXELS);
	}
}

/* ---- training ------------------------------------------------------------------------------ */

static void begin_weights(void)
{
	uint64_t state = 2;

	for (int i = 0; i < WEIGHTS; i++)
		weight[i] = ((double)next_random(&state, 2001) - 1000) / 8000;
	for (int i = 0; i < training_samples; i++)
		order[i] = i;
}

static void shuffle(void)
{
	static uint64_t state = 3;

	for (int i = training_samples - 1; i > 0; i--) {
		int j = (int)next_random(&state, (uint32_t)i + 1), other = order[j];

		order[j] = order[i];
		order[i] = other;
	}
}

/* Returns the loss of the batch. */
static double train_step(long step)
{
	int batches = training_samples / BATCH, batch = (int)(step % batches);

	if (!batch)
		shuffle();
	memset(own_sum, 0, sizeof(own_sum));
	for (int i = rank; i < BATCH; i += ranks)
		add_gradients(order[batch * BATCH + i]);
	MPI_Allreduce(own_sum, sum, SUMS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < WEIGHTS; i++) {
		velocity[i] = velocity[i] * 0.9 -
			      (double)sum[i] / (1LL << UNITS_BITS) / BATCH * 0.02;
		weight[i] += velocity[i];
	}
	return (double)sum[LOSS] / (1LL << UNITS_BITS) / BATCH;
}

/* Of the samples that it was not trained with, in hundredths. */
static double accuracy(void)
{
	double in[PIXELS], hidden[HIDDEN], share[CLASSES];
	int right = 0;

	for (int s = training_samples; s < samples; s++)
		right += classify(sample[s].pixel, in, hidden, share) == sample[s].label;
	return 100.0 * right / (samples - training_samples);
}

/* FNV-1a of all weights. */
static uint64_t checksum(void)
{
	const unsigned char *byte = (const unsigned char *)weight;
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < sizeof(weight); i++)
		h = (h ^ byte[i]) * 0x100000001b3;
	return h;
}

/* Each rank has its own copy of the weights: they must be the same ones. */
static void check_copies(void)
{
	uint64_t own = checksum(), least, most;

	MPI_Allreduce(&own, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&own, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
	if (least != most) {
		fprintf(stderr, "train: rank %d: the ranks' weights differ\n", rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void train(long steps, long every)
{
	double since = MPI_Wtime(), now, loss;

	for (long step = 1; step <= steps; step++) {
		loss = train_step(step - 1);
		if (rank || (step % every && step != steps))
			continue;
		now = MPI_Wtime();
		printf("step %ld, loss %.6f, %.0f samples/s\n", step, loss,
		       (double)(step % every ? step % every : every) * BATCH / (now - since));
		since = now;
	}
	check_copies();
	if (!rank)
		printf("%ld steps on %d ranks, %.1f %% of %d other digits right, weights %016llx\n",
		       steps, ranks, accuracy(), samples - training_samples,
		       (unsigned long long)checksum());
}

static void usage(void)
{
	fprintf(stderr, "usage: train [-n STEPS] [-e STEPS between progress lines] [-d "
			"digits.csv.gz | -d made]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *data = access(DIGITS, R_OK) ? "made" : DIGITS;
	long steps = 1000, every = 50;
	int c;

	while ((c = getopt(argc, argv, "n:e:d:")) != -1) {
		switch (c) {
		case 'n': steps = atol(optarg); break;
		case 'e': every = atol(optarg); break;
		case 'd': data = optarg; break;
		default: usage();
		}
	}
	if (optind < argc || steps < 1 || every < 1)
		usage();
	if (strcmp(data, "made"))
		read_digits(data);
	else
		make_digits();
	training_samples = samples * 5 / 6 / BATCH * BATCH;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin_weights();
	if (!rank)
		printf("training with %d digits (%s) on %d ranks\n", training_samples, data, ranks);
	train(steps, every);
	MPI_Finalize();
	return 0;
}
