/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* lib/core by the test's script: it says what the script says, and puts what it is told into the
 * trace. The linker puts these functions in the place of lib/core's own. */
#include <errno.h>

#include "lib/core/fast.h"
#include "tests/unit/rooms.h"

struct core_script core;

void core_asks(const struct shift_action *a)
{
	assert_true(core.actions < SCRIPT_MAX);
	core.action[core.actions++] = *a;
}

struct shift_conn *__wrap_shift_conn_init(void *mem, size_t len, const struct shift_conn_cfg *cfg,
					  uint64_t now_ns);
void __wrap_shift_conn_start(struct shift_conn *c, const struct shift_conn_start *s);
bool __wrap_shift_conn_meet(struct shift_conn *c, const struct shift_conn_peer *p);
void __wrap_shift_conn_past(const struct shift_conn *c, uint64_t now_ns, struct shift_past *past);
void __wrap_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns);
bool __wrap_shift_conn_action(struct shift_conn *c, struct shift_action *a);
bool __wrap_shift_conn_completion(struct shift_conn *c, struct shift_wc *wc);
bool __wrap_shift_conn_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
			   uint64_t now_ns);
int __wrap_shift_conn_post_send(struct shift_conn *c, const struct shift_wr *wr, int *rail);
int __wrap_shift_conn_post_recv(struct shift_conn *c, const struct shift_recv_wr *wr, int *rail);
void __wrap_shift_conn_unpost_send(struct shift_conn *c, uint32_t n);
void __wrap_shift_conn_unpost_recv(struct shift_conn *c, uint32_t n);
bool __wrap_shift_conn_repost(const struct shift_conn *c, uint64_t *index, uint64_t end,
			      struct shift_wr *wr, struct shift_sge *sge);
void __wrap_shift_conn_recv_at(const struct shift_conn *c, uint64_t index,
			       struct shift_recv_wr *wr);
bool __wrap_shift_conn_release(struct shift_conn *c);
bool __wrap_shift_conn_release_due(const struct shift_conn *c);
bool __wrap_shift_conn_atomic_releases(const struct shift_conn *c);
bool __wrap_shift_conn_fast(const struct shift_conn *c);
bool __wrap_shift_conn_secret_due(const struct shift_conn *c, const struct shift_wr *wr);
uint64_t __wrap_shift_conn_head(const struct shift_conn *c);
void __wrap_shift_conn_view(const struct shift_conn *c, struct shift_conn_view *v);
enum shift_state __wrap_shift_conn_state(const struct shift_conn *c);
uint8_t __wrap_shift_conn_rail(const struct shift_conn *c);
bool __wrap_shift_conn_protected(const struct shift_conn *c);
bool __wrap_shift_conn_matched(const struct shift_conn *c);
const struct shift_conn_stats *__wrap_shift_conn_stats(const struct shift_conn *c);
uint64_t __wrap_shift_conn_lazy_deadline(const struct shift_conn *c);
bool __wrap_shift_conn_idle(const struct shift_conn *c);
uint64_t __wrap_shift_conn_activity(const struct shift_conn *c);
int __wrap_shift_conn_dump(const struct shift_conn *c, char *buf, size_t len);
void __wrap_shift_conn_tombstone(const struct shift_conn *c, uint64_t now_ns,
				 struct shift_tombstone *t);
bool __wrap_shift_fast_post_other(struct shift_conn *c, struct shift_run *r,
				  const struct shift_raw_wr *wr);
const struct shift_raw_wr *__wrap_shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						       const struct shift_raw_wr *wr, uint32_t n);
void __wrap_shift_fast_fold(struct shift_conn *c, struct shift_run *r);

/* --- its life ------------------------------------------------------------------------------ */

struct shift_conn *__wrap_shift_conn_init(void *mem, size_t len, const struct shift_conn_cfg *cfg,
					  uint64_t now_ns)
{
	assert_true(len >= shift_conn_size(cfg));
	assert_int_equal(now_ns, world.now);
	core.cfg = *cfg;
	return core.no_memory ? NULL : mem;
}

void __wrap_shift_conn_start(struct shift_conn *c, const struct shift_conn_start *s)
{
	(void)c;
	core.start = *s;
	trace_add("start\n");
}

bool __wrap_shift_conn_meet(struct shift_conn *c, const struct shift_conn_peer *p)
{
	(void)c;
	core.peer = *p;
	trace_add("meet %#llx %u\n", (unsigned long long)p->nonce, p->id);
	return !core.impossible;
}

void __wrap_shift_conn_past(const struct shift_conn *c, uint64_t now_ns, struct shift_past *past)
{
	(void)c;
	assert_int_equal(now_ns, world.now);
	*past = core.past;
}

bool __wrap_shift_conn_release(struct shift_conn *c)
{
	(void)c;
	trace_add("release\n");
	return core.releases;
}

