/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control socket, turned by hand. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

#include "lib/base/background.h"
#include "lib/base/control_socket.h"
#include "tests/unit/fake_bg.h"

static char dir[64], path[128];
static char asked[128];

static int on_migrate(const char *nic, char *answer, size_t bytes)
{
	snprintf(asked, sizeof(asked), "migrate %s", nic);
	snprintf(answer, bytes, "2 connections\nmove");
	return 0;
}

static int on_failback(const char *nic, char *answer, size_t bytes)
{
	snprintf(asked, sizeof(asked), "failback %s", nic ? nic : "all");
	snprintf(answer, bytes, "no such NIC");
	return nic ? -ENODEV : 0;
}

static int on_qp_error(uint32_t qpn, char *answer, size_t bytes)
{
	snprintf(asked, sizeof(asked), "qp-error %u", qpn);
	memset(answer, 'x', bytes - 1); /* as long as there is room */
	answer[bytes - 1] = 0;
	return 0;
}

static const struct control_calls calls = {on_migrate, on_failback, on_qp_error};

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_control.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/1.stats", dir);
	*asked = 0;
	assert_int_equal(control_open(path, &calls), 0);
	snprintf(path, sizeof(path), "%s/1.sock", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	control_close();
	assert_int_equal(fake_bg_watched(), 0);
	return rmdir(dir);
}

static int dial_only(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static int dial(void)
{
	int fd = dial_only();

	while (fake_bg_turn(0) > 0)
		;
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	for (int i = 0; i < 20; i++)
		fake_bg_turn(0);
}

static void hear(int fd, const char *text)
{
	char got[4096] = "";
	ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

	assert_true(n > 0);
	assert_string_equal(got, text);
}

static void commands_are_answered(void **state)
{
	int fd = dial();

	(void)state;
	say(fd, "ping\n");
	hear(fd, "ok\n");
	say(fd, "version\n");
	hear(fd, "ok " PACKAGE_VERSION "\n");
	say(fd, "migrate mlx5_0\n");
	hear(fd, "ok 2 connections move\n");
	assert_string_equal(asked, "migrate mlx5_0");
	say(fd, "failback\n");
	hear(fd, "ok no such NIC\n");
	assert_string_equal(asked, "failback all");
	say(fd, "failback mlx9\r\n");
	hear(fd, "error no such NIC\n");
	assert_string_equal(asked, "failback mlx9");
	close(fd);
}

static void nonsense_is_refused(void **state)
{
	static const char *const lines[] = {"\n",
					    "migrate\n",
					    "Ping\n",
					    "ping x\n",
					    "qp-error\n",
					    "qp-error 0x1000000\n",
					    "qp-error -1\n",
					    "qp-error 1x\n",
					    "sudo reboot\n"};
	int fd = dial();
	char got[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		say(fd, lines[i]);
		memset(got, 0, sizeof(got));
		assert_true(recv(fd, got, sizeof(got) - 1, 0) > 0);
		assert_int_equal(strncmp(got, "error ", 6), 0);
		assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
	}
	assert_string_equal(asked, "");
	close(fd);
}

static void pieces_and_several_at_once(void **state)
{
	int fd = dial();

	(void)state;
	say(fd, "pi");
	say(fd, "ng\nping\nver");
	hear(fd, "ok\nok\n");
	say(fd, "sion\n");
	hear(fd, "ok " PACKAGE_VERSION "\n");
	close(fd);
}

static void a_line_without_end_is_hung_up_on(void **state)
{
	char line[257];
	int fd = dial();

	(void)state;
	memset(line, 'a', 256);
	line[256] = 0;
	say(fd, line);
	hear(fd, "error the line is too long\n");
	assert_int_equal(recv(fd, line, 1, 0), 0);
	close(fd);
}

static void the_longest_answer(void **state)
{
	int fd = dial();
	char got[4096] = "";

	(void)state;
	say(fd, "qp-error 17\n");
	assert_string_equal(asked, "qp-error 17");
	assert_true(recv(fd, got, sizeof(got) - 1, 0) < 1024);
	assert_int_equal(got[strlen(got) - 1], '\n');
	close(fd);
}

static void who_does_not_listen_is_not_waited_for(void **state)
{
	int fd = dial(), other;
	char got[1 << 16];
	ssize_t n, all = 0;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		if (send(fd, "qp-error 1\n", 11, MSG_NOSIGNAL) < 0)
			break;
		fake_bg_turn(0);
	}
	other = dial();
	say(other, "ping\n");
	hear(other, "ok\n");
	for (int i = 0; i < 20000 && (n = recv(fd, got, sizeof(got), 0)); i++) {
		all += n > 0 ? n : 0;
		fake_bg_turn(0);
	}
	assert_true(all > 1 << 16);
	assert_int_equal(all % 1011, 0); /* whole answers */
	close(fd);
	close(other);
}

