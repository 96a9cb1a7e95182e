/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What changes in etcd, of the topics and of nothing else: who watched the whole of a large job on
 * each of its hosts would have etcd say everything so many times.
 *
 * A topic is read (kvd_read.c), then watched from the next revision on, so nothing falls between. A
 * stream of etcd's JSON gateway watches many topics, but takes no more of them once it has begun.
 * So the next topics get a stream of their own, which takes over the topics of those before it that
 * are not much larger. There are few streams, then, and a topic moves seldom: both as the logarithm
 * of the number of topics.
 *
 * As on etcd's answers to reading: what cannot be is not believed.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

enum {
	OPEN_TIMEOUTS = 5, /* a stream has no timeout of its own */
	/* What nobody needs is watched for so long, and longer where that goes together with much
	 * that is needed, as all of it has to be watched anew. */
	UNUSED_MS = 10 * 1000,
	UNUSED_MS_PER_TOPIC = 10,
	/* The topics of a few streams may be compacted one after the other, each when it moves. */
	LOSSES_FREE = 8,
	LOSS_MS_MIN = 50,
	LOSS_MS_MAX = 5000,
};

struct stream {
	struct kv_link link, topics;
	struct kvd *kvd;
	struct etcd_request *request; /* NULL: it has ended */
	struct topic **by_id;	      /* NULL: it has moved to another stream */
	size_t watchers, created;
	size_t count, unused;		   /* topics */
	int64_t begun_at_ms, unused_at_ms; /* the first of the unused */
};

static struct stream *stream_of_link(struct kv_link *l)
{
	return KV_HOLDER(l, struct stream, link);
}

/* ---- topics -------------------------------------------------------------------------------- */

static void leave_stream(struct topic *t)
{
	struct stream *s = t->stream;

	if (!s)
		return;
	s->by_id[t->watch_id] = NULL;
	s->count--;
	s->unused -= !topic_is_used(t);
	t->stream = NULL;
}

static void set_topic_state(struct kvd *k, struct topic *t, enum topic_state state)
{
	leave_stream(t);
	kv_list_remove(&t->in_state);
	t->state = state;
	switch (state) {
	case TOPIC_WANTED: kv_list_append(&k->watches.wanted, &t->in_state); break;
	case TOPIC_READ: kv_list_append(&k->watches.read, &t->in_state); break;
	case TOPIC_READING: /* whoever does that has a list of them */
	case TOPIC_WATCHED:
	case TOPIC_COVERED: break;
	}
}

static bool covers_all(const struct kvd *k)
{
	const struct topic *all = k->subs.all;

	return all && (all->state == TOPIC_READ || all->state == TOPIC_WATCHED);
}

void watch_topic_begun(struct kvd *k, struct topic *t)
{
	t->known = covers_all(k) && k->subs.all->known;
	set_topic_state(k, t, covers_all(k) ? TOPIC_COVERED : TOPIC_WANTED);
	if (!k->subs.all && k->subs.keys.count + k->subs.prefixes.count > TOPICS_MAX)
		k->subs.all = subs_add_own(k, true, "");
}

/* Whoever asks for it again while it is watched finds all of it here. */
void watch_topic_unused(struct kvd *k, struct topic *t)
{
	if (t->state == TOPIC_WATCHED && !t->stream->unused++)
		t->stream->unused_at_ms = now_ms();
	if (t->state == TOPIC_WATCHED || t->state == TOPIC_READING)
		return;
	kv_list_remove(&t->in_state);
	topic_free(k, t);
}

void watch_topic_used(struct topic *t)
{
	if (t->state == TOPIC_WATCHED)
		t->stream->unused--;
}

void topic_move(struct kvd *k, struct topic *t, enum topic_state state)
{
	bool used = topic_is_used(t);

	set_topic_state(k, t, state);
	if (!used)
		watch_topic_unused(k, t);
}

static void now_known(struct kvd *k, struct topic *t)
{
	if (t->known)
		return;
	t->known = true;
	subs_tell_known(k, t);
}

