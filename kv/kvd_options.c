/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/shell_command.h"
#include "kv/endpoint.h"
#include "kv/job_key.h"
#include "kv/kvd.h"

static const char help[] =
	"usage: shift-kvd [--kv URL[,URL...]] [--job NAME] [options]\n"
	"       shift-kvd COMMAND [options]\n"
	"The rendezvous of one job on this host, over etcd. Detaches, and ends after its last "
	"client.\n"
	"\n"
	"  -k, --kv URL[,URL...]  endpoints of etcd (http://, https://, unix:/PATH); default: "
	"$SHIFT_KV\n"
	"  -J, --job NAME         default: $SHIFT_JOB, or \"default\"\n"
	"  -K, --key-file FILE    the job key: 16 bytes, mode 0600; default: $SHIFT_JOB_KEY (32\n"
	"                         hexadecimal digits), or made by the first member, in etcd\n"
	"      --key-fd N         the job key from a pipe that this process has inherited\n"
	"  -u, --user-file FILE   USER:PASSWORD for etcd, mode 0600; default: $SHIFT_KV_USER and\n"
	"                         $SHIFT_KV_PASSWORD\n"
	"      --ca FILE          authorities that etcd's certificate is checked against (PEM)\n"
	"      --cert FILE        our certificate for etcd\n"
	"      --key FILE         its key\n"
	"      --own-port         refuse an etcd on this host that another user has started\n"
	"  -g, --grace TIME       ends so long after its last client; default: 10s\n"
	"  -L, --lease TIME       when the keys of a dead host leave etcd; default: 30s\n"
	"  -t, --timeout TIME     how long a request to etcd may take; default: 3s\n"
	"      --on-switch CMD    what a shell runs on this host after each switch of the job's\n"
	"                         processes here, as this user: see shift-run(1)\n"
	"      --on-switch-limit TIME  how long it may take; default: 60s\n"
	"  -f, --foreground       do not detach; messages on stderr, not to syslog\n"
	"\n"
	"  status  the state of this host's daemon of a job\n"
	"  etcd    start an etcd for a job, which ends with it\n"
	"\n"
	"      --help             this text; shift-kvd COMMAND --help for a command's\n"
	"      --version          the version\n"
	"\n"
	"Exit status: 0 it runs (also if it did before), 1 failed, 2 bad usage, 3 status: none "
	"runs.\n";

enum {
	OPT_CA = 256,
	OPT_CERT,
	OPT_KEY,
	OPT_KEY_FD,
	OPT_OWN_PORT,
	OPT_ON_SWITCH,
	OPT_SWITCH_LIMIT,
	OPT_HELP,
	OPT_VERSION
};

