/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>

#include "tests/clients/integrity/integrity.h"

/* A violation is worse than an error, an error here worse than one that only the peer has seen. */
static int worse(const struct run *r, const struct verdict *own, const struct verdict *peer)
{
	if (own->status == EXIT_VIOLATED || peer->status == EXIT_VIOLATED)
		return EXIT_VIOLATED;
	if (own->status)
		return own->status;
	return peer->status ? peer->status : r->abort_status ? EXIT_SETUP : 0;
}

int main(int argc, char **argv)
{
	struct run r = {0};
	struct verdict own = {0}, peer = {0};
	int status;

	options_parse(argc, argv);
	net_open(&r);
	net_agree(&r);
	r.set_up_ms = now_ms();
	device_open(&r);
	device_connect(&r);
	r.set_up_ms = now_ms() - r.set_up_ms;
	fprintf(stderr, "integrity: running, seed %" PRIu64 "\n", opt.w.seed);
	for (;;) {
		traffic(&r);
		if (traffic_left()) {
			device_close(&r);
			return EXIT_LEFT;
		}
		if (opt.w.srqs)
			drain(&r);
		verify(&r);
		if (!traffic_next_life(&r))
			break;
		device_reuse(&r);
	}
	if (opt.rdma_cm)
		cm->disconnect(&r);
	for (uint32_t i = 0; i < opt.w.qps; i++)
		counters_add(&own.n, &r.lanes[i].n);
	for (uint32_t i = 0; i < opt.w.srqs; i++)
		counters_add(&own.n, &r.srqs[i].found);
	own.status = violated(&own.n) ? EXIT_VIOLATED : r.abort_status > 0 ? r.abort_status : 0;
	if (!net_swap(&r, &own, &peer, sizeof(own)))
		peer = (struct verdict){.status = EXIT_SETUP};
	status = worse(&r, &own, &peer);
	report(&r, &own.n, &peer, status);
	device_close(&r);
	return status;
}
