/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The peer's keys, and what it was told of ours: two ends of a connection in one process, with the
 * library's own memory, workers, connections and dispatch. The test has the NIC (what it
 * registers), the network, which may lose and delay, and the clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/key_reuse.h"
#include "lib/conn/memlock.h"
#include "lib/conn/peer_keys.h"
#include "lib/session/dispatch.h"

enum {
	ASKER,
	OWNER,
	ENDS,
	RAIL = 1,
	RAILS = 2,
	EPOCH = 3,
	RKEY = 0x100,
	OTHER = 0x200,
	QUEUE = 64
};

struct real_verbs real;

static const uint64_t nonce[ENDS] = {0xa, 0xb};

static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device}, backup_ctx = {.device = &device};
static struct nic nic[RAILS];
static struct vqp *v[ENDS];
static struct vcq cq = {.qps = ASSOC_INIT};
static struct peer_path path[ENDS];
static struct ibv_qp qp[ENDS];
static struct ibv_pd *pd;
static struct ibv_mr *mr; /* the program's; NULL: it has none */
static uint32_t twin_of_rkey;
static bool nic_refuses;
static _Atomic bool nic_is_slow; /* a registration does not end */
static pthread_t caller;	 /* of the library: it has locks of connections */
static _Atomic bool caller_registers, registering;
static _Atomic bool deregistering;
static _Atomic int shadows; /* so many there are */
static struct {
	struct shift_msg m;
	int to;
} queue[QUEUE];
static unsigned int queued, lost;
static _Atomic uint64_t now;
static bool deliver_in_time;
static unsigned int warnings;

/* --- the clock, the log ----------------------------------------------------------------------- */

static void deliver(void);

/* The linker puts these in the place of the library's own (--wrap). */
uint64_t __wrap_now_ns(void);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
void __wrap_log_at(enum log_level level, const char *format, ...);
struct nic *__wrap_nic_get(const char *name, uint8_t port);
void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m);

uint64_t __wrap_now_ns(void)
{
	return now += 1000000;
}

/* The library waits: the network goes on. */
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	now += (uint64_t)t->tv_nsec;
	if (deliver_in_time)
		deliver();
	return 0;
}

void __wrap_log_at(enum log_level level, const char *format, ...)
{
	(void)format;
	warnings += level == LOG_WARN;
}

/* --- the NICs -----------------------------------------------------------------------------------
 */

struct nic *__wrap_nic_get(const char *name, uint8_t port)
{
	(void)port;
	return nic + !strcmp(name, "mlx5_1");
}

static struct ibv_pd *nic_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *new_pd = calloc(1, sizeof(*new_pd));

	new_pd->context = context;
	return new_pd;
}

static int nic_dealloc_pd(struct ibv_pd *old)
{
	free(old);
	return 0;
}

/* Of the backup NIC: the program's own are made by register_memory(). */
static struct ibv_mr *nic_reg_mr(struct ibv_pd *shadow_pd, void *addr, size_t length, int access)
{
	struct ibv_mr *shadow;

	(void)access;
	registering = true;
	caller_registers |= pthread_equal(pthread_self(), caller);
	while (nic_is_slow)
		usleep(1000);
	if (nic_refuses) {
		errno = ENOMEM;
		return NULL;
	}
	shadows++;
	shadow = calloc(1, sizeof(*shadow));
	*shadow = (struct ibv_mr){.pd = shadow_pd,
				  .addr = addr,
				  .length = length,
				  .lkey = twin_of_rkey,
				  .rkey = twin_of_rkey};
	return shadow;
}

static void *end_slowness(void *arg)
{
	(void)arg;
	usleep(100000);
	nic_is_slow = false;
	return NULL;
}

static int nic_dereg_mr(struct ibv_mr *old)
{
	deregistering = old != mr; /* the program's own is no shadow */
	while (deregistering && nic_is_slow)
		usleep(1000);
	shadows -= deregistering;
	free(old);
	return 0;
}