bool __wrap_shift_conn_release_due(const struct shift_conn *c)
{
	(void)c;
	return core.release_due;
}

bool __wrap_shift_conn_atomic_releases(const struct shift_conn *c)
{
	(void)c;
	return core.atomic_releases;
}

void __wrap_shift_conn_tombstone(const struct shift_conn *c, uint64_t now_ns,
				 struct shift_tombstone *t)
{
	(void)c;
	assert_int_equal(now_ns, world.now);
	*t = core.tombstone;
}

/* --- events and actions -------------------------------------------------------------------- */

void __wrap_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns)
{
	(void)c;
	assert_int_equal(now_ns, world.now);
	trace_add("event %s rail %u", shift_event_name(ev->type), ev->rail);
	if (ev->also)
		trace_add(" also %#x", ev->also);
	if (ev->epoch)
		trace_add(" epoch %u", ev->epoch);
	if (ev->type == SHIFT_EV_FENCE_DONE || ev->type == SHIFT_EV_PSN)
		trace_add(" fence %u psn %#x%s%s", ev->fence, ev->psn, ev->hung ? " hung" : "",
			  ev->clean ? " clean" : "");
	if (ev->awaited)
		trace_add(" awaited");
	if (ev->mtu)
		trace_add(" mtu %u", ev->mtu);
	if (ev->type == SHIFT_EV_CLOSE)
		trace_add(" how %u", ev->how);
	if (ev->serial)
		trace_add(" serial %u", ev->serial);
	if (ev->count)
		trace_add(" count %u", ev->count);
	if (ev->msg)
		trace_add(" msg %u", ev->msg->type);
	trace_add("\n");
	if (core.on_event)
		core.on_event(ev);
}

bool __wrap_shift_conn_action(struct shift_conn *c, struct shift_action *a)
{
	(void)c;
	if (core.actions_taken == core.actions) {
		core.actions = core.actions_taken = 0;
		return false;
	}
	*a = core.action[core.actions_taken++];
	return true;
}

bool __wrap_shift_conn_completion(struct shift_conn *c, struct shift_wc *wc)
{
	(void)c;
	if (core.completions_taken == core.completions)
		return false;
	*wc = core.completion[core.completions_taken++];
	return true;
}

/* --- posts and completions ----------------------------------------------------------------- */

bool __wrap_shift_conn_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
			   uint64_t now_ns)
{
	(void)c;
	(void)now_ns;
	trace_add("cqe %s id %#llx rail %u epoch %u status %u vendor %u bytes %u\n",
		  cqe->is_recv ? "recv" : "send", (unsigned long long)cqe->wr_id, cqe->rail,
		  cqe->epoch, cqe->status, cqe->vendor_err, cqe->byte_len);
	wc->wr_id = cqe->wr_id + 0x100;
	return core.delivers;
}

static int take_post(int *rail)
{
	if (core.post_ends_after == 0)
		return -ENOMEM;
	if (core.post_ends_after > 0)
		core.post_ends_after--;
	*rail = core.post_rail;
	return core.post_result;
}

int __wrap_shift_conn_post_send(struct shift_conn *c, const struct shift_wr *wr, int *rail)
{
	int err = take_post(rail);

	(void)c;
	trace_add("log id %#llx op %u flags %#x imm %#x to %#llx %#x compare %llu swap %llu sges "
		  "%u: %d\n",
		  (unsigned long long)wr->wr_id, wr->opcode, wr->flags, wr->imm,
		  (unsigned long long)wr->remote_addr, wr->rkey,
		  (unsigned long long)wr->compare_add, (unsigned long long)wr->swap, wr->num_sge,
		  err);
	if (err >= 0)
		core.head++;
	return err;
}

int __wrap_shift_conn_post_recv(struct shift_conn *c, const struct shift_recv_wr *wr, int *rail)
{
	int err = take_post(rail);

	(void)c;
	trace_add("log receive id %#llx sges %u: %d\n", (unsigned long long)wr->wr_id, wr->num_sge,
		  err);
	return err;
}

void __wrap_shift_conn_unpost_send(struct shift_conn *c, uint32_t n)
{
	(void)c;
	core.head -= n;
	trace_add("unlog %u\n", n);
}

void __wrap_shift_conn_unpost_recv(struct shift_conn *c, uint32_t n)
{
	(void)c;
	trace_add("unlog receive %u\n", n);
}

/* Of its log it says that the WR at index i has the id i, and is one of these. */
bool __wrap_shift_conn_repost(const struct shift_conn *c, uint64_t *index, uint64_t end,
			      struct shift_wr *wr, struct shift_sge *sge)
{
	static const uint8_t opcodes[] = {SHIFT_OP_WRITE_IMM, SHIFT_OP_CMP_SWAP, SHIFT_OP_READ,
					  SHIFT_OP_FETCH_ADD, SHIFT_OP_SEND,	 SHIFT_OP_SEND_IMM,
					  SHIFT_OP_WRITE,     SHIFT_OP_WRITE};
	uint64_t i = *index;

