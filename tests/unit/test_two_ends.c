/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Both ends of connections find each other (lib/session), over a network that loses messages, or
 * brings them late, twice and in any order. Both are in this process: a connection may be between
 * two of its NICs.
 */
#include "lib/session/deaths.h"
#include "lib/session/directory.h"
#include "lib/session/dispatch.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/rooms.h"

enum { PAIRS = 500, LETTERS = 1 << 16, OUR_NONCE = 0xa };

static struct ibv_qp qp[2 * PAIRS];
static struct vqp conns[2 * PAIRS], *v;
static struct vdev other_dev;
static unsigned int pairs;
static bool same_nic;
static int psns[2 * PAIRS][SHIFT_RAILS_MAX]; /* that each was told of its peer */

static struct letter {
	uint64_t at;
	unsigned int nic, bytes;
	uint8_t blob[SHIFT_MSG_BLOB_MAX];
} * letters;
static unsigned int letters_n, sent;
static unsigned int lost, doubled; /* percent */
static uint64_t late_ns;
static int deaf = -1; /* the NIC that nothing arrives at */
static unsigned int puts_n, watches_n;

struct ctrl_link_peer {
	unsigned int to; /* a NIC of the process */
};

/* --- the rest of the library --------------------------------------------------------------- */

struct kv_client *__wrap_job_client(void);
uint64_t __wrap_job_nonce(void);
const uint64_t *__wrap_job_key_if_known(void);
bool __wrap_job_is_full(void);
int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);
int __wrap_kv_client_watch(struct kv_client *c, const char *prefix);
int __wrap_kv_client_unwatch(struct kv_client *c, const char *prefix);
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);
struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce);
void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer);
void __wrap_ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr);
int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid);
void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);

struct kv_client *__wrap_job_client(void)
{
	return (struct kv_client *)(void *)&world;
}

uint64_t __wrap_job_nonce(void)
{
	return OUR_NONCE;
}

const uint64_t *__wrap_job_key_if_known(void)
{
	static const uint64_t key[2] = {11, 12};

	return key;
}

bool __wrap_job_is_full(void)
{
	return false;
}

int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes)
{
	(void)c;
	(void)key;
	(void)value;
	(void)bytes;
	puts_n++;
	return 0;
}

int __wrap_kv_client_watch(struct kv_client *c, const char *prefix)
{
	(void)c;
	(void)prefix;
	watches_n++;
	return 0;
}

int __wrap_kv_client_unwatch(struct kv_client *c, const char *prefix)
{
	(void)c;
	(void)prefix;
	return 0;
}

void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr)
{
	*addr = (struct ctrl_link_addr){.qpn = 0x500u + nic->index, .mtu_bytes = 1024};
}

struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce)
{
	struct ctrl_link_peer *peer = malloc(sizeof(*peer));

	assert_int_equal(nonce, OUR_NONCE);
	(void)nic;
	peer->to = addr->qpn - 0x500;
	return peer;
}

void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer)
{
	free(peer);
}

void __wrap_ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr)
{
	peer->to = addr->qpn - 0x500;
}

int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	(void)like;
	memset(gid, 0, sizeof(*gid));
	gid->value.raw[15] = (uint8_t)(0x80 + nic->index);
	return 5;
}

void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn)
{
	psns[slot][rail] = (int)psn;
}

/* --- the network --------------------------------------------------------------------------- */

static uint32_t rnd(uint32_t n)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16) % n;
}

static void letter_post(unsigned int nic, const struct shift_msg *m)
{
	struct letter *l = &letters[letters_n++];

	assert_true(letters_n < LETTERS);
	l->at = world.now + 20000 + (late_ns ? rnd((uint32_t)late_ns) : 0);
	l->nic = nic;
	l->bytes = m->blob_bytes;
	memcpy(l->blob, m->blob, m->blob_bytes);
}

static void take_to_the_post(const char *link, const struct shift_msg *m)
{
	const struct ctrl_link_peer *peer = (const void *)link;

	sent++;
	if ((int)peer->to == deaf)
		return;
	if (rnd(100) >= lost)
		letter_post(peer->to, m);
	if (rnd(100) < doubled)
		letter_post(peer->to, m);
}

