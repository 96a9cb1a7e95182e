/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of the device: its driver, its PCI link, one queue pair. */
#include "faultinject/device.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/kept.h"
#include "faultinject/rtnl.h"
#include "lib/stats/ask.h"
#include "lib/stats/read.h"

enum { ANSWER_MS = 5000, COMES_BACK_MS = 10000, STEP_MS = 50 };

/* The device's directory below /sys/devices, which ends with its address: 0000:3b:00.0. */
static int pci_directory(const struct injection *in, char path[PATH_MAX], struct problem *p)
{
	char link[160];

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", in->t.rdma);
	if (realpath(link, path))
		return 0;
	return problem(p, INJECT_REFUSED, "%s: %s", link, strerror(errno));
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
	char address[NAME_MAX + 1], path[PATH_MAX];
};

static int find_driver(const struct injection *in, struct driver *d, struct problem *p)
{
	char path[PATH_MAX], link[PATH_MAX + 16];
	int status = pci_directory(in, path, p);

	if (status)
		return status;
	snprintf(d->address, sizeof(d->address), "%s", basename(path));
	pci_directory(in, path, p);
	snprintf(link, sizeof(link), "%s/driver", path);
	if (realpath(link, d->path))
		return 0;
	return problem(p, INJECT_REFUSED, "%s has no driver", d->address);
}

int driver_check(struct injection *in, struct problem *p)
{
	struct driver d;
	int status = find_driver(in, &d, p);

	if (!status)
		snprintf(in->detail, sizeof(in->detail), "%.32s without its driver", d.address);
	return status;
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
	status = link_keep(in, KEEP_FOR_RETURN, NULL, p);
	if (status)
		cJSON_Delete(step);
	else
		status = journal_step(in, "driver", step, p);
	if (status || dry_run(in, "write %s to %s/unbind", d.address, d.path))
		return status;
	err = tell_driver(d.path, "unbind", d.address);
	return err ? problem(p, INJECT_FAILED, "%s/unbind: %s", d.path, strerror(-err)) : 0;
}

int driver_undo(const cJSON *step, struct problem *p)
{
	const char *address = json_text(step, "address"), *driver = json_text(step, "driver");
	char bound[PATH_MAX];
	struct link_state s;
	int err;

	snprintf(bound, sizeof(bound), "%s/%s", driver, address);
	err = access(bound, F_OK) ? tell_driver(driver, "bind", address) : 0;
	if (err)
		return problem(p, INJECT_NOT_UNDONE, "%s/bind: %s", driver, strerror(-err));
	for (int ms = 0; ms < COMES_BACK_MS && rtnl_link_by_name(json_text(step, "netdev"), &s);
	     ms += STEP_MS)
		journal_wait(STEP_MS);
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
static int open_port(const char *device, char port[PATH_MAX], int *capability)
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

static int set_speed(int fd, int capability, int value)
{
	int control = config_read(fd, capability + LINK_CONTROL, 2);
	int err = config_write(fd, capability + LINK_CONTROL_2, value);

	return err || control < 0
		       ? -EIO
		       : config_write(fd, capability + LINK_CONTROL, control | LINK_RETRAIN);
}

int pcie_check(struct injection *in, struct problem *p)
{
	char device[PATH_MAX], port[PATH_MAX];
	int capability, fd, status = pci_directory(in, device, p);

	if (status)
		return status;
	fd = open_port(device, port, &capability);
	if (fd >= 0)
		close(fd);
	if (!capability)
		return problem(p, INJECT_REFUSED,
			       "%s: there is no PCI Express port above it that could be told",
			       device);
	snprintf(in->detail, sizeof(in->detail), "PCI Express link at 2.5 GT/s");
	return 0;
}

int pcie_begin(struct injection *in, struct problem *p)
{
	char device[PATH_MAX], port[PATH_MAX];
	int capability, fd, old, status = pci_directory(in, device, p);
	cJSON *step;

	if (status)
		return status;
	fd = open_port(device, port, &capability);
	old = capability ? config_read(fd, capability + LINK_CONTROL_2, 2) : -1;
	step = cJSON_CreateObject();
	cJSON_AddStringToObject(step, "device", device);
	cJSON_AddNumberToObject(step, "link_control_2", old);
	if (old < 0) {
		cJSON_Delete(step);
		status = problem(p, INJECT_FAILED, "%s: cannot be read", port);
	} else {
		status = journal_step(in, "pcie", step, p);
	}
	if (!status && !dry_run(in, "set the target speed of %s to 2.5 GT/s, and retrain", port) &&
	    set_speed(fd, capability, (old & ~SPEED_MASK) | SPEED_2_5_GT))
		status = problem(p, INJECT_FAILED, "%s: cannot be written", port);
	if (fd >= 0)
		close(fd);
	return status;
}

int pcie_undo(const cJSON *step, struct problem *p)
{
	char port[PATH_MAX];
	int capability, fd = open_port(json_text(step, "device"), port, &capability), err;

	if (fd < 0 && errno == ENOENT)
		return 0;
	err = capability ? set_speed(fd, capability, (int)json_number(step, "link_control_2", 0))
			 : -EIO;
	if (fd >= 0)
		close(fd);
	return err ? problem(p, INJECT_NOT_UNDONE, "%s: cannot be written", port) : 0;
}

/* --- qp-error -------------------------------------------------------------------------------- */

struct order {
	char line[32], answer[1024];
	bool dry;
	unsigned int asked;
};

static bool ask_one(void *arg, const struct stats_place *place)
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
	return ask_process(path, o->line, o->answer, sizeof(o->answer), ANSWER_MS) == 1;
}

int qp_error_begin(struct injection *in, struct problem *p)
{
	struct order o = {.dry = in->o.dry_run};
	size_t done;

	snprintf(o.line, sizeof(o.line), "qp-error %lld", (long long)in->o.qpn);
	snprintf(in->detail, sizeof(in->detail), "QP %#llx in ERR", (long long)in->o.qpn);
	done = stats_each(NULL, in->o.pid, ask_one, &o);
	if (done)
		return 0;
	return problem(p, INJECT_NOT_FOUND, "%s",
		       o.asked ? o.answer : "no protected process runs here");
}
