/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a NIC said is good for 50 ms, unless something has happened there; what it lacks is not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/background.h"
#include "lib/base/real_verbs.h"
#include "lib/session/own_address.h"

#define MS 1000000ull

struct real_verbs real;

static struct nic nic = {.port = 1}, other = {.port = 1};
static uint64_t now = 1000 * MS;
static unsigned int asked;
static int missing; /* an errno; 0: all is there */
static uint8_t value;

uint64_t now_ns(void)
{
	return now;
}

static int answer(struct nic_gid *gid, int index)
{
	asked++;
	if (missing)
		return -missing;
	*gid = (struct nic_gid){.type = IBV_GID_TYPE_ROCE_V2};
	gid->value.raw[15] = value;
	gid->value.raw[14] = (uint8_t)index;
	return index;
}

int nic_gid_at(const struct nic *n, int index, struct nic_gid *gid)
{
	(void)n;
	return answer(gid, index) < 0 ? -missing : 0;
}

int nic_gid_for_twin(const struct nic *n, const struct nic_gid *like, struct nic_gid *gid)
{
	(void)n;
	return answer(gid, like->vlan + 3);
}

int nic_pkey_index(const struct nic *n, __be16 pkey)
{
	(void)n;
	asked++;
	return missing ? -missing : pkey + 1;
}

static int query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	asked++;
	*pkey = (__be16)(port * 16 + index);
	return missing;
}

/* Each kind of question in turn, with an argument of its own. */
static int ask(const struct nic *n, int what, int arg, uint8_t *got)
{
	struct nic_gid gid = {.vlan = 0}, like = {.vlan = (uint16_t)arg};
	int index = 0;

	if (what == 0)
		index = own_gid_at(n, arg, &gid);
	else if (what == 1)
		index = own_gid_for_twin(n, &like, &gid);
	else if (what == 2)
		index = own_pkey_index(n, (__be16)arg);
	else
		return own_pkey_at(n, 2, arg);
	*got = gid.value.raw[15];
	return index;
}

static void is_asked_again(int what, const struct nic *n, int arg, bool again)
{
	unsigned int before = asked;
	uint8_t got = 0;

	ask(n, what, arg, &got);
	assert_int_equal(asked - before, again);
}

static void an_answer_is_good_for_a_while(void **state)
{
	(void)state;
	for (int what = 0; what < 4; what++) {
		now += 1000 * MS;
		is_asked_again(what, &nic, 5, true);
		is_asked_again(what, &nic, 5, false);
		is_asked_again(what, &nic, 6, true); /* another question */
		is_asked_again(what, &other, 5, true);
		now += 49 * MS;
		is_asked_again(what, &nic, 5, false);
		now += 1 * MS; /* since the question, not since it was repeated */
		is_asked_again(what, &nic, 5, true);
		nic.looks++;
		is_asked_again(what, &nic, 5, true);
		is_asked_again(what, &nic, 5, false);
	}
}

static void it_is_the_answer(void **state)
{
	static const int index[] = {0, 5 + 3, 5 + 1, 2 * 16 + 5};
	uint8_t got;

	(void)state;
	for (int what = 0; what < 4; what++) {
		now += 1000 * MS;
		value = 0x77;
		for (int i = 0; i < 2; i++) {
			got = 0x77;
			assert_int_equal(ask(&nic, what, 5, &got), index[what]);
			assert_true(got == 0x77 || what >= 2);
			value = 0x78; /* the second time it is the one before */
		}
	}
}

static void what_is_missing_is_asked_for_each_time(void **state)
{
	uint8_t got;

	(void)state;
	for (int what = 0; what < 4; what++) {
		now += 1000 * MS;
		missing = ENOENT;
		assert_int_equal(ask(&nic, what, 5, &got), what == 3 ? 0 : -ENOENT);
		is_asked_again(what, &nic, 5, true);
		missing = 0;
		is_asked_again(what, &nic, 5, true);
		is_asked_again(what, &nic, 5, false);
	}
}

static void many_answers_push_out_the_oldest(void **state)
{
	(void)state;
	now += 1000 * MS;
	for (int i = 0; i < 65; i++)
		is_asked_again(0, &nic, i, true);
	is_asked_again(0, &nic, 1, false);
	is_asked_again(0, &nic, 0, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_good_for_a_while),
		cmocka_unit_test(it_is_the_answer),
		cmocka_unit_test(what_is_missing_is_asked_for_each_time),
		cmocka_unit_test(many_answers_push_out_the_oldest),
	};

	real.query_pkey = query_pkey;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