static void letters_arrive(void)
{
	for (unsigned int i = 0; i < letters_n;) {
		struct letter l = letters[i];
		struct shift_msg m = session_msg(l.blob, l.bytes);

		if (l.at > world.now) {
			i++;
			continue;
		}
		letters[i] = letters[--letters_n];
		m.src_nonce = m.dst_nonce = OUR_NONCE;
		dispatch_message(world.nic + l.nic, &m);
	}
}

static void pass_ms(unsigned int ms)
{
	while (ms--) {
		rooms_pass(MS);
		letters_arrive();
	}
}

/* --- connections --------------------------------------------------------------------------- */

static void conn_begin(unsigned int i, bool other, uint32_t qpn, uint32_t peer_qpn)
{
	struct vqp *c = &conns[i];
	struct ibv_qp_attr *attr = &c->program.attr;

	qp[i] = *v->qp;
	qp[i].qp_num = qpn;
	memcpy(c, v, sizeof(*c));
	c->qp = &qp[i];
	c->id = 1000 + i;
	c->stats = (int)i;
	c->dev = other ? &other_dev : &world.dev;
	pthread_mutex_init(&c->lock, NULL);
	attr->port_num = other ? 2 : 1;
	memset(&attr->ah_attr.grh.dgid, 0, 16);
	attr->ah_attr.grh.dgid.raw[0] = 0xfe;
	attr->ah_attr.grh.dgid.raw[15] = other || same_nic ? 1 : 2;
	attr->dest_qp_num = peer_qpn;
	rendezvous_begin(c);
}

static void pair_begin(unsigned int i)
{
	conn_begin(2 * i, false, 0x1000 + i, 0x5000 + i);
	conn_begin(2 * i + 1, !same_nic, 0x5000 + i, 0x1000 + i);
	pairs = i + 1;
}

static unsigned int all_met(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < 2 * pairs; i++)
		n += conns[i].setup.met;
	return n == 2 * pairs;
}

static int begin(void **state)
{
	rooms_begin(state);
	world.gid_at = 2;
	world.on_send = take_to_the_post;
	world.untraced = true;
	core.view.state = SHIFT_ST_SETUP;
	core.view.protected_ = false;
	v = rooms_create_qp();
	rooms_start_qp(v);
	other_dev = world.dev;
	other_dev.nic[0] = world.dev.nic[1];
	other_dev.nic[1] = world.dev.nic[0];
	letters = calloc(LETTERS, sizeof(*letters));
	letters_n = sent = lost = doubled = 0;
	puts_n = watches_n = 0;
	late_ns = 0;
	deaf = -1;
	memset(psns, 0xff, sizeof(psns));
	return 0;
}

static int end(void **state)
{
	for (unsigned int i = 0; i < 2 * pairs; i++) {
		pthread_mutex_trylock(&conns[i].lock); /* a test that failed may have it */
		pthread_mutex_unlock(&conns[i].lock);
		rendezvous_end(&conns[i]);
	}
	pairs = 0;
	rooms_pass(200000ull * MS);
	rooms_pass(200000ull * MS);
	free(letters);
	return rooms_end_qp(state, v);
}

/* --- the tests ----------------------------------------------------------------------------- */

/* What goes well takes no tick: one message there, one back. And then there is silence. */
static void two_ends_meet_at_once(void **state)
{
	(void)state;
	pair_begin(0);
	pass_ms(3);
	assert_true(all_met());
	pass_ms(50);
	core.view.state = SHIFT_ST_ACTIVE;
	pass_ms(2000);
	sent = 0;
	pass_ms(5000);
	assert_int_equal(sent, 0);
	for (unsigned int i = 1; i < RAILS; i++) {
		assert_true(conns[0].rails.twin[i].clean);
		assert_true(conns[1].rails.twin[i].clean);
	}
}

/* No message is needed for that. */
static void two_ends_on_one_nic_are_loopback(void **state)
{
	const char *said;

	(void)state;
	world.untraced = false;
	lost = 100;
	same_nic = true;
	pair_begin(0);
	trace_clear();
	pass_ms(20);
	same_nic = false;
	said = strstr(trace_text(), "protected 0: connected to itself");
	assert_non_null(said);
	said = strstr(said + 1, "protected 0: connected to itself");
	assert_non_null(said);
	trace_clear();
	pass_ms(20000);
	assert_traced("");
	assert_false(conns[0].setup.met || conns[1].setup.met);
}

