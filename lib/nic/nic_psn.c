/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* When to measure whether a NIC's rq_psn is live (doc/protocol.md, A2): once, when its link is up.
 * Background thread. */
#include <string.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/nic/nic_int.h"
#include "lib/nic/rq_psn.h"

/* So many attempts in a row, because there are NICs that cannot send to themselves. After that a
 * change of the link or of an address starts another one. */
enum { TRIES_MAX = 4 };

#define RETRY_FIRST_NS 2000000000ull

static void measure_failed(struct nic_own *own, const char *why)
{
	log_debug("%s: whether rq_psn is live cannot be measured: %s", own->nic.name, why);
	if (own->failed_measurements + 1 < TRIES_MAX)
		bg_timer_set(&own->measure_timer,
			     now_ns() + (RETRY_FIRST_NS << own->failed_measurements++));
}

static void measure_done(struct nic *nic, enum stats_psn answer, const char *why)
{
	struct nic_own *own = nic_own(nic);
	bool changed = answer != nic->psn;

	own->measuring = false;
	nic->psn_tried = true;
	if (answer == STATS_PSN_UNMEASURED) {
		measure_failed(own, why);
		return;
	}
	if (answer == STATS_PSN_LIVE)
		log_info("%s: rq_psn is live", nic->name);
	else /* soft-RoCE was believed to be live: this is a surprise */
		log_at(nic->is_rxe ? LOG_WARN : LOG_INFO,
		       "%s: rq_psn is stale: %s; a WRITE of a peer may be executed twice when its "
		       "connection moves away from this NIC",
		       nic->name, why);
	nic->psn = (uint8_t)answer;
	own->measured = true;
	if (changed)
		nic_notify_change(nic);
}

void nic_measure_psn(struct nic_own *own)
{
	if (own->measuring || own->measured || !own->nic.link_up)
		return;
	own->measuring = true;
	if (rq_psn_measure(&own->nic, measure_done))
		measure_done(&own->nic, STATS_PSN_UNMEASURED, "no memory");
}

static void measure_again(void *arg)
{
	nic_measure_psn(arg);
}

void nic_measure_psn_init(struct nic_own *own)
{
	own->measure_timer = (struct bg_timer){.fn = measure_again, .arg = own};
}
