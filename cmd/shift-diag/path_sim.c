/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The files of the authors' simulator, as the README of their recorded runs describes them. */
#include "cmd/shift-diag/path_sim.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cli.h"

enum { FCT_COLUMNS = 11, BACKGROUND_COLUMNS = 8, FLOW_COLUMNS = 11, PROTOCOL_UDP = 17 };
enum { FILE_MAX_BYTES = 256 << 20, SWITCHES_MAX = 4096 };

/* ---- lines and words ---------------------------------------------------------------------------
 */

bool sim_line(struct sim_lines *in)
{
	char *end;

	if (!*in->next)
		return false;
	in->word = in->next;
	end = strchr(in->next, '\n');
	if (end) {
		*end = 0;
		if (end > in->next && end[-1] == '\r')
			end[-1] = 0;
		in->next = end + 1;
	} else {
		in->next += strlen(in->next);
	}
	in->line++;
	return true;
}

char *sim_word(struct sim_lines *in)
{
	char *word = in->word + strspn(in->word, " \t");

	if (!*word)
		return NULL;
	in->word = word + strcspn(word, " \t");
	if (*in->word)
		*in->word++ = 0;
	return word;
}

int sim_number(struct sim_lines *in, uint64_t *v)
{
	char *word = sim_word(in), *end;

	if (!word)
		return 0;
	if (*word < '0' || *word > '9')
		return -1;
	errno = 0;
	*v = strtoull(word, &end, 10);
	return *end || errno ? -1 : 1;
}

int sim_numbers(struct sim_lines *in, uint64_t *v, int max)
{
	int n = 0;

	while (n < max && sim_number(in, v + n) == 1)
		n++;
	return n;
}

/* ---- fct.txt
 * ------------------------------------------------------------------------------------- */

/* A step, and which of the collectives it is of: in each, a rank has a step once. */
struct fct {
	struct path_step step;
	int next_wait_rank, next_wait_step; /* of the rank's next step */
	size_t collective;
};

struct fcts {
	struct fct *fct;
	size_t n, collectives;
};

static int fct_compare(const void *a, const void *b)
{
	const struct fct *x = a, *y = b;

	if (x->collective != y->collective)
		return x->collective < y->collective ? -1 : 1;
	if (x->step.rank != y->step.rank)
		return x->step.rank < y->step.rank ? -1 : 1;
	if (x->step.step != y->step.step)
		return x->step.step < y->step.step ? -1 : 1;
	return x->step.end_ns < y->step.end_ns ? -1 : x->step.end_ns > y->step.end_ns;
}

static void flow_text(char *to, uint64_t sid, uint64_t sport, uint64_t did, uint64_t dport)
{
	snprintf(to, PATH_NAME_BYTES, "%" PRIu64 ":%" PRIu64 ">%" PRIu64 ":%" PRIu64, sid, sport,
		 did, dport);
}

/* sid did send_step recv_step prev sport dport size start fct standalone */
static bool take_fct(struct fcts *f, const uint64_t *v, struct telemetry *t)
{
	struct fct *made;
	int flow;

	if (v[0] > INT32_MAX || v[1] > INT32_MAX || v[2] > INT32_MAX || v[3] > INT32_MAX ||
	    v[4] > INT32_MAX || !v[2] || v[8] > UINT64_MAX / 2 || v[9] > UINT64_MAX / 2)
		return false;
	if (!(f->n & (f->n - 1)))
		f->fct = check_alloc(reallocarray(f->fct, f->n ? 2 * f->n : 1, sizeof(*f->fct)));
	made = f->fct + f->n++;
	*made = (struct fct){.step = {.rank = (int)v[0],
				      .peer = (int)v[1],
				      .step = (int)v[2],
				      .wait_rank = PATH_NONE,
				      .wait_step = PATH_NONE,
				      .bytes = v[7],
				      .start_ns = v[8],
				      .end_ns = v[8] + v[9],
				      .expected_ns = v[10]},
			     /* Equal: the next step waits for what the rank receives. */
			     .next_wait_rank = v[2] == v[3] ? (int)v[4] : PATH_NONE,
			     .next_wait_step = (int)v[3]};
	flow_text(made->step.flow, v[0], v[5], v[1], v[6]);
	flow = tele_flow_find(t, made->step.flow);
	if (flow != PATH_NONE)
		t->flow[flow].is_collective = true;
	return true;
}

/* sid did sport dport size start fct standalone */
static void take_background(const uint64_t *v, struct telemetry *t)
{
	char name[PATH_NAME_BYTES];
	int flow;

	flow_text(name, v[0], v[2], v[1], v[3]);
	flow = tele_flow_find(t, name);
	if (flow != PATH_NONE)
		t->flow[flow].start_ns = v[5];
}

