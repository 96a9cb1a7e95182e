/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --collectives: which libraries record them, by what the program's file is linked with. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

enum recorder { OMPI, MPICH, NCCL, RECORDERS };

/* needed: names of libraries, one of which the program is linked with; Open MPI's launcher is, too,
 * with one of them, and what it starts has its environment. */
static const struct {
	const char *file, *of, *needed[4];
} recorders[RECORDERS] = {
	[OMPI] = {"libshift-mpi-ompi.so", "Open MPI", {"libmpi.so.40", "libopen-rte.so.40"}},
	[MPICH] = {"libshift-mpi-mpich.so", "MPICH", {"libmpich.so.12", "libmpi.so.12"}},
	[NCCL] = {"libshift-nccl.so", "NCCL", {"libnccl.so.2", "librccl.so.1"}},
};

/* A file of a program, mapped. It is checked: another program may be writing it. */
struct image {
	const uint8_t *base;
	size_t bytes;
};

static const void *image_at(const struct image *m, uint64_t at, uint64_t bytes)
{
	return at <= m->bytes && bytes <= m->bytes - at ? m->base + at : NULL;
}

static const ElfW(Phdr) * image_segment(const struct image *m, int i)
{
	const ElfW(Ehdr) *head = image_at(m, 0, sizeof(*head));

	if (!head || i >= head->e_phnum || head->e_phentsize != sizeof(ElfW(Phdr)))
		return NULL;
	return image_at(m, head->e_phoff + (uint64_t)i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
}

/* Where an address of the program is in its file. */
static uint64_t image_offset(const struct image *m, uint64_t address)
{
	const ElfW(Phdr) * p;

	for (int i = 0; (p = image_segment(m, i)); i++)
		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return p->p_offset + (address - p->p_vaddr);
	return UINT64_MAX;
}

/* Entry i of the dynamic section; NULL: there are no more. */
static const ElfW(Dyn) * image_dynamic(const struct image *m, uint64_t i)
{
	const ElfW(Phdr) * p;
	const ElfW(Dyn) * d;

	for (int n = 0; (p = image_segment(m, n)); n++) {
		if (p->p_type != PT_DYNAMIC || i >= p->p_filesz / sizeof(*d))
			continue;
		d = image_at(m, p->p_offset + i * sizeof(*d), sizeof(*d));
		return d && d->d_tag != DT_NULL ? d : NULL;
	}
	return NULL;
}

static uint64_t image_strings(const struct image *m)
{
	const ElfW(Dyn) * d;

	for (uint64_t i = 0; (d = image_dynamic(m, i)); i++)
		if (d->d_tag == DT_STRTAB)
			return image_offset(m, d->d_un.d_ptr);
	return UINT64_MAX;
}

static bool image_needs(const struct image *m, const char *name)
{
	uint64_t strings = image_strings(m);
	const ElfW(Dyn) * d;
	const char *text;

	for (uint64_t i = 0; strings < m->bytes && (d = image_dynamic(m, i)); i++) {
		if (d->d_tag != DT_NEEDED || d->d_un.d_val > m->bytes)
			continue;
		text = image_at(m, strings + d->d_un.d_val, strlen(name) + 1);
		if (text && !strcmp(text, name))
			return true;
	}
	return false;
}

static struct image image_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image m = {NULL, 0};
	struct stat st;
	void *base;

	if (fd < 0)
		return m;
	if (!fstat(fd, &st) && st.st_size > 0) {
		base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (base != MAP_FAILED)
			m = (struct image){base, (size_t)st.st_size};
	}
	close(fd);
	return m;
}

/* Which recorders the program's libraries ask for. */
static void find_needed(const char *program, bool needs[RECORDERS])
{
	struct image m = image_open(program);

	for (int r = 0; r < RECORDERS; r++)
		for (const char *const *name = recorders[r].needed; *name; name++)
			needs[r] |= image_needs(&m, *name);
	if (m.base)
		munmap((void *)(uintptr_t)m.base, m.bytes);
}

/* Those that were asked for by name. "mpi" is the MPI that the program is linked with, if that can
 * be seen. */
static void take_word(const char *word, bool wanted[RECORDERS])
{
	bool mpich = !strcmp(word, "mpich") || (!strcmp(word, "mpi") && wanted[MPICH]);

	wanted[OMPI] = !strcmp(word, "mpi") && !mpich;
	wanted[MPICH] = mpich;
	wanted[NCCL] = !strcmp(word, "nccl");
}

size_t collectives_libraries(const struct target *t, const char **libraries)
{
	const char *word = setting_value(SET_COLLECTIVES);
	bool wanted[RECORDERS] = {false}, is_auto = !word || !strcmp(word, "auto");
	size_t n = 0;

	if (!is_auto && !strcmp(word, "off"))
		return 0;
	find_needed(t->program, wanted);
	if (!is_auto)
		take_word(word, wanted);
	for (int r = 0; r < RECORDERS; r++) {
		const char *path = wanted[r] ? library_optional(recorders[r].file) : NULL;

		if (path)
			libraries[n++] = path;
		else if (wanted[r] && !is_auto)
			die(EXIT_OURS,
			    "--collectives %s: there is no %s beside libshift.so: build shift with "
			    "the headers of %s, or say --collectives off",
			    word, recorders[r].file, recorders[r].of);
	}
	return n;
}