/* All of the job has been read: nothing else needs to be. */
static void cover_others(struct kvd *k)
{
	struct topic *t, *next;

	for (t = subs_next(k, NULL); t; t = next) {
		next = subs_next(k, t);
		if (t == k->subs.all || t == k->subs.job_key)
			continue;
		now_known(k, t);
		topic_move(k, t, TOPIC_COVERED);
	}
}

void watch_topic_read(struct kvd *k, struct topic *t, int64_t revision)
{
	t->revision = revision;
	now_known(k, t);
	topic_move(k, t, TOPIC_READ);
	if (t == k->subs.all)
		cover_others(k);
}

/* ---- streams ------------------------------------------------------------------------------- */

static void stream_free(struct kvd *k, struct stream *s)
{
	if (s->request)
		etcd_end(s->request);
	if (k->watches.opening == s)
		k->watches.opening = NULL;
	kv_list_remove(&s->link);
	k->watches.streams_count--;
	k->watches.watchers -= s->watchers;
	free(s->by_id);
	free(s);
}

/* Its topics, or those that are still needed, are to be watched by the next stream. It goes on
 * until that does. */
static void empty_stream(struct kvd *k, struct stream *s)
{
	while (!kv_list_is_empty(&s->topics))
		topic_move(k, KV_HOLDER(s->topics.after, struct topic, in_state), TOPIC_READ);
}

static void end_empty_streams(struct kvd *k)
{
	struct kv_link *streams = &k->watches.streams, *l, *next;

	for (l = streams->after; l != streams; l = next) {
		next = l->after;
		if (kv_list_is_empty(&stream_of_link(l)->topics))
			stream_free(k, stream_of_link(l));
	}
}

static void on_created(struct stream *s)
{
	struct kvd *k = s->kvd;

	if (s->created == s->watchers)
		return;
	s->begun_at_ms = k->session.begun_at_ms = now_ms(); /* it goes on */
	if (++s->created < s->watchers)
		return;
	k->watches.opening = NULL;
	k->watches.begun = true;
	k->watches.first = 0;
	end_empty_streams(k);
}

void watch_lost(struct kvd *k)
{
	struct watches *w = &k->watches;
	int64_t ms;

	if (w->lost)
		return; /* it befalls many at the same time */
	w->losses = now_ms() - w->lost_at_ms < CALM_MS ? w->losses + 1 : 1;
	w->lost = true;
	w->lost_at_ms = now_ms();
	if (w->losses <= LOSSES_FREE)
		return;
	ms = w->losses - LOSSES_FREE > 7 ? LOSS_MS_MAX
					 : LOSS_MS_MIN << (w->losses - LOSSES_FREE - 1);
	w->read_at_ms = now_ms() + session_jitter(ms < LOSS_MS_MAX ? ms : LOSS_MS_MAX);
}

/* After a compaction the changes since a revision are lost, but the present state can be read. That
 * befalls each topic that has not changed for as long, when it moves to another stream. */
static void on_cancelled(struct kvd *k, struct topic *t, const cJSON *result)
{
	if (!etcd_int(result, "compact_revision"))
		return session_fail(k, "etcd ended the watch");
	if (!t)
		return; /* it has moved: its new stream hears the same */
	topic_move(k, t, TOPIC_WANTED);
	watch_lost(k);
}

/* The header's revision would be wrong: events from before it may still come; and of a message in
 * parts, others of the same revision. */
static void note_change(struct kvd *k, struct topic *t, int64_t revision, bool in_parts)
{
	session_note_revision(k, revision);
	revision -= in_parts;
	if (t && revision > t->revision)
		t->revision = revision;
}

/* False: the session has failed, or starts again. */
static bool take_event(struct kvd *k, struct topic *t, const cJSON *event, bool in_parts)
{
	const cJSON *type = cJSON_GetObjectItem(event, "type");
	bool deleted = cJSON_IsString(type) && !strcmp(type->valuestring, "DELETE");
	struct remote r = {0};
	bool good = remote_parse(k, cJSON_GetObjectItem(event, "kv"), &r);
	bool room = !good || remote_take(k, &r, deleted);
	/* It must be put again before another daemon makes another one. */
	bool lost = good && deleted && remote_is_job_key(&r);

	if (good && room)
		note_change(k, t, r.revision, in_parts);
	remote_free(&r);
	k->watches.events++;
	if (!good)
		session_fail(k, "a change came that was not asked for: is this etcd?");
	else if (lost)
		session_restart(k);
	return good && room && !lost;
}

