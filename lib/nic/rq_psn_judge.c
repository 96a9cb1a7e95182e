/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Judges the facts of a round: can they be as they are if rq_psn is live? Pure. */
#include <string.h>

#include "lib/core/psn.h"
#include "lib/nic/rq_psn.h"

/* In turn: one packet; several whole ones; a WRITE of 0 bytes; several, of which the last is short.
 */
uint32_t rq_psn_bytes(unsigned int write, uint32_t mtu)
{
	switch (write % 4) {
	case 0: return sizeof(uint64_t);
	case 1: return RQ_PSN_PARTS * mtu;
	case 2: return 0;
	default: return (RQ_PSN_PARTS - 1) * mtu + sizeof(uint64_t);
	}
}

/* Each 8 bytes of the source have a number, from 1, and each WRITE begins 8 bytes behind the one
 * before. This is the number that then stands at the beginning of a packet. */
uint64_t rq_psn_stamp(unsigned int write, unsigned int part, uint32_t mtu)
{
	return write + (uint64_t)part * (mtu / sizeof(uint64_t)) + 1;
}

static uint32_t packets_of(unsigned int write, uint32_t mtu)
{
	return shift_psn_packets(SHIFT_OP_WRITE, rq_psn_bytes(write, mtu), mtu);
}

static uint64_t packets_before(unsigned int writes, uint32_t mtu)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < writes; i++)
		n += packets_of(i, mtu);
	return n;
}

struct range {
	uint64_t min, max;
};

/* How many packets must have been executed, in order, to leave the memory as it is. It is a range,
 * because a WRITE without data leaves no trace. false: no number of packets does. */
static bool packets_executed(const struct rq_psn_facts *f, struct range *r)
{
	uint64_t memory[RQ_PSN_PARTS] = {0}, n = 0;
	bool found = !memcmp(memory, f->seen, sizeof(memory));

	*r = (struct range){0};
	for (unsigned int i = 0; i < f->posted; i++)
		for (unsigned int part = 0; part < packets_of(i, f->mtu); part++) {
			if (rq_psn_bytes(i, f->mtu))
				memory[part] = rq_psn_stamp(i, part, f->mtu);
			n++;
			if (memcmp(memory, f->seen, sizeof(memory)))
				continue;
			r->max = n;
			if (!found)
				r->min = n;
			found = true;
		}
	return found;
}

const char *rq_psn_contradiction(const struct rq_psn_facts *f)
{
	uint64_t acked = packets_before(f->acked, f->mtu),
		 posted = packets_before(f->posted, f->mtu);
	struct range r;
	uint64_t k;

	if (f->armed != f->first)
		return "it is not what it was set to";
	if (f->idle != shift_psn_add(f->first, packets_before(f->idle_writes, f->mtu)))
		return "it does not count the packets of completed requests";
	if (f->stopped != f->later)
		return "it changes behind the fence";
	if (shift_psn_unwrap(f->stopped, f->first, acked, posted, &k))
		return "it is not between what was acknowledged and what was sent";
	if (!packets_executed(f, &r))
		return "memory is not written in the order of the packets";
	if (k < r.min || k > r.max)
		return "it is not what memory shows";
	return NULL;
}
