/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The reader of shift-records(5). A file may be of a process that crashed, and is written while it
 * is read: a line that makes no sense is counted and told, and the others are used.
 */
#include "cmd/shift-diag/records.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli.h"

/* A record of epochs of some seconds has a megabyte. */
enum { LINE_MAX_BYTES = 16 << 20, RANKS_MAX = 1 << 20, REASON_BYTES = 160 };

/* The largest number up to which a double has all integers. */
static const double integer_max = 9007199254740992.0;

enum kind {
	KIND_TIME, /* from the header's began */
	KIND_U64,
	KIND_U32,
	KIND_INDEX, /* REC_NONE if it is missing */
	KIND_I64,   /* the same */
	KIND_DOUBLE,
	KIND_BOOL,
	KIND_NAME, /* of something: another with the same beginning is not the same thing */
	KIND_TEXT, /* is cut */
};

struct field {
	const char *name;
	enum kind kind;
	size_t offset;
	bool required;
};

struct reader {
	const char *path;
	struct rec_file *file;
	uint64_t line;
	char reason[REASON_BYTES];
	uint64_t first_bad; /* line; 0: none */
	char first_reason[REASON_BYTES];
};

static void because(struct reader *in, const char *what, const char *why)
{
	snprintf(in->reason, sizeof(in->reason), "%.60s: %s", what, why);
}

/* ---- members -------------------------------------------------------------------------------- */

static bool is_integer(const cJSON *o, double max)
{
	double n = cJSON_IsNumber(o) ? o->valuedouble : -1;

	return n >= 0 && n <= max && n == floor(n);
}

static bool take_time(const struct reader *in, uint64_t *to, const cJSON *o)
{
	if (!is_integer(o, integer_max))
		return false;
	*to = in->file->began_ns + (uint64_t)o->valuedouble;
	return true;
}

static bool take_number(enum kind kind, void *to, const cJSON *o)
{
	static const double max[] = {[KIND_U64] = 9007199254740992.0,
				     [KIND_I64] = 9007199254740992.0,
				     [KIND_U32] = UINT32_MAX,
				     [KIND_INDEX] = INT_MAX};

	if (!is_integer(o, max[kind]))
		return false;
	if (kind == KIND_U64)
		*(uint64_t *)to = (uint64_t)o->valuedouble;
	else if (kind == KIND_I64)
		*(int64_t *)to = (int64_t)o->valuedouble;
	else if (kind == KIND_U32)
		*(uint32_t *)to = (uint32_t)o->valuedouble;
	else
		*(int *)to = (int)o->valuedouble;
	return true;
}

static bool take_text(char *to, const cJSON *o, bool whole)
{
	if (!cJSON_IsString(o) || (whole && strlen(o->valuestring) >= REC_NAME_BYTES))
		return false;
	snprintf(to, REC_NAME_BYTES, "%s", o->valuestring);
	return true;
}

static bool take(const struct reader *in, enum kind kind, void *to, const cJSON *o)
{
	switch (kind) {
	case KIND_TIME: return take_time(in, to, o);
	case KIND_U64:
	case KIND_U32:
	case KIND_INDEX:
	case KIND_I64: return take_number(kind, to, o);
	case KIND_DOUBLE:
		*(double *)to = cJSON_IsNumber(o) ? o->valuedouble : NAN;
		return isfinite(*(double *)to);
	case KIND_BOOL: *(bool *)to = cJSON_IsTrue(o); return cJSON_IsBool(o);
	case KIND_NAME: return take_text(to, o, true);
	case KIND_TEXT: return take_text(to, o, false);
	}
	return false;
}