static void register_slowly(void)
{
	static char memory[64];

	mr = calloc(1, sizeof(*mr));
	*mr = (struct ibv_mr){.context = &ctx, .pd = pd, .lkey = RKEY, .rkey = RKEY};
	hook_registered(mr, (uintptr_t)memory, sizeof(memory), (uintptr_t)memory, 0, -1);
}

static void register_memory(void)
{
	register_slowly();
	worker_drain(nic[RAIL].memory, 5000);
}

static void deregister_memory(void)
{
	hook_dereg_mr(mr);
	mr = NULL;
}

/* --- the network --------------------------------------------------------------------------------
 */

void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m)
{
	int from = link == (void *)&path[OWNER] ? OWNER : ASKER;

	if (lost) {
		lost--;
		return;
	}
	assert_true(queued < QUEUE);
	queue[queued].m = *m;
	queue[queued].m.src_nonce = nonce[from];
	queue[queued++].to = from == ASKER ? OWNER : ASKER;
}

static void take(const struct shift_msg *m)
{
	dispatch_message(nic + RAIL, m);
}

static void deliver(void)
{
	while (queued) {
		struct shift_msg m = queue[0].m;

		memmove(queue, queue + 1, sizeof(queue) - sizeof(queue[0]));
		queued--;
		take(&m);
	}
}

/* --- the two ends --------------------------------------------------------------------------------
 */

static void set_epoch(int end, uint32_t epoch, uint8_t rail)
{
	vqp_enter(v[end]);
	peer_keys_reset(v[end]->keys.peer, epoch, rail);
	exported_keys_reset(&v[end]->keys.exported, epoch, rail);
	vqp_leave(v[end]);
}

static void set_dead(bool dead)
{
	vqp_enter(v[OWNER]);
	v[OWNER]->life.dead = dead;
	vqp_leave(v[OWNER]);
}

static struct shift_conn *conn_new(uint32_t id)
{
	struct shift_conn_cfg cfg = {.nonce = 1,
				     .id = id,
				     .sq_cap = 4,
				     .rq_cap = 4,
				     .rails = RAILS,
				     .mtu = {1024, 1024}};
	size_t bytes = shift_conn_size(&cfg);
	void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	return shift_conn_init(memory, bytes, &cfg, now);
}

static struct vqp *end_new(int end, struct vdev *dev)
{
	struct vqp *q = aligned_alloc(64, (sizeof(*q) + 63) & ~(size_t)63);

	memset(q, 0, sizeof(*q));
	q->qp = qp + end;
	q->qp->qp_num = 0x10u + (uint32_t)end;
	q->id = 1u + (uint32_t)end;
	q->conn = conn_new(q->id);
	q->dev = dev;
	q->pd = vpd_find(pd);
	q->send_cq = q->recv_cq = &cq;
	q->stats = -1;
	gate_init(&q->hot.send_gate);
	gate_init(&q->hot.recv_gate);
	pthread_mutex_init(&q->lock, NULL);
	q->timers.tick_at = 0; /* no timer is set: pass() is what time does */
	q->keys.peer = peer_keys_new();
	q->setup.met = true;
	q->setup.peer_rails = RAILS;
	q->setup.peer_id = 2u - (uint32_t)end;
	q->setup.peer_nonce = nonce[!end];
	path[end].link = (void *)&path[end];
	q->rails.twin[RAIL].path = &path[end];
	assert_int_equal(vqp_publish(q), 0);
	return q;
}

static void end_free(struct vqp *q)
{
	vqp_unpublish(q);
	peer_keys_free(q->keys.peer);
	exported_keys_free(&q->keys.exported);
	free(q->conn);
	free(q);
}

