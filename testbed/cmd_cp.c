/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/testbed.h"

static const char text[] = "usage: shift-testbed cp [options] SOURCE... TARGET\n"
			   "Copy files and directories to, from or between hosts; HOST:PATH is a "
			   "path in a host. Modes and\n"
			   "times are kept. TARGET is a directory where there is one, or where "
			   "there are several sources.\n"
			   "\n"
			   "  -n, --name NAME  which testbed (default: default)\n"
			   "      --help       this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct place {
	char host[64]; /* empty: here */
	const char *path;
};

/* "a:x" is in a host; "./a:x" and "/a:x" are here. */
static struct place place_of(const char *word)
{
	struct place p = {.path = word};
	const char *colon = strchr(word, ':'), *slash = strchr(word, '/');

	if (colon && colon > word && (!slash || colon < slash) &&
	    colon - word < (int)sizeof(p.host)) {
		memcpy(p.host, word, colon - word);
		p.path = colon[1] ? colon + 1 : ".";
	}
	return p;
}

/* One end of the copy, as a command with its input or output on the pipe. */
static pid_t start_end(const char *name, const struct place *p, char *const argv[], int in, int out)
{
	struct exec_options o = {.name = name, .host = p->host, .argv = argv, .in = in, .out = out};
	pid_t pid = fork();

	if (pid)
		return pid;
	if (*p->host)
		exit(client_exec(&o));
	dup2(in, 0);
	dup2(out, 1);
	execvp(argv[0], argv);
	_exit(127);
}

static int wait_for(pid_t pid)
{
	int raw = -1;

	while (waitpid(pid, &raw, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
}

static void copy_one(const char *name, const char *source, const char *target, bool into)
{
	/* $1 is what is wanted; its parent may be anywhere, its name may start with a dash. */
	static char read_script[] = "cd \"$(dirname -- \"$1\")\" && exec tar -cf - -- "
				    "\"$(basename -- \"$1\")\"";
	/*
	 * Unpacked beside the target, so that nothing half-copied ever has its name. $2: the target
	 * must be a directory.
	 */
	static char write_script[] =
		"t=$1; if [ -d \"$t\" ]; then d=$t; elif [ \"$2\" = into ]; then\n"
		"echo \"shift-testbed: $t: not a directory\" >&2; exit 1; else d=$(dirname -- "
		"\"$t\"); fi\n"
		"w=$(mktemp -d \"$d/.shift-cp.XXXXXX\") || exit 1; trap 'rm -rf \"$w\"' EXIT\n"
		"tar -xpf - -C \"$w\" || exit 1; s=$(ls -A \"$w\"); [ -n \"$s\" ] || exit 1\n"
		"if [ -d \"$t\" ]; then cp -a -- \"$w/$s\" \"$t/\"; else mv -- \"$w/$s\" \"$t\"; "
		"fi\n";
	struct place from = place_of(source), to = place_of(target);
	char *reader[] = {"/bin/sh", "-c", read_script, "sh", (char *)from.path, NULL};
	char *writer[] = {"/bin/sh",	      "-c", write_script, "sh", (char *)to.path,
			  into ? "into" : "", NULL};
	int p[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int read_status, write_status;
	pid_t pids[2];

	if (null < 0 || pipe2(p, O_CLOEXEC))
		die(EXIT_FAILED, "cp: %s", strerror(errno));
	pids[0] = start_end(name, &from, reader, null, p[1]);
	close(p[1]);
	pids[1] = start_end(name, &to, writer, p[0], null);
	close(p[0]);
	close(null);
	read_status = wait_for(pids[0]);
	write_status = wait_for(pids[1]);
	if (read_status || write_status)
		die(EXIT_FAILED, "could not copy %s to %s", source, target);
}

int cmd_cp(int argc, char **argv)
{
	const char *name = "default", *target;
	struct chan c;
	int o;

	while ((o = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		switch (o) {
		case 'n': name = optarg; break;
		case 'h': print_and_exit(text);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (argc - optind < 2)
		die(EXIT_BAD_USAGE, "cp needs SOURCE... TARGET");
	client_connect(&c, name, EXIT_NOT_UP);
	chan_close(&c);
	target = argv[argc - 1];
	for (int i = optind; i < argc - 1; i++)
		copy_one(name, argv[i], target, argc - optind > 2);
	return EXIT_OK;
}
