/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What goes wrong, and when. All heals in the end. */
#include "tests/glue/prog.h"

static uint64_t first_ns, every_ns; /* when the first one comes, and how often */
static uint32_t burden;		    /* mask of kinds of this schedule */
static unsigned int generation;	    /* of faults: those of an earlier one strike no more */

const char *fault_name(unsigned int kind)
{
	static const char *const name[] = {
#define NAME_OF(n, text) [FAULT_##n] = #n,
		FAULTS(NAME_OF)
#undef NAME_OF
	};

	return name[kind];
}

const char *fault_text(unsigned int kind)
{
	static const char *const text[] = {
#define TEXT_OF(n, t) [FAULT_##n] = t,
		FAULTS(TEXT_OF)
#undef TEXT_OF
	};

	return text[kind];
}

static void cable(struct fake_nic *n, bool down)
{
	struct fake_nic *ends[] = {n, &nics[!n->host][n->rail]};

	for (int i = 0; i < 2; i++) {
		ends[i]->cut = down;
		ends[i]->carrier = !down;
		session_tell_link(ends[i]);
	}
}

static void unmute(void *nic, uint64_t unused)
{
	(void)unused;
	((struct fake_nic *)nic)->mute = false;
}

static void mute_for_a_while(struct fake_nic *n)
{
	n->mute = true;
	event_at(now + rnd() % (500 * NS_MS), unmute, n, 0);
}

static void set(struct fake_nic *n, enum fault_kind kind, bool on)
{
	trace("fault %s on %s: %s", fault_name(kind), n->nic->name, on ? "begins" : "ends");
	switch (kind) {
	case FAULT_CUT:
		n->cut = false;
		n->last_packets = on ? 1 + rnd_below(12) : 0;
		return;
	case FAULT_CABLE: cable(n, on); return;
	case FAULT_ACKS: n->mute = on; return;
	case FAULT_LOSSY: n->loss_ppm = on ? rnd_below(300000) : 0; return;
	case FAULT_HANG:
		n->hung = on;
		prog_unsure(n->host);
		if (on && one_in(2))
			set(n, FAULT_QPERR, true);
		return;
	case FAULT_BROKEN: n->broken = on; return;
	case FAULT_QPERR: {
		struct fake_qp *q = nic_some_qp(n);

		if (q && on)
			nic_fail_qp(q);
		return;
	}
	case FAULT_MIGRATE:
		if (on)
			session_migrate(rnd_below(pairs), n->host);
		if (on && one_in(3)) /* the plan may have to be abandoned */
			mute_for_a_while(&nics[n->host][rnd_below(rails)]);
		return;
	case FAULT_STALL:
		if (on)
			threads_stall(rnd() % (200 * NS_MS));
		return;
	case FAULT_COUNT: return;
	}
}

static void heal(void *nic, uint64_t kind)
{
	set(nic, (enum fault_kind)kind, false);
}

static uint64_t some_duration(enum fault_kind kind)
{
	if (kind == FAULT_HANG && one_in(3)) /* longer than any deadline */
		return rnd() % (12000ull * NS_MS);
	if (one_in(4))
		return rnd() % (20 * NS_US);
	return one_in(3) ? rnd() % (20 * NS_MS) : rnd() % (2500ull * NS_MS);
}

static void strike(void *born, uint64_t left)
{
	struct fake_nic *n = &nics[rnd_below(HOSTS)][one_in(2) ? 0 : rnd_below(rails)];
	enum fault_kind kind = (enum fault_kind)rnd_below(FAULT_COUNT);
	bool struck = (burden & ~opt.without) & 1u << kind;

	if ((uintptr_t)born != generation || !left || !(burden & ~opt.without))
		return;
	if (struck) {
		tally->faults++;
		set(n, kind, true);
		event_at(now + some_duration(kind), heal, n, kind);
		left--;
	}
	event_at(now + (struck ? rnd() % every_ns : 1), strike, born, left);
}

void fault_begin(void)
{
	event_at(now + rnd() % first_ns, strike, (void *)(uintptr_t)generation, 1 + rnd_below(5));
}

void fault_end(void)
{
	generation++;
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++) {
			struct fake_nic *n = &nics[h][r];

			n->hung = n->broken = n->cut = n->mute = false;
			n->loss_ppm = n->last_packets = 0;
			if (n->carrier)
				continue;
			n->carrier = true;
			session_tell_link(n);
		}
}

void fault_setup(void)
{
	first_ns = one_in(2) ? NS_MS : 30 * NS_MS;
	every_ns = one_in(2) ? 20 * NS_MS : 1500ull * NS_MS;
	burden = (uint32_t)rnd() | 1u << rnd_below(FAULT_COUNT) | 1u << FAULT_CUT;
	if (!one_in(4))
		burden &= ~(1u << FAULT_HANG);
	if (!one_in(4))
		burden &= ~(1u << FAULT_BROKEN);
	if (opt.only)
		burden = opt.only;
}
