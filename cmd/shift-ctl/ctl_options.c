/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-ctl/ctl.h"

/* It goes into a line of the protocol. */
static const char *parse_nic(const char *s)
{
	if (!*s || strlen(s) > 63 || strpbrk(s, " \t\r\n"))
		die(EXIT_BAD_USAGE, "--nic %s: not the name of an RDMA device", s);
	return s;
}

void ctl_options_parse(struct ctl_options *o, const char *allowed, const char *text, int argc,
		       char **argv)
{
	static const struct option all[] = {
		{"job", required_argument, NULL, 'J'}, {"pid", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},      {"help", no_argument, NULL, 'h'},
		{"nic", required_argument, NULL, 'n'}, {"follow", no_argument, NULL, 'f'},
		{"all", no_argument, NULL, 'a'},
	};
	struct option options[8] = {0};
	char letters[16] = "J:p:j";
	int c, n = 4;

	memcpy(options, all, 4 * sizeof(*all));
	for (int i = 4; i < 7; i++)
		if (strchr(allowed, all[i].val))
			options[n++] = all[i];
	strcat(letters, strchr(allowed, 'n') ? "n:" : "");
	strcat(letters, strchr(allowed, 'f') ? "f" : "");
	strcat(letters, strchr(allowed, 'a') ? "a" : "");
	memset(o, 0, sizeof(*o));
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		switch (c) {
		case 'J': o->which.job = live_parse_job(optarg, EXIT_BAD_USAGE); break;
		case 'p': o->which.pid = live_parse_pid(optarg, EXIT_BAD_USAGE); break;
		case 'j': o->json = true; break;
		case 'n': o->nic = parse_nic(optarg); break;
		case 'f': o->follow = true; break;
		case 'a': o->all = true; break;
		case 'h': print_and_exit(text);
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "%s: unexpected argument %s", argv[0] + strlen("shift-ctl: "),
		    argv[optind]);
}
