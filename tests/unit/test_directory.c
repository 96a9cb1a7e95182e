/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is in the rendezvous, what is believed of it, and what it costs
 * (lib/session/directory.c, contacts.c). */
#include "lib/session/directory.h"

#include <stdio.h>
#include <time.h>

#include "lib/session/contacts.h"
#include "lib/session/rendezvous.h"
#include "lib/session/session_msg.h"
#include "tests/unit/meeting_world.h"

/* What we put stays as long as the process: each test has a GID of its own. */
static union ibv_gid next_gid(void)
{
	static uint8_t n;
	union ibv_gid gid = {.raw = {[0] = 0xd0}};

	gid.raw[15] = ++n;
	return gid;
}

static void key_of(char *key, const union ibv_gid *gid, uint64_t nonce)
{
	sprintf(key, "rail/d00000000000000000000000000000%02x/%016llx", gid->raw[15],
		(unsigned long long)nonce);
}

static struct rail_record record_of(const char *key)
{
	struct rail_record r;

	memset(&r, 0, sizeof(r));
	r.version = SHIFT_MSG_VERSION;
	r.nonce = PEER_NONCE;
	r.link.qpn = 0x77;
	r.tag = record_tag(key, &r);
	return r;
}

/* --- what we put --------------------------------------------------------------------------- */

static void a_process_puts_one_record_for_a_gid(void **state)
{
	union ibv_gid gid = next_gid();
	char key[128];

	(void)state;
	directory_enter(&world.nic[1], &gid);
	key_of(key, &gid, NONCE);
	assert_string_equal(put_key, key);
	assert_int_equal(put_value.version, SHIFT_MSG_VERSION);
	assert_int_equal(put_value.nonce, NONCE);
	assert_int_equal(put_value.link.qpn, 0x501);
	assert_true(put_value.tag == record_tag(key, &put_value));
	for (int i = 0; i < 10; i++)
		directory_enter(&world.nic[1], &gid);
	assert_int_equal(puts_n, 1);
}

static void it_is_put_again_when_the_address_changes(void **state)
{
	union ibv_gid gid = next_gid();

	(void)state;
	directory_enter(&world.nic[0], &gid);
	puts_n = 0;
	directory_refresh();
	assert_int_equal(puts_n, 0);
	moved = 5;
	directory_refresh();
	assert_true(puts_n > 0);
	assert_int_equal(put_value.link.qkey - put_value.link.qpn, 0x100 + 5);
	assert_true(put_value.tag == record_tag(put_key, &put_value));
	moved = 0;
	directory_refresh();
}

static void a_put_that_fails_is_repeated(void **state)
{
	union ibv_gid gid = next_gid();

	(void)state;
	put_result = -1;
	directory_enter(&world.nic[0], &gid);
	directory_enter(&world.nic[0], &gid);
	put_result = 0;
	directory_enter(&world.nic[0], &gid);
	assert_int_equal(puts_n, 3);
	directory_enter(&world.nic[0], &gid);
	assert_int_equal(puts_n, 3);
}

/* --- what is believed ---------------------------------------------------------------------- */

static void a_member_is_found(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	struct rail_record r;
	char key[128];

	(void)state;
	key_of(key, &gid, 0);
	key[5 + 32 + 1] = 0;
	assert_string_equal(watched, key);
	assert_ptr_equal(directory_look(&gid), p);
	assert_int_equal(watches_n, 1);
	key_of(key, &gid, PEER_NONCE);
	r = record_of(key);
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p);
	assert_int_equal(p->processes->nonce, PEER_NONCE);
	assert_int_equal(p->processes->link.qpn, 0x77);
	assert_null(p->processes->next);
	r.link.qpn++; /* it has moved */
	r.tag = record_tag(key, &r);
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p);
	assert_int_equal(p->processes->link.qpn, 0x78);
	assert_null(p->processes->next);
	assert_null(directory_event(key, NULL, 0)); /* nobody is told anything by that */
	assert_null(p->processes);
}

/* Attack: a key that somebody puts who can write to the rendezvous, and has no key of the job. Any
 * change of a good record is noticed, and so is a good one under another name. */
