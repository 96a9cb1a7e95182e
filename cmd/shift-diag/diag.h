/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-diag: what its commands share. One thread. */
#ifndef SHIFT_DIAG_H
#define SHIFT_DIAG_H

#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdbool.h>

#include "common/cli.h"

/* Documented in shift-diag(1). The numbers below 64 are verdicts; a command that cannot give one
 * because of its caller or of itself says so by a number that no verdict has. */
enum exit_status {
	EXIT_FINE = 0,
	EXIT_WARNING = 1,
	EXIT_CULPRIT = 2,
	EXIT_UNDECIDED = 3,
	EXIT_BAD_USAGE = 64,
	EXIT_FAILED = 70,
};

enum { DIAG_SCHEMA_VERSION = 1 };

enum diag_format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_OPENMETRICS,
	FORMAT_PROMETHEUS,
	FORMAT_NPD,
};

#define FORMAT_BIT(format) (1u << (format))

/* A command's own option. It has a letter, or a number above 255 if there is only the long form. */
struct diag_option {
	const char *name;
	int letter;
	bool has_value;
};

enum { DIAG_OPTIONS_MAX = 16 };

struct diag_syntax {
	const char *help;
	unsigned int formats;	    /* FORMAT_BIT() of those beside text; 0: none */
	enum diag_format otherwise; /* without --format; if it is not text, there is no text */
	struct diag_option own[DIAG_OPTIONS_MAX];
	void (*take)(void *arg, int letter, const char *value); /* of own */
	void *arg;
};

/*
 * Reads --help, --format and --json (where allowed) and the command's own options. Ends the process
 * on anything else. Returns the format; optind is the first argument that is no option.
 */
enum diag_format diag_options_parse(const struct diag_syntax *s, int argc, char **argv);

/* Ends the process if an argument is left. */
void diag_no_arguments(int argc, char **argv);

/* {"schema_version": 1}, to be filled. */
cJSON *diag_json(void);

/* Prints and frees. */
void diag_print_json(cJSON *o);

/* The worse of two verdicts: a culprit, then undecided, then a warning. */
int diag_worse(int a, int b);

int cmd_explain(int argc, char **argv);
int cmd_rails(int argc, char **argv);
int cmd_rq_psn(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_ping(int argc, char **argv);
int cmd_precheck(int argc, char **argv);
int cmd_hang(int argc, char **argv);
int cmd_fail(int argc, char **argv);
int cmd_slow(int argc, char **argv);
int cmd_collect(int argc, char **argv);
int cmd_path(int argc, char **argv);
int cmd_pulse(int argc, char **argv);
int cmd_analyze(int argc, char **argv);

#endif