static int start_library(void **state)
{
	static const struct memory_calls calls = {.is_short = memlock_is_short,
						  .refused = memlock_refused,
						  .registered = memlock_registered,
						  .lacking_changed = memlock_changed,
						  .key_gone = key_reuse_announce,
						  .key_reused = key_reuse_wait};

	(void)state;
	strcpy(env.rails, "mlx5_0=mlx5_1");
	for (uint8_t i = 0; i < RAILS; i++) {
		nic[i].index = i;
		nic[i].ctx = &backup_ctx;
		nic[i].ready = true;
		nic[i].worker = worker_new("test", 1);
		nic[i].memory = worker_new("test", 1);
	}
	real.alloc_pd = nic_alloc_pd;
	real.dealloc_pd = nic_dealloc_pd;
	real.reg_mr = nic_reg_mr;
	real.dereg_mr = nic_dereg_mr;
	memory_set_calls(&calls);
	gate_init(&cq.gate);
	pthread_mutex_init(&cq.drain_lock, NULL);
	pthread_mutex_init(&cq.delivered_lock, NULL);
	return !vdev_new(&ctx);
}

/* Workers are waited for by the real clock. */
static void set_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (now < (uint64_t)t.tv_sec * 1000000000u)
		now = (uint64_t)t.tv_sec * 1000000000u + 1000000000u;
}

static int begin(void **state)
{
	(void)state;
	set_clock();
	twin_of_rkey = 0x1111;
	queued = lost = 0;
	nic_refuses = deliver_in_time = caller_registers = false;
	caller = pthread_self();
	pd = hook_alloc_pd(&ctx);
	register_memory();
	for (int i = 0; i < ENDS; i++) {
		v[i] = end_new(i, vdev_find(&ctx));
		set_epoch(i, EPOCH, RAIL);
	}
	warnings = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	lost = 1000;
	set_dead(true);
	if (mr)
		deregister_memory();
	for (int i = 0; i < ENDS; i++)
		end_free(v[i]);
	hook_dealloc_pd(pd);
	worker_drain(nic[RAIL].memory, 5000);
	return 0;
}

static int ask(uint32_t *twin)
{
	int err;

	vqp_enter(v[ASKER]);
	err = peer_keys_get(v[ASKER], RKEY, twin);
	vqp_leave(v[ASKER]);
	return err;
}

static uint32_t known(void)
{
	uint32_t twin = 0;
	int err = ask(&twin);

	assert_true(err == 0 || err == -EAGAIN || err == -ENOENT);
	return twin;
}

static void learn(void)
{
	known();
	deliver();
	assert_int_equal(known(), twin_of_rkey);
}

/* The timers of both ends. */
static void pass(unsigned int ms)
{
	now += ms * 1000000ull;
	vqp_enter(v[ASKER]);
	peer_keys_tick(v[ASKER], now);
	vqp_leave(v[ASKER]);
	vqp_enter(v[OWNER]);
	exported_keys_tick(v[OWNER], now);
	vqp_leave(v[OWNER]);
}

/* --- the tests ------------------------------------------------------------------------------- */

static void a_key_is_asked_for_once_and_kept(void **state)
{
	(void)state;
	learn();
	assert_int_equal(known(), 0x1111);
	assert_int_equal(queued, 0);
	set_epoch(ASKER, EPOCH + 2, RAIL);
	assert_int_equal(known(), 0);
}

static void questions_are_asked_again(void **state)
{
	(void)state;
	lost = 1;
	known();
	pass(30);
	lost = 1; /* the answer */
	deliver();
	pass(30);
	deliver();
	assert_int_equal(known(), 0x1111);
	assert_int_equal(peer_keys_deadline(v[ASKER]->keys.peer) < UINT64_MAX, 1);
	pass(30);
	assert_int_equal(queued, 0);
	assert_true(peer_keys_deadline(v[ASKER]->keys.peer) == UINT64_MAX);
}

static void what_is_not_there_yet_is_not_answered(void **state)
{
	(void)state;
	nic_refuses = true;
	deregister_memory();
	register_memory();
	known();
	deliver();
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
	worker_drain(nic[RAIL].memory, 5000);
	nic_refuses = false;
	pass(30);
	deliver(); /* the NIC is asked again, and the peer will ask again */
	worker_drain(nic[RAIL].memory, 5000);
	pass(30);
	deliver();
	assert_int_equal(known(), 0x1111);
	assert_false(caller_registers);
}

