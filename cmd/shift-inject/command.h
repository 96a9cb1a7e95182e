/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: what its commands share. */
#ifndef SHIFT_INJECT_COMMAND_H
#define SHIFT_INJECT_COMMAND_H

#include "faultinject/inject.h"

/* One line on stderr. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void help(const char *text);

/* What a fault was asked for, checked. Ends the process on anything that is not understood. */
void options_parse(const struct fault *fault, struct inject_options *o, int argc, char **argv);

/* Values: 0, or -1 if it is none. */
int parse_us(const char *s, int64_t *us);      /* 2s, 5ms, 100us */
int parse_share(const char *s, double *share); /* 1%, 0.1% */
int parse_bits(const char *s, uint64_t *bits); /* 1gbit, 200mbit */
int parse_number(const char *s, uint64_t min, uint64_t max, uint64_t *n);

/* argv[0] is what getopt's messages begin with: "shift-inject: loss". */
int cmd_fault(const struct fault *fault, int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_undo(int argc, char **argv);

#endif
