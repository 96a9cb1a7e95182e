/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program at both ends: it makes its objects, posts a random load, polls, resets or destroys.
 * It knows what each verb may return and each completion must be. The rules of exactly once are the
 * oracle's (oracle.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/real_verbs.h"
#include "lib/object/cq.h"
#include "lib/object/memory.h"
#include "lib/verbs/completion_events.h"
#include "lib/verbs/context.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/qp.h"
#include "tests/glue/prog.h"

struct memory memory[HOSTS] __attribute__((aligned(64)));
struct side sides[PAIRS_MAX][HOSTS];
unsigned int pairs;
bool prog_is_over, calm;

static struct host {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *local, *remote;
	struct ibv_mr *old; /* what `remote` was before, if it is still registered */
	struct ibv_cq *cq[2 * PAIRS_MAX];
	struct ibv_cq shown[2 * PAIRS_MAX]; /* these, once all QPs were made */
	unsigned int cqs;
	struct ibv_comp_channel *channel; /* NULL: it polls all the time */
	bool awake[2 * PAIRS_MAX];	  /* the CQ is to be polled: it had an event */
	pthread_mutex_t poll_lock;
	unsigned int threads; /* that use its QPs */
	uint32_t key_number;  /* counts the registrations of `remote` */
	bool over;
} hosts[HOSTS];

static enum cqs { CQ_ONE, CQ_PER_QP, CQ_PER_QUEUE } cqs;
static enum threading { ONE_THREAD, POST_AND_POLL, SEVERAL } threading;
static unsigned int lives, life_now;
static uint64_t gap_ns, early_end_at, one_dies_at, rekey_ns;
static uint32_t signal_ppm, late_receives_ppm, small_ppm;
static unsigned int burst_max, stay, mix[7]; /* stay: posts in a row */
static struct ibv_qp_cap cap;
static bool stop, all_done, sleeps, batches;

struct vqp *prog_vqp(unsigned int pair, unsigned int host)
{
	struct side *s = &sides[pair % pairs][host];

	return s->qp ? vqp_find(s->qp) : NULL;
}

/* Two threads may post to one QP. What was posted first is known once the NIC has been asked, so
 * from then on the other one may post while the first is still on its way out of the library. */
static _Thread_local struct side *posting; /* its lock is held */

static void take_lock(struct side *s)
{
	if (posting == s)
		return;
	pthread_mutex_lock(&s->lock);
	posting = s;
}

static void release_lock(void)
{
	struct side *s = posting;

	posting = NULL;
	if (s)
		pthread_mutex_unlock(&s->lock);
}

void prog_asked(const struct ibv_qp *qp, bool is_last, int err)
{
	if (threading == SEVERAL && posting && posting->qp == qp && is_last && (!err || err == EIO))
		release_lock();
}

bool prog_is_last(const struct ibv_qp *qp, uint64_t wr_id)
{
	return posting && posting->qp == qp && wr_id + 1 == posting->posted;
}

bool prog_resets(const struct ibv_qp *qp)
{
	for (unsigned int i = 0; i < pairs * HOSTS; i++)
		if (sides[i / HOSTS][i % HOSTS].qp == qp)
			return sides[i / HOSTS][i % HOSTS].resets;
	return false;
}

static void must(int err, const char *what)
{
	if (err)
		violation("%s fails with %d", what, err);
}

static void modify_side(struct side *s, struct ibv_qp_attr *attr, int mask, const char *what)
{
	s->at_verb = true;
	s->resets = attr->qp_state == IBV_QPS_RESET;
	must(hook_modify_qp(s->qp, attr, mask), what);
	s->shown = *s->qp;
	s->at_verb = s->resets = false;
	if (s->shown.state != attr->qp_state)
		violation("%c%u: qp->state is %d after modify to %s", 'a' + s->host, s->pair,
			  s->shown.state, what);
}

/* Whatever the library does with the program's QP, the program's object does not show it. That its
 * connection is over it may. */