/* The locks of a connection are held, or it is the background thread that the peer asks. */
static void nobody_waits_for_a_registration(void **state)
{
	uint32_t twin = 0;

	(void)state;
	deregister_memory();
	nic_is_slow = true;
	alarm(30);
	register_slowly();
	known();
	deliver();
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
	assert_int_equal(vmr_lkey(v[OWNER]->pd, nic + RAIL, RKEY, &twin), -EAGAIN);
	vqp_enter(v[OWNER]);
	atomic_store(&v[OWNER]->repost.wants_lkey, true);
	pthread_mutex_unlock(&v[OWNER]->lock); /* it stays slow until somebody leaves it */
	nic_is_slow = false;
	worker_drain(nic[RAIL].memory, 5000);
	alarm(0);
	assert_false(v[OWNER]->repost.wants_lkey); /* it was told */
	assert_int_equal(v[OWNER]->hot.slow, 0);
	assert_int_equal(vmr_lkey(v[OWNER]->pd, nic + RAIL, RKEY, &twin), 0);
	assert_int_equal(twin, 0x1111);
	pass(30);
	deliver();
	assert_int_equal(known(), 0x1111);
	assert_false(caller_registers);
}

/* It is deregistered while the NIC registers it: no peer can reach it afterwards. */
static void memory_that_is_gone_meanwhile_has_no_shadow(void **state)
{
	pthread_t thread;

	(void)state;
	deregister_memory();
	shadows = 0;
	registering = false;
	nic_is_slow = true;
	register_slowly();
	while (!registering)
		usleep(1000);
	pthread_create(&thread, NULL, end_slowness, NULL);
	deregister_memory();
	assert_int_equal(shadows, 0);
	assert_false(nic_is_slow); /* it was waited for */
	pthread_join(thread, NULL);
}

static void *drop_shadows(void *arg)
{
	(void)arg;
	memory_drop_shadows(&nic[RAIL], 5000);
	return NULL;
}

/* Another thread's registration needs the room of the shadow, which is not gone yet. */
static void memory_whose_shadow_is_being_dropped_is_waited_for(void **state)
{
	pthread_t drops, ends;

	(void)state;
	assert_int_equal(shadows, 1);
	deregistering = false;
	nic_is_slow = true;
	pthread_create(&drops, NULL, drop_shadows, NULL);
	while (!deregistering)
		usleep(1000);
	pthread_create(&ends, NULL, end_slowness, NULL);
	deregister_memory();
	assert_int_equal(shadows, 0);
	pthread_join(ends, NULL);
	pthread_join(drops, NULL);
}

static void an_unknown_key_is_said_to_be_unknown(void **state)
{
	uint32_t twin;

	(void)state;
	deregister_memory();
	known();
	deliver();
	assert_int_equal(ask(&twin), -ENOENT);
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
}

/* The QP of the peer was RESET: in its next life it has another id, and other keys. */
static void questions_of_another_life_are_not_answered(void **state)
{
	(void)state;
	known();
	assert_int_equal(queued, 1);
	queue[0].m.src_conn += 10;
	deliver();
	assert_int_equal(known(), 0);
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
}

static void questions_of_another_epoch_or_rail_are_not_answered(void **state)
{
	struct shift_msg m = {.type = SHIFT_MSG_KEY_ASK,
			      .rail = RAIL,
			      .epoch = EPOCH - 1,
			      .rkey = RKEY,
			      .src_nonce = nonce[ASKER],
			      .dst_conn = v[OWNER]->id};

	(void)state;
	take(&m);
	m.epoch = EPOCH;
	m.rail = 0;
	take(&m);
	m.rail = RAIL + 1;
	take(&m);
	assert_int_equal(queued, 0);
}

