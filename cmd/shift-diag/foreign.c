/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-diag/each_file.h"
#include "common/cli.h"

enum { FILE_MAX_BYTES = 64 << 20 };

static const double integer_max = 9007199254740992.0; /* up to which a double has all integers */

static const char *text_of(const cJSON *o, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static bool is_count(const cJSON *o)
{
	return cJSON_IsNumber(o) && o->valuedouble >= 0 && o->valuedouble <= integer_max &&
	       o->valuedouble == floor(o->valuedouble);
}

/* ---- rdma -j statistic ---------------------------------------------------------------------- */

/* An array of ports, each with all its counters. */
static bool is_statistic(const cJSON *json)
{
	const cJSON *port;

	cJSON_ArrayForEach (port, json)
		if (!text_of(port, "ifname") || !is_count(cJSON_GetObjectItem(port, "port")))
			return false;
	return cJSON_IsArray(json) && cJSON_GetArraySize(json);
}

static void name_nic(char *to, const cJSON *port)
{
	int n = cJSON_GetObjectItem(port, "port")->valueint;

	if (n == 1)
		snprintf(to, REC_NAME_BYTES, "%s", text_of(port, "ifname"));
	else
		snprintf(to, REC_NAME_BYTES, "%.40s:%d", text_of(port, "ifname"), n);
}

static void take_statistic(const cJSON *json, const char *host, uint64_t t_ns, struct records *r)
{
	struct rec_file *f = check_alloc(records_add(r));
	const cJSON *port, *counter;

	snprintf(f->host, sizeof(f->host), "%s", host);
	f->began_ns = f->read_ns = t_ns;
	cJSON_ArrayForEach (port, json)
		cJSON_ArrayForEach (counter, port) {
			struct rec_counter *c;

			if (!is_count(counter) || !strcmp(counter->string, "port") ||
			    !strcmp(counter->string, "ifindex"))
				continue;
			c = check_alloc(rec_add_counter(f));
			c->t_ns = t_ns;
			c->value = counter->valuedouble;
			snprintf(c->name, sizeof(c->name), "%s", counter->string);
			name_nic(c->nic, port);
		}
}

/* ---- ncclras -f json ------------------------------------------------------------------------ */

static bool is_ras(const cJSON *json)
{
	return text_of(json, "nccl_version") &&
	       cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, "communicators"));
}

static uint64_t time_of(const cJSON *json, uint64_t otherwise_ns)
{
	const char *text = text_of(json, "timestamp");
	struct tm tm = {0};

	if (!text || !strptime(text, "%Y-%m-%d %H:%M:%S", &tm))
		return otherwise_ns;
	return (uint64_t)timegm(&tm) * 1000000000u;
}

static void take_ras(cJSON *json, uint64_t t_ns, struct foreign *f)
{
	f->ras = check_alloc(reallocarray(f->ras, f->ras_n + 1, sizeof(*f->ras)));
	f->ras[f->ras_n++] = (struct ras_snapshot){time_of(json, t_ns), json};
}

/* NCCL 2.28 writes no comma between "nvml_dev" and "status" of a missing rank. */
static cJSON *parse_without_comma(const char *text)
{
	static const char before[] = "\"nvml_dev\": ";
	char *copy = check_alloc(strdup(text)), *at = copy;
	cJSON *json;

	while ((at = strstr(at, before))) {
		char *end;

		at += strlen(before);
		end = at + strspn(at, "-0123456789");
		if (*end == '\n' && !strncmp(end + 1 + strspn(end + 1, " "), "\"status\"", 8))
			*end = ',';
	}
	json = cJSON_Parse(copy);
	free(copy);
	return json;
}

/* ---- files ---------------------------------------------------------------------------------- */

int foreign_read_text(const char *text, const char *path, const char *host, uint64_t t_ns,
		      struct foreign *f, struct records *r)
{
	cJSON *json = cJSON_ParseWithOpts(text, NULL, true);

	if (!json)
		json = parse_without_comma(text);
	if (!json) {
		say("%s: not used: not JSON, or cut off", path);
		return 0;
	}
	if (is_ras(json)) {
		take_ras(json, t_ns, f);
		return 1;
	}
	if (is_statistic(json)) {
		take_statistic(json, host, t_ns, r);
		cJSON_Delete(json);
		return 1;
	}
	say("%s: not used: neither of ncclras -f json nor of rdma -j statistic", path);
	cJSON_Delete(json);
	return 0;
}

/* HOST.rdma.SECONDS.json, HOST.rdma.json, HOST.json */
static void parse_name(const char *path, char host[REC_NAME_BYTES], uint64_t *t_ns)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *mark, *end;
	size_t n = strlen(name) - strlen(".json");
	long long seconds;

	for (mark = name; (mark = strstr(mark, ".rdma."));) {
		end = mark + strlen(".rdma.");
		if (!strcmp(end, "json"))
			n = (size_t)(mark - name);
		seconds = strtoll(end, (char **)(uintptr_t)&end, 10);
		if (seconds > 0 && seconds < INT64_MAX / 1000000000 && !strcmp(end, ".json")) {
			n = (size_t)(mark - name);
			*t_ns = (uint64_t)seconds * 1000000000u;
		}
		mark++;
	}
	snprintf(host, REC_NAME_BYTES, "%.*s", (int)(n < REC_NAME_BYTES ? n : REC_NAME_BYTES - 1),
		 name);
}

/* To be freed. NULL, and errno: it cannot be read. */
static char *text_of_file(const char *path, uint64_t *t_ns)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	ssize_t n = 1;
	size_t len = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES) {
		close(fd);
		errno = S_ISREG(st.st_mode) ? EFBIG : EINVAL;
		return NULL;
	}
	*t_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
	text = check_alloc(malloc((size_t)st.st_size + 1));
	while (n > 0 && len < (size_t)st.st_size) {
		n = read(fd, text + len, (size_t)st.st_size - len);
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = 0;
	close(fd);
	return text;
}

struct reading {
	struct foreign *foreign;
	struct records *records;
};

static int read_file(void *arg, const char *path)
{
	const struct reading *to = arg;
	char host[REC_NAME_BYTES], *text;
	uint64_t t_ns = 0;
	int used;

	text = text_of_file(path, &t_ns);
	if (!text)
		return -errno;
	parse_name(path, host, &t_ns);
	used = foreign_read_text(text, path, host, t_ns, to->foreign, to->records);
	free(text);
	return used;
}

int foreign_read(const char *path, struct foreign *f, struct records *r)
{
	struct reading to = {f, r};

	return each_file(path, ".json", read_file, &to);
}

void foreign_free(struct foreign *f)
{
	for (size_t i = 0; i < f->ras_n; i++)
		cJSON_Delete(f->ras[i].json);
	free(f->ras);
}