static void a_forged_record_is_ignored(void **state)
{
	union ibv_gid gid = next_gid(), other_gid = next_gid();
	struct place *p = directory_look(&gid);
	struct rail_record good, r;
	char key[128], name[160];

	(void)state;
	directory_look(&other_gid);
	key_of(key, &gid, PEER_NONCE);
	good = record_of(key);
	for (unsigned int bit = 8; bit < 8 * sizeof(r); bit++) {
		r = good;
		((uint8_t *)&r)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_null(directory_event(key, &r, sizeof(r)));
		assert_null(p->processes);
	}
	r = good;
	r.tag = 0;
	assert_null(directory_event(key, &r, sizeof(r)));
	for (size_t bytes = 1; bytes < sizeof(r); bytes++)
		assert_null(directory_event(key, &good, bytes));
	key_of(name, &gid, PEER_NONCE + 1);
	assert_null(directory_event(name, &good, sizeof(good)));
	key_of(name, &other_gid, PEER_NONCE);
	assert_null(directory_event(name, &good, sizeof(good)));
	sprintf(name, "%s0", key);
	assert_null(directory_event(name, &good, sizeof(good)));
	name[strlen(key) - 1] = 0;
	assert_null(directory_event(name, &good, sizeof(good)));
	assert_null(directory_event("conn/aa0000000000000000000000000000bb-000099", &good,
				    sizeof(good)));
	assert_null(p->processes);
	/* Nor does it take the place of a good one. */
	assert_non_null(directory_event(key, &good, sizeof(good)));
	r.link.qpn = 0x666;
	assert_null(directory_event(key, &r, sizeof(r)));
	assert_int_equal(p->processes->link.qpn, 0x77);
	r.version++;
	assert_null(directory_event(key, &r, sizeof(r)));
	assert_false(p->processes->other_version);
}

static void a_process_of_another_version_is_known_as_such(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	uint8_t older[8] = {SHIFT_MSG_VERSION - 1};
	char key[128];

	(void)state;
	key_of(key, &gid, PEER_NONCE);
	directory_event(key, older, sizeof(older));
	assert_true(p->processes->other_version);
	directory_event(key, NULL, 0);
	assert_null(p->processes);
}

static void without_the_key_nothing_is_believed(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	struct rail_record r;
	char key[128];

	(void)state;
	key_of(key, &gid, PEER_NONCE);
	r = record_of(key);
	key_known = false;
	assert_null(directory_event(key, &r, sizeof(r)));
	assert_null(p->processes);
}

/* The rendezvous does not tell a process of itself, and a connection may be between two NICs of it.
 * Whichever comes first. */
static void we_find_ourselves(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		union ibv_gid gid = next_gid();
		struct place *p = NULL;

		if (i)
			p = directory_look(&gid);
		directory_enter(&world.nic[2], &gid);
		if (!i)
			p = directory_look(&gid);
		assert_int_equal(p->processes->nonce, NONCE);
		assert_int_equal(p->processes->link.qpn, 0x502);
	}
}

/* A process that comes, and one that moves, is news; one that is there already is not, and what is
 * not there cannot go. */
static void only_what_is_new_is_told(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	struct rail_record r;
	uint64_t number;
	char key[128];

	(void)state;
	key_of(key, &gid, PEER_NONCE);
	r = record_of(key);
	assert_null(directory_event(key, NULL, 0));
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p);
	number = p->processes->number;
	assert_null(directory_event(key, &r, sizeof(r)));
	assert_true(p->processes->number == number);
	r.link.qkey++;
	r.tag = record_tag(key, &r);
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p);
	assert_true(p->processes->number > number);
	assert_null(p->processes->next);
	*strchr(key, 'd') = 'D'; /* a name that no process gives */
	directory_event(key, NULL, 0);
	assert_non_null(p->processes);
	directory_leave(p);
}

/* --- places that nobody needs any more go --------------------------------------------------- */

static void a_place_goes_with_its_last_connection(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	struct rail_record r;
	char key[128];

	(void)state;
	key_of(key, &gid, PEER_NONCE);
	r = record_of(key);
	assert_ptr_equal(directory_look(&gid), p);
	assert_int_equal(watches_n, 1);
	directory_leave(p);
	assert_int_equal(unwatches_n, 0);
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p);
	directory_leave(p);
	assert_int_equal(unwatches_n, 1);
	assert_null(directory_event(key, &r, sizeof(r)));
	p = directory_look(&gid);
	assert_int_equal(watches_n, 2);
	assert_null(p->processes);
	directory_leave(p);
	directory_leave(NULL);
	assert_int_equal(unwatches_n, 2);
}