static int read_fct_lines(struct sim_lines *in, struct fcts *f, struct telemetry *t)
{
	while (sim_line(in)) {
		uint64_t v[FCT_COLUMNS];
		bool other = !strncmp(in->word, "###", 3);
		int want = other ? BACKGROUND_COLUMNS : FCT_COLUMNS, n;

		if (other)
			in->word += 3;
		if (!in->word[strspn(in->word, " \t")])
			continue;
		n = sim_numbers(in, v, want);
		if (n == want && !sim_word(in) && (other || take_fct(f, v, t))) {
			if (other)
				take_background(v, t);
			continue;
		}
		say("%s:%zu: not a flow's %d whole numbers; is the file truncated, or of another "
		    "program?",
		    in->name, in->line, want);
		return -EINVAL;
	}
	return 0;
}

/* The k-th time that a rank does a step is of collective k. */
static void number_collectives(struct fcts *f)
{
	qsort(f->fct, f->n, sizeof(*f->fct), fct_compare);
	for (size_t i = 1; i < f->n; i++)
		if (f->fct[i].step.rank == f->fct[i - 1].step.rank &&
		    f->fct[i].step.step == f->fct[i - 1].step.step)
			f->fct[i].collective = f->fct[i - 1].collective + 1;
	for (size_t i = 0; i < f->n; i++)
		if (f->fct[i].collective >= f->collectives)
			f->collectives = f->fct[i].collective + 1;
	qsort(f->fct, f->n, sizeof(*f->fct), fct_compare);
}

/* Where the one that took longest begins, and its end. */
static void longest_collective(const struct fcts *f, size_t *from, size_t *to)
{
	uint64_t longest = 0;

	*from = *to = 0;
	for (size_t i = 0, k; i < f->n; i = k) {
		uint64_t first = UINT64_MAX, last = 0;

		for (k = i; k < f->n && f->fct[k].collective == f->fct[i].collective; k++) {
			const struct path_step *s = &f->fct[k].step;

			first = s->start_ns < first ? s->start_ns : first;
			last = s->end_ns > last ? s->end_ns : last;
		}
		if (*to && last - first <= longest)
			continue;
		longest = last - first;
		*from = i;
		*to = k;
	}
}

static void take_collective(const struct fcts *f, struct path_steps *s)
{
	size_t from, to;
	int ranks = 0;

	longest_collective(f, &from, &to);
	for (size_t i = from; i < to; i++) {
		struct path_step *step = path_step_add(s);
		bool goes_on = i > from && f->fct[i - 1].step.rank == f->fct[i].step.rank;

		*step = f->fct[i].step;
		ranks += !goes_on;
		if (goes_on) {
			step->wait_rank = f->fct[i - 1].next_wait_rank;
			step->wait_step = f->fct[i - 1].next_wait_step;
		}
	}
	s->ranks_expected = ranks;
	snprintf(s->what, sizeof(s->what), "collective %zu of %zu",
		 to ? f->fct[from].collective + 1 : 0, f->collectives);
}

int path_parse_fct(const char *name, char *text, struct path_steps *s, struct telemetry *t)
{
	struct sim_lines in = {.name = name, .next = text};
	struct fcts f = {0};
	int status;

	s->clock_error_ns = 0; /* a simulation has one clock */
	status = read_fct_lines(&in, &f, t);
	if (!status && !f.n) {
		say("%s: no step of a collective is in it; nothing can be found", name);
		status = -ENODATA;
	}
	if (!status) {
		number_collectives(&f);
		take_collective(&f, s);
	}
	free(f.fct);
	return status;
}

/* ---- pfc.txt
 * --------------------------------------------------------------------------------------- */

int path_parse_pfc(const char *name, char *text, const struct sim_topology *topology,
		   struct telemetry *t)
{
	struct sim_lines in = {.name = name, .next = text};
	size_t *open = check_alloc(calloc(TELE_PORTS_MAX + 1, sizeof(*open)));
	int status = 0;

	while (!status && sim_line(&in)) {
		uint64_t v[5];
		int n = sim_numbers(&in, v, 5), port;

		if (!n && !sim_word(&in))
			continue;
		port = n == 5 && v[4] <= 1 ? sim_port(t, topology, v[1], !v[2], v[3]) : PATH_NONE;
		if (port == PATH_NONE) {
			say("%s:%zu: not: time node type port pause, of a port in the topology",
			    name, in.line);
			status = -EINVAL;
		} else if (v[4] && !open[port]) {
			tele_pause_add(t, (struct tele_pause){v[0], UINT64_MAX, port});
			open[port] = t->pause_n;
		} else if (!v[4] && open[port]) {
			t->pause[open[port] - 1].end_ns = v[0];
			open[port] = 0;
		}
	}
	free(open);
	return status;
}

