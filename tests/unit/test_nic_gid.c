/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which GID of a NIC is used, and whether one is lost (lib/nic/nic_gid.c). The table is the test's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/real_verbs.h"
#include "lib/nic/nic_int.h"

struct real_verbs real;

static struct ibv_gid_entry table[8];
static ssize_t table_n;
static struct nic_own own;
static const struct nic *nic = &own.nic;

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	(void)ctx;
	(void)flags;
	assert_int_equal(size, sizeof(*entries));
	assert_true((size_t)table_n <= max || table_n < 0);
	for (ssize_t i = 0; i < table_n; i++)
		entries[i] = table[i];
	return table_n;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	(void)ctx;
	(void)flags;
	(void)size;
	for (ssize_t i = 0; i < table_n; i++)
		if (table[i].gid_index == index && table[i].port_num == port) {
			*entry = table[i];
			return 0;
		}
	return ENODATA;
}

/* Netdev 100 + n is VLAN n. */
uint16_t nic_vlan(uint32_t ifindex)
{
	return ifindex > 100 ? (uint16_t)(ifindex - 100) : 0;
}

static void add(uint32_t index, const char *prefix, uint8_t last, uint32_t type, uint32_t ifindex)
{
	struct ibv_gid_entry *e = &table[table_n++];

	*e = (struct ibv_gid_entry){
		.gid_index = index, .port_num = 1, .gid_type = type, .ndev_ifindex = ifindex};
	if (prefix[0] == '4')
		e->gid.raw[10] = e->gid.raw[11] = 0xff;
	else
		e->gid.raw[0] = 0xfe, e->gid.raw[1] = 0x80;
	e->gid.raw[15] = last;
}

enum { V1 = IBV_GID_TYPE_ROCE_V1, V2 = IBV_GID_TYPE_ROCE_V2 };

static int begin(void **state)
{
	(void)state;
	own = (struct nic_own){
		.nic = {.port = 1, .port_attr = {.link_layer = IBV_LINK_LAYER_ETHERNET}}};
	table_n = 0;
	/* As mlx5 has them: link-local ones once for each netdev. */
	add(0, "ll", 1, V1, 5);
	add(1, "ll", 1, V2, 5);
	add(2, "4", 9, V1, 5);
	add(3, "4", 9, V2, 5);
	add(4, "ll", 1, V2, 107);
	add(5, "4", 17, V2, 107);
	add(6, "4", 18, V2, 108);
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(own.gids);
	return 0;
}

static struct nic_gid at(int index)
{
	struct nic_gid gid;

	assert_int_equal(nic_gid_at(nic, index, &gid), 0);
	return gid;
}