static bool take_fields(struct reader *in, const struct field *f, void *record, const cJSON *o)
{
	for (; f->name; f++) {
		const cJSON *member = cJSON_GetObjectItemCaseSensitive(o, f->name);
		void *to = (char *)record + f->offset;

		if (f->kind == KIND_INDEX)
			*(int *)to = REC_NONE;
		if (f->kind == KIND_I64)
			*(int64_t *)to = REC_NONE;
		if (!member || cJSON_IsNull(member)) {
			if (!f->required)
				continue;
			because(in, f->name, "missing");
			return false;
		}
		if (!take(in, f->kind, to, member)) {
			because(in, f->name, "of the wrong type, or out of range");
			return false;
		}
	}
	return true;
}

/* A duration is never negative: who subtracts need not look. */
static bool in_order(struct reader *in, uint64_t begin, uint64_t end)
{
	if (end && end < begin)
		because(in, "end", "before the beginning");
	return !end || end >= begin;
}

#define NEED(type, member, kind)                                         \
	{                                                                \
#member, kind, offsetof(struct rec_##type, member), true \
	}
#define FIELD(type, member, kind)                                         \
	{                                                                 \
#member, kind, offsetof(struct rec_##type, member), false \
	}
#define FIELD_AS(type, name, member, kind)                             \
	{                                                              \
		name, kind, offsetof(struct rec_##type, member), false \
	}
#define NEED_AS(type, name, member, kind)                             \
	{                                                             \
		name, kind, offsetof(struct rec_##type, member), true \
	}
#define END                               \
	{                                 \
		NULL, KIND_TEXT, 0, false \
	}

/* ---- records -------------------------------------------------------------------------------- */

static const struct field qp_fields[] = {
	FIELD(qp, t_ns, KIND_TIME),    NEED_AS(qp, "qp", id, KIND_U64),	 FIELD(qp, qpn, KIND_U32),
	FIELD(qp, peer_qpn, KIND_U32), FIELD(qp, peer_rank, KIND_INDEX), FIELD(qp, nic, KIND_TEXT),
	FIELD(qp, state, KIND_TEXT),   FIELD(qp, peer_host, KIND_TEXT),	 END};

static const struct field wcerr_fields[] = {
	NEED(wcerr, t_ns, KIND_TIME),	    FIELD(wcerr, qp, KIND_U64),
	FIELD(wcerr, vendor_err, KIND_U32), FIELD(wcerr, peer_rank, KIND_INDEX),
	FIELD(wcerr, hidden, KIND_BOOL),    FIELD(wcerr, nic, KIND_TEXT),
	FIELD(wcerr, status, KIND_TEXT),    FIELD(wcerr, opcode, KIND_TEXT),
	FIELD(wcerr, peer_host, KIND_TEXT), END};

static const struct field async_fields[] = {
	NEED(async, t_ns, KIND_TIME), FIELD(async, qp, KIND_U64), FIELD(async, nic, KIND_TEXT),
	NEED(async, event, KIND_TEXT), END};

static const struct field move_fields[] = {NEED(move, t_ns, KIND_TIME),
					   FIELD(move, end_ns, KIND_TIME),
					   FIELD(move, qp, KIND_U64),
					   FIELD(move, outage_ns, KIND_U64),
					   FIELD(move, from, KIND_TEXT),
					   FIELD(move, to, KIND_TEXT),
					   FIELD(move, cause, KIND_TEXT),
					   FIELD(move, outcome, KIND_TEXT),
					   END};

static const struct field comm_fields[] = {NEED(comm, comm, KIND_NAME),
					   NEED(comm, size, KIND_INDEX),
					   NEED(comm, rank, KIND_INDEX), END};

static const struct field coll_fields[] = {
	NEED(coll, comm, KIND_NAME),	     NEED(coll, seq, KIND_U64),
	NEED(coll, launch_ns, KIND_TIME),    FIELD(coll, op, KIND_TEXT),
	FIELD(coll, dtype, KIND_TEXT),	     FIELD(coll, count, KIND_U64),
	FIELD(coll, bytes, KIND_U64),	     FIELD(coll, group, KIND_U64),
	FIELD(coll, root, KIND_INDEX),	     FIELD(coll, first_wr_ns, KIND_TIME),
	FIELD(coll, end_ns, KIND_TIME),	     FIELD(coll, wr, KIND_U64),
	FIELD(coll, wc, KIND_U64),	     FIELD(coll, sent_bytes, KIND_U64),
	FIELD(coll, launch_only, KIND_BOOL), END};

static const struct field p2p_fields[] = {
	NEED(p2p, comm, KIND_NAME),	    NEED(p2p, peer, KIND_INDEX),
	NEED(p2p, launch_ns, KIND_TIME),    FIELD(p2p, end_ns, KIND_TIME),
	FIELD(p2p, group, KIND_U64),	    FIELD(p2p, expected_bytes, KIND_U64),
	FIELD(p2p, actual_bytes, KIND_U64), END};

static const struct field step_fields[] = {
	NEED(step, comm, KIND_NAME),	     NEED(step, seq, KIND_U64),
	NEED(step, step, KIND_INDEX),	     NEED(step, peer, KIND_INDEX),
	NEED(step, start_ns, KIND_TIME),     FIELD(step, end_ns, KIND_TIME),
	FIELD(step, expected_ns, KIND_U64),  FIELD(step, bytes, KIND_U64),
	FIELD(step, flow, KIND_NAME),	     FIELD(step, wait_rank, KIND_INDEX),
	FIELD(step, wait_step, KIND_INDEX),  FIELD(step, send_index, KIND_INDEX),
	FIELD(step, recv_index, KIND_INDEX), END};

static const struct field epochs_fields[] = {NEED(epochs, qp, KIND_U64),
					     NEED(epochs, t_ns, KIND_TIME), END};

static const struct field counter_fields[] = {
	NEED(counter, t_ns, KIND_TIME), NEED(counter, value, KIND_DOUBLE),
	NEED(counter, name, KIND_NAME), FIELD(counter, nic, KIND_TEXT), END};

/* What a table cannot say of a record; it has what the table says. */

/* Who counts ranks makes an array of them. */
static bool is_rank(struct reader *in, int rank)
{
	if (rank >= RANKS_MAX)
		because(in, "rank", "out of range");
	return rank < RANKS_MAX;
}

static bool finish_qp(struct reader *in, struct rec_qp *r, const cJSON *o)
{
	(void)o;
	return is_rank(in, r->peer_rank);
}

static bool finish_wcerr(struct reader *in, struct rec_wcerr *r, const cJSON *o)
{
	(void)in, (void)r, (void)o;
	return true;
}

static bool finish_async(struct reader *in, struct rec_async *r, const cJSON *o)
{
	(void)in, (void)r, (void)o;
	return true;
}

static bool finish_move(struct reader *in, struct rec_move *r, const cJSON *o)
{
	(void)o;
	return in_order(in, r->t_ns, r->end_ns);
}

static bool finish_comm(struct reader *in, struct rec_comm *r, const cJSON *o)
{
	const cJSON *hosts = cJSON_GetObjectItemCaseSensitive(o, "hosts"), *host;
	int i = 0;

	if (r->size < 1 || r->size > RANKS_MAX || r->rank >= r->size) {
		because(in, "size, rank", "out of range");
		return false;
	}
	if (!hosts || cJSON_IsNull(hosts))
		return true;
	if (!cJSON_IsArray(hosts) || cJSON_GetArraySize(hosts) != r->size) {
		because(in, "hosts", "not one for each rank");
		return false;
	}
	r->hosts = calloc((size_t)r->size, sizeof(*r->hosts));
	if (!r->hosts)
		return false;
	cJSON_ArrayForEach (host, hosts) {
		r->hosts[i] = calloc(1, REC_NAME_BYTES);
		if (r->hosts[i] && cJSON_IsNull(host)) { /* not known */
			i++;
			continue;
		}
		if (!r->hosts[i] || !take_text(r->hosts[i++], host, false)) {
			because(in, "hosts", "not a text");
			return false;
		}
	}
	return true;
}

static bool finish_coll(struct reader *in, struct rec_coll *r, const cJSON *o)
{
	(void)o;
	if (!r->seq)
		because(in, "seq", "counts from 1");
	if (r->launch_only && !r->end_ns)
		r->end_ns = r->launch_ns;
	return r->seq && in_order(in, r->launch_ns, r->end_ns) &&
	       in_order(in, r->launch_ns, r->first_wr_ns);
}

static bool finish_p2p(struct reader *in, struct rec_p2p *r, const cJSON *o)
{
	const char *direction = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(o, "direction"));

	r->is_send = direction && !strcmp(direction, "send");
	if (!direction || (!r->is_send && strcmp(direction, "recv"))) {
		because(in, "direction", "neither send nor recv");
		return false;
	}
	return is_rank(in, r->peer) && in_order(in, r->launch_ns, r->end_ns);
}

static bool finish_step(struct reader *in, struct rec_step *r, const cJSON *o)
{
	(void)o;
	if (!r->seq || r->step < 1)
		because(in, "seq, step", "count from 1");
	return r->seq && r->step >= 1 && in_order(in, r->start_ns, r->end_ns);
}

/* The array of that name, of n numbers if n is not 0. Its length, or -1. */
static int take_array(const cJSON *o, const char *name, int n, uint32_t **to)
{
	const cJSON *array = cJSON_GetObjectItemCaseSensitive(o, name), *number;
	int i = 0, size = cJSON_GetArraySize(array);

	if (!array || cJSON_IsNull(array))
		return n ? 0 : -1;
	if (!cJSON_IsArray(array) || !size || (n && size != n))
		return -1;
	*to = calloc((size_t)size, sizeof(**to));
	if (!*to)
		return -1;
	cJSON_ArrayForEach (number, array) {
		if (!take_number(KIND_U32, *to + i++, number))
			return -1;
	}
	return size;
}

static bool finish_epochs(struct reader *in, struct rec_epochs *r, const cJSON *o)
{
	int n = take_array(o, "bytes", 0, &r->bytes);

	if (!in->file->epoch_ns) {
		because(in, "epochs", "the header has no epoch_ns");
		return false;
	}
	if (n < 0 || take_array(o, "wr", n, &r->wr) < 0 || take_array(o, "wc", n, &r->wc) < 0) {
		because(in, "bytes, wr, wc", "no arrays of numbers of one length");
		return false;
	}
	r->n = (size_t)n;
	return true;
}

static bool finish_counter(struct reader *in, struct rec_counter *r, const cJSON *o)
{
	(void)in, (void)r, (void)o;
	return true;
}

#define CLEAR_NOTHING(type)                                  \
	static void rec_##type##_clear(struct rec_##type *r) \
	{                                                    \
		(void)r;                                     \
	}
CLEAR_NOTHING(qp)
CLEAR_NOTHING(wcerr)
CLEAR_NOTHING(async)
CLEAR_NOTHING(move)
CLEAR_NOTHING(coll)
CLEAR_NOTHING(p2p)
CLEAR_NOTHING(step)
CLEAR_NOTHING(counter)

/* Whether the record is good; one that is not is taken back. */
#define TAKE_RECORD(type)                                                            \
	static bool take_##type(struct reader *in, const cJSON *o)                   \
	{                                                                            \
		struct rec_##type *r = rec_add_##type(in->file);                     \
                                                                                     \
		if (!r)                                                              \
			return false;                                                \
		if (take_fields(in, type##_fields, r, o) && finish_##type(in, r, o)) \
			return true;                                                 \
		rec_##type##_clear(r);                                               \
		in->file->type##_n--;                                                \
		return false;                                                        \
	}
RECORDS_TYPES(TAKE_RECORD)
#undef TAKE_RECORD

#define TYPE_NAME(type) {#type, take_##type},
static const struct {
	const char *name;
	bool (*take)(struct reader *in, const cJSON *o);
} types[] = {RECORDS_TYPES(TYPE_NAME)};
#undef TYPE_NAME

/* ---- header --------------------------------------------------------------------------------- */

#define HEAD(member, kind)                                              \
	{                                                               \
#member, kind, offsetof(struct rec_file, member), false \
	}
static const struct field header_fields[] = {
	HEAD(job, KIND_TEXT),
	{"host", KIND_TEXT, offsetof(struct rec_file, host), true},
	HEAD(boot_id, KIND_TEXT),
	HEAD(command, KIND_TEXT),
	HEAD(pid, KIND_INDEX),
	HEAD(rank, KIND_INDEX),
	HEAD(read_ns, KIND_TIME),
	HEAD(ended_ns, KIND_TIME),
	HEAD(died, KIND_BOOL),
	HEAD(epoch_ns, KIND_U64),
	HEAD(clock_error_ns, KIND_I64),
	HEAD(dropped, KIND_U64),
	HEAD(unobserved, KIND_BOOL),
	HEAD(strangers, KIND_U64),
	END};

static bool take_began(struct reader *in, const cJSON *o)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "began"));
	char *end = NULL;

	errno = 0;
	in->file->began_ns = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	if (!end || *end || errno || in->file->began_ns > INT64_MAX)
		because(in, "began", "not a string of digits");
	return !*in->reason;
}

