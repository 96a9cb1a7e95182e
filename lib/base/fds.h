/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Descriptors of ours that come and go while the program runs have numbers out of its way: one that
 * uses select(2), or that counts on the lowest numbers, does not meet them. Any thread.
 */
#ifndef SHIFT_BASE_FDS_H
#define SHIFT_BASE_FDS_H

#include <fcntl.h>
#include <unistd.h>

enum { FD_OURS_MIN = 512 };

/* The same file under such a number, or any, if the limit of descriptors allows no such one. -1:
 * there is none left; errno says so. */
static inline int fd_duplicate(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, FD_OURS_MIN);

	return copy < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : copy;
}

/* Moves it there. Returns its number, which is the old one if there is no other; fd if that is
 * negative. */
static inline int fd_move(int fd)
{
	int copy = fd < 0 ? -1 : fd_duplicate(fd);

	if (copy < 0)
		return fd;
	close(fd);
	return copy;
}

static inline void fd_close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

#endif
