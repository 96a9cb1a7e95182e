// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Completion channels, as the kernel has them: a file of events, which has a byte in a socket for
 * each, so that it blocks, polls and has edges as the kernel's. A channel is known by its file, as
 * a descriptor may have been duplicated; it is gone when no descriptor of it is left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"

enum { EVENTS_MAX = 4096, OUR_FDS = 900 };

struct null_events {
	struct null_events *next;
	struct ibv_context *ctx;
	ino_t ino;
	int read_fd, write_fd; /* of ours */
	unsigned int cqs, head, tail;
	struct null_cq *event[EVENTS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct null_events *all;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void leave_lock(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void keep_lock_over_fork(void)
{
	pthread_atfork(take_lock, leave_lock, leave_lock);
}

static ino_t inode(int fd)
{
	struct stat st;

	return fd < 0 || fstat(fd, &st) ? 0 : st.st_ino;
}

/* How many descriptors of this process are that file. */
static unsigned int count_fds(ino_t ino)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;
	unsigned int n = 0;

	if (!dir)
		return 2; /* not known */
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.' && inode(atoi(d->d_name)) == ino;
	closedir(dir);
	return n;
}

/* Frees those that nobody uses any more. Under the lock. */
static void sweep(void)
{
	for (struct null_events **at = &all; *at;) {
		struct null_events *f = *at;

		if (f->cqs || count_fds(f->ino) > 1) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		close(f->read_fd);
		close(f->write_fd);
		free(f);
	}
}

static struct null_events *events_new(struct ibv_context *ctx, int *fd)
{
	struct null_events *f = calloc(1, sizeof(*f));
	int fds[2];

	if (!f)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(f);
		return NULL;
	}
	*fd = fds[0];
	f->ctx = ctx;
	f->ino = inode(fds[0]);
	f->read_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, OUR_FDS); /* the kernel has none */
	f->write_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, OUR_FDS);
	close(fds[1]);
	pthread_mutex_lock(&lock);
	sweep();
	f->next = all;
	all = f;
	pthread_mutex_unlock(&lock);
	return f;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->context = ctx;
	if (!events_new(ctx, &channel->fd)) {
		free(channel);
		return NULL;
	}
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	free(channel);
	pthread_mutex_lock(&lock);
	sweep();
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct null_events *events_of(int fd)
{
	ino_t ino = inode(fd);
	struct null_events *f = all;

	while (f && (!ino || f->ino != ino))
		f = f->next;
	return f;
}

int null_attach(struct null_cq *cq, struct ibv_comp_channel *channel)
{
	struct null_events *f;

	if (!channel)
		return 0;
	pthread_mutex_lock(&lock);
	f = events_of(channel->fd);
	if (f && f->ctx == cq->base.context) {
		f->cqs++;
		cq->events = f;
	}
	pthread_mutex_unlock(&lock);
	if (!cq->events)
		return EBADF;
	channel->refcnt++;
	return 0;
}

void null_add_event(struct null_cq *cq)
{
	struct null_events *f = cq->events;
	ssize_t written = 1;

	pthread_mutex_lock(&lock);
	if (f && f->head - f->tail < EVENTS_MAX) {
		f->event[f->head++ % EVENTS_MAX] = cq;
		written = write(f->write_fd, "", 1);
	}
	pthread_mutex_unlock(&lock);
	(void)written;
}

static struct null_cq *take_event(struct null_events *f)
{
	struct null_cq *cq = NULL;

	pthread_mutex_lock(&lock);
	if (f->head != f->tail) {
		cq = f->event[f->tail++ % EVENTS_MAX];
		cq->reported++;
	}
	pthread_mutex_unlock(&lock);
	return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct null_cq *got = NULL;
	struct null_events *f;
	char byte;

	pthread_mutex_lock(&lock);
	f = events_of(channel->fd);
	pthread_mutex_unlock(&lock);
	if (!f) {
		errno = EINVAL;
		return -1;
	}
	while (!got) { /* the CQ of this byte may have been destroyed meanwhile */
		if (read(channel->fd, &byte, 1) != 1)
			return -1;
		got = take_event(f);
	}
	*cq = &got->base;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* Of the events of a CQ that is gone none is left. Under the lock. */
static void drop_events(struct null_events *f, const struct null_cq *cq)
{
	unsigned int kept = f->tail;
	char byte;

	for (unsigned int i = f->tail; i != f->head; i++) {
		if (f->event[i % EVENTS_MAX] != cq)
			f->event[kept++ % EVENTS_MAX] = f->event[i % EVENTS_MAX];
		else if (recv(f->read_fd, &byte, 1, MSG_DONTWAIT) < 0)
			break; /* a thread has it, and will find that there is none */
	}
	f->head = kept;
}

void null_detach(struct null_cq *cq)
{
	if (!cq->events)
		return;
	pthread_mutex_lock(&lock);
	drop_events(cq->events, cq);
	cq->events->cqs--;
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&cq->base.mutex);
	while (cq->base.comp_events_completed != cq->reported)
		pthread_cond_wait(&cq->base.cond, &cq->base.mutex);
	pthread_mutex_unlock(&cq->base.mutex);
	cq->base.channel->refcnt--;
}