static void on_message(struct stream *s, const cJSON *result)
{
	bool in_parts = cJSON_IsTrue(cJSON_GetObjectItem(result, "fragment"));
	const cJSON *events = cJSON_GetObjectItem(result, "events"), *event;
	int64_t id = etcd_int(result, "watch_id");
	struct topic *t = id > 0 && id <= (int64_t)s->watchers ? s->by_id[id] : NULL;
	struct kvd *k = s->kvd;

	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "canceled")))
		return on_cancelled(k, t, result);
	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "created")))
		return on_created(s);
	for (event = cJSON_IsArray(events) ? events->child : NULL; event; event = event->next)
		if (!take_event(k, t, event, in_parts))
			return;
}

/* One that cannot begin now is begun again later; the others go on. */
static void on_stream(void *arg, const cJSON *reply, int code, const char *text)
{
	struct stream *s = arg;
	struct kvd *k = s->kvd;

	if (code == ETCD_CANCELLED)
		s->request = NULL;
	else if (code == ETCD_OK)
		on_message(s, cJSON_GetObjectItem(reply, "result"));
	else {
		s->request = NULL;
		if (k->watches.opening != s || !etcd_is_busy(code, text))
			return session_fail(k, text);
		empty_stream(k, s);
		stream_free(k, s);
		session_request_failed(k, code, text);
	}
}

static void add_create(const struct kvd *k, cJSON *messages, const struct topic *t)
{
	cJSON *m = cJSON_CreateObject(), *create = cJSON_AddObjectToObject(m, "create_request");

	add_topic_range(k, create, t, NULL, 0);
	etcd_add_int(create, "start_revision", t->revision + 1);
	etcd_add_int(create, "watch_id", t->watch_id);
	cJSON_AddBoolToObject(create, "fragment", true);
	cJSON_AddItemToArray(messages, m);
}

static void join_stream(struct stream *s, struct topic *t)
{
	set_topic_state(s->kvd, t, TOPIC_WATCHED);
	t->stream = s;
	t->watch_id = ++s->watchers;
	s->by_id[t->watch_id] = t;
	s->count++;
	kv_list_append(&s->topics, &t->in_state);
}

/* How many are to be watched, with those that are taken over from other streams. */
static size_t gather_topics(struct kvd *k)
{
	struct kv_link *streams = &k->watches.streams, *l;
	size_t n = 0;

	for (l = k->watches.read.after; l != &k->watches.read; l = l->after)
		n++;
	for (l = streams->before; l != streams && stream_of_link(l)->count <= 2 * n;
	     l = l->before) {
		size_t unused = stream_of_link(l)->unused;

		n += stream_of_link(l)->count - unused;
		empty_stream(k, stream_of_link(l));
	}
	return n;
}

static void open_stream(struct kvd *k)
{
	size_t n = gather_topics(k);
	struct stream *s = check_alloc(calloc(1, sizeof(*s)));
	struct kv_link *read = &k->watches.read;
	cJSON *messages = cJSON_CreateArray();

	s->kvd = k;
	s->by_id = check_alloc(calloc(n + 1, sizeof(struct topic *)));
	s->begun_at_ms = now_ms();
	kv_list_init(&s->topics);
	while (!kv_list_is_empty(read)) {
		struct topic *t = KV_HOLDER(read->after, struct topic, in_state);

		join_stream(s, t);
		add_create(k, messages, t);
	}
	kv_list_append(&k->watches.streams, &s->link);
	k->watches.streams_count++;
	k->watches.watchers += s->watchers;
	k->watches.opening = s;
	s->request = etcd_stream(k->session.etcd, "/v3/watch", messages, on_stream, s);
}

/* ---- all of it ------------------------------------------------------------------------------ */

