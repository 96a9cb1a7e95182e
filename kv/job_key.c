/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "kv/job_key.h"
#include "lib/core/siphash.h"

static const char variable[] = "SHIFT_JOB_KEY";

int read_secret_file(const char *path, char *data, int size, int status)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int n;

	if (fd < 0 || fstat(fd, &st))
		die(status, "%s: %s", path, strerror(errno));
	check_secret_file(path, &st, status);
	n = read(fd, data, size);
	if (n < 0)
		die(status, "%s: %s", path, strerror(errno));
	close(fd);
	return n;
}

const char *read_user_file(const char *path, char *data, int size, int status)
{
	int n = read_secret_file(path, data, size, status);
	char *colon;

	if (n == size)
		die(status, "%s: longer than %d bytes", path, size - 1);
	data[n] = 0;
	data[strcspn(data, "\r\n")] = 0; /* how editors end a line is no part of a password */
	colon = strchr(data, ':');
	if (!colon || colon == data)
		die(status, "%s: not USER:PASSWORD", path);
	*colon = 0;
	return colon + 1;
}

const char *open_key_warning(const char *path)
{
	struct stat st;

	if (stat(path, &st) || !(st.st_mode & 077))
		return NULL;
	return format_text("%s: others can use the key of our certificate (mode %04o); try: chmod "
			   "0600 %s",
			   path, st.st_mode & 07777, path);
}

void job_key_read(uint8_t key[KV_JOB_KEY_BYTES], const char *path, int status)
{
	char data[KV_JOB_KEY_BYTES + 1];

	if (read_secret_file(path, data, sizeof(data), status) != KV_JOB_KEY_BYTES)
		die(status, "%s: not %d bytes; try: head -c 16 /dev/urandom", path,
		    KV_JOB_KEY_BYTES);
	memcpy(key, data, KV_JOB_KEY_BYTES);
	explicit_bzero(data, sizeof(data));
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (at - digits) % 16 : -1;
}

bool job_key_take(uint8_t key[KV_JOB_KEY_BYTES], int status)
{
	char *text = getenv(variable);
	size_t n = text ? strlen(text) : 0;
	bool good = n == 2 * KV_JOB_KEY_BYTES;

	if (!n)
		return false;
	for (int i = 0; good && i < KV_JOB_KEY_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		good = high >= 0 && low >= 0;
		key[i] = high << 4 | low;
	}
	explicit_bzero(text, n);
	unsetenv(variable);
	if (!good)
		die(status, "%s: not %d hexadecimal digits; try: openssl rand -hex 16", variable,
		    2 * KV_JOB_KEY_BYTES);
	return true;
}

int job_key_pipe(const uint8_t key[KV_JOB_KEY_BYTES], int status)
{
	int p[2];

	if (pipe(p) || write(p[1], key, KV_JOB_KEY_BYTES) != KV_JOB_KEY_BYTES)
		die(status, "no pipe for the job key: %s", strerror(errno));
	close(p[1]);
	return p[0];
}

void job_key_receive(uint8_t key[KV_JOB_KEY_BYTES], int fd, int status)
{
	uint8_t data[KV_JOB_KEY_BYTES + 1];
	ssize_t n = read(fd, data, sizeof(data));

	if (n != KV_JOB_KEY_BYTES)
		die(status, "--key-fd %d: %s", fd, n < 0 ? strerror(errno) : "not 16 bytes");
	memcpy(key, data, KV_JOB_KEY_BYTES);
	explicit_bzero(data, sizeof(data));
	close(fd);
}

void job_key_id(uint8_t id[JOB_KEY_ID_BYTES], const uint8_t key[KV_JOB_KEY_BYTES])
{
	static const char purpose[] = "shift: the id of a job key";
	uint64_t words[2] = {0}, hash;

	for (int i = 0; i < KV_JOB_KEY_BYTES; i++)
		words[i / 8] |= (uint64_t)key[i] << 8 * (i % 8);
	hash = shift_siphash(words, purpose, sizeof(purpose) - 1);
	explicit_bzero(words, sizeof(words));
	for (int i = 0; i < JOB_KEY_ID_BYTES; i++)
		id[i] = hash >> 8 * i;
}

void job_key_id_text(char text[2 * JOB_KEY_ID_BYTES + 1], const uint8_t key[KV_JOB_KEY_BYTES])
{
	uint8_t id[JOB_KEY_ID_BYTES];

	job_key_id(id, key);
	for (int i = 0; i < JOB_KEY_ID_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}
