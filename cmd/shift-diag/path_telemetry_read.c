/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The reader of shift-telemetry(5). */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

enum { NODE_BYTES = 40, PORT_BYTES = 16 };

struct reader {
	const char *name; /* of the file */
	size_t line;
	struct telemetry *t;
	uint64_t began_ns;
	const char *why; /* a record is no good */
};

/* ---- members
 * --------------------------------------------------------------------------------------- */

static const char *get_text(struct reader *in, const cJSON *o, const char *name, size_t bytes)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	if (!text || !*text || strlen(text) >= bytes) {
		in->why = "a name is missing, empty or too long";
		return NULL;
	}
	return text;
}

/* A whole number that a double has exactly. */
static bool get_number(struct reader *in, const cJSON *o, const char *name, bool required,
		       uint64_t *v)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
	double d = cJSON_IsNumber(item) ? item->valuedouble : -1;

	*v = 0;
	if (!required && (!item || cJSON_IsNull(item)))
		return true;
	if (!(d >= 0) || d > 9007199254740992.0 || d != floor(d)) {
		in->why = "a number is missing, negative, not whole or too large";
		return false;
	}
	*v = (uint64_t)d;
	return true;
}

static bool get_time(struct reader *in, const cJSON *o, const char *name, uint64_t *v)
{
	if (!get_number(in, o, name, true, v))
		return false;
	*v += in->began_ns;
	return true;
}

/* The port that an object names by (switch or host) and port, with this in front. */
static int get_port(struct reader *in, const cJSON *o, const char *prefix)
{
	char on_switch[32], on_host[32], number[32];
	const char *node, *port;
	bool is_host;
	int found;

	snprintf(on_switch, sizeof(on_switch), "%sswitch", prefix);
	snprintf(on_host, sizeof(on_host), "%shost", prefix);
	snprintf(number, sizeof(number), "%sport", prefix);
	is_host = !cJSON_GetObjectItemCaseSensitive(o, on_switch);
	node = get_text(in, o, is_host ? on_host : on_switch, NODE_BYTES);
	port = get_text(in, o, number, PORT_BYTES);
	if (!node || !port)
		return PATH_NONE;
	found = tele_port_find(in->t, node, port, is_host);
	if (found == PATH_NONE)
		in->why = "there are too many ports";
	return found;
}

static int get_flow(struct reader *in, const cJSON *o)
{
	const char *name = get_text(in, o, "flow", PATH_NAME_BYTES);
	int flow = name ? tele_flow_find(in->t, name) : PATH_NONE;

	if (name && flow == PATH_NONE)
		in->why = "there are too many flows";
	return flow;
}

/* ---- records
 * ---------------------------------------------------------------------------------------- */

static bool take_header(struct reader *in, const cJSON *o)
{
	const char *format = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "format"));
	const char *began = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "began"));
	uint64_t version;
	char *end;

	if (!format || strcmp(format, "shift-telemetry")) {
		in->why = "its format is not shift-telemetry";
		return false;
	}
	if (!get_number(in, o, "version", true, &version))
		return false;
	if (version != 1) {
		in->why = "it is of another version than 1";
		return false;
	}
	errno = 0;
	in->began_ns = began && *began >= '0' && *began <= '9' ? strtoull(began, &end, 10) : 0;
	if (!began || errno || !in->began_ns || *end || in->began_ns > UINT64_MAX / 2) {
		in->why = "began is not a string with a number of ns";
		return false;
	}
	return true;
}

static bool take_line(struct reader *in, const cJSON *o)
{
	struct tele_line line = {.flow = PATH_NONE};
	uint64_t packets, paused;

	line.flow = get_flow(in, o);
	if (line.flow == PATH_NONE || !get_number(in, o, "packets", true, &packets) ||
	    !get_number(in, o, "paused_packets", false, &paused) ||
	    !get_number(in, o, "depth_packets", false, &line.depth))
		return false;
	if (packets > UINT32_MAX || paused > UINT32_MAX) {
		in->why = "more packets than 32 bits";
		return false;
	}
	line.packets = (uint32_t)packets;
	line.paused = (uint32_t)paused;
	tele_line_add(in->t, line);
	return true;
}

static bool take_sample(struct reader *in, const cJSON *o)
{
	const cJSON *flows = cJSON_GetObjectItemCaseSensitive(o, "flows"), *f;
	size_t samples = in->t->sample_n, lines = in->t->line_n;
	int port = get_port(in, o, "");
	struct tele_sample s = {.port = port};
	bool ok = port != PATH_NONE && get_time(in, o, "t_ns", &s.t_ns) &&
		  get_number(in, o, "packets", true, &s.packets) &&
		  get_number(in, o, "paused_packets", false, &s.paused) &&
		  get_number(in, o, "depth_packets", false, &s.depth);

	if (ok && cJSON_GetArraySize(flows) > TELE_LINES_MAX) {
		in->why = "a port has too many flows";
		ok = false;
	}
	if (!ok)
		return false;
	s.first_line = lines;
	*tele_sample_add(in->t, s.t_ns, port) = s;
	cJSON_ArrayForEach (f, flows)
		ok = ok && take_line(in, f);
	if (ok)
		return true;
	in->t->sample_n = samples;
	in->t->line_n = lines;
	return false;
}

