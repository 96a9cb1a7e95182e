/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kv/kvd.h"

static const char help[] =
	"usage: shift-kvd [--kv URL[,URL...]] [--job NAME] [options]\n"
	"       shift-kvd COMMAND [options]\n"
	"The rendezvous of one job on this host, over etcd. Detaches, and ends after its last "
	"client.\n"
	"\n"
	"  -k, --kv URL[,URL...]  endpoints of etcd; default: $SHIFT_KV\n"
	"  -J, --job NAME         default: $SHIFT_JOB, or \"default\"\n"
	"  -K, --key-file FILE    the job key: 16 bytes, mode 0600; default: made by the first "
	"member\n"
	"  -u, --user-file FILE   USER:PASSWORD for etcd, mode 0600; default: $SHIFT_KV_USER and\n"
	"                         $SHIFT_KV_PASSWORD\n"
	"      --ca FILE          authorities that etcd's certificate is checked against (PEM)\n"
	"      --cert FILE        our certificate for etcd\n"
	"      --key FILE         its key\n"
	"  -g, --grace TIME       without a client; default: 10s\n"
	"  -L, --lease TIME       a dead host's keys are gone after that; default: 30s\n"
	"  -t, --timeout TIME     of a request to etcd; default: 3s\n"
	"  -f, --foreground       do not detach; messages on stderr, not to syslog\n"
	"\n"
	"  status  the state of this host's daemon of a job\n"
	"  etcd    start an etcd for a job, which ends with it\n"
	"\n"
	"      --help             this text; shift-kvd COMMAND --help for a command's\n"
	"      --version          the version\n"
	"\n"
	"Exit status: 0 it runs (also if it did before), 1 failed, 2 bad usage, 3 (status) there "
	"is none.\n";

enum { OPT_CA = 256, OPT_CERT, OPT_KEY, OPT_HELP, OPT_VERSION };

