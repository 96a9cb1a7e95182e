/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The command channel: frames over a byte stream.
 *
 * One channel joins the supervisor to the agent in a host (a virtio-serial port, or ssh's standard
 * input and output), another each client to the supervisor (a unix socket). A command that runs in
 * a host is a stream: the supervisor only renumbers its frames between the two channels, so the
 * client and the agent talk end to end. What a stream may have in flight is bounded by credit in
 * both directions; that bounds every buffer here, and keeps one command's output from holding up
 * another's.
 */
#ifndef SHIFT_TESTBED_CHAN_H
#define SHIFT_TESTBED_CHAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Printed by an agent before its first frame: a login shell may have printed before it. */
#define AGENT_GREETING "\nshift-testbed-agent 1\n"

enum {
	FRAME_MAX_BYTES = 1 << 20,   /* longest payload: command line and environment */
	FRAME_DATA_BYTES = 16 << 10, /* longest piece of standard input or output */
	STREAM_WINDOW_BYTES = 256 << 10,
};

enum frame_type {
	/* supervisor <-> agent, stream 0 */
	FRAME_SETUP = 1, /* strings: what the host is to become (struct setup in agent.c) */
	FRAME_READY,	 /* text: what the set-up printed */
	FRAME_FAILED,	 /* text: why it failed */
	/* client -> agent */
	FRAME_OPEN,  /* struct open_request: run a command */
	FRAME_STDIN, /* bytes; an empty one is end of file */
	FRAME_SIGNAL,
	FRAME_RESIZE, /* u16 rows, u16 columns */
	FRAME_HANGUP, /* the client is gone: end the command */
	/* agent -> client */
	FRAME_STDOUT,
	FRAME_STDERR,
	FRAME_EXIT, /* struct exit_report; the last frame of a stream */
	/* both ways */
	FRAME_CREDIT, /* u32: so many more bytes may be sent */
	/* client <-> supervisor */
	FRAME_REQUEST, /* JSON */
	FRAME_REPLY,   /* JSON */
	FRAME_CONSOLE, /* bytes, both ways */
};

/* Both ends are x86-64, so the layout is the compiler's. */
struct frame {
	uint32_t bytes;
	uint16_t stream;
	uint8_t type;
	uint8_t reserved;
};

struct exit_report {
	uint8_t timed_out;
	uint8_t reserved[3];
	int32_t status; /* as a shell has it: exit code, or 128 + signal */
};

struct buf {
	uint8_t *data;
	size_t start, end, size;
};

struct chan {
	int rfd, wfd; /* non-blocking; may be the same; -1 when closed */
	struct buf in, out;
};

/*
 * All of these return 0 or a negative errno, and run in one thread. Memory failure ends the
 * process: nothing useful can be done by a tool of this size.
 */
void buf_append(struct buf *b, const void *data, size_t bytes);
size_t buf_bytes(const struct buf *b);
void buf_consume(struct buf *b, size_t bytes);
void buf_free(struct buf *b);

/* Takes the descriptors over and makes them non-blocking. */
void chan_init(struct chan *c, int rfd, int wfd);
void chan_close(struct chan *c);

/* Reads what is there. -EPIPE at end of file. */
int chan_fill(struct chan *c);

/*
 * The next whole frame; its payload stays valid until the next chan_fill().
 * 1: there is one, 0: not yet, -EPROTO: this is not a frame.
 */
int chan_next(struct chan *c, struct frame *f, const uint8_t **payload);

/* Queues a frame; chan_flush() sends what the descriptor takes (0 also when some is left). */
void chan_send(struct chan *c, enum frame_type type, uint16_t stream, const void *data, size_t n);
int chan_flush(struct chan *c);

/* Sends all, waiting at most timeout_ms for each piece. */
int chan_flush_all(struct chan *c, int timeout_ms);

/* Waits for one frame. -ETIMEDOUT, or as chan_fill() and chan_next(). timeout_ms < 0: for ever. */
int chan_wait(struct chan *c, struct frame *f, const uint8_t **payload, int timeout_ms);

#endif
