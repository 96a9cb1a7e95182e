/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The directory of a testbed that is up. The process that holds its lock owns it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testbed/testbed.h"

enum { NEEDED_BYTES = 12 << 20 }; /* an initramfs, the consoles' logs */

void state_paths(struct state *s, const char *name)
{
	const char *own = getenv("SHIFT_TESTBED_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");

	if (own && *own)
		snprintf(s->base, sizeof(s->base), "%s", own);
	else if (geteuid() == 0)
		snprintf(s->base, sizeof(s->base), "/run/shift-testbed");
	else if (xdg && *xdg)
		snprintf(s->base, sizeof(s->base), "%s/shift-testbed", xdg);
	else
		snprintf(s->base, sizeof(s->base), "/tmp/shift-testbed-%u", geteuid());
	if (snprintf(s->dir, sizeof(s->dir), "%s/%s", s->base, name) > 90)
		die(EXIT_BAD_USAGE, "%s: too long a path for a socket", s->dir);
	s->lock_fd = -1;
}

/*
 * The base directory's own lock serialises creation and removal. While this process waits for the
 * lock, the end of the last testbed may remove the directory: then another directory has the name.
 */
static int lock_base(const struct state *s, bool create)
{
	struct stat held, named;

	for (;;) {
		int fd;

		if (create && mkdir(s->base, 0700) && errno != EEXIST)
			die(EXIT_NO_RESOURCE, "cannot create %s: %s", s->base, strerror(errno));
		fd = open(s->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && create)
			continue;
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX) || fstat(fd, &held))
			die(EXIT_FAILED, "cannot lock %s: %s", s->base, strerror(errno));
		if (held.st_uid != geteuid())
			die(EXIT_FAILED, "%s belongs to another user", s->base);
		if (!stat(s->base, &named) && held.st_ino == named.st_ino &&
		    held.st_dev == named.st_dev)
			return fd;
		close(fd);
	}
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path), 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* -1 if somebody else holds it. */
static int try_state_lock(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool clean_locked(const struct state *s)
{
	int fd;

	if (access(s->dir, F_OK))
		return true;
	fd = try_state_lock(s->dir);
	if (fd < 0)
		return false;
	remove_tree(s->dir);
	close(fd);
	return true;
}

bool state_clean(const char *name)
{
	struct state s;
	bool gone;
	int base;

	state_paths(&s, name);
	base = lock_base(&s, false);
	if (base < 0)
		return true;
	gone = clean_locked(&s);
	rmdir(s.base);
	close(base);
	return gone;
}

/* Space is taken now, in one piece, so that a full disk is found before a host is started. */
static int reserve_space(const struct state *s)
{
	char path[PATH_MAX];
	int fd, err;

	snprintf(path, sizeof(path), "%s/room", s->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	err = posix_fallocate(fd, 0, NEEDED_BYTES);
	close(fd);
	unlink(path);
	return err;
}

void state_create(struct state *s, const char *name)
{
	int base, err;

	state_paths(s, name);
	base = lock_base(s, true);
	if (!clean_locked(s))
		die(EXIT_NAME_TAKEN, "%s is up already; see shift-testbed status, or use --name",
		    name);
	err = mkdir(s->dir, 0700) ? errno : reserve_space(s);
	if (err) {
		rmdir(s->dir);
		rmdir(s->base);
		die(EXIT_NO_RESOURCE, "no room for the testbed's state in %s: %s", s->base,
		    strerror(err));
	}
	s->lock_fd = try_state_lock(s->dir);
	close(base);
}

void state_remove(const struct state *s)
{
	int base = lock_base(s, false);

	remove_tree(s->dir);
	if (base < 0)
		return;
	rmdir(s->base);
	close(base);
}

int state_list(char (**names)[64])
{
	struct state s;
	struct dirent *e;
	DIR *d;
	int n = 0;

	*names = NULL;
	state_paths(&s, ".");
	d = opendir(s.base);
	while (d && (e = readdir(d))) {
		if (!name_is_valid(e->d_name) || state_clean(e->d_name))
			continue;
		*names = realloc(*names, (n + 1) * sizeof(**names));
		snprintf((*names)[n++], sizeof(**names), "%.63s", e->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

void state_guard(const struct state *s)
{
	int p[2];
	char byte;

	if (pipe2(p, O_CLOEXEC) || fork())
		return; /* the write end stays open in this process until it ends */
	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	close(p[1]);
	close(s->lock_fd);
	while (read(p[0], &byte, 1) < 0 && errno == EINTR)
		;
	/* A killed supervisor's hosts die with it, but a moment later. */
	for (int i = 0; i < 100 && !state_clean(strrchr(s->dir, '/') + 1); i++)
		poll(NULL, 0, 20);
	_exit(0);
}