static bool take_header(struct reader *in, const cJSON *o)
{
	const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "record"));
	const char *form = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "format"));
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "version");

	if (!type || strcmp(type, "header") || !form || strcmp(form, "shift-records")) {
		because(in, "its first line", "not the header of shift-records(5)");
		return false;
	}
	if (!cJSON_IsNumber(version) || version->valuedouble != RECORDS_VERSION) {
		because(in, "version",
			"another than this shift-diag reads; take one of that "
			"version");
		return false;
	}
	if (!take_began(in, o) || !take_fields(in, header_fields, in->file, o) ||
	    !is_rank(in, in->file->rank))
		return false;
	if (in->file->pid == REC_NONE)
		in->file->pid = 0;
	return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t len, room;
	bool too_long, whole; /* whole: it has its newline */
};

static bool line_add(struct line *l, char c)
{
	if (l->len == l->room) {
		size_t room = l->room ? 2 * l->room : 4096;
		char *grown = realloc(l->text, room);

		if (!grown)
			return false;
		l->text = grown;
		l->room = room;
	}
	l->text[l->len++] = c;
	return true;
}

/* 1; 0: no more; or a negative errno. */
static int line_read(FILE *in, struct line *l)
{
	int c;

	l->len = 0;
	l->too_long = l->whole = false;
	while ((c = getc_unlocked(in)) != EOF) {
		if (c == '\n') {
			l->whole = true;
			return 1;
		}
		if (l->len >= LINE_MAX_BYTES)
			l->too_long = true;
		else if (!line_add(l, (char)c))
			return -ENOMEM;
	}
	if (ferror(in))
		return errno ? -errno : -EIO;
	return l->len > 0;
}

