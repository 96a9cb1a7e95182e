/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of the queue of outgoing packets: netem and plug as the NIC's root qdisc. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/packet_bpf.h"
#include "faultinject/rtnl.h"

enum {
	QDISCS_MAX = 16,
	/* So large that the queue never drops a packet because it is full: soft-RoCE sees such a
	 * drop and tries again. */
	LIMIT_PACKETS = 100000,
	LIMIT_BYTES = 256 << 20,
	ATTR_PRNG_SEED = 14, /* TCA_NETEM_PRNG_SEED, of Linux 6.7 */
};

/* Handles that tell ours from others' in `tc qdisc`. */
static const uint32_t OURS = TC_H_MAKE(0x51f0u << 16, 0), BELOW = TC_H_MAKE(0x51f1u << 16, 0);

static bool is_queue_fault(const struct injection *in, const char *name)
{
	return !strcmp(in->fault->name, name);
}

/* The kernel's own qdiscs have no handle; the kernel restores them when ours is deleted. */
static int refuse_qdisc_of_user(const struct injection *in, struct problem *p)
{
	struct qdisc list[QDISCS_MAX];
	int n = rtnl_qdiscs(in->t.ifindex, list, QDISCS_MAX);

	for (int i = 0; i < n; i++) {
		if (list[i].parent != TC_H_ROOT || !list[i].handle)
			continue;
		return problem_set(
			p, INJECT_REFUSED,
			"%s has a root qdisc that somebody has set (%s %x:); it is not replaced",
			in->t.netdev, list[i].kind, list[i].handle >> 16);
	}
	return n < 0 ? problem_set(p, INJECT_FAILED, "%s: %s", in->t.netdev, rtnl_said(n)) : 0;
}

static int queue_failed(const struct injection *in, const char *what, int err, struct problem *p)
{
	if (err == -EPERM || err == -EACCES)
		return problem_set(p, INJECT_NO_PERMISSION,
				   "%s: %s: not permitted; CAP_NET_ADMIN is needed (root)",
				   in->t.netdev, what);
	return problem_set(p, INJECT_FAILED, "%s: qdisc %s: %s%s", in->t.netdev, what,
			   rtnl_said(err), err == -ENOENT ? "; this kernel does not have it" : "");
}

int queue_check(struct injection *in, struct problem *p)
{
	const struct inject_options *o = &in->o;
	char jitter[48] = "";

	if (o->time_jitter_us > o->time_us)
		return problem_set(p, INJECT_BAD_USAGE, "--jitter is more than --time");
	if (o->time_jitter_us)
		snprintf(jitter, sizeof(jitter), " +- %g ms", (double)o->time_jitter_us / 1000);
	if (is_queue_fault(in, "delay"))
		snprintf(in->detail, sizeof(in->detail), "%g ms%s, out", (double)o->time_us / 1000,
			 jitter);
	else if (is_queue_fault(in, "reorder"))
		snprintf(in->detail, sizeof(in->detail),
			 "%.6g %% of packets overtake those %g ms before them, out", 100 * o->rate,
			 (double)o->time_us / 1000);
	else if (is_queue_fault(in, "rate"))
		snprintf(in->detail, sizeof(in->detail), "at most %g Mbit/s, out",
			 (double)o->limit_bits / 1e6);
	else
		return 0;
	if (o->qpn >= 0)
		snprintf(in->detail + strlen(in->detail), 32, ", for QP %#llx", (long long)o->qpn);
	if (o->peer_family)
		snprintf(in->detail + strlen(in->detail), sizeof(in->detail) - strlen(in->detail),
			 ", to %s", o->peer_text);
	return 0;
}

static int keep_qdisc(struct injection *in, const char *kind, struct problem *p)
{
	cJSON *step = cJSON_CreateObject();

	cJSON_AddNumberToObject(step, "ifindex", in->t.ifindex);
	cJSON_AddStringToObject(step, "netdev", in->t.netdev);
	cJSON_AddStringToObject(step, "qdisc", kind);
	cJSON_AddNumberToObject(step, "handle", OURS);
	return journal_step(in, "qdisc", step, p);
}

/* --- netem ----------------------------------------------------------------------------------- */

static void put_netem(struct nl_msg *m, const struct injection *in)
{
	const struct inject_options *o = &in->o;
	struct tc_netem_qopt q = {.limit = LIMIT_PACKETS};
	struct nlattr *options = nla_nest_start(m, TCA_OPTIONS);
	uint64_t bytes = o->limit_bits / 8;

	if (is_queue_fault(in, "reorder"))
		q.gap = 1;
	/* The options begin with the structure; the rest stands behind it as attributes. */
	nlmsg_append(m, &q, sizeof(q), NLMSG_ALIGNTO);
	if (o->time_us) {
		int64_t ns = o->time_us * 1000, jitter = o->time_jitter_us * 1000;

		nla_put(m, TCA_NETEM_LATENCY64, sizeof(ns), &ns);
		nla_put(m, TCA_NETEM_JITTER64, sizeof(jitter), &jitter);
	}
	if (is_queue_fault(in, "reorder")) {
		struct tc_netem_reorder r = {.probability = (uint32_t)(o->rate * UINT32_MAX)};

		nla_put(m, TCA_NETEM_REORDER, sizeof(r), &r);
	}
	if (bytes) {
		struct tc_netem_rate r = {.rate = bytes > UINT32_MAX ? UINT32_MAX
								     : (uint32_t)bytes};

		if (bytes > UINT32_MAX)
			nla_put_u64(m, TCA_NETEM_RATE64, bytes);
		nla_put(m, TCA_NETEM_RATE, sizeof(r), &r);
	}
	nla_put_u64(m, ATTR_PRNG_SEED, o->seed);
	nla_nest_end(m, options);
}

