/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/live/live.h"

const char *show_ns(char *text, uint64_t ns)
{
	if (ns < 1000000)
		sprintf(text, "%" PRIu64 " us", ns / 1000);
	else if (ns < 10000000)
		sprintf(text, "%.1f ms", (double)ns / 1e6);
	else if (ns < 10000000000)
		sprintf(text, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(text, 15, "%.0f s", (double)ns / 1e9);
	return text;
}

void live_print_json(cJSON *o, bool one_line)
{
	print_json_text(one_line ? cJSON_PrintUnformatted(o) : cJSON_Print(o));
	cJSON_Delete(o);
}

static volatile sig_atomic_t interrupted;

static void on_end_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

void live_catch_end(void)
{
	struct sigaction action = {.sa_handler = on_end_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool live_is_interrupted(void)
{
	return interrupted;
}
