/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of single packets: a program at the NIC's ingress or egress (clsact). */
#include <cjson/cJSON.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/packet_bpf.h"
#include "faultinject/rtnl.h"

enum { QDISCS_MAX = 16, JOURNALS_MAX = 256 };

static const uint32_t ingress = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
static const uint32_t egress = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS);

static bool is_packet_fault(const struct injection *in, const char *name)
{
	return !strcmp(in->fault->name, name);
}

static struct packet_rule rule_of(const struct injection *in)
{
	const struct inject_options *o = &in->o;
	struct packet_rule r = {.qpn = o->qpn,
				.roce = o->qpn >= 0,
				.peer_family = o->peer_family,
				.peer = &o->peer,
				.ifindex = in->t.ifindex,
				.rate = o->given & OPT_RATE ? o->rate : 1,
				.burst = o->burst};

	if (is_packet_fault(in, "ack-drop")) {
		r.roce = true;
		r.answers = true;
	} else if (is_packet_fault(in, "drop-larger")) {
		r.larger = o->size;
	} else if (is_packet_fault(in, "corrupt")) {
		r.roce = true;
		r.action = ACTION_CORRUPT;
	} else if (is_packet_fault(in, "ecn-mark")) {
		r.roce = true;
		r.action = ACTION_MARK;
	} else if (is_packet_fault(in, "duplicate")) {
		r.action = ACTION_DUPLICATE;
	}
	return r;
}

static const char *direction_text(enum direction d)
{
	return d == DIRECTION_IN ? "in" : d == DIRECTION_OUT ? "out" : "in and out";
}

int packet_check(struct injection *in, struct problem *p)
{
	struct packet_rule r = rule_of(in);
	char which[64] = "packets", qpn[32] = "", peer[80] = "";

	if (!in->t.is_ethernet)
		return problem_set(p, INJECT_REFUSED, "%s is no Ethernet interface", in->t.netdev);
	if (!burst_is_possible(r.rate, r.burst))
		return problem_set(p, INJECT_BAD_USAGE,
				   "--rate %g%% is not possible in bursts of %g packets",
				   100 * r.rate, r.burst);
	if (r.larger)
		snprintf(which, sizeof(which), "IP packets of more than %u bytes", r.larger);
	else if (r.answers)
		strcpy(which, "RoCE acknowledgements");
	else if (r.roce)
		strcpy(which, "RoCE packets");
	if (in->o.qpn >= 0)
		snprintf(qpn, sizeof(qpn), " for QP %#llx", (long long)in->o.qpn);
	if (in->o.peer_family)
		snprintf(peer, sizeof(peer), " %s %s",
			 in->o.direction == DIRECTION_IN    ? "from"
			 : in->o.direction == DIRECTION_OUT ? "to"
							    : "from and to",
			 in->o.peer_text);
	snprintf(in->detail, sizeof(in->detail), "%.6g %% of %s%s%s, %s", 100 * r.rate, which, qpn,
		 peer, direction_text(in->o.direction));
	if (r.burst > 0)
		snprintf(in->detail + strlen(in->detail), sizeof(in->detail) - strlen(in->detail),
			 ", in bursts of %g", r.burst);
	return 0;
}

static int packet_failed(const struct injection *in, const char *what, int err, struct problem *p)
{
	if (err == -EPERM || err == -EACCES)
		return problem_set(
			p, INJECT_NO_PERMISSION,
			"%s: %s: not permitted; CAP_NET_ADMIN and CAP_BPF are needed (root)",
			in->t.netdev, what);
	return problem_set(p, INJECT_FAILED, "%s: %s: %s%s", in->t.netdev, what, rtnl_said(err),
			   err == -EOPNOTSUPP || err == -ENOENT || err == -ENOSYS
				   ? "; has this kernel sch_ingress, cls_bpf and bpf()?"
				   : "");
}

/* --- the place for filters ------------------------------------------------------------------- */

enum place { PLACE_NONE, PLACE_OF_USER, PLACE_OF_OURS, PLACE_TAKEN };

static bool made_it(const cJSON *j, unsigned int ifindex)
{
	const cJSON *step;

	/* There the number is another NIC's. */
	if (journal_is_of_another_netns(j) || journal_is_of_another_boot(j))
		return false;
	cJSON_ArrayForEach (step, cJSON_GetObjectItem(j, "steps"))
		if (!strcmp(json_text(step, "kind"), "clsact") &&
		    json_number(step, "ifindex", 0) == ifindex)
			return true;
	return false;
}

