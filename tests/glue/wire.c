/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The network: rail i of one host ends at rail i of the other. It loses, delays, repeats, and lets
 * some packets wander. */
#include <stdlib.h>
#include <string.h>

#include "tests/glue/glue.h"

#define LATE_MAX_NS 700000000ull /* less than the quarantine */

static uint64_t latency_ns, jitter_ns;
static uint32_t repeat_ppm, late_ppm, reorder_ppm;

struct packet *packet_new(const struct fake_qp *from, enum packet_type type, uint32_t psn,
			  uint32_t bytes)
{
	struct packet *p = calloc(1, sizeof(*p) + bytes);

	p->type = type;
	p->life = prog_life();
	p->qpn = from->attr.dest_qp_num;
	p->psn = psn;
	p->bytes = bytes;
	p->to_itself = is_self_connected(from);
	return p;
}

static void arrive(void *packet, uint64_t unused)
{
	const struct packet *p = packet;

	(void)unused;
	/* On rail 0 the programs choose the PSNs, the same in each life: a hazard of their own
	 * (7.34). */
	if (p->life == prog_life() || p->to->rail || p->to_itself)
		nic_receive(packet);
	free(packet);
}

uint64_t wire_delay(void)
{
	return latency_ns + rnd() % jitter_ns;
}

static uint64_t arrival(struct fake_nic *from)
{
	uint64_t at = now + wire_delay();

	if (rnd_ppm(late_ppm))
		return now + rnd() % LATE_MAX_NS;
	if (rnd_ppm(reorder_ppm))
		return at + latency_ns * (1 + rnd_below(8));
	if (at <= from->last_arrival)
		at = from->last_arrival + 1;
	from->last_arrival = at;
	return at;
}

bool wire_passes(const struct fake_nic *from)
{
	return !from->cut && !rnd_ppm(from->loss_ppm);
}

/* It does not leave the NIC, so it passes without a carrier. */
static void send_to_itself(struct fake_nic *from, struct packet *p)
{
	p->to = from;
	if (!p->stray && rnd_ppm(from->loss_ppm))
		free(p);
	else
		event_at(now + wire_delay(), arrive, p, 0);
}

void wire_send(struct fake_nic *from, struct packet *p)
{
	struct packet *again;

	if (p->to_itself) {
		send_to_itself(from, p);
		return;
	}
	tally->packets++;
	if (from->last_packets && !--from->last_packets)
		from->cut = true;
	p->to = &nics[!from->host][from->rail];
	if (!wire_passes(from) || (from->mute && p->type != REQUEST)) {
		free(p);
		return;
	}
	if (rnd_ppm(repeat_ppm)) {
		again = malloc(sizeof(*p) + p->bytes);
		memcpy(again, p, sizeof(*p) + p->bytes);
		event_at(arrival(from), arrive, again, 0);
	}
	event_at(arrival(from), arrive, p, 0);
}

void wire_setup(void)
{
	bool noisy = one_in(3);

	latency_ns = rnd_range(500, 20000);
	jitter_ns = 1 + rnd_below(10000);
	repeat_ppm = noisy ? rnd_below(20000) : 0;
	late_ppm = noisy ? rnd_below(2000) : 0;
	reorder_ppm = noisy ? rnd_below(100000) : 0;
}
