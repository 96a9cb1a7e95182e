/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Reads from a program's file which loader it has: the loader reads LD_PRELOAD. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

struct elf {
	ElfW(Ehdr) head;
	char loader[PATH_MAX]; /* base name; empty: static */
};

static bool read_all(int fd, void *data, size_t bytes, off_t at)
{
	return pread(fd, data, bytes, at) == (ssize_t)bytes;
}

static bool read_loader(int fd, struct elf *e, const ElfW(Phdr) * p)
{
	char path[PATH_MAX] = "";
	const char *slash;

	if (p->p_filesz < 2 || p->p_filesz >= sizeof(path) ||
	    !read_all(fd, path, p->p_filesz, p->p_offset))
		return false;
	slash = strrchr(path, '/');
	strcpy(e->loader, slash ? slash + 1 : path);
	return true;
}

/* NULL, or why not. */
static const char *read_elf(int fd, struct elf *e)
{
	const char wanted = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	ElfW(Phdr) p;

	memset(e, 0, sizeof(*e));
	if (!read_all(fd, &e->head, sizeof(e->head), 0))
		return "its file is cut short";
	if (e->head.e_ident[EI_CLASS] != wanted)
		return sizeof(void *) == 8 ? "it is a 32-bit program, and libshift.so is not"
					   : "it is a 64-bit program, and libshift.so is not";
	if (e->head.e_phentsize != sizeof(p))
		return "its file is cut short";
	for (int i = 0; i < e->head.e_phnum; i++) {
		if (!read_all(fd, &p, sizeof(p), e->head.e_phoff + i * sizeof(p)))
			return "its file is cut short";
		if (p.p_type == PT_INTERP && !read_loader(fd, e, &p))
			return "the name of its loader is not readable";
	}
	return NULL;
}

static const char *loader_refusal(const struct elf *e)
{
	struct elf own;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const char *why = fd < 0 ? "/proc is not mounted" : read_elf(fd, &own);

	if (fd >= 0)
		close(fd);
	if (why)
		return why;
	if (e->head.e_machine != own.head.e_machine ||
	    e->head.e_ident[EI_DATA] != own.head.e_ident[EI_DATA])
		return "it is for another kind of machine";
	if (!*e->loader)
		return "it is statically linked: no library can be put under it";
	if (strcmp(e->loader, own.loader))
		return "it has another loader (another C library) than libshift.so";
	return NULL;
}

/* The loader ignores LD_PRELOAD, or paths in it, for a program that gains privileges. */
static const char *privilege_refusal(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return "its file cannot be looked at";
	if (st.st_mode & S_ISUID)
		return "it is setuid: the loader refuses to preload libraries";
	if (st.st_mode & S_ISGID && st.st_mode & S_IXGRP)
		return "it is setgid: the loader refuses to preload libraries";
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "it has file capabilities: the loader refuses to preload libraries";
	return NULL;
}

const char *elf_refusal(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *why;
	struct elf e;

	if (fd < 0)
		return "its file is not readable, so it cannot be seen whether it is dynamic";
	why = read_elf(fd, &e);
	if (!why)
		why = loader_refusal(&e);
	if (!why)
		why = privilege_refusal(fd);
	close(fd);
	return why;
}