/* 500 at once meet as soon, put two keys (one for each NIC) and watch two GIDs. */
static void five_hundred_meet_as_soon(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < PAIRS; i++)
		pair_begin(i);
	pass_ms(30);
	assert_true(all_met());
	assert_true(puts_n <= 2 && watches_n <= 2);
	assert_true(sent <= PAIRS * 2 * RAILS * 4);
	pass_ms(2000);
	sent = 0;
	pass_ms(3000);
	assert_int_equal(sent, 0);
}

static void nic_comes(struct nic *nic, bool ready)
{
	nic->ready = ready;
	nic->looks++;
	if (ready)
		rendezvous_nic_changed(nic);
}

static void assert_twins_agree(unsigned int pair, uint8_t rail)
{
	const struct twin *a = &conns[2 * pair].rails.twin[rail],
			  *b = &conns[2 * pair + 1].rails.twin[rail];

	assert_true(a->clean && b->clean);
	assert_int_equal(a->mtu, b->mtu);
}

/* The first end meets the second before the NIC of rail 2 is ready, the second the first after it.
 * A twin whose path MTU is not that of its peer counts other PSNs, or loses what is too long. */
static void a_nic_that_comes_between_the_two_matches_changes_nothing(void **state)
{
	(void)state;
	nic_comes(&world.nic[2], false);
	deaf = 1; /* rail 0 of the second */
	pair_begin(0);
	pass_ms(400);
	assert_true(conns[0].setup.met);
	assert_false(conns[1].setup.met);
	nic_comes(&world.nic[2], true);
	deaf = -1;
	pass_ms(1000);
	assert_true(conns[1].setup.met);
	core.view.state = SHIFT_ST_ACTIVE;
	pass_ms(3000);
	for (uint8_t i = 1; i < RAILS; i++)
		assert_twins_agree(0, i);
	assert_int_equal(conns[0].rails.twin[2].mtu, 2048); /* as the program has asked */
}

/* Lost, twice, late, in any order, while what is to be told changes again and again. */
static void they_meet_whatever_the_network_does(void **state)
{
	for (unsigned int round = 0; round < 60; round++) {
		end(state);
		begin(state);
		lost = rnd(80);
		doubled = rnd(60);
		late_ns = rnd(400) * 1000000ull;
		nic_comes(&world.nic[2], rnd(2));
		for (unsigned int i = 0; i < 3; i++) {
			pair_begin(i);
			pass_ms(rnd(300));
			if (!rnd(3))
				nic_comes(&world.nic[2], true);
		}
		for (unsigned int i = 0; i < 20 && !all_met(); i++)
			pass_ms(2000);
		assert_true(all_met());
		if (rnd(2))
			core.view.state = SHIFT_ST_ACTIVE;
		for (unsigned int change = 0; change < 6; change++) {
			struct nic *nic = &world.nic[rnd(RAILS)];

			nic->psn = nic->psn == STATS_PSN_LIVE ? STATS_PSN_STALE : STATS_PSN_LIVE;
			rendezvous_nic_changed(nic);
			pass_ms(rnd(600));
		}
		core.view.state = SHIFT_ST_ACTIVE;
		nic_comes(&world.nic[2], true);
		lost = 0;
		late_ns = 0;
		pass_ms(5000);
		sent = 0;
		pass_ms(3000);
		assert_int_equal(sent, 0);
		for (unsigned int i = 0; i < 2 * pairs; i++)
			for (unsigned int rail = 0; rail < RAILS; rail++)
				assert_int_equal(psns[i][rail], conns[i ^ 1].dev->nic[rail]->psn);
		for (unsigned int i = 0; i < pairs; i++)
			for (uint8_t rail = 1; rail < RAILS; rail++)
				assert_twins_agree(i, rail);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(two_ends_meet_at_once),
		TEST(two_ends_on_one_nic_are_loopback),
		TEST(five_hundred_meet_as_soon),
		TEST(a_nic_that_comes_between_the_two_matches_changes_nothing),
		TEST(they_meet_whatever_the_network_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
