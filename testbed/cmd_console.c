/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/testbed.h"

static const char text[] = "usage: shift-testbed console [options] HOST\n"
			   "Show a guest's serial console and type at it: kernel messages, and a "
			   "root shell at the first\n"
			   "key. Ctrl-] leaves.\n"
			   "\n"
			   "  -n, --name NAME  which testbed (default: default)\n"
			   "  -l, --log        print what it has said so far, and exit\n"
			   "      --help       this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"log", no_argument, NULL, 'l'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

enum { LEAVE_KEY = 0x1d }; /* Ctrl-] */

static void print_log(const cJSON *reply)
{
	const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(reply, "log"));
	size_t bytes;
	char *log = read_whole_file(path, &bytes);

	if (!log)
		die(EXIT_FAILED, "%s: %s", path, strerror(errno));
	fwrite(log, 1, bytes, stdout);
	fflush(stdout);
	free(log);
}

/* Returns false when it is to end. */
static bool pass_keys(struct chan *c)
{
	char data[256], *leave;
	ssize_t n = read(0, data, sizeof(data));

	if (n <= 0)
		return false;
	leave = memchr(data, LEAVE_KEY, n);
	chan_send(c, FRAME_CONSOLE, 0, data, leave ? leave - data : n);
	return !chan_flush_all(c, 10000) && !leave;
}

static bool show_output(struct chan *c)
{
	const uint8_t *payload;
	struct frame f;
	int err = chan_fill(c);

	while (chan_next(c, &f, &payload) == 1)
		if (write(1, payload, f.bytes) != (ssize_t)f.bytes)
			return false;
	return !err;
}

static void attach_console(struct chan *c)
{
	bool goes_on = true;

	terminal_raw();
	while (goes_on) {
		struct pollfd p[2] = {{.fd = c->rfd, .events = POLLIN},
				      {.fd = 0, .events = POLLIN}};

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents)
			goes_on = show_output(c);
		if (p[1].revents && goes_on)
			goes_on = pass_keys(c);
	}
}

int cmd_console(int argc, char **argv)
{
	const char *name = "default";
	bool only_log = false;
	struct chan c;
	cJSON *reply;
	int o;

	while ((o = getopt_long(argc, argv, "n:l", options, NULL)) != -1) {
		switch (o) {
		case 'n': name = optarg; break;
		case 'l': only_log = true; break;
		case 'h': print_and_exit(text);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (argc - optind != 1)
		die(EXIT_BAD_USAGE, "console needs HOST");
	client_connect(&c, name, EXIT_NOT_UP);
	reply = client_request(&c, client_op("console", argv[optind]), 0);
	print_log(reply);
	cJSON_Delete(reply);
	if (!only_log)
		attach_console(&c);
	chan_close(&c);
	return EXIT_OK;
}