static void check_object(const struct side *s)
{
	const struct ibv_qp *is = s->qp, *was = &s->shown;
	const struct vqp *v = prog_vqp(s->pair, s->host);
	bool same;

	if (!v || s->at_verb)
		return;
	same = is->context == was->context && is->qp_context == was->qp_context &&
	       is->pd == was->pd && is->send_cq == was->send_cq && is->recv_cq == was->recv_cq &&
	       is->srq == was->srq && is->handle == was->handle && is->qp_num == was->qp_num &&
	       is->qp_type == was->qp_type && is->events_completed == was->events_completed;
	if (!same || (is->state != was->state && !(v->life.dead && is->state == IBV_QPS_ERR)))
		violation("%c%u: the program's QP shows what it has not done: state %d, was %d",
			  'a' + s->host, s->pair, is->state, was->state);
}

static void check_cq(unsigned int h, unsigned int i)
{
	const struct ibv_cq *is = hosts[h].cq[i], *was = &hosts[h].shown[i];

	if (is->context != was->context || is->channel != was->channel ||
	    is->cq_context != was->cq_context || is->handle != was->handle || is->cqe != was->cqe ||
	    (!hosts[h].channel && is->comp_events_completed != was->comp_events_completed) ||
	    is->async_events_completed != was->async_events_completed)
		violation("%c: the program's CQ shows what it has not done", 'a' + h);
}

static void wait_for(const char *what, bool (*is_true)(unsigned int), unsigned int arg)
{
	uint64_t end = now + 400ull * 1000 * NS_MS;

	while (!is_true(arg)) {
		thread_sleep(rnd_below(2 * NS_MS));
		if (now > end)
			violation("%s waits for ever: %s; %s", thread_name(), what, oracle_hang());
	}
}

unsigned int prog_life(void)
{
	return life_now;
}

/* --- posting ---------------------------------------------------------------------------------- */

static enum op some_op(void)
{
	unsigned int sum = 0, x;
	enum op op;

	for (op = 0; op < 7; op++)
		sum += mix[op];
	x = rnd_below(sum);
	for (op = 0; x >= mix[op]; op++)
		x -= mix[op];
	return op;
}

static uint32_t split(uint8_t *at, uint32_t bytes, uint32_t lkey, struct ibv_sge *sge)
{
	uint32_t n = 0, part;

	while (bytes) {
		part = n + 1 < cap.max_send_sge && bytes > 1 && one_in(4) ? 1 + rnd_below(bytes - 1)
									  : bytes;
		sge[n++] = (struct ibv_sge){(uintptr_t)at, part, lkey};
		at += part;
		bytes -= part;
	}
	return n;
}