static int add_netem(struct injection *in, uint32_t parent, uint32_t handle, struct problem *p)
{
	struct nl_msg *m;
	int err;

	if (dry_run(in, "add qdisc netem to %s: %s", in->t.netdev, in->detail))
		return 0;
	m = rtnl_qdisc_message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, in->t.ifindex, parent,
			       handle, "netem");
	put_netem(m, in);
	err = rtnl_request(m);
	return err ? queue_failed(in, "netem", err, p) : 0;
}

/* --- one flow only: two bands, and a program that puts its packets into the second ----------- */

static int add_prio(struct injection *in, struct problem *p)
{
	struct tc_prio_qopt q = {.bands = 2}; /* everything in the first */
	struct nl_msg *m;
	int err;

	if (dry_run(in, "add qdisc prio with 2 bands to %s", in->t.netdev))
		return 0;
	m = rtnl_qdisc_message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, in->t.ifindex, TC_H_ROOT,
			       OURS, "prio");
	nla_put(m, TCA_OPTIONS, sizeof(q), &q);
	err = rtnl_request(m);
	return err ? queue_failed(in, "prio", err, p) : 0;
}

static int add_classifier(struct injection *in, struct problem *p)
{
	static struct bpf_code code;
	struct packet_state first = {.random = 1};
	struct packet_rule r = {.action = ACTION_CLASSIFY,
				.is_egress = true,
				.qpn = in->o.qpn,
				.roce = in->o.qpn >= 0,
				.peer_family = in->o.peer_family,
				.peer = &in->o.peer,
				.rate = 1};
	int fd, err;

	if (dry_run(in, "add filter bpf to %s: this flow to the second band", in->t.netdev))
		return 0;
	in->state_fd = bpf_state_make(sizeof(first), &first);
	if (in->state_fd < 0)
		return queue_failed(in, "packet counters", in->state_fd, p);
	packet_bpf_make(&code, &r, in->state_fd);
	fd = bpf_load_program(&code, "shift_inject", NULL, 0);
	if (fd < 0)
		return queue_failed(in, "packet program", fd, p);
	err = rtnl_filter_add(in->t.ifindex, OURS, fd, "shift-inject", OURS | 2);
	close(fd);
	return err ? queue_failed(in, "filter", err, p) : 0;
}

int queue_begin(struct injection *in, struct problem *p)
{
	int status = refuse_qdisc_of_user(in, p);

	if (status)
		return status;
	if (in->o.qpn < 0 && !in->o.peer_family) {
		status = keep_qdisc(in, "netem", p);
		return status ? status : add_netem(in, TC_H_ROOT, OURS, p);
	}
	status = keep_qdisc(in, "prio", p);
	if (!status)
		status = add_prio(in, p);
	if (!status)
		status = add_netem(in, OURS | 2, BELOW, p);
	return status ? status : add_classifier(in, p);
}

/* --- pause ----------------------------------------------------------------------------------- */

static int plug_message(unsigned int ifindex, int flags, int action)
{
	struct tc_plug_qopt q = {.action = action, .limit = LIMIT_BYTES};
	struct nl_msg *m = rtnl_qdisc_message(RTM_NEWQDISC, flags, ifindex, TC_H_ROOT, OURS,
					      "plug");

	nla_put(m, TCA_OPTIONS, sizeof(q), &q);
	return rtnl_request(m);
}

int pause_begin(struct injection *in, struct problem *p)
{
	cJSON *step = cJSON_CreateObject();
	int status = refuse_qdisc_of_user(in, p), err;

	cJSON_AddNumberToObject(step, "ifindex", in->t.ifindex);
	if (status) {
		cJSON_Delete(step);
		return status;
	}
	status = keep_qdisc(in, "plug", p);
	if (status)
		cJSON_Delete(step);
	else /* undone before the qdisc goes: what is in it is still sent */
		status = journal_step(in, "plug", step, p);
	if (status || dry_run(in, "add qdisc plug to %s", in->t.netdev))
		return status;
	err = plug_message(in->t.ifindex, NLM_F_CREATE | NLM_F_EXCL, TCQ_PLUG_LIMIT);
	return err ? queue_failed(in, "plug", err, p) : 0;
}

int pause_wave(struct injection *in, bool on, struct problem *p)
{
	int err;

	if (dry_run(in, "%s the queue of %s", on ? "stop" : "release", in->t.netdev))
		return 0;
	err = plug_message(in->t.ifindex, 0, on ? TCQ_PLUG_BUFFER : TCQ_PLUG_RELEASE_INDEFINITE);
	return err ? queue_failed(in, "plug", err, p) : 0;
}

int pause_release(const cJSON *step, struct problem *p)
{
	(void)p;
	/* Not there (any more): as good as released. */
	plug_message(json_uint32(step, "ifindex"), 0, TCQ_PLUG_RELEASE_INDEFINITE);
	return 0;
}