static bool take_record(struct reader *in, const cJSON *o)
{
	const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "record"));

	if (!type || !strcmp(type, "header")) {
		because(in, "record", type ? "a second header" : "missing");
		return false;
	}
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(type, types[i].name))
			return types[i].take(in, o);
	return true; /* of a later shift */
}

static cJSON *line_parse(struct reader *in, const struct line *l)
{
	const char *end = NULL;
	cJSON *o;

	if (l->too_long) {
		because(in, "a line", "longer than 16 MB");
		return NULL;
	}
	o = cJSON_ParseWithLengthOpts(l->text, l->len, &end, false);
	while (o && end < l->text + l->len && strchr(" \t\r", *end) && *end)
		end++;
	if (cJSON_IsObject(o) && end == l->text + l->len)
		return o;
	because(in, "a line", "not one JSON object");
	cJSON_Delete(o);
	return NULL;
}

static bool is_blank(const struct line *l)
{
	for (size_t i = 0; i < l->len; i++)
		if (l->text[i] != ' ' && l->text[i] != '\t' && l->text[i] != '\r')
			return false;
	return !l->too_long;
}

/* Whether to go on: without a header nothing else has a meaning. */
static bool take_line(struct reader *in, const struct line *l)
{
	cJSON *o;
	bool good;

	*in->reason = 0;
	o = line_parse(in, l);
	good = o && (in->line == 1 ? take_header(in, o) : take_record(in, o));
	/* The last line may be under way. */
	if (!good && in->line > 1 && (o || l->whole || l->too_long)) {
		in->file->bad_lines++;
		if (!in->first_bad) {
			in->first_bad = in->line;
			strcpy(in->first_reason, *in->reason ? in->reason : "no memory");
		}
	}
	cJSON_Delete(o);
	return good || in->line > 1;
}