static enum ibv_wr_opcode opcode_of(enum op op)
{
	static const enum ibv_wr_opcode opcode[] = {[OP_WRITE] = IBV_WR_RDMA_WRITE,
						    [OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
						    [OP_SEND] = IBV_WR_SEND,
						    [OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
						    [OP_READ] = IBV_WR_RDMA_READ,
						    [OP_CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
						    [OP_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD};

	return opcode[op];
}

static void set_remote(struct side *s, uint32_t seq, struct ibv_send_wr *wr)
{
	struct memory *there = &memory[!s->host];
	uint32_t rkey = hosts[!s->host].remote->rkey, slot = seq % SLOTS;
	struct work *w = &s->work[seq];

	w->key_number = hosts[!s->host].key_number;
	if (is_atomic(w->op)) {
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.remote_addr = (uintptr_t)&there->word[s->pair][w->op == OP_FETCH_ADD];
		wr->wr.atomic.compare_add = w->op == OP_FETCH_ADD ? seq + 1 : w->compare;
		wr->wr.atomic.swap = w->compare + seq + 1;
		return;
	}
	wr->wr.rdma.rkey = rkey;
	if (w->op == OP_READ)
		wr->wr.rdma.remote_addr = (uintptr_t)there->read[s->pair][slot];
	else if (w->op == OP_WRITE || w->op == OP_WRITE_IMM)
		wr->wr.rdma.remote_addr = (uintptr_t)there->write[s->pair][slot];
}

static void make_work(struct side *s, uint32_t seq, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct work *w = &s->work[seq];
	uint8_t *buffer = memory[s->host].local[s->pair][seq % SLOTS];

	*w = (struct work){.op = s->probing ? OP_SEND : some_op(), .imm = (uint32_t)rnd()};
	w->bytes = is_atomic(w->op) ? 8 : 1 + rnd_below(rnd_ppm(small_ppm) ? 64 : SLOT_BYTES);
	w->signaled = rnd_ppm(signal_ppm) || seq + 1 == s->total ||
		      s->unsignaled + 2 >= cap.max_send_wr / 2;
	s->unsignaled = w->signaled ? 0 : s->unsignaled + 1;
	if (s->peer->pool)
		s->peer->pool->promised += is_two_sided(w->op);
	if (w->op == OP_CMP_SWAP) {
		w->compare = s->swapped;
		s->swapped += seq + 1;
	}
	s->added += w->op == OP_FETCH_ADD ? seq + 1 : 0;
	for (uint32_t i = 0; i < w->bytes; i++)
		buffer[i] = w->op == OP_READ || is_atomic(w->op)
				    ? 0xee
				    : pattern(s->host, s->pair, seq, i);
	*wr = (struct ibv_send_wr){
		.wr_id = seq,
		.sg_list = sge,
		.num_sge = (int)split(buffer, w->bytes, hosts[s->host].local->lkey, sge),
		.opcode = opcode_of(w->op),
		.send_flags = w->signaled ? IBV_SEND_SIGNALED : 0,
		.imm_data = w->imm};
	if (one_in(20))
		wr->send_flags |= IBV_SEND_FENCE;
	set_remote(s, seq, wr);
	if (w->op == OP_READ)
		oracle_fill_read(s, seq);
}

static void unmake_work(struct side *s, uint32_t from)
{
	for (uint32_t i = s->posted; i-- > from;) {
		if (s->peer->pool && is_two_sided(s->work[i].op))
			s->peer->pool->promised--;
		if (s->work[i].op == OP_CMP_SWAP)
			s->swapped -= i + 1;
		if (s->work[i].op == OP_FETCH_ADD)
			s->added -= i + 1;
	}
	s->posted = from;
	s->unsignaled = 0;
	for (uint32_t i = from; i-- > 0 && !s->work[i].signaled;)
		s->unsignaled++;
}

static bool may_post(const struct side *s)
{
	return !stop && !s->ended && !s->closing && s->posted < s->total &&
	       pool_has_credit(s->peer) && s->posted - s->next_cqe < cap.max_send_wr &&
	       s->posted - s->next_cqe < SLOTS - 1;
}

/* As ibv_wr_complete() does: all, or none. */
static int post_batch(struct side *s, struct ibv_send_wr *wr, uint32_t n, struct ibv_send_wr **bad)
{
	*bad = wr;
	return post_send_batch(prog_vqp(s->pair, s->host), wr, n, verbs_post_all);
}

/* A list of sends. false: the queue is full, or nothing is left to be posted. */
static bool post_sends(struct side *s)
{
	struct ibv_send_wr wr[8], *bad = NULL;
	struct ibv_sge sge[8][4];
	uint32_t first = s->posted, n = 0, wanted = 1 + rnd_below(burst_max);
	int err;

	for (; n < wanted && may_post(s); n++) {
		make_work(s, first + n, &wr[n], sge[n]);
		if (n)
			wr[n - 1].next = &wr[n];
		s->posted++;
	}
	if (!n)
		return false;
	trace("%c%u posts %u..%u", 'a' + s->host, s->pair, first, first + n - 1);
	err = batches && one_in(2) ? post_batch(s, wr, n, &bad) : ibv_post_send(s->qp, wr, &bad);
	tally->sends += n;
	if (!err)
		return true;
	if (!bad || bad < wr || bad >= wr + n)
		violation("%c%u: a post fails with %d, and bad_wr is none of its requests",
			  'a' + s->host, s->pair, err);
	if (err != ENOMEM && err != ENOSPC && !s->ended && !s->closing)
		violation("%c%u: a post fails with %d", 'a' + s->host, s->pair, err);
	trace("%c%u: refused from %u on: %d", 'a' + s->host, s->pair, first + (uint32_t)(bad - wr),
	      err);
	unmake_work(s, first + (uint32_t)(bad - wr));
	return false;
}

static void post_receives(struct side *s)
{
	while (s->pool && !stop && !s->closing && pool_post(s->pool, hosts[s->host].local->lkey))
		;
	if (s->pool)
		return;
	while (!stop && !s->ended && !s->closing && s->receives - s->received < cap.max_recv_wr) {
		uint32_t slot = s->receives % SLOTS, cut = 1 + rnd_below(SLOT_BYTES - 1);
		uint8_t *buffer = memory[s->host].receive[s->pair][slot];
		uint32_t lkey = hosts[s->host].local->lkey;
		struct ibv_sge sge[2] = {{(uintptr_t)buffer, cut, lkey},
					 {(uintptr_t)buffer + cut, SLOT_BYTES - cut, lkey}};
		struct ibv_recv_wr wr = {.wr_id = s->receives, .sg_list = sge, .num_sge = 2}, *bad;
		int err;

		s->receives++;
		err = ibv_post_recv(s->qp, &wr, &bad);
		if (!err) {
			take_lock(s);
			continue;
		}
		s->receives--;
		if (err != ENOMEM && !s->ended && !s->closing)
			violation("%c%u: a receive fails with %d", 'a' + s->host, s->pair, err);
		return;
	}
}

/* --- polling ---------------------------------------------------------------------------------- */

static unsigned int pair_of_number(unsigned int h, uint32_t qpn)
{
	for (unsigned int p = 0; p < pairs; p++)
		if (sides[p][h].qp ? sides[p][h].qp->qp_num == qpn
				   : sides[p][h].destroyed_qpn == qpn)
			return p;
	violation("%c: a completion of a QP %#x that does not exist", 'a' + h, qpn);
}

/* A mask of pairs whose QP was RESET or destroyed: what is polled from now on is not theirs. */
static unsigned int pairs_over(unsigned int h)
{
	unsigned int over = 0;

	for (unsigned int p = 0; p < pairs; p++)
		over |= (unsigned int)sides[p][h].closed << p;
	return over;
}

static void polled(unsigned int h, const struct ibv_cq *cq, const struct ibv_wc *wc,
		   unsigned int over)
{
	unsigned int p;

	if (stray_polled(h, wc))
		return;
	p = pair_of_number(h, wc->qp_num);

	if (over >> p & 1)
		violation("%c%u: wr_id %lu completes after RESET or destroy", 'a' + h, p,
			  (unsigned long)wc->wr_id);
	if (sides[p][h].qp)
		oracle_completion(&sides[p][h], cq, wc);
}

/* true: as many came as were asked for, and more may be there. */
static bool poll_cq(unsigned int h, unsigned int i, bool *any)
{
	int wanted = one_in(2) ? 1 : 1 + (int)rnd_below(16), got;
	struct host *me = &hosts[h];
	struct ibv_wc wc[16];
	unsigned int over;

	pthread_mutex_lock(&me->poll_lock);
	over = pairs_over(h);
	check_cq(h, i);
	for (unsigned int p = 0; p < pairs; p++)
		check_object(&sides[p][h]);
	got = ibv_poll_cq(me->cq[i], wanted, wc);
	if (got < 0 || got > wanted)
		violation("%c: poll returns %d of %d", 'a' + h, got, wanted);
	for (int k = 0; k < got; k++)
		polled(h, me->cq[i], &wc[k], over);
	pthread_mutex_unlock(&me->poll_lock);
	*any |= got > 0;
	return got == wanted;
}

static bool poll_once(unsigned int h)
{
	bool any = false;

	for (unsigned int i = 0; i < hosts[h].cqs; i++)
		poll_cq(h, i, &any);
	return any;
}

static void take_events(struct host *me)
{
	struct ibv_cq *cq;
	void *context;

	while (!hook_get_cq_event(me->channel, &cq, &context)) {
		for (unsigned int i = 0; i < me->cqs; i++)
			me->awake[i] |= me->cq[i] == cq;
		hook_ack_cq_events(cq, 1);
	}
}

/* A program that has a channel polls a CQ only after an event: it asks for the next one, then polls
 * until a poll returns less than it could. Whatever wakes it too late is found as a hang. */
static bool poll_if_woken(unsigned int h)
{
	struct host *me = &hosts[h];
	bool any = false;

	if (!me->channel)
		return poll_once(h);
	take_events(me);
	for (unsigned int i = 0; i < me->cqs; i++) {
		if (!me->awake[i])
			continue;
		me->awake[i] = false;
		must(hook_req_notify_cq(me->cq[i], 0), "req_notify_cq");
		while (poll_cq(h, i, &any))
			;
	}
	return any;
}

/* --- threads ---------------------------------------------------------------------------------- */

static bool host_is_done(unsigned int h)
{
	for (unsigned int p = 0; p < pairs; p++)
		if (!side_is_done(&sides[p][h]))
			return false;
	return stray_is_done(h);
}

static uint64_t progress(const struct side *s)
{
	return s->posted + s->receives + (s->pool ? s->pool->posts : 0);
}

/* true: something was posted. */
static bool work_on(struct side *s)
{
	uint64_t before = progress(s);
	bool any;

	take_lock(s);
	if (!rnd_ppm(late_receives_ppm))
		post_receives(s);
	take_lock(s);
	while (may_post(s) && post_sends(s) && !one_in(stay))
		take_lock(s);
	any = progress(s) != before;
	stray_post(s->host);
	release_lock();
	return any;
}

static bool goes_on(unsigned int h)
{
	all_done |= host_is_done(h) && host_is_done(!h);
	stop |= pool_starves(h);
	return !stop && !all_done;
}

static void rest(uint64_t *idle, bool busy, uint64_t least)
{
	*idle = busy || !*idle ? least : *idle * 2 < 2 * NS_MS ? *idle * 2 : *idle;
	thread_sleep(rnd() % *idle);
}

static void *thread_all(void *host)
{
	unsigned int h = (unsigned int)(uintptr_t)host;
	uint64_t idle = 0, next = 0;

	while (goes_on(h)) {
		bool busy = false;

		if (now >= next) {
			for (unsigned int p = 0; p < pairs; p++)
				busy |= work_on(&sides[p][h]);
			next = now + rnd() % gap_ns;
		}
		busy |= poll_if_woken(h);
		rest(&idle, busy, 200);
	}
	hosts[h].threads--;
	return NULL;
}

static void *thread_post(void *side)
{
	struct side *s = side;
	uint64_t idle = 0;

	while (goes_on(s->host)) {
		bool busy = work_on(s);

		rest(&idle, busy, gap_ns);
	}
	hosts[s->host].threads--;
	return NULL;
}

static void *thread_poll(void *host)
{
	unsigned int h = (unsigned int)(uintptr_t)host;
	uint64_t idle = 0;

	while (goes_on(h)) {
		bool busy = poll_if_woken(h);

		rest(&idle, busy, 200);
	}
	hosts[h].threads--;
	return NULL;
}

static bool key_is_unused(unsigned int h)
{
	for (unsigned int p = 0; p < pairs; p++) {
		const struct side *s = &sides[p][!h];

		for (uint32_t i = s->next_cqe; i < s->posted && !s->ended && !s->closing; i++)
			if (s->work[i].key_number != hosts[h].key_number)
				return false;
	}
	return true;
}

static struct ibv_mr *register_remote(unsigned int h)
{
	struct memory *m = &memory[h];
	size_t bytes = sizeof(*m) - offsetof(struct memory, write);

	return hook_registered(real.reg_mr(hosts[h].pd, m->write, bytes, 0), (uintptr_t)m->write,
			       bytes, (uintptr_t)m->write, 0, -1);
}

/* Registers what the peer may reach anew, and deregisters the old one when no request uses its key
 * any more. A registration may get the value of an old key. */
static void *thread_rekey(void *host)
{
	unsigned int h = (unsigned int)(uintptr_t)host;
	struct ibv_mr *old;

	while (goes_on(h)) {
		thread_sleep(rnd() % rekey_ns);
		old = hosts[h].remote;
		hosts[h].remote = register_remote(h);
		hosts[h].key_number++;
		tally->rekeys++;
		while (!key_is_unused(h) && goes_on(h))
			thread_sleep(rnd() % NS_MS);
		if (!goes_on(h))
			hosts[h].old = old; /* until the QPs are closed */
		else
			must(hook_dereg_mr(old), "dereg_mr");
	}
	hosts[h].threads--;
	return NULL;
}

static void thread_add(unsigned int h, const char *name, void *(*fn)(void *), void *arg)
{
	hosts[h].threads++;
	thread_begin(name, fn, arg);
}

static void start_threads(unsigned int h)
{
	void *host = (void *)(uintptr_t)h;

	if (rekey_ns)
		thread_add(h, h ? "b keys" : "a keys", thread_rekey, host);
	if (threading == ONE_THREAD) {
		thread_add(h, h ? "b" : "a", thread_all, host);
		return;
	}
	for (unsigned int i = 0; i < (threading == SEVERAL ? 2 : 1); i++) {
		thread_add(h, h ? "b polls" : "a polls", thread_poll, host);
		for (unsigned int p = 0; p < pairs; p++)
			thread_add(h, h ? "b posts" : "a posts", thread_post, &sides[p][h]);
	}
}

/* --- the life of a host ----------------------------------------------------------------------- */

/* The program's duty: any QP may have all of them, and some are named twice. */
static uint32_t room_for_srqs(unsigned int h)
{
	uint32_t n = pool_count[h] ? 64 : 0;

	for (unsigned int i = 0; i < pool_count[h]; i++)
		n += pools[h][i].depth;
	return n;
}

static struct ibv_cq *make_cq(struct host *me)
{
	int cqe = (int)(cap.max_send_wr + room_for_srqs((unsigned int)(me - hosts)));
	struct ibv_cq *cq = hook_created_cq(
		real.create_cq(me->ctx, cqe, NULL, channel_for_kernel(me->channel), 0),
		me->channel);

	me->awake[me->cqs] = true;
	me->cq[me->cqs++] = cq;
	return cq;
}

static void make_qp(unsigned int h, unsigned int p)
{
	struct host *me = &hosts[h];
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = cap};

	attr.send_cq = cqs == CQ_ONE && me->cqs ? me->cq[0] : make_cq(me);
	attr.srq = sides[p][h].pool ? sides[p][h].pool->srq : NULL;
	attr.recv_cq = cqs == CQ_PER_QUEUE ? make_cq(me) : attr.send_cq;
	sides[p][h].qp = hook_create_qp(me->pd, &attr);
	sides[p][h].shown = *sides[p][h].qp;
}

static void make_objects(unsigned int h)
{
	struct host *me = &hosts[h];
	struct memory *m = &memory[h];
	size_t half = offsetof(struct memory, write);

	me->ctx = &nics[h][0].program_ctx;
	context_opened(me->ctx);
	if (sleeps) {
		me->channel = hook_created_channel(real.create_comp_channel(me->ctx));
		must(fcntl(me->channel->fd, F_SETFL, O_NONBLOCK), "fcntl");
	}
	me->pd = hook_alloc_pd(me->ctx);
	me->local = hook_registered(real.reg_mr(me->pd, m, half, 0), (uintptr_t)m, half,
				    (uintptr_t)m, 0, -1);
	me->remote = register_remote(h);
	for (unsigned int i = 0; i < pool_count[h]; i++)
		pool_create(&pools[h][i], me->pd, me->local->lkey);
	for (unsigned int p = 0; p < pairs; p++)
		make_qp(h, p);
	for (unsigned int i = 0; i < me->cqs; i++)
		me->shown[i] = *me->cq[i];
}

static bool has_qps(unsigned int h)
{
	for (unsigned int p = 0; p < pairs; p++)
		if (!sides[p][h].qp)
			return false;
	return true;
}

static void connect_side(struct side *s)
{
	const struct fake_nic *n = &nics[s->host][0];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .path_mtu = n->nic->mtu_bytes == 256 ? IBV_MTU_256 : IBV_MTU_512,
				   .dest_qp_num = s->peer->qp->qp_num,
				   .rq_psn = s->peer->first_psn,
				   .sq_psn = s->first_psn,
				   .max_rd_atomic = 4,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 1,
				   .timeout = s->timeout,
				   .retry_cnt = s->retries,
				   .rnr_retry = 7};

	if (s->peer->pool && s->peer->pool->credits)
		attr.rnr_retry = 0;

	modify_side(s, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		    "INIT");
	take_lock(s);
	post_receives(s);
	release_lock();
	attr.qp_state = IBV_QPS_RTR;
	modify_side(s, &attr,
		    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		    "RTR");
	attr.qp_state = IBV_QPS_RTS;
	modify_side(s, &attr,
		    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		    "RTS");
}

static bool is_protected(unsigned int h)
{
	for (unsigned int p = 0; p < pairs; p++) {
		struct vqp *v = vqp_find(sides[p][h].qp);

		if (!v || !v->conn)
			violation("%c%u is never protected", 'a' + h, p);
		if (!vqp_is_protected(v))
			return false;
		for (unsigned int r = 1; r < rails; r++)
			if (!v->rails.twin[r].clean)
				return false;
	}
	return true;
}

static unsigned int met[16]; /* hosts that have come to a point */

static bool both_are_at(unsigned int point)
{
	return met[point] == HOSTS;
}

static void meet_other(unsigned int point)
{
	met[point]++;
	wait_for("the other host", both_are_at, point);
}

static bool threads_are_gone(unsigned int h)
{
	return !hosts[h].threads;
}

static void end_early(void *unused, uint64_t life)
{
	(void)unused;
	stop |= life == life_now && !all_done && !pool_no_posts;
}

static bool all_has_flushed(unsigned int pair_and_host)
{
	const struct side *s = &sides[pair_and_host / HOSTS][pair_and_host % HOSTS];

	poll_once(s->host); /* the other threads may have ended */
	return (s->pool || s->received == s->receives) && !side_is_owed(s);
}

static bool in_switch(const struct side *s)
{
	struct shift_conn_view view;

	shift_conn_view(vqp_find(s->qp)->conn, &view);
	return view.state != SHIFT_ST_ACTIVE && view.protected_;
}

/* The program has seen enough of it, and waits for what it has posted. */
static void flush_side(struct side *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	modify_side(s, &attr, IBV_QP_STATE, "ERR");
	wait_for("flushes", all_has_flushed, s->pair * HOSTS + s->host);
}

static void destroy_side(struct side *s, bool flush)
{
	struct ibv_qp *qp = s->qp;

	take_lock(s);
	s->closing = true;
	release_lock();
	side_count(s);
	tally->destroyed_in_switch += in_switch(s);
	if (flush)
		flush_side(s);
	s->destroyed_qpn = qp->qp_num;
	s->at_verb = true;
	must(hook_destroy_qp(qp), "destroy_qp");
	s->closed = true;
	pool_side_over(s, oracle_unreceived(s));
	s->qp = NULL;
}

/* One connection may end while another one goes on, on the same CQ. */
static void traffic(unsigned int h)
{
	start_threads(h);
	if (pairs > 1 && one_dies_at && life_now + 1 == lives) {
		thread_sleep(rnd() % one_dies_at);
		tally->destroyed_alone++;
		destroy_side(&sides[pairs - 1][h],
			     (!stop && !all_done && one_in(2)) || sides[pairs - 1][h].pool);
	}
	wait_for("its threads", threads_are_gone, h);
}

static void begin_life(unsigned int h, unsigned int life)
{
	meet_other(4 * life); /* which may still poll what was completed before RESET */
	life_now = life;
	for (unsigned int p = 0; p < pairs; p++)
		side_begin(&sides[p][h], life);
	all_done = stop = false;
	meet_other(4 * life + 1);
	fault_end(); /* a program cannot connect over a dead link */
	for (unsigned int p = 0; p < pairs; p++)
		connect_side(&sides[p][h]);
	stray_make(h, hosts[h].pd, hosts[h].cq[0]);
	wait_for("to be protected", is_protected, h);
	meet_other(4 * life + 2);
	if (h == 0 && early_end_at && one_in(2))
		event_at(now + rnd() % early_end_at, end_early, NULL, life);
	if (h == 0)
		fault_begin();
}

static void drain_completions(unsigned int h)
{
	while (poll_once(h))
		;
}

static void deregister_old(unsigned int h)
{
	if (hosts[h].old)
		must(hook_dereg_mr(hosts[h].old), "dereg_mr");
	hosts[h].old = NULL;
}

static void reset_all(unsigned int h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	for (unsigned int p = 0; p < pairs; p++) {
		sides[p][h].closing = true;
		modify_side(&sides[p][h], &attr, IBV_QP_STATE, "RESET");
		sides[p][h].closed = true;
		pool_side_over(&sides[p][h], oracle_unreceived(&sides[p][h]));
	}
	stray_destroy(h);
	drain_completions(h);
	deregister_old(h);
}

static void destroy_all(unsigned int h)
{
	struct host *me = &hosts[h];

	for (unsigned int p = 0; p < pairs; p++)
		if (sides[p][h].qp)
			destroy_side(&sides[p][h], false);
	stray_destroy(h);
	deregister_old(h);
	for (unsigned int i = 0; i < pool_count[h]; i++)
		must(hook_destroy_srq(pools[h][i].srq), "destroy_srq");
	for (unsigned int i = 0; i < me->cqs; i++)
		must(hook_destroy_cq(me->cq[i]), "destroy_cq");
	if (me->channel)
		must(hook_destroy_channel(me->channel), "destroy_comp_channel");
	me->channel = NULL;
	must(hook_dereg_mr(me->local), "dereg_mr");
	must(hook_dereg_mr(me->remote), "dereg_mr");
	must(hook_dealloc_pd(me->pd), "dealloc_pd");
}

static bool nothing_is_left(unsigned int unused)
{
	(void)unused;
	return !verbs_objects();
}

/* Healed and quiet: as many messages as receives are outstanding still arrive. */
static void probe_pools(unsigned int h, unsigned int life)
{
	if (!pool_count[0] && !pool_count[1])
		return;
	meet_other(8 + 3 * life);
	if (stop)
		return;
	deregister_old(h);
	if (!h) {
		fault_end();
		all_done = false;
		pool_no_posts = true;
		pool_probe_all(0);
		pool_probe_all(1);
	}
	meet_other(9 + 3 * life);
	start_threads(h);
	wait_for("its threads", threads_are_gone, h);
	meet_other(10 + 3 * life);
	pool_no_posts = false;
	if (!stop)
		oracle_end(h);
}

static void *host_main(void *host)
{
	unsigned int h = (unsigned int)(uintptr_t)host;

	make_objects(h);
	wait_for("the peer's QPs", has_qps, !h);
	for (unsigned int life = 0; life < lives; life++) {
		begin_life(h, life);
		traffic(h);
		if (!stop)
			oracle_end(h);
		probe_pools(h, life);
		if (life + 1 == lives)
			break;
		meet_other(4 * life + 3);
		reset_all(h);
		tally->lives++;
	}
	destroy_all(h);
	hosts[h].over = true;
	if (!hosts[!h].over)
		return NULL;
	fault_end();
	session_stop();
	wait_for("objects of the NICs that are left", nothing_is_left, 0);
	prog_is_over = true;
	return NULL;
}

/* --- the start -------------------------------------------------------------------------------- */

static void load_setup(void)
{
	bool atomics = one_in(4);

	for (unsigned int op = 0; op < 7; op++)
		mix[op] = one_in(2) ? 1 + rnd_below(10) : 0;
	if (!atomics)
		mix[OP_CMP_SWAP] = mix[OP_FETCH_ADD] = 0;
	mix[OP_SEND] += !mix[OP_WRITE];
	mix[OP_WRITE] *= 1 + rnd_below(3);
	small_ppm = rnd_below(1000000);
	signal_ppm = one_in(3) ? 1000000 : rnd_below(1000000);
	late_receives_ppm = one_in(2) ? 0 : rnd_below(900000);
	burst_max = one_in(2) ? 1 : 1 + rnd_below(8);
	gap_ns = rnd_range(1, one_in(2) ? 500 : one_in(2) ? 20000 : 150000) * NS_US;
	cap = (struct ibv_qp_cap){.max_send_wr = 4 + rnd_below(28),
				  .max_recv_wr = 4 + rnd_below(28),
				  .max_send_sge = 1 + rnd_below(4),
				  .max_recv_sge = 2};
}

void prog_setup(void)
{
	pairs = one_in(2) ? 1 : 2;
	cqs = (enum cqs)rnd_below(3);
	threading = (enum threading)rnd_below(3);
	lives = one_in(6) ? 2 : 1;
	early_end_at = one_in(3) ? 1 + rnd() % (1000 * NS_MS) : 0;
	one_dies_at = one_in(3) ? 1 + rnd() % (500 * NS_MS) : 0;
	sleeps = one_in(3);
	batches = one_in(3);
	rekey_ns = one_in(3) ? rnd_range(1, one_in(2) ? 2 : 100) * NS_MS : 0;
	load_setup();
	stay = 1 + rnd_below(12);
	if (pool_setup(lives > 1 || one_dies_at)) {
		mix[OP_SEND] += 8;
		small_ppm /= 4; /* only messages of several packets hold a receive */
	}
	for (unsigned int p = 0; p < pairs; p++)
		for (unsigned int h = 0; h < HOSTS; h++) {
			struct side *s = &sides[p][h];

			s->host = h;
			s->pair = p;
			s->peer = &sides[p][!h];
			s->first_psn = one_in(3) ? 0xfffff0 : (uint32_t)rnd() & 0xffffff;
			s->timeout = (uint8_t)rnd_range(6, 11);
			s->retries = (uint8_t)rnd_range(1, 4);
		}
	for (unsigned int h = 0; h < HOSTS; h++)
		thread_begin(h ? "b main" : "a main", host_main, (void *)(uintptr_t)h);
}