/* The value of the key comes back with other memory behind it. */
static void a_key_that_is_gone_is_forgotten(void **state)
{
	(void)state;
	learn();
	deregister_memory();
	twin_of_rkey = 0x2222;
	assert_int_equal(known(), 0x1111); /* KEY_GONE is under way */
	deliver_in_time = true;
	register_memory(); /* waits until the peer has forgotten the value */
	assert_int_equal(warnings, 0);
	deliver_in_time = false;
	assert_int_equal(known(), 0);
	deliver();
	assert_int_equal(known(), 0x2222);
}

static void the_word_that_it_is_gone_is_said_again(void **state)
{
	(void)state;
	learn();
	lost = 2;
	key_reuse_announce(nic, RKEY);
	pass(30);
	assert_int_equal(queued, 0);
	assert_int_equal(known(), 0x1111);
	pass(30);
	lost = 1; /* KEY_FORGOT */
	deliver();
	pass(30);
	deliver();
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
	pass(30);
	assert_true(exported_keys_deadline(&v[OWNER]->keys.exported) == UINT64_MAX);
}

/* An answer from before, that comes after the word that the key is gone. */
static void a_late_answer_is_not_believed(void **state)
{
	struct shift_msg late;

	(void)state;
	known();
	take(&queue[0].m);
	late = queue[1].m;
	assert_int_equal(late.type, SHIFT_MSG_KEY);
	queued = 0;
	deregister_memory();
	deliver();
	twin_of_rkey = 0x2222;
	register_memory();
	assert_int_equal(known(), 0); /* asks anew */
	take(&late);
	assert_int_equal(known(), 0);
	deliver();
	assert_int_equal(known(), 0x2222);
}

/* A KEY_FORGOT of an earlier use of the same value. */
static void a_late_word_of_forgetting_does_not_count(void **state)
{
	struct shift_msg late;

	(void)state;
	learn();
	key_reuse_announce(nic, RKEY);
	take(&queue[0].m);
	late = queue[1].m;
	assert_int_equal(late.type, SHIFT_MSG_KEY_FORGOT);
	queued = 0;
	learn(); /* it was handed out again: the wait was over */
	key_reuse_announce(nic, RKEY);
	take(&late);
	assert_int_equal(v[OWNER]->keys.exported.n, 1);
	deliver();
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
}

/* A copy of the question comes when the key is gone, and the word of that was lost. The peer still
 * has the answer, so it must be told, and the value must not be used again before. */
static void a_late_question_does_not_bring_a_key_back(void **state)
{
	struct shift_msg question;

	(void)state;
	known();
	question = queue[0].m;
	assert_int_equal(question.type, SHIFT_MSG_KEY_ASK);
	deliver();
	lost = 1; /* KEY_GONE */
	deregister_memory();
	take(&question);
	deliver();
	assert_int_equal(known(), 0x1111);
	assert_true(exported_keys_remembered(v[OWNER], RKEY));
	pass(30);
	deliver();
	assert_int_equal(v[OWNER]->keys.exported.n, 0);
	assert_int_equal(known(), 0);
}

/* The question was asked and answered twice: its second serial is the one that counts. */
static void nor_does_a_late_copy_of_a_later_question(void **state)
{
	struct shift_msg question;

	(void)state;
	known();
	lost = 1; /* the answer */
	deliver();
	set_epoch(ASKER, EPOCH, RAIL);
	known();
	question = queue[0].m;
	deliver();
	lost = 1; /* KEY_GONE */
	deregister_memory();
	take(&question);
	deliver();
	assert_true(exported_keys_remembered(v[OWNER], RKEY));
}

/* A copy of the question comes between the end of the memory and the word that it is gone. */
static void a_key_that_was_told_is_kept_until_it_is_forgotten(void **state)
{
	struct vpd *own = v[OWNER]->pd, other = {0};
	struct shift_msg question;

	(void)state;
	known();
	question = queue[0].m;
	deliver();
	v[OWNER]->pd = &other; /* where it is not found */
	take(&question);
	v[OWNER]->pd = own;
	queued = 0;
	assert_int_equal(v[OWNER]->keys.exported.n, 1);
}