void watch_init(struct kvd *k)
{
	kv_list_init(&k->watches.wanted);
	kv_list_init(&k->watches.read);
	kv_list_init(&k->watches.streams);
}

bool watch_has_begun(const struct kvd *k)
{
	return k->watches.begun;
}

/* The job has become small enough to look at its parts again. */
static void uncover(struct kvd *k)
{
	struct topic *t, *all = k->subs.all;

	if (!all || k->subs.keys.count + k->subs.prefixes.count > TOPICS_MAX / 2)
		return;
	for (t = NULL; (t = subs_next(k, t));)
		if (t->state == TOPIC_COVERED)
			set_topic_state(k, t, TOPIC_WANTED);
	k->subs.all = NULL;
	all->own = false;
	if (!topic_is_used(all))
		watch_topic_unused(k, all);
}

void watch_begin(struct kvd *k, bool same, int64_t revision)
{
	const struct kv_link *wanted = &k->watches.wanted;
	struct topic *t;

	if (!same)
		store_forget_revisions(k);
	uncover(k);
	for (t = NULL; (t = subs_next(k, t));) {
		if (!same)
			t->revision = 0;
		if (t->state == TOPIC_READ && !t->revision)
			set_topic_state(k, t, TOPIC_WANTED);
	}
	t = k->subs.job_key; /* the session has just read it */
	t->revision = revision;
	t->known = true;
	set_topic_state(k, t, TOPIC_READ);
	k->watches.begun = false;
	k->watches.first = 0;
	for (const struct kv_link *l = wanted->after; l != wanted; l = l->after)
		k->watches.first++;
}

void watch_stop(struct kvd *k)
{
	struct kv_link *streams = &k->watches.streams;

	read_stop(k);
	while (!kv_list_is_empty(streams)) {
		empty_stream(k, stream_of_link(streams->after));
		stream_free(k, stream_of_link(streams->after));
	}
}

static int64_t drop_unused_at_ms(const struct stream *s)
{
	if (!s->unused)
		return INT64_MAX;
	return 2 * s->unused > s->count
		       ? 0
		       : s->unused_at_ms + UNUSED_MS + UNUSED_MS_PER_TOPIC * (int64_t)s->count;
}

static void drop_unused(struct kvd *k)
{
	struct kv_link *streams = &k->watches.streams, *l;

	for (l = streams->after; l != streams; l = l->after)
		if (now_ms() >= drop_unused_at_ms(stream_of_link(l)))
			empty_stream(k, stream_of_link(l));
}

int64_t watch_due_at_ms(const struct kvd *k)
{
	const struct kv_link *streams = &k->watches.streams, *l;
	const struct stream *s = k->watches.opening;
	int64_t due = s ? s->begun_at_ms + OPEN_TIMEOUTS * k->o.etcd.timeout_ms : INT64_MAX;

	if (now_ms() < k->watches.read_at_ms && k->watches.read_at_ms < due)
		due = k->watches.read_at_ms;

	for (l = streams->after; !s && !k->watches.reading && l != streams; l = l->after) {
		int64_t at = drop_unused_at_ms(stream_of_link((struct kv_link *)l));

		due = at < due ? at : due;
	}
	return due;
}

/* At the beginning all is read first, so that one stream has all of it. What is new meanwhile waits
 * for the next, or there would be no end to that. */
static void watch_what_was_read(struct kvd *k)
{
	struct watches *w = &k->watches;

	if (w->opening || w->reading || (w->first && !kv_list_is_empty(&w->wanted)))
		return;
	if (covers_all(k))
		uncover(k);
	drop_unused(k);
	if (!kv_list_is_empty(&w->read))
		open_stream(k);
	else
		end_empty_streams(k);
}

void watch_tick(struct kvd *k)
{
	const struct stream *s = k->watches.opening;

	if (s && now_ms() > s->begun_at_ms + OPEN_TIMEOUTS * k->o.etcd.timeout_ms)
		return session_fail(k, "no watch begins: etcd is slow or stopped");
	read_end(k);
	watch_what_was_read(k);
	read_tick(k);
}
