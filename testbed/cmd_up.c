/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/machine.h"

static const char text[] =
	"usage: shift-testbed up [options]\n"
	"Start a testbed and return when its hosts, a and b, are ready. They live until\n"
	"shift-testbed down, or until the lease ends.\n"
	"\n"
	"  -n, --name NAME         call it NAME (default: default)\n"
	"  -l, --layout LAYOUT     pair: two guests (default); single: both hosts in one guest, "
	"ten\n"
	"                          times faster, GID 0 and no RDMA-CM between the hosts\n"
	"  -r, --rails N           NICs per host, 1 to 8 (default 2)\n"
	"  -k, --kernel SERIES     6.1 (default) or 6.12: Debian's, downloaded once\n"
	"  -A, --accel ACCEL       auto (default), kvm or tcg; auto tries whether KVM really "
	"works\n"
	"  -m, --memory MIB        memory of each guest (default 2048)\n"
	"  -L, --lease TIME        end by itself after TIME: 90s, 30m, 2h, never (default 2h)\n"
	"  -s, --share DIRECTORY   show it in the guests at the same path, writable and always "
	"fresh;\n"
	"                          may be repeated (default: the current directory)\n"
	"      --ssh HOSTA,HOSTB   two real machines instead of guests\n"
	"  -c, --config FILE       how to reach them (default: ~/.config/shift/testbed.conf)\n"
	"  -v, --verbose-boot      keep all the kernel's messages on the console\n"
	"      --help              this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"layout", required_argument, NULL, 'l'},
	{"rails", required_argument, NULL, 'r'},
	{"kernel", required_argument, NULL, 'k'},
	{"accel", required_argument, NULL, 'A'},
	{"memory", required_argument, NULL, 'm'},
	{"lease", required_argument, NULL, 'L'},
	{"share", required_argument, NULL, 's'},
	{"ssh", required_argument, NULL, 'S'},
	{"config", required_argument, NULL, 'c'},
	{"verbose-boot", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* One guest's own memory, measured: about 480 MiB once programs have run in it. */
enum { GUEST_NEEDS_MIB = 600, MIN_MEMORY_MIB = 512, MAX_MEMORY_MIB = 65536 };

struct wishes {
	const char *accel, *ssh, *config;
};

/* ---- options ------------------------------------------------------------------------------- */

static void set_layout(struct plan *p, const char *s)
{
	if (!strcmp(s, "pair"))
		p->layout = LAYOUT_PAIR;
	else if (!strcmp(s, "single"))
		p->layout = LAYOUT_SINGLE;
	else
		die(EXIT_BAD_USAGE, "--layout %s: pair or single", s);
}

static void set_kernel(struct plan *p, const char *s)
{
	if (strcmp(s, "6.1") && strcmp(s, "6.12"))
		die(EXIT_BAD_USAGE, "--kernel %s: 6.1 or 6.12", s);
	snprintf(p->kernel, sizeof(p->kernel), "%s", s);
}

static void set_lease(struct plan *p, const char *s)
{
	long ms = strcmp(s, "never") ? parse_ms(s) : 0;

	if (ms < 0 || (ms < 1000 && strcmp(s, "never")))
		die(EXIT_BAD_USAGE, "--lease %s: a time of at least 1s, as 90s, 30m, 2h, or never",
		    s);
	p->lease_s = ms / 1000;
}

static void set_number(int *n, const char *option, const char *s, int min, int max)
{
	*n = parse_number(s, min, max);
	if (*n < 0)
		die(EXIT_BAD_USAGE, "--%s %s: a number from %d to %d", option, s, min, max);
}

static void add_share(struct plan *p, const char *s)
{
	char *path = realpath(s, NULL);
	struct stat st;

	if (!path || stat(path, &st) || !S_ISDIR(st.st_mode))
		die(EXIT_BAD_USAGE, "--share %s: not a directory", s);
	if (!strcmp(path, "/") || strpbrk(path, ",\n"))
		die(EXIT_BAD_USAGE, "--share %s: cannot be shared", s);
	if (p->share_count == MAX_SHARES)
		die(EXIT_BAD_USAGE, "--share: at most %d", MAX_SHARES);
	p->shares[p->share_count++] = path;
}

static void set_accel(struct wishes *w, const char *s)
{
	if (strcmp(s, "auto") && strcmp(s, "kvm") && strcmp(s, "tcg"))
		die(EXIT_BAD_USAGE, "--accel %s: auto, kvm or tcg", s);
	w->accel = s;
}

static void set_name(struct plan *p, const char *s)
{
	if (!name_is_valid(s))
		die(EXIT_BAD_USAGE, "--name %s: letters, digits, dot, dash, underscore, at most 32",
		    s);
	snprintf(p->name, sizeof(p->name), "%s", s);
}

static void up_parse(struct plan *p, struct wishes *w, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "n:l:r:k:A:m:L:s:c:v", options, NULL)) != -1) {
		switch (c) {
		case 'n': set_name(p, optarg); break;
		case 'l': set_layout(p, optarg); break;
		case 'r': set_number(&p->rails, "rails", optarg, 1, MAX_RAILS); break;
		case 'k': set_kernel(p, optarg); break;
		case 'A': set_accel(w, optarg); break;
		case 'm':
			set_number(&p->memory_mib, "memory", optarg, MIN_MEMORY_MIB,
				   MAX_MEMORY_MIB);
			break;
		case 'L': set_lease(p, optarg); break;
		case 's': add_share(p, optarg); break;
		case 'S': w->ssh = optarg; break;
		case 'c': w->config = optarg; break;
		case 'v': p->keep_boot_log = true; break;
		case 'h': print_and_exit(text);
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "up: unexpected argument %s", argv[optind]);
	if (w->config && !w->ssh)
		die(EXIT_BAD_USAGE, "--config is for --ssh");
}