static bool take_meter(struct reader *in, const cJSON *o)
{
	struct tele_meter m = {.from = get_port(in, o, "from_"), .to = get_port(in, o, "")};

	if (m.from == PATH_NONE || m.to == PATH_NONE || !get_time(in, o, "t_ns", &m.t_ns) ||
	    !get_number(in, o, "bytes", true, &m.bytes))
		return false;
	tele_meter_add(in->t, m);
	return true;
}

static bool take_pause(struct reader *in, const cJSON *o)
{
	struct tele_pause p = {.port = get_port(in, o, ""), .end_ns = UINT64_MAX};
	bool ended = cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(o, "end_ns"));

	if (p.port == PATH_NONE || !get_time(in, o, "t_ns", &p.t_ns) ||
	    (ended && !get_time(in, o, "end_ns", &p.end_ns)))
		return false;
	if (p.end_ns < p.t_ns) {
		in->why = "a pause ends before it begins";
		return false;
	}
	tele_pause_add(in->t, p);
	return true;
}

static bool take_link(struct reader *in, const cJSON *o)
{
	int a = get_port(in, o, ""), b = get_port(in, o, "peer_");

	if (a == PATH_NONE || b == PATH_NONE)
		return false;
	if (a == b) {
		in->why = "a link from a port to itself";
		return false;
	}
	in->t->port[a].peer = b;
	in->t->port[b].peer = a;
	return true;
}

static bool take_equal(struct reader *in, const cJSON *o)
{
	const char *node = get_text(in, o, "switch", NODE_BYTES);
	const cJSON *p;

	if (!node)
		return false;
	cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(o, "ports")) {
		const char *name = cJSON_GetStringValue(p);
		int port = name && *name && strlen(name) < PORT_BYTES
				   ? tele_port_find(in->t, node, name, false)
				   : PATH_NONE;

		if (port == PATH_NONE) {
			in->why = "not the name of a port";
			return false;
		}
		in->t->port[port].group = in->t->groups;
	}
	in->t->groups++;
	return true;
}

static bool take_flow(struct reader *in, const cJSON *o)
{
	int flow = get_flow(in, o);

	return flow != PATH_NONE && get_time(in, o, "start_ns", &in->t->flow[flow].start_ns);
}

static bool take_record(struct reader *in, const cJSON *o)
{
	static const struct {
		const char *name;
		bool (*take)(struct reader *in, const cJSON *o);
	} types[] = {{"port", take_sample}, {"meter", take_meter}, {"pause", take_pause},
		     {"link", take_link},   {"equal", take_equal}, {"flow", take_flow}};
	const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "record"));

	if (!type) {
		in->why = "not an object with a member record";
		return false;
	}
	if (!in->began_ns) {
		in->why = "the first line is not a header";
		return !strcmp(type, "header") && take_header(in, o);
	}
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(type, types[i].name))
			return types[i].take(in, o);
	return true;
}

/* ---- files
 * ------------------------------------------------------------------------------------------ */

int path_parse_telemetry(const char *name, char *text, struct telemetry *t)
{
	struct reader in = {.name = name, .t = t};

	while (*text) {
		char *line = text, *end = strchr(text, '\n');
		cJSON *o;
		bool ok;

		if (end)
			*end = 0;
		text = end ? end + 1 : text + strlen(text);
		in.line++;
		if (!line[strspn(line, " \t\r")])
			continue;
		o = cJSON_Parse(line);
		in.why = "not an object with a member record";
		ok = o && take_record(&in, o);
		cJSON_Delete(o);
		if (ok)
			continue;
		say("%s:%zu: %s; see shift-telemetry(5)", name, in.line, in.why);
		return -EINVAL;
	}
	if (in.began_ns)
		return 0;
	say("%s: it is empty; see shift-telemetry(5)", name);
	return -EINVAL;
}

static int is_telemetry(const struct dirent *e)
{
	size_t length = strlen(e->d_name);

	return length > 10 && !strcmp(e->d_name + length - 10, ".telemetry");
}

int path_read_telemetry(const char *dir, struct telemetry *t)
{
	struct dirent **list;
	int n = scandir(dir, &list, is_telemetry, alphasort), status = 0;

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		char *path = NULL, *text;

		if (!status && asprintf(&path, "%s/%s", dir, list[i]->d_name) < 0)
			check_alloc(path = NULL);
		if (path && (text = path_read_file(path))) {
			status = path_parse_telemetry(path, text, t);
			free(text);
		} else if (path) {
			status = -errno;
			say("%s: %s", path, strerror(-status));
		}
		free(path);
		free(list[i]);
	}
	free(list);
	return status ? status : n;
}