	(void)c;
	if (i >= end)
		return false;
	*wr = (struct shift_wr){
		.wr_id = i,
		.remote_addr = 0x7000 + i,
		.compare_add = 70 + i,
		.swap = 80 + i,
		.sge = sge,
		.num_sge = 2,
		.rkey = core.no_rkey ? 0 : 0x700,
		.imm = 0x90,
		.opcode = core.opcode ? core.opcode : opcodes[i % 8],
		.flags = (uint8_t)(SHIFT_F_SIGNALED | (i % 8 == 7 ? SHIFT_F_INLINE : 0))};
	sge[0] = (struct shift_sge){.addr = 0x100 + i, .length = 10, .lkey = 0xa};
	sge[1] = (struct shift_sge){.addr = 0x200 + i, .length = 20, .lkey = 0xb};
	if (core.no_bytes)
		sge[0].length = sge[1].length = 0;
	(*index)++;
	return true;
}

void __wrap_shift_conn_recv_at(const struct shift_conn *c, uint64_t index, struct shift_recv_wr *wr)
{
	static const struct shift_sge sge[2] = {{.addr = 0x300, .length = 30, .lkey = 0xc},
						{.addr = 0x400, .length = 40, .lkey = 0xd}};

	(void)c;
	*wr = (struct shift_recv_wr){.wr_id = index, .sge = sge, .num_sge = 2};
}

/* --- looking in ---------------------------------------------------------------------------- */

bool __wrap_shift_conn_fast(const struct shift_conn *c)
{
	(void)c;
	return core.fast;
}

bool __wrap_shift_conn_secret_due(const struct shift_conn *c, const struct shift_wr *wr)
{
	(void)c;
	(void)wr;
	return core.secret;
}

uint64_t __wrap_shift_conn_head(const struct shift_conn *c)
{
	(void)c;
	return core.head;
}

void __wrap_shift_conn_view(const struct shift_conn *c, struct shift_conn_view *v)
{
	(void)c;
	*v = core.view;
}

enum shift_state __wrap_shift_conn_state(const struct shift_conn *c)
{
	(void)c;
	return core.view.state;
}

uint8_t __wrap_shift_conn_rail(const struct shift_conn *c)
{
	(void)c;
	return core.view.r;
}

bool __wrap_shift_conn_protected(const struct shift_conn *c)
{
	(void)c;
	return core.view.protected_;
}

bool __wrap_shift_conn_matched(const struct shift_conn *c)
{
	(void)c;
	return core.view.matched;
}

const struct shift_conn_stats *__wrap_shift_conn_stats(const struct shift_conn *c)
{
	(void)c;
	return &core.stats;
}

uint64_t __wrap_shift_conn_lazy_deadline(const struct shift_conn *c)
{
	(void)c;
	return core.deadline;
}

bool __wrap_shift_conn_idle(const struct shift_conn *c)
{
	(void)c;
	return core.idle;
}

uint64_t __wrap_shift_conn_activity(const struct shift_conn *c)
{
	(void)c;
	return core.activity;
}

int __wrap_shift_conn_dump(const struct shift_conn *c, char *buf, size_t len)
{
	(void)c;
	(void)len;
	*buf = 0;
	return 0;
}

/* --- the fast way -------------------------------------------------------------------------- */

static bool to_be_folded; /* the run took nothing: that is told by the WR's own line */

static bool goes_into_run(struct shift_run *r, const struct shift_raw_wr *wr)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < wr->num_sge; i++)
		bytes += wr->sge[i].length;
	if (bytes > SHIFT_FAST_BYTES_MAX)
		return false;
	r->next++;
	return true;
}

/* Any kind of WR; behind the run's end in another turn. */
bool __wrap_shift_fast_post_other(struct shift_conn *c, struct shift_run *r,
				  const struct shift_raw_wr *wr)
{
	static struct shift_wr_entry entries[3];

	(void)c;
	if (r->next != r->stop)
		return goes_into_run(r, wr);
	to_be_folded = !core.run_takes;
	if (to_be_folded)
		return false;
	trace_add("turn\n");
	r->mtu = 1024;
	r->next = entries;
	r->stop = entries + core.run_takes;
	return goes_into_run(r, wr);
}

/* One after the other, as those that come alone. */
const struct shift_raw_wr *__wrap_shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						       const struct shift_raw_wr *wr, uint32_t n)
{
	for (; wr && n; wr = wr->next, n--)
		if (!shift_fast_post(r, wr) && !__wrap_shift_fast_post_other(c, r, wr))
			break;
	return wr;
}

void __wrap_shift_fast_fold(struct shift_conn *c, struct shift_run *r)
{
	(void)c;
	(void)r;
	if (!to_be_folded)
		trace_add("fold\n");
	to_be_folded = false;
}
