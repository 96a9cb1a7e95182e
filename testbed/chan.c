/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/chan.h"

static void buf_reserve(struct buf *b, size_t bytes)
{
	if (b->start == b->end)
		b->start = b->end = 0;
	if (b->size - b->end >= bytes)
		return;
	if (b->start)
		memmove(b->data, b->data + b->start, b->end - b->start);
	b->end -= b->start;
	b->start = 0;
	while (b->size - b->end < bytes) {
		b->size = b->size ? 2 * b->size : 4096;
		b->data = realloc(b->data, b->size);
		if (!b->data) {
			fputs("shift-testbed: out of memory\n", stderr);
			exit(1);
		}
	}
}

void buf_append(struct buf *b, const void *data, size_t bytes)
{
	if (!bytes)
		return;
	buf_reserve(b, bytes);
	memcpy(b->data + b->end, data, bytes);
	b->end += bytes;
}

size_t buf_bytes(const struct buf *b)
{
	return b->end - b->start;
}

void buf_consume(struct buf *b, size_t bytes)
{
	b->start += bytes;
}

void buf_free(struct buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

void chan_init(struct chan *c, int rfd, int wfd)
{
	memset(c, 0, sizeof(*c));
	c->rfd = rfd;
	c->wfd = wfd;
	fcntl(rfd, F_SETFL, fcntl(rfd, F_GETFL) | O_NONBLOCK);
	fcntl(wfd, F_SETFL, fcntl(wfd, F_GETFL) | O_NONBLOCK);
}

void chan_close(struct chan *c)
{
	if (c->rfd >= 0)
		close(c->rfd);
	if (c->wfd >= 0 && c->wfd != c->rfd)
		close(c->wfd);
	c->rfd = c->wfd = -1;
	buf_free(&c->in);
	buf_free(&c->out);
}

int chan_fill(struct chan *c)
{
	ssize_t n;

	buf_reserve(&c->in, 2 * FRAME_DATA_BYTES);
	n = read(c->rfd, c->in.data + c->in.end, c->in.size - c->in.end);
	if (n > 0)
		c->in.end += n;
	if (n == 0)
		return -EPIPE;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	return 0;
}

int chan_next(struct chan *c, struct frame *f, const uint8_t **payload)
{
	if (buf_bytes(&c->in) < sizeof(*f))
		return 0;
	memcpy(f, c->in.data + c->in.start, sizeof(*f));
	if (f->bytes > FRAME_MAX_BYTES || f->reserved)
		return -EPROTO;
	if (buf_bytes(&c->in) < sizeof(*f) + f->bytes)
		return 0;
	*payload = c->in.data + c->in.start + sizeof(*f);
	buf_consume(&c->in, sizeof(*f) + f->bytes);
	return 1;
}

void chan_send(struct chan *c, enum frame_type type, uint16_t stream, const void *data, size_t n)
{
	struct frame f = {.bytes = n, .stream = stream, .type = type};

	buf_append(&c->out, &f, sizeof(f));
	buf_append(&c->out, data, n);
}

int chan_flush(struct chan *c)
{
	while (buf_bytes(&c->out)) {
		ssize_t n = write(c->wfd, c->out.data + c->out.start, buf_bytes(&c->out));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&c->out, n);
	}
	return 0;
}

int chan_flush_all(struct chan *c, int timeout_ms)
{
	while (buf_bytes(&c->out)) {
		struct pollfd p = {.fd = c->wfd, .events = POLLOUT};
		int err = chan_flush(c);

		if (err)
			return err;
		if (buf_bytes(&c->out) && poll(&p, 1, timeout_ms) == 0)
			return -ETIMEDOUT;
	}
	return 0;
}

int chan_wait(struct chan *c, struct frame *f, const uint8_t **payload, int timeout_ms)
{
	int err;

	while ((err = chan_next(c, f, payload)) == 0) {
		struct pollfd p = {.fd = c->rfd, .events = POLLIN};
		int n = poll(&p, 1, timeout_ms);

		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			return -errno;
		err = chan_fill(c);
		if (err)
			return err;
	}
	return err < 0 ? err : 0;
}
