/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --dry-run and --check: results, on standard output. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-run/run.h"
#include "kv/job_key.h"

static void print_json_object(cJSON *o)
{
	print_json_text(cJSON_Print(o));
	cJSON_Delete(o);
}

static void add_words(cJSON *o, const char *name, char *const *words)
{
	cJSON *list = cJSON_AddArrayToObject(o, name);

	while (*words)
		cJSON_AddItemToArray(list, cJSON_CreateString(*words++));
}

static void add_split(cJSON *o, const char *name, const char *words, const char *separator)
{
	char *copy = check_alloc(strdup(words)), *save = NULL;
	cJSON *list = cJSON_AddArrayToObject(o, name);

	for (char *p = strtok_r(copy, separator, &save); p; p = strtok_r(NULL, separator, &save))
		cJSON_AddItemToArray(list, cJSON_CreateString(p));
	free(copy);
}

static void add_rail(void *arg, const char *device, const char *backups)
{
	add_split(arg, device, backups, "+");
}

static const char *shown_value(const struct variable *v)
{
	return strcmp(v->name, "SHIFT_KV_PASSWORD") ? v->value : "***";
}

/* NULL: none was given. */
static const char *given_key_id(void)
{
	static char id[2 * JOB_KEY_ID_BYTES + 1];

	if (!access_job_key())
		return NULL;
	job_key_id_text(id, access_job_key());
	return id;
}

static void add_key_id(cJSON *o)
{
	if (given_key_id())
		cJSON_AddStringToObject(o, "key_id", given_key_id());
	else
		cJSON_AddNullToObject(o, "key_id");
}

static void show_json(const struct plan *p)
{
	static const char *const kinds[] = {
		[MEET_HERE] = "here", [MEET_URLS] = "urls", [MEET_START] = "start"};
	cJSON *o = cJSON_CreateObject(), *in;

	cJSON_AddStringToObject(o, "library", p->library);
	in = cJSON_AddArrayToObject(o, "collectives");
	for (size_t i = 0; i < p->recorder_count; i++)
		cJSON_AddItemToArray(in, cJSON_CreateString(p->recorders[i]));
	add_words(o, "command", p->o->command);
	cJSON_AddStringToObject(o, "program", p->target->path);
	cJSON_AddStringToObject(o, "job", p->job);
	in = cJSON_AddObjectToObject(o, "meeting");
	cJSON_AddStringToObject(in, "kind", kinds[p->meeting->kind]);
	add_split(in, "endpoints", p->meeting->urls, ",");
	cJSON_AddBoolToObject(in, "starts_etcd",
			      p->meeting->kind == MEET_HERE || p->meeting->is_host);
	rails_each(setting_value(SET_RAILS), add_rail, cJSON_AddObjectToObject(o, "rails"));
	add_key_id(o);
	in = cJSON_AddObjectToObject(o, "environment");
	for (const struct variable *v = p->variables; v->name; v++)
		cJSON_AddStringToObject(in, v->name, shown_value(v));
	print_json_object(o);
}

static void print_rail(void *arg, const char *device, const char *backups)
{
	int *n = arg;

	printf("%-12s%s -> %s\n", (*n)++ ? "" : "rails", shown(device),
	       *backups ? shown(backups) : "none");
}

static const char *meeting_text(const struct meeting *m)
{
	switch (m->kind) {
	case MEET_HERE: return "a private etcd, for this host only";
	case MEET_URLS: return m->urls;
	case MEET_START:
		return format_text("%s, %s", m->urls,
				   m->is_host ? "etcd to be started here" : "etcd waited for");
	}
	return "";
}

void show_plan(const struct plan *p)
{
	int n = 0;

	meeting_say_notes(p->meeting);
	if (p->o->json)
		return show_json(p);
	printf("%-12s%s\n", "library", p->library);
	for (size_t i = 0; i < p->recorder_count; i++)
		printf("%-12s%s\n", i ? "" : "collectives", p->recorders[i]);
	printf("%-12s%s\n", "job", p->job);
	printf("%-12s%s\n", "meeting", shown(meeting_text(p->meeting)));
	printf("%-12s%s%s\n", "job key", given_key_id() ? "given, id " : "made, in etcd",
	       given_key_id() ? given_key_id() : "");
	rails_each(setting_value(SET_RAILS), print_rail, &n);
	if (!n)
		printf("%-12s%s\n", "rails", "none: there is no RDMA device here");
	for (const struct variable *v = p->variables; v->name; v++)
		printf("%-12s%s=%s\n", v == p->variables ? "environment" : "", v->name,
		       shown_value(v));
	printf("%-12s%s", "command", p->target->path);
	for (char **word = p->o->command + 1; *word; word++)
		printf(" %s", *word);
	printf("\n");
}

int show_check(const struct options *o, const struct target *t, int status, const char *library)
{
	cJSON *json;

	if (o->json) {
		json = cJSON_CreateObject();
		add_words(json, "command", o->command);
		cJSON_AddBoolToObject(json, "protected", !status);
		if (status)
			cJSON_AddStringToObject(json, "reason", t->why);
		else
			cJSON_AddStringToObject(json, "library", library);
		print_json_object(json);
	} else if (status) {
		printf("no: %s\n", shown(t->why));
	} else {
		printf("yes: %s by %s\n", t->path, library);
	}
	return status ? EXIT_NO : EXIT_OK;
}
