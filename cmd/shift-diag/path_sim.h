/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the readers of the authors' simulator share. One thread. */
#ifndef SHIFT_DIAG_PATH_SIM_H
#define SHIFT_DIAG_PATH_SIM_H

#include "cmd/shift-diag/path.h"

struct sim_node {
	bool is_switch;
	int *port; /* of the telemetry, in the order of their numbers, which begin with 1 */
	size_t ports;
};

struct sim_topology {
	struct sim_node *node;
	size_t nodes;
};

/* A text, line by line, and the words of a line. */
struct sim_lines {
	const char *name;
	char *next; /* line */
	char *word; /* of the line, the next */
	size_t line;
};

/* The next line, which may be empty: false: there is none. */
bool sim_line(struct sim_lines *in);

/* The next word of the line, or NULL. */
char *sim_word(struct sim_lines *in);

/* The next word as a whole number: 1; 0: there is none; -1: it is something else. */
int sim_number(struct sim_lines *in, uint64_t *v);

/* At most max of them; how many there are before the end of the line, or what is no number. */
int sim_numbers(struct sim_lines *in, uint64_t *v, int max);

/* The port of that number. topology may be NULL. PATH_NONE: there is none. */
int sim_port(struct telemetry *t, const struct sim_topology *topology, uint64_t node, bool is_host,
	     uint64_t number);

#endif
