/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the sides tell each other over TCP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clients/integrity/integrity.h"
#include "tests/clients/tcp.h"

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "integrity: %s: %s\n", what, strerror(errno));
	exit(EXIT_SETUP);
}

void net_open(struct run *r)
{
	r->tcp = tcp_open("integrity", opt.peer, opt.port);
}

/* These return false, with errno set, when the peer has left. */
bool net_send(struct run *r, const void *own, size_t bytes)
{
	return tcp_send(r->tcp, own, bytes);
}

bool net_receive(struct run *r, void *peer, size_t bytes)
{
	return tcp_receive(r->tcp, peer, bytes);
}

bool net_swap(struct run *r, const void *own, void *peer, size_t bytes)
{
	return net_send(r, own, bytes) && net_receive(r, peer, bytes);
}

/* Has the peer said something, or left? */
bool net_pending(struct run *r, int timeout_ms)
{
	return tcp_pending(r->tcp, timeout_ms);
}

/* The side that connects says what is to be done. */
void net_agree(struct run *r)
{
	if (opt.peer ? !net_send(r, &opt.w, sizeof(opt.w)) : !net_receive(r, &opt.w, sizeof(opt.w)))
		fail("the peer left");
	if (opt.threads > opt.w.qps)
		opt.threads = opt.w.qps;
}
