/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The page of --html, drawn again from a file of --json. */
#include <getopt.h>
#include <stdlib.h>

#include "cmd/shift-bench/report.h"

static const char help[] =
	"usage: shift-bench report FILE.json --html FILE\n"
	"Draws the page of --html from a file of --json, also from one that is not complete.\n"
	"\n"
	"      --html FILE        one page with plots and tables; needs gnuplot\n"
	"      --help             this text\n";

static const struct option options[] = {
	{"html", required_argument, NULL, 'H'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

int cmd_report(int argc, char **argv)
{
	const char *html = NULL;
	cJSON *root;
	int c, status;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'H': html = optarg; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (argc - optind != 1 || !html)
		die(EXIT_BAD_USAGE, "report needs FILE.json and --html FILE");
	plots_need();
	root = results_load(argv[optind]);
	status = report_write(root, html);
	cJSON_Delete(root);
	return status;
}