static const struct option options[] = {
	{"kv", required_argument, NULL, 'k'},	     {"job", required_argument, NULL, 'J'},
	{"key-file", required_argument, NULL, 'K'},  {"user-file", required_argument, NULL, 'u'},
	{"ca", required_argument, NULL, OPT_CA},     {"cert", required_argument, NULL, OPT_CERT},
	{"key", required_argument, NULL, OPT_KEY},   {"grace", required_argument, NULL, 'g'},
	{"lease", required_argument, NULL, 'L'},     {"timeout", required_argument, NULL, 't'},
	{"foreground", no_argument, NULL, 'f'},	     {"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION}, {0},
};

int64_t option_ms(const char *option, const char *s, int64_t min_ms)
{
	int64_t ms = parse_ms(s);

	if (ms < 0 || ms < min_ms)
		die(EXIT_BAD_USAGE, "--%s %s: not a time, or out of range", option, s);
	return ms;
}

/* A secret that others can read is none. */
static size_t read_secret(const char *path, char *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		die(EXIT_BAD_USAGE, "%s: %s", path, strerror(errno));
	check_secret_file(path, &st, EXIT_BAD_USAGE);
	n = read(fd, data, size);
	close(fd);
	if (n < 0)
		die(EXIT_BAD_USAGE, "%s: %s", path, strerror(errno));
	return n;
}

static void read_user(struct kvd_options *o, const char *path)
{
	static char text[1024];
	size_t n = read_secret(path, text, sizeof(text) - 1);
	char *colon = memchr(text, ':', n);

	text[strcspn(text, "\n")] = 0;
	if (!colon || colon == text)
		die(EXIT_BAD_USAGE, "%s: not USER:PASSWORD", path);
	*colon = 0;
	o->user = text;
	o->password = colon + 1;
}

static void set_endpoints(struct kvd_options *o, const char *list)
{
	static char copy[ETCD_ENDPOINTS_MAX * 514]; /* the endpoints point into it */
	char *save = NULL;

	if (strlen(list) >= sizeof(copy))
		die(EXIT_BAD_USAGE, "too long a list of endpoints");
	strcpy(copy, list);
	for (char *s = strtok_r(copy, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		size_t n = strlen(s);

		if (strncmp(s, "http://", 7) && strncmp(s, "https://", 8))
			die(EXIT_BAD_USAGE, "%s: an endpoint begins with http:// or https://", s);
		if (o->etcd.endpoints == ETCD_ENDPOINTS_MAX || n > 512)
			die(EXIT_BAD_USAGE, "too many endpoints, or too long a one");
		if (s[n - 1] == '/')
			s[n - 1] = 0;
		o->etcd.endpoint[o->etcd.endpoints++] = s;
	}
	if (!o->etcd.endpoints)
		die(EXIT_BAD_USAGE, "no endpoint of etcd: --kv URL or SHIFT_KV is needed");
}

/* The working directory of a detached process is /. */
static const char *readable_path(const char *path)
{
	static char paths[3][PATH_MAX]; /* one for each option, the last of its kind counts */
	static unsigned int next;
	char *full = paths[next++ % 3];

	if (!realpath(path, full) || access(full, R_OK))
		die(EXIT_BAD_USAGE, "%s: %s", path, strerror(errno));
	return full;
}

static void set_rest(struct kvd_options *o, const char *kv, const char *job, const char *user_file)
{
	job = job && *job ? job : "default";
	if (!kv_job_is_valid(job, strlen(job)))
		die(EXIT_BAD_USAGE, "%s is no name for a job: 1 to %d letters, digits, . - _", job,
		    KV_JOB_MAX);
	strcpy(o->job, job);
	set_endpoints(o, kv ? kv : "");
	if (o->key_file) {
		char data[KV_JOB_KEY_BYTES + 1];

		if (read_secret(o->key_file, data, sizeof(data)) != KV_JOB_KEY_BYTES)
			die(EXIT_BAD_USAGE, "%s: not %d bytes; try: head -c 16 /dev/urandom",
			    o->key_file, KV_JOB_KEY_BYTES);
		memcpy(o->job_key, data, KV_JOB_KEY_BYTES);
	}
	o->user = getenv("SHIFT_KV_USER");
	o->password = getenv("SHIFT_KV_PASSWORD");
	if (user_file)
		read_user(o, user_file);
	if (o->user && !o->password)
		die(EXIT_BAD_USAGE, "SHIFT_KV_USER is set and SHIFT_KV_PASSWORD is not");
}

void kvd_options_parse(struct kvd_options *o, int argc, char **argv)
{
	const char *kv = getenv("SHIFT_KV"), *job = getenv("SHIFT_JOB"), *user_file = NULL;
	int c;

	*o = (struct kvd_options){.grace_ms = 10000, .lease_s = 30, .etcd.timeout_ms = 3000};
	while ((c = getopt_long(argc, argv, "k:J:K:u:g:L:t:f", options, NULL)) != -1) {
		switch (c) {
		case 'k': kv = optarg; break;
		case 'J': job = optarg; break;
		case 'K': o->key_file = optarg; break;
		case 'u': user_file = optarg; break;
		case OPT_CA: o->etcd.ca = readable_path(optarg); break;
		case OPT_CERT: o->etcd.cert = readable_path(optarg); break;
		case OPT_KEY: o->etcd.key = readable_path(optarg); break;
		case 'g': o->grace_ms = option_ms("grace", optarg, 0); break;
		case 'L': o->lease_s = option_ms("lease", optarg, 2000) / 1000; break;
		case 't': o->etcd.timeout_ms = option_ms("timeout", optarg, 100); break;
		case 'f': o->foreground = true; break;
		case OPT_HELP: print_and_exit(help); break;
		case OPT_VERSION: print_version(); break;
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "no command %s; see shift-kvd --help", argv[optind]);
	set_rest(o, kv, job, user_file);
}