/* What shift-kvd has refused is asked for again when there is room. */
static void room_is_used_at_once(void **state)
{
	union ibv_gid gid[2] = {next_gid(), next_gid()};
	struct place *p[2] = {directory_look(&gid[0]), directory_look(&gid[1])};

	(void)state;
	job_full = true;
	watches_n = 0;
	directory_leave(p[0]);
	assert_false(job_full);
	assert_true(watches_n >= 1); /* one that is known already is not asked for by the client */
	watches_n = 0;
	directory_leave(p[1]);
	assert_int_equal(watches_n, 0);
}

/* --- what it costs ------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static union ibv_gid gid_of_many(unsigned int i)
{
	union ibv_gid gid = {.raw = {[0] = 0xd1}};

	gid.raw[14] = (uint8_t)(i >> 8);
	gid.raw[15] = (uint8_t)i;
	return gid;
}

static uint64_t events_cost(unsigned int place)
{
	uint64_t since = cpu_ns();
	char key[128];

	sprintf(key, "rail/d1%026x%04x/000000000000000b", 0, place);
	for (unsigned int i = 0; i < 300; i++)
		directory_event(key, NULL, 0);
	return cpu_ns() - since;
}

/* With 10,000 GIDs that are looked at, an event costs about as much as with 16. */
static void an_event_is_as_cheap_among_many_places(void **state)
{
	enum { FEW = 16, PLACES = 10000 };
	static struct place *p[PLACES];
	uint64_t few = 0, many;
	union ibv_gid gid;

	(void)state;
	for (unsigned int i = 0; i < PLACES; i++) {
		gid = gid_of_many(i);
		p[i] = directory_look(&gid);
		if (i + 1 == FEW)
			few = events_cost(i);
	}
	many = events_cost(PLACES - 1);
	assert_true(many < 20 * few + 2 * MS);
	for (unsigned int i = 0; i < PLACES; i++)
		directory_leave(p[i]);
}

/* Attack: records of another version need no tag, so there may be as many as somebody likes. */
static void few_of_another_version_are_remembered(void **state)
{
	union ibv_gid gid = next_gid();
	struct place *p = directory_look(&gid);
	uint8_t older[8] = {SHIFT_MSG_VERSION - 1};
	uint64_t since = cpu_ns();
	struct rail_record r;
	unsigned int n = 0;
	char key[128];

	(void)state;
	for (uint64_t nonce = 1000; nonce < 81000; nonce++) {
		key_of(key, &gid, nonce);
		assert_null(directory_event(key, older, sizeof(older)));
	}
	for (const struct process *at = p->processes; at; at = at->next)
		n += at->other_version;
	assert_int_equal(n, 64);
	assert_true(cpu_ns() - since < 5000ull * MS); /* it was quadratic */
	key_of(key, &gid, PEER_NONCE);
	r = record_of(key);
	assert_ptr_equal(directory_event(key, &r, sizeof(r)), p); /* they keep nobody out */
	key_of(key, &gid, 1000);
	directory_event(key, NULL, 0); /* and when one goes there is room for another */
	key_of(key, &gid, 90000);
	directory_event(key, older, sizeof(older));
	n = 0;
	for (const struct process *at = p->processes; at; at = at->next)
		n += at->nonce == 90000 || at->nonce == PEER_NONCE;
	assert_int_equal(n, 2);
	directory_leave(p);
}

enum { MANY = 500 };

static struct ibv_qp qp[MANY];
static struct vqp conns[MANY];

static void many_begin(unsigned int n, union ibv_gid peer)
{
	rooms_start_qp(v);
	v->program.attr.ah_attr.grh.dgid = peer;
	for (unsigned int i = 0; i < n; i++) {
		qp[i] = *v->qp;
		qp[i].qp_num = 0x1000 + i;
		memcpy(&conns[i], v, sizeof(*v));
		conns[i].qp = &qp[i];
		pthread_mutex_init(&conns[i].lock, NULL);
		rendezvous_begin(&conns[i]);
	}
}

static void many_end(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		rendezvous_end(&conns[i]);
}

