/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A guest: the command line, and the cable that is pulled from outside. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "testbed/machine.h"

enum { MAX_ARGS = 160, QMP_TIMEOUT_MS = 5000 };

struct args {
	char *v[MAX_ARGS];
	int n;
};

static void add_arg(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_arg(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->n == MAX_ARGS - 1 || vasprintf(&a->v[a->n], fmt, ap) < 0)
		abort(); /* counted: at most 90 are used */
	a->n++;
	va_end(ap);
}

static void add_option(struct args *a, const char *option, const char *value)
{
	add_arg(a, "%s", option);
	add_arg(a, "%s", value);
}

int build_initrd(const char *kernel_dir, const char *out)
{
	char agent[PATH_MAX], script[3 * PATH_MAX];
	char *argv[] = {"/bin/sh",	    "-euc", script, "sh", agent, (char *)out,
			(char *)kernel_dir, NULL};

	own_file(agent, "shift-testbed-agent");
	snprintf(script, sizeof(script),
		 "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT\n"
		 "cp \"$1\" \"$d/init\"\n"
		 "{ [ $# -lt 3 ] || cat \"$3/modules.cpio\"\n"
		 "  cd \"$d\" && echo init | cpio -o -H newc --quiet; } >\"$2\"\n");
	return run_program(argv);
}

/* ---- starting ------------------------------------------------------------------------------ */

static void add_nic(struct args *a, const char *id, int fd, int segment, int number)
{
	add_arg(a, "-netdev");
	add_arg(a, "stream,id=%s,server=off,addr.type=fd,addr.str=%d", id, fd);
	add_arg(a, "-device");
	add_arg(a, "virtio-net-pci,id=%s-nic,netdev=%s,mac=52:54:00:00:%02x:%02x,romfile=", id, id,
		segment, number + 1);
}

static void add_9p(struct args *a, const char *tag, const char *path, const char *access)
{
	add_arg(a, "-fsdev");
	add_arg(a, "local,id=%s,path=%s,security_model=none,multidevs=remap%s", tag, path, access);
	add_arg(a, "-device");
	add_arg(a, "virtio-9p-pci,fsdev=%s,mount_tag=%s", tag, tag);
}