/* Did another active injection make the qdisc? Then the last one that ends removes it. */
static bool made_by_ours(unsigned int ifindex)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX, NULL);
	bool found = false;

	for (unsigned int i = 0; i < n; i++) {
		found |= made_it(list[i], ifindex);
		cJSON_Delete(list[i]);
	}
	return found;
}

static enum place place_for_filters(unsigned int ifindex)
{
	struct qdisc list[QDISCS_MAX];
	int n = rtnl_qdiscs(ifindex, list, QDISCS_MAX);

	for (int i = 0; i < n; i++) {
		if (list[i].parent != TC_H_CLSACT)
			continue;
		if (strcmp(list[i].kind, "clsact"))
			return PLACE_TAKEN;
		return made_by_ours(ifindex) ? PLACE_OF_OURS : PLACE_OF_USER;
	}
	return PLACE_NONE;
}

static cJSON *netdev_step(const struct injection *in)
{
	cJSON *step = cJSON_CreateObject();

	cJSON_AddNumberToObject(step, "ifindex", in->t.ifindex);
	cJSON_AddStringToObject(step, "netdev", in->t.netdev);
	return step;
}

static int make_place(struct injection *in, struct problem *p)
{
	enum place place = place_for_filters(in->t.ifindex);
	int status, err;

	if (place == PLACE_TAKEN)
		return problem_set(
			p, INJECT_REFUSED,
			"%s has an ingress qdisc that somebody has set; it is not replaced",
			in->t.netdev);
	if (place == PLACE_OF_USER)
		return 0;
	status = journal_step(in, "clsact", netdev_step(in), p);
	if (status || place == PLACE_OF_OURS || dry_run(in, "add qdisc clsact to %s", in->t.netdev))
		return status;
	err = rtnl_request(rtnl_qdisc_message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL,
					      in->t.ifindex, TC_H_CLSACT, TC_H_MAKE(TC_H_CLSACT, 0),
					      "clsact"));
	return err ? packet_failed(in, "qdisc clsact", err, p) : 0;
}

/* --- the filters ----------------------------------------------------------------------------- */

static int add_filter(struct injection *in, bool is_egress, struct problem *p)
{
	static struct bpf_code code;
	struct packet_rule r = rule_of(in);
	cJSON *step;
	char name[96];
	int fd, err, status;

	snprintf(name, sizeof(name), "shift-inject:%s", in->id);
	r.is_egress = is_egress;
	if (dry_run(in, "add filter bpf \"%s\" to %s %s: %s", name, in->t.netdev,
		    is_egress ? "egress" : "ingress", in->detail))
		return 0;
	packet_bpf_make(&code, &r, in->state_fd);
	fd = bpf_load_program(&code, "shift_inject", NULL, 0);
	if (fd < 0)
		return packet_failed(in, "packet program", fd, p);
	step = netdev_step(in);
	cJSON_AddNumberToObject(step, "parent", is_egress ? egress : ingress);
	cJSON_AddStringToObject(step, "name", name);
	status = journal_step(in, "filter", step, p);
	err = status ? 0
		     : rtnl_filter_add(in->t.ifindex, is_egress ? egress : ingress, fd, name, 0);
	close(fd);
	return err ? packet_failed(in, "filter", err, p) : status;
}

static int make_state(struct injection *in, struct problem *p)
{
	struct packet_state first = {.random = in->random ? in->random : 1};

	if (in->o.dry_run)
		return 0;
	in->state_fd = bpf_state_make(sizeof(first), &first);
	if (in->state_fd < 0)
		return packet_failed(in, "packet counters", in->state_fd, p);
	cJSON_AddNumberToObject(in->journal, "state", bpf_state_id(in->state_fd));
	return 0;
}

int packet_begin(struct injection *in, struct problem *p)
{
	int status = make_state(in, p);

	if (!status)
		status = make_place(in, p);
	if (!status && in->o.direction & DIRECTION_IN)
		status = add_filter(in, false, p);
	if (!status && in->o.direction & DIRECTION_OUT)
		status = add_filter(in, true, p);
	return status;
}

bool packet_counters(int state_fd, uint64_t *matched, uint64_t *hit)
{
	struct packet_state s;

	if (state_fd < 0 || bpf_state_read(state_fd, &s))
		return false;
	*matched = s.matched;
	*hit = s.hit;
	return true;
}

int packet_state_by_id(uint32_t id)
{
	return id ? bpf_state_open(id) : -1;
}
