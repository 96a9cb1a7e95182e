/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of the device: its driver, its PCI link, one queue pair. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/device.h"
#include "faultinject/link_state.h"
#include "faultinject/rtnl.h"
#include "lib/stats/ask_process.h"
#include "lib/stats/places.h"

enum { ANSWER_MS = 5000, COMES_BACK_MS = 10000, TRAINING_MS = 1000, STEP_MS = 50 };

/* Is it a directory of a device on a PCI bus? */
static bool on_pci(const char *path)
{
	char link[PATH_MAX + 16], bus[PATH_MAX];

	snprintf(link, sizeof(link), "%s/subsystem", path);
	return realpath(link, bus) && !strcmp(basename(bus), "pci");
}

/* The NIC's PCI device, its parent's (virtio) or one above: the directory below /sys/devices, which
 * ends with its address: 0000:3b:00.0. */
static int pci_directory(const struct injection *in, char path[PATH_MAX], struct problem *p)
{
	const struct target *t = &in->t;
	char link[PATH_MAX];

	snprintf(link, sizeof(link), "%s/class/%s/%s/device", sys_root(),
		 *t->rdma ? "infiniband" : "net", *t->rdma ? t->rdma : t->netdev);
	if (realpath(link, path))
		for (; strrchr(path, '/') > path; *strrchr(path, '/') = 0)
			if (on_pci(path))
				return 0;
	return problem_set(p, INJECT_REFUSED, "%s is no device on a PCI bus: %s is not possible",
			   *t->rdma ? t->rdma : t->netdev, in->fault->name);
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int err = n < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

/* --- unbind ---------------------------------------------------------------------------------- */

struct driver {
	char address[NAME_MAX + 1], path[PATH_MAX], device[PATH_MAX];
};

static int find_driver(const struct injection *in, struct driver *d, struct problem *p)
{
	char link[PATH_MAX + 16];
	int status = pci_directory(in, d->device, p);

	if (status)
		return status;
	snprintf(d->address, sizeof(d->address), "%s", strrchr(d->device, '/') + 1);
	snprintf(link, sizeof(link), "%s/driver", d->device);
	if (realpath(link, d->path))
		return 0;
	return problem_set(p, INJECT_REFUSED, "%s has no driver", d->address);
}

/* The interface of another port, or of a virtual function's other end. */
static bool has_other_netdev(const struct injection *in, const char *device, char other[IFNAMSIZ])
{
	char path[PATH_MAX + 8];
	bool found = false;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/net", device);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		found = e->d_name[0] != '.' && strcmp(e->d_name, in->t.netdev) != 0;
		if (found)
			snprintf(other, IFNAMSIZ, "%.*s", IFNAMSIZ - 1, e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

static bool has_virtual_functions(const char *device)
{
	char path[PATH_MAX + 16], number[16] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/sriov_numvfs", device);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, number, sizeof(number) - 1) < 0)
		number[0] = 0;
	close(fd);
	return atoi(number) > 0;
}

/* Refuses a device that loses something with its driver that does not return with it. */
int driver_check(struct injection *in, struct problem *p)
{
	char other[IFNAMSIZ];
	struct driver d;
	int status = find_driver(in, &d, p);

	if (status)
		return status;
	if (has_other_netdev(in, d.device, other))
		return problem_set(p, INJECT_REFUSED, "%s is %s too, which would be gone with it",
				   d.address, other);
	if (has_virtual_functions(d.device))
		return problem_set(p, INJECT_REFUSED,
				   "%s has virtual functions, which would be gone for good",
				   d.address);
	snprintf(in->detail, sizeof(in->detail), "%.32s without its driver", d.address);
	return 0;
}

static int tell_driver(const char *driver, const char *what, const char *address)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", driver, what);
	return write_text(path, address);
}

int driver_begin(struct injection *in, struct problem *p)
{
	cJSON *step = cJSON_CreateObject();
	struct driver d;
	int status = find_driver(in, &d, p), err;

	if (status) {
		cJSON_Delete(step);
		return status;
	}
	cJSON_AddStringToObject(step, "netdev", in->t.netdev);
	cJSON_AddStringToObject(step, "driver", d.path);
	cJSON_AddStringToObject(step, "address", d.address);
	/* Undone last: the netdev's state, when it is there again. */
	status = link_state_keep(in, KEEP_FOR_RETURN, NULL, p);
	if (status)
		cJSON_Delete(step);
	else
		status = journal_step(in, "driver", step, p);
	if (status || dry_run(in, "write %s to %s/unbind", d.address, d.path))
		return status;
	err = tell_driver(d.path, "unbind", d.address);
	return err ? problem_set(p, INJECT_FAILED, "%s/unbind: %s", d.path, strerror(-err)) : 0;
}

int driver_undo(const cJSON *step, struct problem *p)
{
	const char *address = json_text(step, "address"), *driver = json_text(step, "driver");
	const char *netdev = json_text(step, "netdev");
	char bound[PATH_MAX];
	struct link_state s;
	int err;

	snprintf(bound, sizeof(bound), "%s/%s", driver, address);
	err = access(bound, F_OK) ? tell_driver(driver, "bind", address) : 0;
	if (err)
		return problem_set(p, INJECT_NOT_UNDONE, "%s/bind: %s", driver, strerror(-err));
	for (int ms = 0; ms < COMES_BACK_MS && rtnl_link_by_name(netdev, &s); ms += STEP_MS)
		journal_wait(STEP_MS);
	/* Otherwise the faults on it would look as if their netdev were gone, and be forgotten. */
	if (rtnl_link_by_name(netdev, &s))
		return problem_set(p, INJECT_NOT_UNDONE, "%s did not come back with its driver",
				   netdev);
	return 0;
}

/* --- pcie-downgrade -------------------------------------------------------------------------- */

/* PCI Express Base Specification 7.5.3: in the PCI Express capability. */
enum {
	PCI_STATUS = 0x06,
	PCI_STATUS_LIST = 0x10,
	PCI_LIST = 0x34,
	PCI_EXPRESS = 0x10,
	LINK_CONTROL = 0x10,
	LINK_STATUS = 0x12,
	LINK_TRAINS = 1 << 11,
	LINK_RETRAIN = 1 << 5,
	LINK_CONTROL_2 = 0x30,
	SPEED_MASK = 15,
	SPEED_2_5_GT = 1,
};

static int config_read(int fd, int at, int bytes)
{
	unsigned char b[2] = {0};

	if (pread(fd, b, (size_t)bytes, at) != bytes)
		return -EIO;
	return b[0] | b[1] << 8;
}

static int config_write(int fd, int at, int value)
{
	unsigned char b[2] = {(unsigned char)value, (unsigned char)(value >> 8)};

	return pwrite(fd, b, 2, at) == 2 ? 0 : -EIO;
}

/* Where the capability is; 0: there is none. */
static int express_capability(int fd)
{
	int at = config_read(fd, PCI_STATUS, 2) & PCI_STATUS_LIST ? config_read(fd, PCI_LIST, 1)
								  : 0;

	for (int i = 0; i < 48 && at >= 0x40; i++) {
		if (config_read(fd, at, 1) == PCI_EXPRESS)
			return at;
		at = config_read(fd, at + 1, 1);
	}
	return 0;
}

/* The port above the device trains the link. */
static int open_rdma_port(const char *device, char port[PATH_MAX], int *capability)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(port, PATH_MAX, "%s", device);
	*strrchr(port, '/') = 0;
	snprintf(path, sizeof(path), "%s/config", port);
	fd = open(path, O_RDWR | O_CLOEXEC);
	*capability = fd < 0 ? 0 : express_capability(fd);
	return fd;
}

/* Sets the speed that the port aims at, and has it train. The speed that it came to, or -EIO. */
static int set_speed(int fd, int capability, int value)
{
	int control = config_read(fd, capability + LINK_CONTROL, 2), status;

	if (control < 0 || config_write(fd, capability + LINK_CONTROL_2, value) ||
	    config_write(fd, capability + LINK_CONTROL, control | LINK_RETRAIN))
		return -EIO;
	for (int ms = 0; ms < TRAINING_MS; ms += STEP_MS) {
		journal_wait(STEP_MS);
		status = config_read(fd, capability + LINK_STATUS, 2);
		if (status < 0 || !(status & LINK_TRAINS))
			return status < 0 ? status : status & SPEED_MASK;
	}
	return -EIO;
}

int pcie_check(struct injection *in, struct problem *p)
{
	char device[PATH_MAX], port[PATH_MAX];
	int capability, fd, status = pci_directory(in, device, p);

	if (status)
		return status;
	fd = open_rdma_port(device, port, &capability);
	if (fd >= 0)
		close(fd);
	if (!capability)
		return problem_set(p, INJECT_REFUSED,
				   "%s: there is no PCI Express port above it that could be told",
				   device);
	snprintf(in->detail, sizeof(in->detail), "PCI Express link at 2.5 GT/s");
	return 0;
}

static int slow_down(const struct injection *in, const char *port, int fd, int capability, int old,
		     struct problem *p)
{
	int speed;

	if (dry_run(in, "set the target speed of %s to 2.5 GT/s, and retrain", port))
		return 0;
	speed = set_speed(fd, capability, (old & ~SPEED_MASK) | SPEED_2_5_GT);
	if (speed == SPEED_2_5_GT)
		return 0;
	return problem_set(p, INJECT_FAILED, "%s: %s", port,
			   speed < 0 ? "its link cannot be trained"
				     : "its link does not slow down");
}

int pcie_begin(struct injection *in, struct problem *p)
{
	char device[PATH_MAX], port[PATH_MAX];
	int capability, fd, old, status = pci_directory(in, device, p);
	cJSON *step;

	if (status)
		return status;
	fd = open_rdma_port(device, port, &capability);
	old = capability ? config_read(fd, capability + LINK_CONTROL_2, 2) : -1;
	step = cJSON_CreateObject();
	cJSON_AddStringToObject(step, "device", device);
	cJSON_AddNumberToObject(step, "link_control_2", old);
	if (old < 0) {
		cJSON_Delete(step);
		status = problem_set(p, INJECT_FAILED, "%s: cannot be read", port);
	} else {
		status = journal_step(in, "pcie", step, p);
	}
	if (!status)
		status = slow_down(in, port, fd, capability, old, p);
	if (fd >= 0)
		close(fd);
	return status;
}

int pcie_undo(const cJSON *step, struct problem *p)
{
	char port[PATH_MAX];
	int capability, fd = open_rdma_port(json_text(step, "device"), port, &capability), speed;

	if (fd < 0 && errno == ENOENT)
		return 0;
	speed = capability ? set_speed(fd, capability,
				       (int)(json_uint32(step, "link_control_2") & 0xffff))
			   : -EIO;
	if (fd >= 0)
		close(fd);
	return speed < 0 ? problem_set(p, INJECT_NOT_UNDONE, "%s: its link cannot be trained", port)
			 : 0;
}

/* --- qp-error -------------------------------------------------------------------------------- */

struct order {
	char line[32], answer[1024];
	bool dry;
	unsigned int asked;
};

static bool order_process(void *arg, const struct stats_place *place)
{
	struct order *o = arg;
	char path[300];

	if (place->is_crash)
		return false;
	snprintf(path, sizeof(path), "%.*s.sock", (int)(strlen(place->path) - strlen(".stats")),
		 place->path);
	if (o->dry) {
		printf("would: say \"%s\" to %s\n", o->line, path);
		return true;
	}
	o->asked++;
	return ask_process(place->owner, path, o->line, o->answer, sizeof(o->answer), ANSWER_MS) ==
	       1;
}

int qp_error_begin(struct injection *in, struct problem *p)
{
	struct order o = {.dry = in->o.dry_run};
	size_t done;

	snprintf(o.line, sizeof(o.line), "qp-error %lld", (long long)in->o.qpn);
	snprintf(in->detail, sizeof(in->detail), "QP %#llx in ERR", (long long)in->o.qpn);
	done = stats_each(NULL, in->o.pid, order_process, &o, NULL);
	if (done)
		return 0;
	return problem_set(p, INJECT_NOT_FOUND, "%s",
			   o.asked ? o.answer : "no protected process runs here");
}