static const struct option options[] = {
	{"kv", required_argument, NULL, 'k'},
	{"job", required_argument, NULL, 'J'},
	{"key-file", required_argument, NULL, 'K'},
	{"user-file", required_argument, NULL, 'u'},
	{"ca", required_argument, NULL, OPT_CA},
	{"cert", required_argument, NULL, OPT_CERT},
	{"key", required_argument, NULL, OPT_KEY},
	{"grace", required_argument, NULL, 'g'},
	{"lease", required_argument, NULL, 'L'},
	{"timeout", required_argument, NULL, 't'},
	{"foreground", no_argument, NULL, 'f'},
	{"key-fd", required_argument, NULL, OPT_KEY_FD},
	{"own-port", no_argument, NULL, OPT_OWN_PORT},
	{"on-switch", required_argument, NULL, OPT_ON_SWITCH},
	{"on-switch-limit", required_argument, NULL, OPT_SWITCH_LIMIT},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

int64_t option_ms(const char *option, const char *s, int64_t min_ms)
{
	int64_t ms = parse_ms(s);

	if (ms < 0 || ms < min_ms)
		die(EXIT_BAD_USAGE, "--%s %s: not a time, or out of range", option, s);
	return ms;
}

static int option_fd(const char *s)
{
	long fd = parse_number(s, 3, INT_MAX);

	if (fd < 0)
		die(EXIT_BAD_USAGE, "--key-fd %s: not the number of an inherited descriptor", s);
	return fd;
}

static void read_user(struct kvd_options *o, const char *path)
{
	static char text[1024];

	o->password = read_user_file(path, text, sizeof(text), EXIT_BAD_USAGE);
	o->user = text;
}

/* The user of the URLs is etcd's, too. */
static void take_user(struct kvd_options *o, char *list, bool is_in_argv)
{
	static struct endpoint_user u;

	if (!endpoints_take_user(list, &u))
		die(EXIT_BAD_USAGE, "--kv: the USER:PASSWORD@ of a URL is too long, or has a %% "
				    "that is not %%XX");
	if (!*u.name)
		return;
	o->user = u.name;
	o->password = u.password;
	if (is_in_argv)
		say("--kv USER:PASSWORD@ shows in the list of processes; --user-file FILE does "
		    "not");
}

/* list: is changed, and the endpoints point into it. */
static void set_endpoints(struct kvd_options *o, char *list)
{
	const char *why;
	char *save = NULL;

	for (char *s = strtok_r(list, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		size_t n = strlen(s);

		why = endpoint_refusal(s);
		if (why)
			die(EXIT_BAD_USAGE, "%s: %s", s, why);
		if (o->etcd.endpoints == ETCD_ENDPOINTS_MAX || n > 512)
			die(EXIT_BAD_USAGE, "too many endpoints, or too long a one");
		if (s[n - 1] == '/')
			s[n - 1] = 0;
		o->etcd.endpoint[o->etcd.endpoints++] = s;
	}
	if (!o->etcd.endpoints)
		die(EXIT_BAD_USAGE, "no endpoint of etcd: --kv URL or SHIFT_KV is needed");
}

static void warn_of_clear_password(const struct kvd_options *o)
{
	for (int i = 0; o->user && i < o->etcd.endpoints; i++) {
		if (!endpoint_is_clear(o->etcd.endpoint[i]))
			continue;
		say("%s: the password is not encrypted on its way; https:// would",
		    o->etcd.endpoint[i]);
		return;
	}
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

static void warn_of_open_key(const struct kvd_options *o)
{
	const char *text = o->etcd.key ? open_key_warning(o->etcd.key) : NULL;

	if (text)
		say("%s", text);
}

static void set_job(struct kvd_options *o, const char *job)
{
	job = job && *job ? job : "default";
	if (!kv_job_is_valid(job, strlen(job)))
		die(EXIT_BAD_USAGE, "%s is no name for a job: 1 to %d letters, digits, . - _", job,
		    KV_JOB_MAX);
	strcpy(o->job, job);
}

/* What is in the environment is taken out of it, also if something else counts. */
static void set_job_key(struct kvd_options *o, const char *file, int fd)
{
	o->has_job_key = job_key_take(o->job_key, EXIT_BAD_USAGE) || file || fd >= 0;
	if (fd >= 0)
		job_key_receive(o->job_key, fd, EXIT_BAD_USAGE);
	else if (file)
		job_key_read(o->job_key, file, EXIT_BAD_USAGE);
}

/* A copy, as the environment shows it to this user's other processes for ever. */
static const char *take_variable(const char *name)
{
	char *value = getenv(name), *copy;

	if (!value)
		return NULL;
	copy = format_text("%s", value);
	explicit_bzero(value, strlen(value));
	unsetenv(name);
	return copy;
}

static void set_user(struct kvd_options *o, const char *user_file)
{
	const char *user = take_variable("SHIFT_KV_USER");
	const char *password = take_variable("SHIFT_KV_PASSWORD");

	if (user_file)
		read_user(o, user_file);
	else if (!o->user && user && !password)
		die(EXIT_BAD_USAGE, "SHIFT_KV_USER is set and SHIFT_KV_PASSWORD is not");
	if (!o->user) {
		o->user = user;
		o->password = password;
	}
	warn_of_clear_password(o);
}

/* The daemon's own directory will be /. */
static void set_on_switch(struct kvd_options *o, const char *command)
{
	const char *why = shell_command_problem(command);

	if (why)
		die(EXIT_BAD_USAGE, "--on-switch %s: %s", command, why);
	if (!getcwd(o->on_switch_cwd, sizeof(o->on_switch_cwd)))
		strcpy(o->on_switch_cwd, "/");
	o->on_switch = command;
}

void kvd_options_parse(struct kvd_options *o, int argc, char **argv)
{
	const char *job = getenv("SHIFT_JOB"), *user_file = NULL, *key_file = NULL;
	char *kv = getenv("SHIFT_KV"), none[] = "";
	bool is_in_argv = false;
	int c, key_fd = -1;

	*o = (struct kvd_options){.grace_ms = 10000,
				  .lease_s = 30,
				  .etcd.timeout_ms = 3000,
				  .on_switch_limit_ms = 60000};
	while ((c = getopt_long(argc, argv, "k:J:K:u:g:L:t:f", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			kv = optarg;
			is_in_argv = true;
			break;
		case 'J': job = optarg; break;
		case 'K': key_file = optarg; break;
		case 'u': user_file = optarg; break;
		case OPT_CA: o->etcd.ca = readable_path(optarg); break;
		case OPT_CERT: o->etcd.cert = readable_path(optarg); break;
		case OPT_KEY: o->etcd.key = readable_path(optarg); break;
		case OPT_KEY_FD: key_fd = option_fd(optarg); break;
		case OPT_OWN_PORT: o->etcd.own_port = true; break;
		case OPT_ON_SWITCH: set_on_switch(o, optarg); break;
		case OPT_SWITCH_LIMIT:
			o->on_switch_limit_ms = option_ms("on-switch-limit", optarg, 1);
			break;
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
	kv = kv ? kv : none;
	take_user(o, kv, is_in_argv);
	kv = format_text("%s", kv);
	set_job(o, job);
	set_endpoints(o, kv);
	set_job_key(o, key_file, key_fd);
	set_user(o, user_file);
	warn_of_open_key(o);
}