/* ---- telemetry_N.txt
 * ---------------------------------------------------------------------------------- */

struct blocks {
	struct sim_lines in;
	unsigned int sw;
	const struct sim_topology *topology;
	struct telemetry *t;
	bool inside, now; /* a block; its epoch that is under way */
	uint64_t t_ns;
	int port;		       /* of the last port telemetry */
	size_t samples, lines, meters; /* of the telemetry, before the block */
};

static int block_bad(const struct blocks *b, const char *what)
{
	say("%s:%zu: %s; is it the telemetry of a simulation?", b->in.name, b->in.line, what);
	return -EINVAL;
}

static void drop_block(struct blocks *b)
{
	b->t->sample_n = b->samples;
	b->t->line_n = b->lines;
	b->t->meter_n = b->meters;
	b->inside = false;
}

/* The line behind the heading. */
static bool data_line(struct blocks *b)
{
	return sim_line(&b->in) && sim_line(&b->in);
}

/* "form port I to port J"; the bytes come two lines below. */
static int take_meter(struct blocks *b, unsigned int from, unsigned int to)
{
	struct tele_meter m = {.t_ns = b->t_ns, .halted = true};
	int in;

	if (!data_line(b))
		return 0; /* the block has no end: said there */
	if (sim_numbers(&b->in, &m.bytes, 1) != 1)
		return block_bad(b, "not a number of bytes");
	in = sim_port(b->t, b->topology, b->sw, false, from);
	m.to = sim_port(b->t, b->topology, b->sw, false, to);
	if (in == PATH_NONE || m.to == PATH_NONE)
		return block_bad(b, "a port that the topology does not have");
	m.from = b->t->port[in].peer; /* that was halted: at the other end of the link */
	if (m.from != PATH_NONE && b->now)
		tele_meter_add(b->t, m);
	return 0;
}

static int take_port(struct blocks *b, unsigned int number)
{
	struct tele_sample *s;
	uint64_t v[3];

	b->port = sim_port(b->t, b->topology, b->sw, false, number);
	if (b->port == PATH_NONE)
		return block_bad(b, "a port that the topology does not have");
	if (!data_line(b))
		return 0;
	if (sim_numbers(&b->in, v, 3) != 3)
		return block_bad(b, "not: enqQdepth pfcPausedPacketNum packetNum");
	s = tele_sample_add(b->t, b->t_ns, b->port);
	s->before = !b->now;
	s->depth = v[0];
	s->paused = v[1];
	s->packets = v[2];
	return 0;
}

/* 0bNNNN01: the node's number in hexadecimal is in the middle. */
static bool node_of_address(const char *word, uint64_t *node)
{
	char hex[5] = "", *end;

	if (!word || strlen(word) != 8)
		return false;
	memcpy(hex, word + 2, 4);
	*node = strtoul(hex, &end, 16);
	return !*end;
}

/* flowIdx srcIp dstIp srcPort dstPort protocol minSeq maxSeq packetNum enqQdepth paused */
static bool take_flow(struct blocks *b)
{
	uint64_t index, src, dst, v[FLOW_COLUMNS - 3];
	struct tele_line line = {.flow = PATH_NONE};
	char name[PATH_NAME_BYTES];

	if (sim_number(&b->in, &index) != 1 || !node_of_address(sim_word(&b->in), &src) ||
	    !node_of_address(sim_word(&b->in), &dst) ||
	    sim_numbers(&b->in, v, FLOW_COLUMNS - 3) != FLOW_COLUMNS - 3 || v[5] > UINT32_MAX ||
	    v[7] > UINT32_MAX)
		return false;
	if (b->t->sample[b->t->sample_n - 1].lines == TELE_LINES_MAX)
		return true;
	/* Acknowledgements queue too, but are nobody's traffic. */
	if (v[2] == PROTOCOL_UDP) {
		flow_text(name, src, v[0], dst, v[1]);
		line.flow = tele_flow_find(b->t, name);
	}
	line.packets = (uint32_t)v[5];
	line.depth = v[6];
	line.paused = (uint32_t)v[7];
	tele_line_add(b->t, line);
	return true;
}

static int take_flows(struct blocks *b, unsigned int number)
{
	int port = sim_port(b->t, b->topology, b->sw, false, number);

	if (port == PATH_NONE || port != b->port)
		return block_bad(b, "flows of a port whose own line is missing");
	if (!sim_line(&b->in))
		return 0;
	while (sim_line(&b->in) && b->in.word[strspn(b->in.word, " \t")])
		if (!take_flow(b))
			return *b->in.next ? block_bad(b, "not a flow's 11 columns") : 0;
	return 0;
}