/* 500 connections to one peer put the same key and watch the same prefix as one. */
static void many_connections_cost_what_one_costs(void **state)
{
	static const unsigned int numbers[] = {1, MANY};

	for (int i = 0; i < 2; i++) {
		meeting_begin(state);
		/* Nothing is known of these GIDs yet. */
		world.own_gid = (uint8_t)(0x40 + i);
		many_begin(numbers[i], next_gid());
		for (int ms = 0; ms < 2000; ms += 10)
			rooms_pass(10 * MS);
		assert_int_equal(puts_n, 1);
		assert_int_equal(watches_n, 1);
		many_end(numbers[i]);
		assert_int_equal(unwatches_n, 1);
		meeting_end(state);
	}
}

/* --- a crowd behind one GID ---------------------------------------------------------------- */

enum { PROCESSES = 64, CONNECTIONS = 64 };

static unsigned int sent, sent_of[CONNECTIONS];

static void count_sent(const char *link, const struct shift_msg *m)
{
	struct session_conn c;

	(void)link;
	memcpy(&c, m->blob, sizeof(c));
	sent++;
	sent_of[c.mine.qpn - 0x1000]++;
}

static void process_comes(const union ibv_gid *gid, uint64_t nonce)
{
	struct rail_record r;
	char key[128];

	key_of(key, gid, nonce);
	r = record_of(key);
	r.nonce = nonce;
	r.link.qpn = 0x300;
	r.tag = record_tag(key, &r);
	rendezvous_published(key, &r, sizeof(r));
}

static union ibv_gid crowd_begin(void)
{
	union ibv_gid gid = next_gid();

	crowd = true;
	world.own_gid = (uint8_t)(0x80 + gid.raw[15]);
	world.on_send = count_sent;
	sent = 0;
	memset(sent_of, 0, sizeof(sent_of));
	many_begin(CONNECTIONS, gid);
	rooms_pass(0);
	for (uint64_t i = 0; i < PROCESSES; i++)
		process_comes(&gid, 2000 + i);
	return gid;
}

/* Returns the most that was sent within 10 ms. */
static unsigned int pass_and_count(unsigned int ms)
{
	unsigned int most = 0, before;

	for (unsigned int at = 0; at < ms; at += 10) {
		before = sent;
		rooms_pass(10 * MS);
		most = sent - before > most ? sent - before : most;
	}
	return most;
}

/* Nobody answers. All are told at once, but not in one burst, and then ever more seldom: so often
 * that an end which can be reached again soon is, and never N times M messages for ever. */
static void a_crowd_that_does_not_answer_is_told_ever_more_seldom(void **state)
{
	enum { ALL = PROCESSES * CONNECTIONS * RAILS };
	unsigned int most;

	(void)state;
	crowd_begin();
	most = pass_and_count(110);
	for (unsigned int i = 0; i < CONNECTIONS; i++) /* each has told all soon */
		assert_true(sent_of[i] >= PROCESSES * RAILS);
	assert_true(most <= 2 * 512 * RAILS);
	pass_and_count(90);
	pass_and_count(9800);
	assert_true(sent <= 30 * ALL);
	sent = 0;
	pass_and_count(60000);
	assert_in_range(sent, ALL, 12 * ALL);
	sent = 0;
	pass_and_count(600000);
	assert_in_range(sent, ALL, 14 * ALL);
	many_end(CONNECTIONS);
}

/* One that comes later is told by each connection, and the others are not told again. */
static void who_comes_later_is_told_alone(void **state)
{
	union ibv_gid gid;

	(void)state;
	gid = crowd_begin();
	pass_and_count(30000);
	sent = 0;
	process_comes(&gid, 3000);
	rooms_pass(0);
	assert_int_equal(sent, CONNECTIONS * RAILS);
	process_comes(&gid, 3000); /* once */
	rooms_pass(0);
	assert_int_equal(sent, CONNECTIONS * RAILS);
	many_end(CONNECTIONS);
}

/* Attack: what comes and goes in the rendezvous makes us send no more than so much. */
static void a_storm_of_records_is_bounded(void **state)
{
	union ibv_gid gid;
	char key[128];

	(void)state;
	gid = crowd_begin();
	pass_and_count(30000);
	sent = 0;
	for (int ms = 0; ms < 100; ms++) {
		for (uint64_t i = 0; i < PROCESSES; i++) {
			key_of(key, &gid, 2000 + i);
			rendezvous_published(key, NULL, 0);
			process_comes(&gid, 2000 + i);
		}
		rooms_pass(MS);
	}
	assert_true(sent <= 11 * 512 * RAILS);
	many_end(CONNECTIONS);
}

