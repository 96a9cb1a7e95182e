/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-bench/bench.h"
int cmd_latency(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	die(EXIT_FAILED, "not built yet");
}
int cmd_bandwidth(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	die(EXIT_FAILED, "not built yet");
}
int cmd_compare(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	die(EXIT_FAILED, "not built yet");
}