static void a_twin_is_on_the_vlan_of_rail_0(void **state)
{
	static const struct {
		bool ipv4;
		uint16_t vlan;
		int index;
	} cases[] = {{true, 0, 3},  {true, 7, 5},  {true, 8, 6}, {true, 9, 5},
		     {false, 0, 1}, {false, 7, 4}, {false, 8, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct nic_gid like = {.type = V2, .vlan = cases[i].vlan}, gid;

		like.value = at(cases[i].ipv4 ? 3 : 1).value;
		assert_int_equal(nic_gid_for_twin(nic, &like, &gid), cases[i].index);
		assert_memory_equal(&gid.value, &table[cases[i].index].gid, sizeof(gid.value));
		assert_int_equal(gid.vlan, nic_vlan(table[cases[i].index].ndev_ifindex));
	}
	table_n = 5; /* the kind comes first */
	assert_int_equal(nic_gid_for_twin(nic, &(struct nic_gid){.value = table[3].gid, .vlan = 7},
					  &(struct nic_gid){0}),
			 3);
}

/* One value stands at three places. */
static void a_gid_is_its_value_its_type_and_its_vlan(void **state)
{
	(void)state;
	for (int i = 0; i < 7; i++) {
		struct nic_gid gid = at(i);

		for (int hint = -1; hint < 9; hint++)
			assert_int_equal(nic_gid_find(nic, &gid, hint), i);
	}
	for (int i = 0; i < 7; i++)
		table[i].gid_index += 3;
	table[0].gid_index = 40;
	for (int i = 3; i < 10; i++) {
		struct nic_gid gid = at(i == 3 ? 40 : i);

		assert_int_equal(nic_gid_find(nic, &gid, i - 3), i == 3 ? 40 : i);
	}
}

static void among_equals_the_hint_counts(void **state)
{
	struct nic_gid gid = at(3);

	(void)state;
	add(7, "4", 9, V2, 6);
	assert_int_equal(nic_gid_find(nic, &gid, 7), 7);
	assert_int_equal(nic_gid_find(nic, &gid, 3), 3);
	assert_int_equal(nic_gid_find(nic, &gid, 6), 3);
}

static void what_is_gone_is_not_found(void **state)
{
	struct nic_gid gid = at(5);

	(void)state;
	table_n = 5;
	assert_int_equal(nic_gid_find(nic, &gid, 5), -EADDRNOTAVAIL);
	assert_int_equal(nic_gid_find(nic, &gid, 0), -EADDRNOTAVAIL);
	assert_int_equal(nic_gid_at(nic, 5, &gid), -ENODATA);
	table_n = -EIO;
	assert_int_equal(nic_gid_find(nic, &gid, 5), -EIO);
}

/* As the NIC's job does it. */
static bool read_table(void)
{
	own.gids_found_n = nic_gid_table(nic, &own.gids_found);
	return nic_gids_take(&own);
}

static void the_loss_of_a_gid_is_seen(void **state)
{
	struct nic_gid v1 = at(2), v2 = at(3);

	(void)state;
	assert_false(nic_gid_is_lost(nic, &v2)); /* nothing is known yet */
	assert_false(read_table());		 /* it is no change */
	assert_false(nic_gid_is_lost(nic, &v2));
	assert_false(read_table());
	table_n = -EIO;
	assert_false(read_table());
	assert_false(nic_gid_is_lost(nic, &v2));
	table_n = 3;
	assert_true(read_table());
	assert_true(nic_gid_is_lost(nic, &v2));
	assert_false(nic_gid_is_lost(nic, &v1));
	table_n = 0;
	assert_true(read_table());
	assert_true(nic_gid_is_lost(nic, &v1));
	end(state);
	begin(state); /* that forgets the table */
	assert_false(read_table());
	table[3].gid.raw[15]++; /* another in its place */
	assert_true(read_table());
	assert_true(nic_gid_is_lost(nic, &v2));
	table[3].gid.raw[15]--;
	table[3].gid_index = 77; /* at another place */
	assert_true(read_table());
	assert_false(nic_gid_is_lost(nic, &v2));
	table[3].gid_type = V1;
	assert_true(read_table());
	assert_true(nic_gid_is_lost(nic, &v2));
}

static int pkeys_asked;

static int query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	pkeys_asked++;
	*pkey = (__be16)(index * 10);
	return port == 1 && index != 2 ? 0 : -1;
}

static void a_pkey_is_found_by_its_value(void **state)
{
	(void)state;
	real.query_pkey = query_pkey;
	own.nic.port_attr.pkey_tbl_len = 5;
	own.nic.port_attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	pkeys_asked = 0;
	assert_int_equal(nic_pkey_index(nic, 10), 1);
	assert_int_equal(nic_pkey_index(nic, 40), 4);
	assert_int_equal(nic_pkey_index(nic, 50), -ENOENT);
	assert_int_equal(nic_pkey_index(nic, 20), -ENOENT);
	assert_int_equal(pkeys_asked, 2 + 5 + 5 + 5);
	assert_int_equal(nic_pkey_index(nic, 0xffff), -ENOENT); /* InfiniBand may have none */
}

static void the_default_pkey_is_known_over_ethernet(void **state)
{
	(void)state;
	real.query_pkey = query_pkey;
	own.nic.port_attr.pkey_tbl_len = 1;
	own.nic.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	pkeys_asked = 0;
	assert_int_equal(nic_pkey_index(nic, 0xffff), 0);
	assert_int_equal(pkeys_asked, 0);
	assert_int_equal(nic_pkey_index(nic, 0x7fff), -ENOENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_twin_is_on_the_vlan_of_rail_0),
		TEST(a_gid_is_its_value_its_type_and_its_vlan),
		TEST(among_equals_the_hint_counts),
		TEST(what_is_gone_is_not_found),
		TEST(the_loss_of_a_gid_is_seen),
		TEST(a_pkey_is_found_by_its_value),
		TEST(the_default_pkey_is_known_over_ethernet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
