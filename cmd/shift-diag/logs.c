/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/logs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/shift-diag/each_file.h"
#include "common/cli.h"

enum { LINE_BYTES = 4096, SHOWN_BYTES = 200, HITS_PER_FILE_MAX = 100000 };

static const char link_down[] = "link down", link_up[] = "link up";

struct pattern {
	const char *text, *also; /* both are in the line, in this order; also may be NULL */
	enum log_severity severity;
	const char *means;
};

/* The first one that fits. Xids are below. */
static const struct pattern patterns[] = {
	/* Linux */
	{"ut of memory: Killed process", NULL, LOG_CRITICAL, "killed as memory ran out"},
	{"Machine Check Exception", NULL, LOG_CRITICAL, "machine check"},
	{"Uncorrected hardware memory error", NULL, LOG_CRITICAL, "uncorrected memory error"},
	{"Machine check events logged", NULL, LOG_BENIGN, "corrected machine check"},
	{"severity=Uncorrectable (Fatal)", NULL, LOG_CRITICAL, "fatal PCIe error"},
	{"severity=Correct", NULL, LOG_BENIGN, "corrected PCIe error"},
	{"temperature", "above threshold, cpu clock", LOG_CRITICAL, "overheated"},
	{"Kernel panic - not syncing", NULL, LOG_CRITICAL, "kernel panic"},
	/* drivers of NICs */
	{"health compromised", NULL, LOG_CRITICAL, "NIC's firmware does not answer"},
	{"High temperature on sensors", NULL, LOG_CRITICAL, "NIC overheated"},
	{"Link down", NULL, LOG_CRITICAL, link_down},
	{"Link is Down", NULL, LOG_CRITICAL, link_down},
	{"Link up", NULL, LOG_BENIGN, link_up},
	{"Link is Up", NULL, LOG_BENIGN, link_up},
	/* communication */
	{"onnection reset by peer", NULL, LOG_DISTRIBUTED, "connection reset by peer"},
	{"Watchdog caught collective operation timeout", NULL, LOG_DISTRIBUTED,
	 "collective timed out"},
	{"Got completion from peer", "with status=", LOG_DISTRIBUTED, "completion with an error"},
	{"transport retry counter exceeded", NULL, LOG_DISTRIBUTED, "retries exceeded"},
	{"RNR retry counter exceeded", NULL, LOG_DISTRIBUTED, "RNR retries exceeded"},
	{"remote access error", NULL, LOG_DISTRIBUTED, "remote access error"},
};

/* Numbers of the NVIDIA driver's Xid; others mean too many things, or the program's own error. */
static const struct {
	int xid;
	enum log_severity severity;
	const char *means;
} xids[] = {
	{48, LOG_CRITICAL, "Xid 48: double-bit ECC error"},
	{63, LOG_BENIGN, "Xid 63: memory row remapped or page retired"},
	{64, LOG_BENIGN, "Xid 64: memory row remapped or page retired"},
	{74, LOG_CRITICAL, "Xid 74: NVLink error"},
	{79, LOG_CRITICAL, "Xid 79: GPU has fallen off the bus"},
	{94, LOG_CRITICAL, "Xid 94: uncorrectable ECC error, contained"},
	{95, LOG_CRITICAL, "Xid 95: uncorrectable ECC error, not contained"},
};

/* "NVRM: Xid (PCI:0000:41:00): 79, ..." */
static bool judge_xid(const char *line, struct log_hit *h)
{
	const char *at = strstr(line, "Xid (");
	int xid;

	at = at ? strstr(at, "): ") : NULL;
	if (!at || sscanf(at, "): %d", &xid) != 1)
		return false;
	for (size_t i = 0; i < sizeof(xids) / sizeof(*xids); i++)
		if (xids[i].xid == xid) {
			h->severity = xids[i].severity;
			h->means = xids[i].means;
		}
	return true;
}

/* "2026-11-28T08:46:48,123456+00:00", as dmesg and journalctl write it. 0: the line has none, or
 * not when it was in UTC. */
