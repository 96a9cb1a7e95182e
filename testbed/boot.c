/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The agent as PID 1: from an initramfs to a host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/agent.h"

enum { PORT_WAIT_MS = 20000 };

static __attribute__((format(printf, 1, 2))) _Noreturn void boot_die(const char *fmt, ...)
{
	va_list ap;

	fputs("shift-testbed-agent: ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(errno));
	fflush(stdout);
	reboot(RB_AUTOBOOT); /* the guest is started with -no-reboot: this ends it */
	_exit(1);
}

static void must_mount(const char *what, const char *where, const char *type, unsigned long flags,
		       const char *options)
{
	mkdir(where, 0755);
	if (mount(what, where, type, flags, options))
		boot_die("cannot mount %s (%s) at %s", what, type ? type : "bind", where);
}

static void load_module(const char *name)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "/modules/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Optional CPU features (crc32-pclmul) say ENODEV. */
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST && errno != ENODEV))
		boot_die("module %s", name);
	close(fd);
	unlink(path);
}

static void load_modules(void)
{
	FILE *order = fopen("/modules/order", "re");
	char name[128];

	if (!order)
		boot_die("/modules/order");
	while (fscanf(order, "%127s", name) == 1)
		load_module(name);
	fclose(order);
}

/* The machine's own root, read-only, with everything that the guest writes in memory. */
static void mount_root(void)
{
	const char *const p9 = "trans=virtio,version=9p2000.L,msize=524288,cache=loose";

	must_mount("root", "/lower", "9p", MS_RDONLY, p9);
	must_mount("tmpfs", "/upper", "tmpfs", 0, "mode=755");
	mkdir("/upper/data", 0755);
	mkdir("/upper/work", 0755);
	must_mount("overlay", "/root", "overlay", 0,
		   "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work");
	/* The directories that later mounts hide (/tmp, /run) can still be seen here. */
	must_mount("/lower", "/root/host", NULL, MS_BIND, NULL);
}

static void enter_root(void)
{
	if (chdir("/root") || mount("/root", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		boot_die("cannot enter the root file system");
}

/* These would otherwise be the machine's, seen through 9p. */
static void mount_system(void)
{
	must_mount("proc", "/proc", "proc", 0, NULL);
	must_mount("sysfs", "/sys", "sysfs", 0, NULL);
	must_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	must_mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=666");
	must_mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	must_mount("tmpfs", "/run", "tmpfs", 0, "mode=755");
	must_mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
	must_mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	must_mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	must_mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	must_mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL);
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
}

static bool port_is_ours(const char *port)
{
	char path[320], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", port);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = 0;
	fclose(f);
	return !strcmp(name, "shift.agent\n");
}

static int open_agent_port(void)
{
	DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;
	char path[300];
	int fd = -1;

	while (d && fd < 0 && (e = readdir(d))) {
		if (!port_is_ours(e->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", e->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	if (d)
		closedir(d);
	return fd;
}

static int wait_port(void)
{
	for (int ms = 0; ms < PORT_WAIT_MS; ms += 5) {
		int fd = open_agent_port();

		if (fd >= 0)
			return fd;
		poll(NULL, 0, 5);
	}
	boot_die("no command channel");
}

static bool on_command_line(const char *word)
{
	char line[4096] = "";
	FILE *f = fopen("/proc/cmdline", "re");

	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	return strstr(line, word);
}

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY);

	for (int i = 0; i < 3 && fd >= 0; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static void default_environment(void)
{
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	setenv("SHELL", "/bin/bash", 1);
	setenv("LANG", "C.UTF-8", 1);
}

int boot_host(void)
{
	must_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	must_mount("proc", "/proc", "proc", 0, NULL);
	open_console();
	if (on_command_line("shift.probe")) {
		puts("shift-testbed-agent: the kernel runs");
		reboot(RB_AUTOBOOT);
	}
	load_modules();
	mount_root();
	enter_root();
	mount_system();
	default_environment();
	boot_console_shell();
	return wait_port();
}

static void make_path(const char *path)
{
	char part[4096];

	for (size_t i = 1; path[i] && i < sizeof(part); i++) {
		if (path[i] != '/')
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		mkdir(part, 0755);
	}
	mkdir(path, 0755);
}

int boot_mount_share(int i, const char *path)
{
	char tag[16];

	snprintf(tag, sizeof(tag), "share%d", i);
	make_path(path);
	/* cache=none: a file rebuilt on the machine is there at once. */
	if (mount(tag, path, "9p", 0, "trans=virtio,version=9p2000.L,msize=524288,cache=none"))
		return -errno;
	return 0;
}

void boot_console_shell(void)
{
	struct pollfd key = {.fd = 0, .events = POLLIN};

	if (fork())
		return;
	for (;;) {
		/* A shell that nobody uses costs a tenth of a second of every boot. */
		poll(&key, 1, -1);
		if (fork() == 0) {
			int fd;

			setsid();
			fd = open("/dev/ttyS0", O_RDWR); /* becomes the controlling terminal */
			for (int k = 0; k < 3; k++)
				dup2(fd, k);
			setenv("TERM", "vt220", 1);
			/* Under emulation somebody's start-up files can take half a minute. */
			setenv("PS1", "\\h:\\w# ", 1);
			execl("/bin/bash", "bash", "--noprofile", "--norc", (char *)NULL);
			_exit(127);
		}
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
}