static void a_ninth_takes_the_place_of_the_idlest(void **state)
{
	int fd[9];
	char byte;

	(void)state;
	for (int i = 0; i < 8; i++)
		fd[i] = dial();
	say(fd[0], "ping\n");
	fd[8] = dial();
	assert_int_equal(recv(fd[1], &byte, 1, 0), 0);
	hear(fd[0], "ok\n");
	say(fd[8], "ping\n");
	hear(fd[8], "ok\n");
	for (int i = 0; i < 9; i++)
		close(fd[i]);
	while (fake_bg_turn(0) > 0)
		;
	assert_int_equal(fake_bg_watched(), 1);
}

/* Returns the limit that was there. */
static struct rlimit forbid_descriptors(void)
{
	int lowest = dup(STDERR_FILENO);
	struct rlimit before, none_left;

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none_left = before;
	none_left.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none_left), 0);
	return before;
}

static void without_descriptors_it_does_not_spin(void **state)
{
	int fd = dial_only(), wakeups = 0;
	struct rlimit before = forbid_descriptors();
	uint64_t end_ns = now_ns() + 500000000;
	char got[16];

	(void)state;
	while (now_ns() < end_ns && wakeups < 1000)
		wakeups += fake_bg_turn(10);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_in_range(wakeups, 1, 10);
	/* The one that waited is served when there are descriptors again. */
	send(fd, "ping\n", 5, MSG_NOSIGNAL);
	for (int i = 0; i < 200 && recv(fd, got, 1, MSG_PEEK) < 0; i++)
		fake_bg_turn(10);
	hear(fd, "ok\n");
	close(fd);
}

static void a_pause_ends_with_the_socket(void **state)
{
	int fd = dial_only();
	struct rlimit before = forbid_descriptors();

	(void)state;
	fake_bg_turn(10);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(fake_bg_watched(), 0);
	control_close();
	for (int i = 0; i < 30; i++)
		fake_bg_turn(10);
	assert_int_equal(fake_bg_watched(), 0);
	close(fd);
}

static void only_its_owner_may_open_it(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void descriptors_that_the_program_took_are_left_alone(void **state)
{
	int fd = dial(), file;

	(void)state;
	close_range(3, ~0U, 0); /* as daemons do */
	file = open("/dev/null", O_RDONLY);
	assert_true(file >= 0);
	for (int i = 0; i < 20; i++)
		assert_true(open("/dev/null", O_RDONLY) >= 0);
	control_close();
	assert_true(fcntl(file, F_GETFD) >= 0);
	for (int i = 0; i <= 20; i++)
		assert_true(fcntl(file + i, F_GETFD) >= 0);
	(void)fd;
}

static int after_close_range(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(commands_are_answered),
		TEST(nonsense_is_refused),
		TEST(pieces_and_several_at_once),
		TEST(a_line_without_end_is_hung_up_on),
		TEST(the_longest_answer),
		TEST(who_does_not_listen_is_not_waited_for),
		TEST(a_ninth_takes_the_place_of_the_idlest),
		TEST(without_descriptors_it_does_not_spin),
		TEST(a_pause_ends_with_the_socket),
		TEST(only_its_owner_may_open_it),
		/* Last: it closes what the others need. */
		cmocka_unit_test_setup_teardown(descriptors_that_the_program_took_are_left_alone,
						begin, after_close_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
