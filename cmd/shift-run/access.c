/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The job key, and what etcd asks for before it answers: certificates, a user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"
#include "kv/job_key.h"

static const char key_file_variable[] = "SHIFT_KEY_FILE";

static struct {
	const char *option, *variable, *kvd_option;
	const char *given, *value;
} files[ACCESS_FILES] = {
	[ACCESS_CA] = {"--kv-ca", "SHIFT_KV_CA", "--ca", NULL, NULL},
	[ACCESS_CERT] = {"--kv-cert", "SHIFT_KV_CERT", "--cert", NULL, NULL},
	[ACCESS_KEY] = {"--kv-key", "SHIFT_KV_KEY", "--key", NULL, NULL},
	[ACCESS_USER] = {"--kv-user-file", "SHIFT_KV_USER_FILE", "--user-file", NULL, NULL},
};

static struct {
	uint8_t key[KV_JOB_KEY_BYTES];
	bool is_there;
	const char *file;
} job_key;

static const char *variable_value(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

void access_give(enum access_file f, const char *path)
{
	files[f].given = path;
}

const char *access_value(enum access_file f)
{
	return files[f].value;
}

const char *access_variable(enum access_file f)
{
	return files[f].variable;
}

const char *access_kvd_option(enum access_file f)
{
	return files[f].kvd_option;
}

/* ---- the job key --------------------------------------------------------------------------- */

void access_take_key(void)
{
	job_key.is_there = job_key_take(job_key.key, EXIT_OURS);
}

const uint8_t *access_job_key(void)
{
	return job_key.is_there ? job_key.key : NULL;
}

const char *access_key_file(void)
{
	return job_key.file;
}

void access_forget_key(void)
{
	explicit_bzero(job_key.key, sizeof(job_key.key));
}

/* The option, SHIFT_JOB_KEY, SHIFT_KEY_FILE. */
static void find_job_key(const struct options *o)
{
	const char *file = o->key_file;

	if (!file && !job_key.is_there)
		file = variable_value(key_file_variable);
	if (!file)
		return;
	job_key_read(job_key.key, file, EXIT_OURS);
	job_key.is_there = true;
	job_key.file = absolute_path(file);
}

static bool all_are_local(const char *urls)
{
	for (; urls; urls = strchr(urls, ',') ? strchr(urls, ',') + 1 : NULL)
		if (!endpoint_is_local(urls))
			return false;
	return true;
}

/* A private etcd, at a socket, is read by this user and root only. */
static void note_readers(struct meeting *m)
{
	if (job_key.is_there || m->kind == MEET_HERE || all_are_local(m->urls))
		return;
	if (m->kind == MEET_START)
		meeting_note(m, format_text("--kv start@%.*s without --key-file: whoever can reach "
					    "%s can read the job's key; see SECURITY in "
					    "shift-run(1)",
					    (int)(strrchr(m->place, ':') - m->place), m->place,
					    m->place));
	else
		meeting_note(m, format_text("--kv %s without --key-file: whoever can read that "
					    "etcd can read the job's key; see SECURITY in "
					    "shift-run(1)",
					    m->urls));
}

/* ---- certificates and a user --------------------------------------------------------------- */

static const char *first_of(const char *urls, bool (*is)(const char *url))
{
	for (; urls; urls = strchr(urls, ',') ? strchr(urls, ',') + 1 : NULL)
		if (is(urls))
			return urls;
	return NULL;
}

static void check_file(enum access_file f, const struct meeting *m)
{
	const char *path = files[f].value;
	bool is_of_tls = f != ACCESS_USER;

	if (is_of_tls && files[f].given && !first_of(m->urls, endpoint_is_encrypted))
		die(EXIT_OURS, "%s: --kv %s is not https://", files[f].option, m->urls);
	if (access(path, R_OK))
		die(EXIT_OURS, "%s %s: %s", files[f].given ? files[f].option : files[f].variable,
		    path, strerror(errno));
}

static void find_files(struct meeting *m)
{
	const char *warning;

	for (int f = 0; f < ACCESS_FILES; f++) {
		const char *path = files[f].given;

		if (path && m->kind != MEET_URLS)
			die(EXIT_OURS,
			    "%s is for an etcd of your own (--kv https://HOST:PORT); one that "
			    "shift-run starts has no certificate and no users",
			    files[f].option);
		if (!path && m->kind == MEET_URLS)
			path = variable_value(files[f].variable);
		if (!path)
			continue;
		files[f].value = absolute_path(path);
		check_file(f, m);
	}
	if (files[ACCESS_KEY].value && !files[ACCESS_CERT].value)
		die(EXIT_OURS, "--kv-key without --kv-cert");
	warning = files[ACCESS_KEY].value ? open_key_warning(files[ACCESS_KEY].value) : NULL;
	if (warning)
		meeting_note(m, warning);
}

static bool has_user(const struct meeting *m)
{
	return m->kind == MEET_URLS &&
	       (files[ACCESS_USER].value || *m->user.name || variable_value("SHIFT_KV_USER"));
}

static void check_user(struct meeting *m, const struct options *o)
{
	const char *clear = first_of(m->urls, endpoint_is_clear);
	char text[1024];

	if (files[ACCESS_USER].value) {
		read_user_file(files[ACCESS_USER].value, text, sizeof(text), EXIT_OURS);
		explicit_bzero(text, sizeof(text));
		memset(&m->user, 0, sizeof(m->user));
	} else if (*m->user.name) {
		if (o->kv)
			meeting_note(m, "--kv URL with USER:PASSWORD@ shows in the list of "
					"processes; --kv-user-file FILE does not");
		if (setenv("SHIFT_KV_USER", m->user.name, 1) ||
		    setenv("SHIFT_KV_PASSWORD", m->user.password, 1))
			die(EXIT_OURS, "out of memory");
	}
	if (has_user(m) && clear)
		meeting_note(m, format_text("%.*s: the password is not encrypted on its way; "
					    "https:// would",
					    (int)strcspn(clear, ","), clear));
}

bool access_is_needed(const struct meeting *m)
{
	for (int f = 0; f < ACCESS_FILES; f++)
		if (files[f].value)
			return true;
	return *m->user.name;
}

void access_prepare(struct meeting *m, const struct options *o)
{
	find_job_key(o);
	find_files(m);
	check_user(m, o);
	note_readers(m);
}
