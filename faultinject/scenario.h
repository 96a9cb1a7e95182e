/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Scenarios: a JSON file with faults on a timeline and what is expected of protected programs
 * meanwhile. The schema stands in shift-scenario(5). Reading one changes nothing, and needs no NIC.
 */
#ifndef SHIFT_INJECT_SCENARIO_H
#define SHIFT_INJECT_SCENARIO_H

#include "faultinject/inject.h"

enum {
	SCENARIO_BYTES_MAX = 1 << 20,
	SCENARIO_EVENTS_MAX = 512,
	SCENARIO_EXPECT_MAX = 16,
	SCENARIO_WORDS_MAX = 40,
	SCENARIO_HOSTS_MAX = 8,
};

enum expect_kind { EXPECT_FAILOVER, EXPECT_FAILBACK, EXPECT_NO_ERROR, EXPECT_NO_SWITCH };

struct expectation {
	enum expect_kind kind;
	int64_t within_us; /* 0: no matter when */
	char text[64];
};

struct scenario_event {
	int64_t at_ms;
	int64_t for_ms;		   /* --after and --for; 0 without a --for */
	char host[64];		   /* empty: this one */
	const struct fault *fault; /* NULL: an order to the library */
	char order[16], nic[64];   /* "migrate" or "failback" */
	char process[64];	   /* --pid is the newest process of that name; empty: no --pid */
	char *words[SCENARIO_WORDS_MAX]; /* of the command line, from the fault's name on */
	int count;
};

struct scenario {
	char name[64], about[256], without[256];
	struct scenario_event *event;
	int events;
	struct expectation expect[SCENARIO_EXPECT_MAX];
	int expects;
	char hosts[SCENARIO_HOSTS_MAX][64]; /* where protected programs are looked at */
	int host_count;
};

/*
 * Parses a text of that many bytes. 0, or INJECT_BAD_USAGE with "LINE: FIELD: what is wrong" in p;
 * then nothing is to be freed. The caller checks the values of a fault's options.
 */
int scenario_parse(const char *text, size_t bytes, struct scenario *s, struct problem *p);
void scenario_free(struct scenario *s);

/* The line, from 1, of a value. path: its keys, and its indexes as decimal numbers, ended by NULL.
 * text is valid JSON. 1 if there is no such value. */
int json_line(const char *text, const char *const *path);

#endif
