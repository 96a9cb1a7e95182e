/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of the reader of journals, and of the kernel's messages in them. What it accepts is undone
 * as root: it has the ID that it was asked for, and its numbers and messages can be used without
 * harm. Usage without libFuzzer: fuzz_journal [runs [seed]]
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/link_state.h"
#include "faultinject/rtnl.h"
#include "tests/fuzz/mutate_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* A message is as long as it says, and another number of its netdev does not leave it. */
static void check_message(const cJSON *item)
{
	struct nlmsghdr *h = message_of(item);

	if (!h)
		return;
	require(h->nlmsg_len >= sizeof(*h) &&
		h->nlmsg_len == strlen(cJSON_GetStringValue(item)) / 2);
	rtnl_renumber(h, 7, 8);
	free(h);
}

static void check_messages(const cJSON *list)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, list)
		check_message(item);
}

static void check_numbers(const cJSON *o)
{
	static const char *const names[] = {"pid",    "guard",	"process", "ifindex", "mtu",
					    "handle", "signal", "parent",  "state"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		double n = json_number(o, names[i], 0);

		require(json_pid(o, names[i]) >= 0);
		require(n < 0 || n > UINT32_MAX || json_uint32(o, names[i]) == (uint32_t)n);
	}
}

static void check_journal(const cJSON *j)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(j, "steps"), *step;

	require(!strcmp(json_text(j, "id"), "down-7") && cJSON_IsArray(steps));
	check_numbers(j);
	journal_owner_lives(j);
	journal_is_of_another_boot(j);
	cJSON_ArrayForEach (step, steps) {
		require(cJSON_IsObject(step));
		check_numbers(step);
		check_messages(cJSON_GetObjectItem(step, "belongings"));
		check_messages(cJSON_GetObjectItem(step, "remove"));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	cJSON *j;

	require(text);
	memcpy(text, data, size);
	text[size] = 0;
	j = journal_parse(text, "down-7");
	if (j)
		check_journal(j);
	cJSON_Delete(j);
	free(text);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
/* A link's state with an address of IPv4, a neighbour, and routes: by one way, by two. */
static const char good[] =
	"{\"id\": \"down-7\", \"fault\": \"down\", \"netdev\": \"v0\", \"ifindex\": 7,\n"
	" \"pid\": 4194303, \"pid_began\": 1, \"guard\": 1, \"boot_id\": \"x\", \"steps\": [\n"
	"  {\"kind\": \"link\", \"ifindex\": 7, \"netdev\": \"v0\", \"mtu\": 1500, \"up\": true,\n"
	"   \"uppers\": [{\"ifindex\": 9, \"mtu\": 1500}], \"belongings\": [\n"
	"    \"30000000140002000000000000000000021880000700000008000200c0000201080001"
	"00c00002010800080080000000\",\n"
	"    \"2c00000018000200000000000000000002180000fe0300010000000008000100c63364"
	"000800040007000000\",\n"
	"    \"4800000018000200000000000000000002180000fe0300010000000008000100cb0071"
	"0024000900100000000700000008000500c0000207100000000800000008000500c000"
	"0208\",\n"
	"    \"300000001c000200000000000000000002000000070000008000000108000100c00002"
	"010a0002000200000000010000\"],\n"
	"   \"remove\": []},\n"
	"  {\"kind\": \"signal\", \"pid\": 4194303, \"began\": 17, \"signal\": 18},\n"
	"  {\"kind\": \"filter\", \"ifindex\": 7, \"parent\": 4294967282, \"name\": \"x\"}]}\n";

/* Mutations of what is refused at once would find nothing. */
static void require_messages(const cJSON *j)
{
	const cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItem(j, "steps"), 0), *item;

	require(cJSON_GetArraySize(cJSON_GetObjectItem(step, "belongings")) == 4);
	cJSON_ArrayForEach (item, cJSON_GetObjectItem(step, "belongings")) {
		struct nlmsghdr *h = message_of(item);

		require(h);
		free(h);
	}
}

static const char *const words[] = {"{",	  "}",	      "[",	  "]",	     "\"",
				    ",",	  ":",	      "null",	  "-1",	     "1e99",
				    "4294967296", "\"\"",     "\"id\"",	  "0000",    "ffffffff",
				    "08000100",	  "04000400", "18000900", "\\u0000", NULL};

/* Messages whose length is right, and whose attributes are not. */
static void try_message(void)
{
	static const uint8_t types[] = {RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH, RTM_NEWLINK};
	uint8_t bytes[128] = {0};
	char text[400] = "{\"id\": \"down-7\", \"steps\": [{\"belongings\": [\"";
	size_t n = 16 + rnd(sizeof(bytes) - 16);

	for (size_t i = 16; i < n; i++)
		bytes[i] = (uint8_t)(rnd(3) ? rnd(16) : rnd(256));
	bytes[0] = (uint8_t)n;
	bytes[4] = types[rnd(sizeof(types))];
	for (size_t i = 0; i < n; i++)
		sprintf(text + strlen(text), "%02x", bytes[i]);
	strcat(text, "\"]}]}");
	LLVMFuzzerTestOneInput((const uint8_t *)text, strlen(text));
}

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 50000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static char text[8192];
	cJSON *j = journal_parse(good, "down-7");

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	require(j && !journal_parse(good, "down-8"));
	require_messages(j);
	cJSON_Delete(j);
	for (uint32_t i = 0; i < runs; i++) {
		size_t len = sizeof(good) - 1;

		memcpy(text, good, len);
		for (uint32_t n = 1 + rnd(4); n; n--)
			len = mutate_text(text, len, sizeof(text), words);
		LLVMFuzzerTestOneInput((const uint8_t *)text, len);
		try_message();
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated journals, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