static void add_machine(struct args *a, const struct plan *p)
{
	static const char *const fixed[] = {
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-rtc",	       "base=utc"};

	add_arg(a, "%s", QEMU);
	add_option(a, "-M", "q35");
	/*
	 * One CPU each: two guests with two CPUs each are slower on two cores. But "maxcpus=2",
	 * as with one CPU TCG makes a locked instruction a plain one (no CF_PARALLEL), which is
	 * no barrier against QEMU's own threads: the guest's virtio driver then misses that it
	 * should notify the device, and the card never sends again (HACKING.md).
	 */
	add_option(a, "-smp", p->layout == LAYOUT_SINGLE ? "2" : "1,maxcpus=2");
	add_option(a, "-accel", p->kvm ? "kvm" : "tcg,thread=multi");
	add_option(a, "-cpu", p->kvm ? "host" : "max,la57=off");
	add_arg(a, "-m");
	add_arg(a, "%dM", p->memory_mib);
	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		add_arg(a, "%s", fixed[i]);
}

static void add_kernel(struct args *a, const struct plan *p, const char *initrd)
{
	add_arg(a, "-kernel");
	add_arg(a, "%s/vmlinux", p->kernel_dir);
	add_option(a, "-initrd", initrd);
	add_arg(a, "-append");
	/* "nr_cpus": a kernel of one CPU does without the locks, but keeps its barriers. */
	add_arg(a, "console=ttyS0 panic=-1 loglevel=%d nr_cpus=%s", p->keep_boot_log ? 7 : 4,
		p->layout == LAYOUT_SINGLE ? "2" : "1");
}

static void add_channels(struct args *a, int qmp, int console, int agent)
{
	add_arg(a, "-chardev");
	add_arg(a, "socket,id=qmp,fd=%d", qmp);
	add_option(a, "-mon", "chardev=qmp,mode=control");
	add_arg(a, "-chardev");
	add_arg(a, "socket,id=console,fd=%d", console);
	add_option(a, "-serial", "chardev:console");
	add_option(a, "-device", "virtio-serial-pci");
	add_arg(a, "-chardev");
	add_arg(a, "socket,id=agent,fd=%d", agent);
	add_option(a, "-device", "virtserialport,chardev=agent,name=shift.agent");
}

static void add_networks(struct args *a, const struct machine *m, const struct cables *cables)
{
	char id[16];

	if (m->plan->layout != LAYOUT_PAIR)
		return;
	add_nic(a, "mgmt", cables->end[0][m->number], 0xff, m->number);
	for (int r = 0; r < m->plan->rails; r++) {
		snprintf(id, sizeof(id), "rail%d", r);
		add_nic(a, id, cables->end[1 + r][m->number], r, m->number);
	}
}

static void add_files(struct args *a, const struct plan *p)
{
	char tag[16];

	add_9p(a, "root", "/", ",readonly=on");
	for (int i = 0; i < p->share_count; i++) {
		snprintf(tag, sizeof(tag), "share%d", i);
		add_9p(a, tag, p->shares[i], "");
	}
}

/* In the child: its descriptors survive exec, and it ends when its parent does. */
static _Noreturn void exec_qemu(const struct machine *m, const struct cables *cables,
				const char *initrd, const int theirs[3])
{
	struct args a = {0};

	for (int i = 0; i < 3; i++)
		fcntl(theirs[i], F_SETFD, 0);
	for (int i = 0; i < 1 + m->plan->rails && m->plan->layout == LAYOUT_PAIR; i++)
		fcntl(cables->end[i][m->number], F_SETFD, 0);
	add_machine(&a, m->plan);
	add_kernel(&a, m->plan, initrd);
	add_channels(&a, theirs[0], theirs[1], theirs[2]);
	add_networks(&a, m, cables);
	add_files(&a, m->plan);
	a.v[a.n] = NULL;
	execvp(QEMU, a.v);
	_exit(127);
}

int qemu_start(struct machine *m, const struct cables *cables, const char *initrd)
{
	int ours[3], theirs[3], pair[2];
	pid_t self = getpid();

	for (int i = 0; i < 3; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return -errno;
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	m->pid = fork();
	if (m->pid == 0) {
		machine_child(self);
		exec_qemu(m, cables, initrd, theirs);
	}
	for (int i = 0; i < 3; i++)
		close(theirs[i]);
	m->qmp = ours[0];
	m->console = ours[1];
	chan_init(&m->agent, ours[2], ours[2]);
	fcntl(m->console, F_SETFL, O_NONBLOCK);
	return m->pid < 0 ? -errno : 0;
}

/* ---- cables -------------------------------------------------------------------------------- */

/* Reads one line; events come between answers. */
static int qmp_line(int fd, char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, QMP_TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		if (read(fd, line + n, 1) != 1)
			return -EPIPE;
		if (line[n] == '\n')
			break;
		n++;
	}
	line[n] = 0;
	return 0;
}

static int qmp_command(int fd, const char *command)
{
	char line[4096];
	int err;

	if (write(fd, command, strlen(command)) != (ssize_t)strlen(command))
		return -EPIPE;
	while (!(err = qmp_line(fd, line, sizeof(line)))) {
		if (strstr(line, "\"return\""))
			return 0;
		if (strstr(line, "\"error\""))
			return -EIO;
	}
	return err;
}

int qemu_cable(struct machine *m, int rail, bool up)
{
	char command[128];
	int err;

	/* Negotiation is refused, harmlessly, after the first time. */
	err = qmp_command(m->qmp, "{\"execute\":\"qmp_capabilities\"}\n");
	if (err && err != -EIO)
		return err;
	snprintf(command, sizeof(command),
		 "{\"execute\":\"set_link\",\"arguments\":{\"name\":\"rail%d-nic\",\"up\":%s}}\n",
		 rail, up ? "true" : "false");
	return qmp_command(m->qmp, command);
}