static uint64_t line_time(const char *line)
{
	struct tm tm = {0};
	char zone[8] = "", fraction[10] = "";
	unsigned int hours = 0, minutes = 0;
	int n = 0;
	time_t s;
	uint64_t ns;

	if (sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 6)
		return 0;
	line += n;
	n = 0;
	if (*line == '.' || *line == ',')
		sscanf(line + 1, "%9[0-9]%n", fraction, &n);
	sscanf(line + (*fraction ? 1 + n : 0), "%7[-+Z0-9:]", zone);
	if (*zone != 'Z' && sscanf(zone + 1, "%2u:%2u", &hours, &minutes) < 1)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	s = timegm(&tm);
	s -= (*zone == '-' ? -1 : 1) * (time_t)(hours * 3600 + minutes * 60);
	if (s <= 0)
		return 0;
	ns = strtoull(fraction, NULL, 10);
	for (size_t i = strlen(fraction); i < 9; i++)
		ns *= 10;
	return (uint64_t)s * 1000000000 + ns;
}

struct log_hit log_line_judge(const char *line)
{
	struct log_hit h = {.t_ns = 0};

	if (judge_xid(line, &h)) {
		h.t_ns = h.means ? line_time(line) : 0;
		return h;
	}
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		const struct pattern *p = patterns + i;
		const char *at = strstr(line, p->text);

		if (!at || (p->also && !strstr(at, p->also)))
			continue;
		h.severity = p->severity;
		h.means = p->means;
		h.t_ns = line_time(line);
		return h;
	}
	return h;
}

/* The device of "... mlx5_core 0000:41:00.0 eth2: Link up": the word before. */
static bool is_same_device(const char *a, const char *b)
{
	const char *x = strstr(a, "Link "), *y = strstr(b, "Link ");
	size_t n = 0;

	if (!x || !y)
		return false;
	x -= x > a;
	y -= y > b;
	while (x > a + n && y > b + n && x[-1 - (ptrdiff_t)n] == y[-1 - (ptrdiff_t)n] &&
	       x[-1 - (ptrdiff_t)n] != ' ')
		n++;
	return n && (x == a + n || x[-1 - (ptrdiff_t)n] == ' ');
}

static void take_back_link_down(struct logs *l, size_t first, const char *line)
{
	for (size_t i = l->hits; i > first; i--)
		if (l->hit[i - 1].means == link_down && is_same_device(l->hit[i - 1].line, line))
			l->hit[i - 1].severity = LOG_BENIGN;
}

void logs_read_stream(FILE *in, const char *host, struct logs *l)
{
	size_t first = l->hits;
	char line[LINE_BYTES];

	l->files++;
	while (fgets(line, sizeof(line), in) && l->hits - first < HITS_PER_FILE_MAX) {
		struct log_hit h = log_line_judge(line);

		if (!h.means)
			continue;
		if (h.means == link_up)
			take_back_link_down(l, first, line);
		snprintf(h.host, sizeof(h.host), "%s", host);
		line[strcspn(line, "\r\n")] = 0;
		h.line = check_alloc(strndup(line, SHOWN_BYTES));
		l->hit = check_alloc(reallocarray(l->hit, l->hits + 1, sizeof(*l->hit)));
		l->hit[l->hits++] = h;
	}
}

static int read_file(void *l, const char *path)
{
	const char *name = strrchr(path, '/');
	char host[REC_NAME_BYTES];
	struct stat st;
	FILE *in;

	if (stat(path, &st))
		return -errno;
	in = S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
	if (!in)
		return S_ISREG(st.st_mode) ? -errno : -EINVAL;
	snprintf(host, sizeof(host), "%s", name ? name + 1 : path);
	if (has_ending(host, ".log"))
		host[strlen(host) - 4] = 0;
	logs_read_stream(in, host, l);
	fclose(in);
	return 1;
}

int logs_read(const char *path, struct logs *l)
{
	return each_file(path, ".log", read_file, l);
}

void logs_free(struct logs *l)
{
	for (size_t i = 0; i < l->hits; i++)
		free(l->hit[i].line);
	free(l->hit);
	*l = (struct logs){0};
}
