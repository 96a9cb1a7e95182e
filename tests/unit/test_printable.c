/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Foreign text: nothing that a terminal obeys comes through, and nothing printable is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cli.h"
#include "common/printable.h"

static void ascii_stays_and_the_rest_is_escaped(void **state)
{
	char buf[64];

	(void)state;
	assert_ptr_equal(printable(buf, sizeof(buf), "a ~\\x"), buf);
	assert_string_equal(buf, "a ~\\x");
	printable(buf, sizeof(buf), "\033]0;x\a\177\r\n\x9b\xc3\xbc");
	assert_string_equal(buf, "\\x1b]0;x\\x07\\x7f\\x0d\\x0a\\x9b\\xc3\\xbc");
}

static void no_escape_is_cut_in_two(void **state)
{
	char buf[8];

	(void)state;
	memset(buf, '#', sizeof(buf));
	assert_string_equal(printable(buf, 5, "\033\033"), "\\x1b");
	assert_string_equal(printable(buf, 4, "\033"), "");
	assert_string_equal(printable(buf, 4, "abcd"), "abc");
	assert_string_equal(printable(buf, 1, "abcd"), "");
	assert_int_equal(buf[5], '#');
}

static void json_is_ascii_and_means_the_same(void **state)
{
	static const struct {
		const char *from, *to;
	} cases[] = {
		{"{\n\t\"a\": 1\n}", "{\n\t\"a\": 1\n}"},
		{"\"\xc3\xbc\"", "\"\\u00fc\""},
		{"\"\xc2\x9b[2J\"", "\"\\u009b[2J\""},
		{"\"\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\\u20ac\\ud83d\\ude00\""},
		{"\"\x9b\xff\xc3\"", "\"\\ufffd\\ufffd\\ufffd\""},
		{"\"\xc0\x9b\"", "\"\\ufffd\""},	 /* overlong */
		{"\"\xed\xa0\x80\"", "\"\\ufffd\""},	 /* a surrogate */
		{"\"\xf4\x90\x80\x80\"", "\"\\ufffd\""}, /* beyond Unicode */
		{"\"\177\033\r\"", "\"\\u007f\\u001b\\u000d\""},
		{"\"\xf0\x9f", "\"\\ufffd"}, /* ends amid a character */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = printable_json(cases[i].from);

		assert_string_equal(text, cases[i].to);
		free(text);
	}
	assert_null(printable_json(NULL));
}

static void several_texts_can_be_shown_at_once(void **state)
{
	const char *text[8];
	char raw[2] = "", expected[5] = "\\x01";

	(void)state;
	for (int i = 0; i < 8; i++) {
		*raw = (char)(i + 1);
		text[i] = shown(raw);
	}
	for (int i = 0; i < 8; i++) {
		expected[3] = (char)('1' + i);
		assert_string_equal(text[i], expected);
	}
	assert_string_equal(shown(NULL), "");
}

static char said[9000];

static void keep_line(const char *line)
{
	strcpy(said, line);
}

static void messages_are_one_printable_line(void **state)
{
	(void)state;
	cli_messages_to(keep_line);
	say("%s: no answer", "\033[2Jx\ny");
	cli_messages_to(NULL);
	assert_string_equal(said, "\\x1b[2Jx\\x0ay: no answer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ascii_stays_and_the_rest_is_escaped),
		cmocka_unit_test(no_escape_is_cut_in_two),
		cmocka_unit_test(json_is_ascii_and_means_the_same),
		cmocka_unit_test(several_texts_can_be_shown_at_once),
		cmocka_unit_test(messages_are_one_printable_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