static int take_line(struct blocks *b)
{
	const char *line = b->in.word;
	unsigned int i, k;

	if (!strcmp(line, "end")) {
		b->inside = false;
		return 0;
	}
	if (!strcmp(line, "polling") || !strcmp(line, "signal"))
		return 0;
	if (!strcmp(line, "epoch now") || !strcmp(line, "epoch last")) {
		b->now = line[6] == 'n';
		b->port = PATH_NONE;
		return 0;
	}
	if (sscanf(line, "traffic meter form port %u to port %u", &i, &k) == 2)
		return take_meter(b, i, k);
	if (sscanf(line, "port telemetry data for port %u", &i) == 1)
		return take_port(b, i);
	if (sscanf(line, "flow telemetry data for port %u", &i) == 1)
		return take_flows(b, i);
	return *b->in.next ? block_bad(b, "not a line of a block") : 0;
}

static int begin_block(struct blocks *b)
{
	char *word = sim_word(&b->in);

	if (!word || strcmp(word, "time") || sim_number(&b->in, &b->t_ns) != 1 ||
	    b->t_ns > UINT64_MAX / 2)
		return *b->in.next ? block_bad(b, "not the time of a block") : 0;
	b->inside = true;
	b->now = false;
	b->port = PATH_NONE;
	b->samples = b->t->sample_n;
	b->lines = b->t->line_n;
	b->meters = b->t->meter_n;
	return 0;
}

int path_parse_blocks(const char *name, char *text, unsigned int sw,
		      const struct sim_topology *topology, struct telemetry *t)
{
	struct blocks b = {
		.in = {.name = name, .next = text}, .sw = sw, .topology = topology, .t = t};
	int status = 0;

	while (!status && sim_line(&b.in)) {
		if (!b.in.word[strspn(b.in.word, " \t")])
			continue;
		status = b.inside ? take_line(&b) : begin_block(&b);
	}
	if (b.inside)
		drop_block(&b);
	else
		return status;
	if (!status)
		say("%s:%zu: it ends within a block, which is left out", name, b.in.line);
	return status;
}

/* ---- files
 * ---------------------------------------------------------------------------------------------- */

char *path_read_file(const char *path)
{
	FILE *in = fopen(path, "re");
	struct stat st;
	char *text;
	size_t n;

	if (!in)
		return NULL;
	if (fstat(fileno(in), &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES) {
		fclose(in);
		errno = S_ISDIR(st.st_mode) ? EISDIR : EFBIG;
		return NULL;
	}
	text = check_alloc(malloc((size_t)st.st_size + 1));
	n = fread(text, 1, (size_t)st.st_size, in);
	text[n] = 0;
	fclose(in);
	if (strlen(text) == n)
		return text;
	free(text);
	errno = EBADMSG; /* it is not a text */
	return NULL;
}

/* Of several places. 1: read; 0: not there; or a negative errno. */
static int read_one(char **text, char *path, size_t bytes, const char *dir,
		    const char *const *where, const char *name)
{
	for (; *where; where++) {
		snprintf(path, bytes, "%s/%s%s", dir, *where, name);
		*text = path_read_file(path);
		if (*text)
			return 1;
		if (errno != ENOENT && errno != ENOTDIR) {
			int err = errno;

			say("%s: %s", path, strerror(err));
			return -err;
		}
	}
	return 0;
}

static int read_blocks(const char *dir, const struct sim_topology *topology, struct telemetry *t)
{
	static const char *const where[] = {"data/", "", NULL};
	char path[4096], name[32], *text;
	int status = 0;

	for (unsigned int sw = 0; sw < SWITCHES_MAX && status >= 0; sw++) {
		snprintf(name, sizeof(name), "telemetry_%u.txt", sw);
		status = read_one(&text, path, sizeof(path), dir, where, name);
		if (status != 1)
			continue;
		status = path_parse_blocks(path, text, sw, topology, t);
		free(text);
	}
	return status < 0 ? status : 0;
}

int path_read_simulator(const char *dir, struct path_steps *s, struct telemetry *t)
{
	static const char *const out[] = {"out/", "", NULL}, *const top[] = {"", NULL};
	struct sim_topology *topology = NULL;
	char path[4096], *text;
	int status = read_one(&text, path, sizeof(path), dir, out, "fct.txt");

	if (status != 1)
		return status;
	t->last_line_counts = true;
	status = path_parse_fct(path, text, s, t);
	free(text);
	if (!status &&
	    (status = read_one(&text, path, sizeof(path), dir, top, "topology.txt")) == 1) {
		status = sim_topology_parse(path, text, t, &topology);
		free(text);
	}
	if (!status && (status = read_one(&text, path, sizeof(path), dir, out, "pfc.txt")) == 1) {
		status = path_parse_pfc(path, text, topology, t);
		free(text);
	}
	if (!status)
		status = read_blocks(dir, topology, t);
	sim_topology_free(topology);
	return status ? status : 1;
}
