/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How the two ends of the probes over a path find each other (lib/session/peer_paths.c). */
#include "lib/session/peer_paths.h"

#include <errno.h>

#include "lib/session/dispatch.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

static struct probe_addr our_end;
static bool there; /* our end has been made */
static unsigned int connects, told;
static struct probe_addr connected_to;
static struct session_probe said;
static void (*changed)(void *arg);
static void *changed_arg;

struct probe *__wrap_probe_new(struct nic *nic, void (*result)(void *arg, bool answered),
			       void *arg);
void __wrap_probe_free(struct probe *p);
int __wrap_probe_address(const struct probe *p, struct probe_addr *addr);
void __wrap_probe_on_address_change(struct probe *p, void (*fn)(void *arg), void *arg);
void __wrap_probe_connect(struct probe *p, const struct probe_addr *peer);

struct probe *__wrap_probe_new(struct nic *nic, void (*result)(void *arg, bool answered), void *arg)
{
	(void)result;
	(void)arg;
	return nic == world.nic + 1 ? (struct probe *)(void *)&our_end : NULL;
}

void __wrap_probe_free(struct probe *p)
{
	(void)p;
}

int __wrap_probe_address(const struct probe *p, struct probe_addr *addr)
{
	(void)p;
	*addr = our_end;
	return there ? 0 : -EAGAIN;
}

void __wrap_probe_on_address_change(struct probe *p, void (*fn)(void *arg), void *arg)
{
	(void)p;
	changed = fn;
	changed_arg = arg;
}

void __wrap_probe_connect(struct probe *p, const struct probe_addr *peer)
{
	(void)p;
	connected_to = *peer;
	connects++;
}

static void hear(const char *link, const struct shift_msg *m)
{
	if (m->blob[0] != SESSION_PROBE)
		return;
	assert_string_equal(link, "mlx5_1");
	assert_int_equal(m->blob_bytes, sizeof(said));
	memcpy(&said, m->blob, sizeof(said));
	told++;
}

static struct session_probe their_end(void)
{
	return (struct session_probe){.kind = SESSION_PROBE,
				      .nic = 5, /* of their rail 1 */
				      .your_nic = 1,
				      .serial = 40,
				      .heard = said.serial,
				      .addr = {.requester_qpn = 77}};
}

static void they_send(const struct session_probe *p, uint64_t nonce)
{
	struct shift_msg m = session_msg(p, sizeof(*p));

	m.src_nonce = nonce;
	dispatch_message(world.nic + 1, &m);
}

static int begin(void **state)
{
	meeting_begin_looking(state);
	env.probes = true;
	our_end = (struct probe_addr){.requester_qpn = 33};
	there = true;
	connects = told = 0;
	memset(&said, 0, sizeof(said));
	world.on_send = hear;
	peer_comes();
	become_active();
	rooms_pass(10 * MS);
	return 0;
}

static int end(void **state)
{
	env.probes = false;
	return meeting_end(state);
}

static void our_end_is_told_until_it_is_known(void **state)
{
	struct session_probe p;
	unsigned int n;

	(void)state;
	assert_true(told > 0);
	assert_int_equal(said.ask, 1);
	assert_int_equal(said.nic, 1);
	assert_int_equal(said.your_nic, 5);
	assert_int_equal(said.addr.requester_qpn, 33);
	n = told;
	rooms_pass(1000 * MS);
	assert_true(told > n);
	p = their_end();
	p.heard--; /* an older one */
	they_send(&p, PEER_NONCE);
	n = told;
	rooms_pass(1000 * MS);
	assert_true(told > n);
	p.heard++;
	they_send(&p, PEER_NONCE);
	n = told;
	for (int i = 0; i < 5; i++)
		rooms_pass(1000 * MS);
	assert_int_equal(told, n);
	our_end.serial++; /* it was armed again */
	changed(changed_arg);
	rooms_pass(0);
	assert_int_equal(told, n + 1);
	assert_int_equal(said.addr.serial, 1);
	assert_int_equal(said.heard, 40);
}

static void an_end_that_is_not_there_yet_is_not_told(void **state)
{
	meeting_begin_looking(state);
	there = false;
	env.probes = true;
	world.on_send = hear;
	told = 0;
	peer_comes();
	rooms_pass(1000 * MS);
	assert_int_equal(told, 0);
	there = true;
	changed(changed_arg);
	rooms_pass(0);
	assert_int_equal(told, 1);
}

/* Lost, twice, late, and sent again by somebody who listens. */
static void the_newest_end_of_theirs_counts(void **state)
{
	struct session_probe p = their_end();

	(void)state;
	they_send(&p, PEER_NONCE);
	they_send(&p, PEER_NONCE);
	assert_int_equal(connects, 1);
	assert_int_equal(connected_to.requester_qpn, 77);
	p.serial--;
	p.addr.requester_qpn = 76;
	they_send(&p, PEER_NONCE);
	assert_int_equal(connects, 1);
	p.serial += 2;
	they_send(&p, PEER_NONCE);
	assert_int_equal(connects, 2);
	p.serial++;
	they_send(&p, PEER_NONCE + 1); /* another process, */
	p.nic++;		       /* another NIC of theirs, */
	they_send(&p, PEER_NONCE);
	p.nic--;
	p.your_nic--; /* or of ours */
	they_send(&p, PEER_NONCE);
	assert_int_equal(connects, 2);
}

static void only_a_question_about_probes_is_answered(void **state)
{
	struct session_probe p = their_end();
	unsigned int n = told;

	(void)state;
	they_send(&p, PEER_NONCE);
	assert_int_equal(told, n);
	p.ask = 1;
	they_send(&p, PEER_NONCE);
	assert_int_equal(told, n + 1);
	assert_int_equal(said.ask, 0);
	assert_int_equal(said.heard, 40);
}

int main(void)
{
#define LATE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(our_end_is_told_until_it_is_known),
		LATE(an_end_that_is_not_there_yet_is_not_told),
		TEST(the_newest_end_of_theirs_counts),
		TEST(only_a_question_about_probes_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
