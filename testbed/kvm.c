/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * /dev/kvm being there says little: under some hypervisors (and emulations of it) a stock kernel
 * hangs on it for ever. So a kernel is booted on it once, with a bound, and the answer remembered
 * for this machine's kernel, this QEMU and this guest kernel.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/machine.h"
#include "testbed/testbed.h"

enum { PROBE_MS = 6000 }; /* real KVM needs about one second */

static void answer_path(char path[PATH_MAX], const char *kernel_dir)
{
	struct utsname u;
	struct stat qemu = {0};
	char cache[PATH_MAX];

	cache_dir(cache);
	uname(&u);
	stat("/usr/bin/" QEMU, &qemu);
	snprintf(path, PATH_MAX, "%.*s/kvm-%s-%s-%lx", PATH_MAX / 2, cache, u.release,
		 strrchr(kernel_dir, '/') + 1, (long)qemu.st_mtime);
}

static pid_t start_probe(const char *kernel_dir, const char *initrd, int out)
{
	char kernel[PATH_MAX + 16];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(kernel, sizeof(kernel), "%s/vmlinux", kernel_dir);
	dup2(out, 1);
	dup2(open("/dev/null", O_RDWR), 0);
	dup2(0, 2);
	execlp(QEMU, QEMU, "-M", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512M",
	       "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-kernel",
	       kernel, "-initrd", initrd, "-append", "console=ttyS0 panic=-1 quiet shift.probe",
	       "-serial", "stdio", (char *)NULL);
	_exit(127);
}

static bool says_it_runs(int fd)
{
	char said[16384];
	size_t have = 0;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t end_ms = now_ms() + PROBE_MS;

	for (;;) {
		int64_t left_ms = end_ms - now_ms();
		ssize_t n;

		if (left_ms <= 0 || poll(&p, 1, (int)left_ms) <= 0)
			return false;
		n = read(fd, said + have, sizeof(said) - 1 - have);
		if (n <= 0)
			return false;
		have += n;
		said[have] = 0;
		if (strstr(said, "the kernel runs"))
			return true;
		if (have > sizeof(said) / 2) { /* only the tail can hold the answer */
			memmove(said, said + have / 2, have - have / 2);
			have -= have / 2;
		}
	}
}

static bool probe_kvm(const char *kernel_dir)
{
	char initrd[] = "/tmp/shift-probe.XXXXXX";
	int fd = mkstemp(initrd), p[2];
	bool ok = false;
	pid_t pid;

	if (fd < 0 || pipe2(p, O_CLOEXEC))
		return false;
	close(fd);
	if (!build_initrd(NULL, initrd)) {
		pid = start_probe(kernel_dir, initrd, p[1]);
		close(p[1]);
		ok = pid > 0 && says_it_runs(p[0]);
		if (pid > 0) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
	}
	close(p[0]);
	unlink(initrd);
	return ok;
}

bool kvm_works(const char *kernel_dir)
{
	char path[PATH_MAX], *said;
	FILE *f;
	bool ok;

	if (access("/dev/kvm", R_OK | W_OK))
		return false;
	answer_path(path, kernel_dir);
	said = read_whole_file(path, NULL);
	if (said) {
		ok = !strncmp(said, "yes", 3);
		free(said);
		return ok;
	}
	say("trying /dev/kvm (once, at most %d s)", PROBE_MS / 1000);
	ok = probe_kvm(kernel_dir);
	say("/dev/kvm %s", ok ? "works: using it" : "does not run a stock kernel: using TCG");
	f = fopen(path, "we");
	if (f) {
		fputs(ok ? "yes\n" : "no\n", f);
		fclose(f);
	}
	return ok;
}