static void nobody_waits_for_ever(void **state)
{
	uint64_t start;

	(void)state;
	learn();
	lost = 1000;
	deregister_memory();
	start = now;
	register_memory();
	assert_int_equal(warnings, 1);
	assert_in_range(now - start, 1000000000ull, 1500000000ull);
}

static void nobody_waits_in_vain(void **state)
{
	uint64_t start;

	(void)state;
	learn();
	start = now;
	key_reuse_wait(nic, RKEY);	/* valid */
	key_reuse_announce(nic, OTHER); /* never told */
	lost = 1000;
	key_reuse_announce(nic, RKEY);
	key_reuse_wait(nic, OTHER);
	key_reuse_wait(nic + 1, RKEY); /* of another device */
	set_dead(true);
	key_reuse_wait(nic, RKEY);
	set_dead(false);
	set_epoch(OWNER, EPOCH + 2, 0);
	key_reuse_wait(nic, RKEY);
	assert_true(now - start < 100000000);
	assert_int_equal(warnings, 0);
}

static struct {
	uint64_t offset, iova;
	size_t length;
	int access, direct_access;
	bool fd_is_open;
} direct_call;

static struct ibv_mr *nic_reg_direct(struct ibv_pd *shadow_pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access, int direct_access)
{
	direct_call.offset = offset;
	direct_call.length = length;
	direct_call.iova = iova;
	direct_call.access = access;
	direct_call.direct_access = direct_access;
	direct_call.fd_is_open = fcntl(fd, F_GETFD) >= 0;
	return nic_reg_mr(shadow_pd, NULL, length, access);
}

/* The backup NIC registers it in the same way, by a descriptor of our own. */
static void memory_that_direct_verbs_register(void **state)
{
	const struct direct_reg direct = {.reg = nic_reg_direct, .access = 9};
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	deregister_memory();
	queued = 0;
	mr = calloc(1, sizeof(*mr));
	*mr = (struct ibv_mr){.context = &ctx, .pd = pd, .lkey = RKEY, .rkey = RKEY};
	assert_ptr_equal(hook_registered_direct(mr, 0x40, 0x80, 0x1000, fd, 3, &direct), mr);
	close(fd);
	worker_drain(nic[RAIL].memory, 5000);
	assert_int_equal(direct_call.offset, 0x40);
	assert_int_equal(direct_call.length, 0x80);
	assert_int_equal(direct_call.iova, 0x1000);
	assert_int_equal(direct_call.access, 3);
	assert_int_equal(direct_call.direct_access, 9);
	assert_true(direct_call.fd_is_open);
	learn();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_key_is_asked_for_once_and_kept),
		TEST(questions_are_asked_again),
		TEST(what_is_not_there_yet_is_not_answered),
		TEST(nobody_waits_for_a_registration),
		TEST(memory_that_is_gone_meanwhile_has_no_shadow),
		TEST(memory_whose_shadow_is_being_dropped_is_waited_for),
		TEST(an_unknown_key_is_said_to_be_unknown),
		TEST(questions_of_another_life_are_not_answered),
		TEST(questions_of_another_epoch_or_rail_are_not_answered),
		TEST(a_key_that_is_gone_is_forgotten),
		TEST(the_word_that_it_is_gone_is_said_again),
		TEST(a_late_answer_is_not_believed),
		TEST(a_late_word_of_forgetting_does_not_count),
		TEST(a_late_question_does_not_bring_a_key_back),
		TEST(nor_does_a_late_copy_of_a_later_question),
		TEST(a_key_that_was_told_is_kept_until_it_is_forgotten),
		TEST(nobody_waits_for_ever),
		TEST(nobody_waits_in_vain),
		TEST(memory_that_direct_verbs_register),
	};

	return cmocka_run_group_tests(tests, start_library, NULL);
}