static int read_lines(FILE *stream, struct reader *in)
{
	struct line l = {0};
	int status;

	while ((status = line_read(stream, &l)) > 0) {
		in->line++;
		if (in->line > 1 && is_blank(&l))
			continue;
		if (!take_line(in, &l)) {
			say("%s: not used: %s", in->path, in->reason);
			break;
		}
	}
	free(l.text);
	if (!in->line && !status)
		say("%s: not used: it is empty", in->path);
	if (status < 0)
		return status;
	return in->line && !status;
}

int records_read_stream(FILE *stream, const char *path, struct records *r)
{
	struct reader in = {.path = path, .file = records_add(r)};
	int status;

	if (!in.file)
		return -ENOMEM;
	in.file->path = strdup(path);
	status = in.file->path ? read_lines(stream, &in) : -ENOMEM;
	if (status < 0)
		say("%s: not used: %s", path, strerror(-status));
	if (status <= 0)
		records_drop_last(r);
	else if (in.file->bad_lines)
		say("%s: lines left out that are no records: %" PRIu64
		    ", the first is line %" PRIu64 " (%s)",
		    path, in.file->bad_lines, in.first_bad, in.first_reason);
	return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int read_file(int at, const char *name, const char *path, struct records *r,
		     bool regular_only)
{
	/* A FIFO in a directory would wait for its writer. */
	int fd = openat(at, name,
			O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0));
	struct stat st;
	FILE *stream;
	int status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || (regular_only && !S_ISREG(st.st_mode))) {
		close(fd);
		return -EINVAL;
	}
	stream = fdopen(fd, "r");
	if (!stream) {
		close(fd);
		return -ENOMEM;
	}
	status = records_read_stream(stream, path, r);
	fclose(stream);
	return status;
}

static int is_records(const struct dirent *d)
{
	size_t n = strlen(d->d_name), end = strlen(".records");

	return n > end && !strcmp(d->d_name + n - end, ".records");
}

static int read_directory(int fd, const char *path, struct records *r)
{
	struct dirent **found;
	int n = scandirat(fd, ".", &found, is_records, alphasort), files = 0;

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		char name[PATH_MAX];
		int status;

		snprintf(name, sizeof(name), "%s/%s", path, found[i]->d_name);
		status = read_file(fd, found[i]->d_name, name, r, true);
		if (status == -EINVAL)
			say("%s: not used: it is no file", name);
		else if (status < 0 && status != -ENOMEM)
			say("%s: not used: %s", name, strerror(-status));
		files += status > 0;
		free(found[i]);
	}
	free(found);
	return files;
}

int records_read(const char *path, struct records *r)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY), status;

	if (fd < 0 && errno == ENOTDIR)
		return read_file(AT_FDCWD, path, path, r, false);
	if (fd < 0)
		return -errno;
	status = read_directory(fd, path, r);
	close(fd);
	return status;
}
