/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How the gateway writes bytes and integers. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kv/etcd.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

struct cJSON *etcd_add_bytes(struct cJSON *o, const char *name, const void *data, size_t bytes)
{
	char *text = malloc((bytes + 2) / 3 * 4 + 1), *t = text;
	const uint8_t *p = data;
	cJSON *item;

	for (size_t i = 0; text && i < bytes; i += 3) {
		size_t left = bytes - i;
		uint32_t v = p[i] << 16;

		v |= (left > 1 ? p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
		*t++ = digits[v >> 18];
		*t++ = digits[v >> 12 & 63];
		*t++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*t++ = left > 2 ? digits[v & 63] : '=';
	}
	if (t)
		*t = 0;
	item = cJSON_AddStringToObject(o, name, text ? text : "");
	free(text);
	return item;
}

static int digit_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

uint8_t *etcd_bytes(const struct cJSON *o, const char *name, size_t *bytes)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);
	const char *s = cJSON_IsString(item) ? item->valuestring : NULL;
	size_t n = s ? strcspn(s, "=") : 0;
	uint8_t *data = s ? malloc(n + 1) : NULL;
	uint32_t v = 0;

	*bytes = 0;
	for (size_t i = 0; data && i < n; i++) {
		int d = digit_of(s[i]);

		if (d < 0) {
			free(data);
			return NULL;
		}
		v = v << 6 | (uint32_t)d;
		if (i % 4)
			data[(*bytes)++] = v >> (6 - 2 * (i % 4));
	}
	if (data)
		data[*bytes] = 0;
	return data;
}

void etcd_add_int(struct cJSON *o, const char *name, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, n);
	cJSON_AddStringToObject(o, name, text);
}

int64_t etcd_int(const struct cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);
	char *end;
	int64_t n;

	if (cJSON_IsNumber(item))
		return item->valuedouble > -0x1p53 && item->valuedouble < 0x1p53
			       ? (int64_t)item->valuedouble
			       : 0;
	if (!cJSON_IsString(item))
		return 0;
	errno = 0;
	n = strtoll(item->valuestring, &end, 10);
	return *end || errno ? 0 : n;
}

int64_t etcd_revision(const struct cJSON *o, const char *name)
{
	int64_t n = etcd_int(o, name);

	return n > 0 && n <= ETCD_REVISION_MAX ? n : 0;
}

bool etcd_is_busy(int code, const char *text)
{
	enum { UNKNOWN = 2, DEADLINE_EXCEEDED = 4, RESOURCE_EXHAUSTED = 8, UNAVAILABLE = 14 };

	return code == ETCD_BUSY || code == DEADLINE_EXCEEDED || code == UNAVAILABLE ||
	       (code == RESOURCE_EXHAUSTED && !strstr(text, ETCD_NO_SPACE)) ||
	       (code == UNKNOWN && (strstr(text, "timed out") || strstr(text, "too long")));
}

/* "error" is a text in a single answer and an object in a stream. The texts are etcd's own. */
int etcd_code_of(const struct cJSON *reply, const char **text)
{
	const cJSON *error = cJSON_GetObjectItem(reply, "error"), *code, *message;
	const cJSON *in = cJSON_IsObject(error) ? error : reply;

	if (!error)
		return ETCD_OK;
	code = cJSON_GetObjectItem(in, in == error ? "grpc_code" : "code");
	message = cJSON_GetObjectItem(in, "message");
	if (!cJSON_IsString(message))
		message = error;
	*text = cJSON_IsString(message) ? message->valuestring : "an error without a text";
	return cJSON_IsNumber(code) && code->valueint > 0 ? code->valueint : ETCD_NO_ANSWER;
}

static const int64_t presence_mark = 0x7368; /* of the upper 16 bits; a job's lease may have it */

int64_t etcd_presence_lease(void)
{
	uint64_t n;

	if (getrandom(&n, sizeof(n), 0) != sizeof(n))
		n = (uintptr_t)&n;
	return presence_mark << 48 | n >> 16;
}

bool etcd_is_presence_lease(int64_t lease)
{
	return lease >> 48 == presence_mark;
}