/* ---- what is needed ------------------------------------------------------------------------ */

static void check_program(const char *program, const char *package)
{
	char path[PATH_MAX], *list = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin"),
			     *rest;

	for (char *d = strtok_r(list, ":", &rest); d; d = strtok_r(NULL, ":", &rest)) {
		snprintf(path, sizeof(path), "%s/%s", d, program);
		if (!access(path, X_OK)) {
			free(list);
			return;
		}
	}
	die(EXIT_MISSING, "%s is missing; install it with: apt-get install %s", program, package);
}

static void check_memory(const struct plan *p)
{
	const long needed_mib = (p->layout == LAYOUT_PAIR ? 2 : 1) * GUEST_NEEDS_MIB;
	char line[256];
	long free_kib = -1;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && free_kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "MemAvailable: %ld kB", &free_kib);
	if (f)
		fclose(f);
	if (free_kib >= 0 && free_kib / 1024 < needed_mib)
		die(EXIT_NO_RESOURCE, "not enough memory: %ld MiB are available, %ld are needed",
		    free_kib / 1024, needed_mib);
}

static void fetch_kernel(struct plan *p)
{
	char cache[PATH_MAX], image[PATH_MAX];
	char *argv[] = {"/bin/sh", image, p->kernel, cache, NULL};
	int status;

	cache_dir(cache);
	if (snprintf(p->kernel_dir, sizeof(p->kernel_dir), "%s/%s", cache, p->kernel) > 1024)
		die(EXIT_BAD_USAGE, "%s: too long a path", cache);
	own_file(image, "shift-testbed-image");
	status = run_program(argv);
	if (status)
		exit(status); /* it has said why */
}

static void choose_accel(struct plan *p, const char *accel)
{
	if (!strcmp(accel, "kvm") && access("/dev/kvm", R_OK | W_OK))
		die(EXIT_MISSING, "/dev/kvm: %s; use --accel tcg", strerror(errno));
	p->kvm = !strcmp(accel, "kvm") || (!strcmp(accel, "auto") && kvm_works(p->kernel_dir));
}

static void prepare_hosts(struct plan *p, const struct wishes *w)
{
	if (w->ssh) {
		config_load(p->ssh, w->ssh, w->config);
		p->layout = LAYOUT_SSH;
		check_program("ssh", "openssh-client");
		return;
	}
	check_program(QEMU, "qemu-system-x86");
	check_program("cpio", "cpio");
	check_memory(p);
	fetch_kernel(p);
	choose_accel(p, w->accel);
}

/* ---- starting ------------------------------------------------------------------------------ */

static int make_supervisor_socket(const struct state *s)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/sock", s->dir);
	/* The directory is 0700: nobody else reaches it, whatever the umask. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64)) {
		say("%s: %s", a.sun_path, strerror(errno));
		state_remove(s);
		exit(EXIT_NO_RESOURCE);
	}
	return fd;
}

/* The caller may wait for the end of a file that is open here only by inheritance. */
static void close_all_but(const int keep[3])
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (fd > 2 && fd != dirfd(d) && fd != keep[0] && fd != keep[1] && fd != keep[2])
			close(fd);
	}
	if (d)
		closedir(d);
}

/* The supervisor has no terminal, / as its directory, and its messages in a log. */
static void start_supervisor(const struct plan *p, const struct state *s, int listen_fd, int up_fd)
{
	char log[PATH_MAX];
	pid_t pid = fork();
	int fd;

	if (pid < 0)
		die(EXIT_NO_RESOURCE, "cannot start a process: %s", strerror(errno));
	if (pid > 0) {
		close(listen_fd);
		close(up_fd);
		close(s->lock_fd);
		return;
	}
	setsid();
	close_all_but((int[]){listen_fd, up_fd, s->lock_fd});
	snprintf(log, sizeof(log), "%s/log", s->dir);
	dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 0);
	fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	if (chdir("/"))
		_exit(EXIT_FAILED);
	state_guard(s);
	supervise(p, s, listen_fd, up_fd);
}

int cmd_up(int argc, char **argv)
{
	static struct plan p = {.name = "default",
				.rails = 2,
				.memory_mib = 2048,
				.lease_s = 7200,
				.kernel = "6.1"};
	struct wishes w = {.accel = "auto"};
	struct state s;
	struct chan c;
	int pair[2];

	up_parse(&p, &w, argc, argv);
	if (!p.share_count && !w.ssh && strcmp(getcwd((char[PATH_MAX]){0}, PATH_MAX), "/"))
		add_share(&p, ".");
	prepare_hosts(&p, &w);
	state_create(&s, p.name);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		say("cannot make a socket: %s", strerror(errno));
		state_remove(&s);
		return EXIT_NO_RESOURCE;
	}
	/* If this process is interrupted from here on, the supervisor notices and ends the
	 * testbed. */
	start_supervisor(&p, &s, make_supervisor_socket(&s), pair[1]);
	chan_init(&c, pair[0], pair[0]);
	cJSON_Delete(client_answer(&c, 0));
	chan_close(&c);
	return EXIT_OK;
}