/* --- contacts ------------------------------------------------------------------------------ */

void __real_contact_send(struct nic *nic, uint64_t nonce, const struct ctrl_link_addr *addr,
			 const struct shift_msg *m);

static void a_contact_is_shared_and_goes(void **state)
{
	struct ctrl_link_addr addr = {.qpn = 0x300};
	struct shift_msg m = {.type = SHIFT_MSG_FAILED};

	(void)state;
	trace_clear();
	__real_contact_send(&world.nic[0], 7, &addr, &m);
	__real_contact_send(&world.nic[0], 7, &addr, &m);
	assert_traced("path over mlx5_0 to 0x300 of 0x7\nsend mlx5_0 type 3 epoch 0 from 0 to 0\n"
		      "send mlx5_0 type 3 epoch 0 from 0 to 0\n");
	__real_contact_send(&world.nic[1], 7, &addr, &m);
	__real_contact_send(&world.nic[0], 8, &addr, &m);
	assert_traced("path over mlx5_1 to 0x300 of 0x7\nsend mlx5_1 type 3 epoch 0 from 0 to 0\n"
		      "path over mlx5_0 to 0x300 of 0x8\nsend mlx5_0 type 3 epoch 0 from 0 to 0\n");
	addr.qkey++; /* it is to be spoken to in another way now */
	__real_contact_send(&world.nic[0], 7, &addr, &m);
	assert_traced("no path over mlx5_0\npath over mlx5_0 to 0x300 of 0x7\n"
		      "send mlx5_0 type 3 epoch 0 from 0 to 0\n");
	rooms_pass(59000ull * MS);
	__real_contact_send(&world.nic[1], 7, &addr, &m);
	trace_clear();
	rooms_pass(1000 * MS);
	assert_traced("no path over mlx5_0\nno path over mlx5_0\n");
	rooms_pass(60000ull * MS);
	assert_traced("no path over mlx5_1\n");
}

/* Our NIC has connections to two NICs of a process, so it speaks to both in turn. What waits for an
 * address handle is lost if the contact goes with each message. */
static void a_contact_is_of_one_address(void **state)
{
	struct ctrl_link_addr addr[4];
	struct shift_msg m = {.type = SHIFT_MSG_FAILED};
	unsigned int made = 0;

	(void)state;
	memset(addr, 0, sizeof(addr));
	addr[1].qpn = 0x301;
	addr[2].gid.raw[15] = 1;
	addr[3].lid = 1;
	trace_clear();
	for (int i = 0; i < 12; i++)
		__real_contact_send(&world.nic[0], 7, &addr[i % 4], &m);
	assert_null(strstr(trace_text(), "no path"));
	for (const char *at = trace_text(); (at = strstr(at, "path over")); at++)
		made++;
	assert_int_equal(made, 4);
	rooms_pass(59000ull * MS);
	__real_contact_send(&world.nic[0], 7, &addr[1], &m);
	trace_clear();
	rooms_pass(1000 * MS);
	assert_traced("no path over mlx5_0\nno path over mlx5_0\nno path over mlx5_0\n");
	rooms_pass(60000ull * MS);
	assert_traced("no path over mlx5_0\n");
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define TEST(name)  cmocka_unit_test_setup_teardown(name, meeting_begin, meeting_end)
	const struct CMUnitTest tests[] = {
		TEST(a_process_puts_one_record_for_a_gid),
		TEST(it_is_put_again_when_the_address_changes),
		TEST(a_put_that_fails_is_repeated),
		TEST(a_member_is_found),
		TEST(a_forged_record_is_ignored),
		TEST(a_process_of_another_version_is_known_as_such),
		TEST(without_the_key_nothing_is_believed),
		TEST(we_find_ourselves),
		TEST(only_what_is_new_is_told),
		TEST(a_place_goes_with_its_last_connection),
		TEST(room_is_used_at_once),
		TEST(an_event_is_as_cheap_among_many_places),
		TEST(few_of_another_version_are_remembered),
		ALONE(many_connections_cost_what_one_costs),
		TEST(a_crowd_that_does_not_answer_is_told_ever_more_seldom),
		TEST(who_comes_later_is_told_alone),
		TEST(a_storm_of_records_is_bounded),
		TEST(a_contact_is_shared_and_goes),
		TEST(a_contact_is_of_one_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
