/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "kv/endpoint.h"
#include "kv/etcd.h"
#include "kv/listener.h"
#include "kv/table.h"

enum {
	CONNECT_MS = 2000,
	CONNECTIONS_MAX = 24,
	TOKEN_BYTES_MAX = 8192,
};

struct etcd_request {
	struct etcd_request *next;
	struct etcd *etcd;
	CURL *curl;
	struct curl_slist *headers;
	char *body;
	struct kv_buf in;
	size_t searched; /* bytes of `in` that hold no newline */
	bool stream, too_long;
	bool has_ended;
	bool is_busy;	  /* so says the status of the answer, whoever gave it */
	char refusal[96]; /* why the other end is not spoken to; empty: it is */
	etcd_reply_fn *fn;
	void *arg;
	char error[CURL_ERROR_SIZE];
};

struct etcd {
	struct etcd_options o;
	int endpoint;
	char *token; /* the header line */
	CURLM *multi;
	struct etcd_request *requests;
};

struct etcd *etcd_new(const struct etcd_options *o)
{
	struct etcd *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->o = *o;
	if (!curl_global_init(CURL_GLOBAL_DEFAULT))
		e->multi = curl_multi_init();
	if (!e->multi) {
		free(e);
		return NULL;
	}
	curl_multi_setopt(e->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
	return e;
}

void etcd_free(struct etcd *e)
{
	if (!e)
		return;
	etcd_cancel_all(e);
	curl_multi_cleanup(e->multi);
	curl_global_cleanup();
	free(e->token);
	free(e);
}

void etcd_next_endpoint(struct etcd *e)
{
	e->endpoint = (e->endpoint + 1) % e->o.endpoints;
}

const char *etcd_endpoint(const struct etcd *e)
{
	return e->o.endpoint[e->endpoint];
}

int etcd_set_token(struct etcd *e, const char *token)
{
	free(e->token);
	e->token = NULL;
	if (!token)
		return 0;
	/* It becomes a line of a request. */
	for (const char *p = token; *p; p++)
		if (*p <= ' ' || *p > '~' || p - token >= TOKEN_BYTES_MAX)
			return -EINVAL;
	if (asprintf(&e->token, "Authorization: %s", token) < 0)
		check_alloc(NULL);
	return 0;
}

static void free_request(struct etcd_request *r)
{
	struct etcd_request **p = &r->etcd->requests;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	curl_multi_remove_handle(r->etcd->multi, r->curl);
	curl_easy_cleanup(r->curl);
	curl_slist_free_all(r->headers);
	kv_buf_free(&r->in);
	free(r->body);
	free(r);
}

/* An etcd with users says one thing in plain text: it would take the CommonName for a user, and its
 * gateway cannot. */
static const char *no_json_reason(const char *text, size_t bytes)
{
	static const char named[] = "CommonName of client sending a request against gateway";

	return bytes && memmem(text, bytes, named, sizeof(named) - 1) ? ETCD_NAMED_CERT
								      : ETCD_NO_JSON;
}

static int answer_code(const struct etcd_request *r, const cJSON *reply, const char **text)
{
	int code = cJSON_IsObject(reply) ? etcd_code_of(reply, text) : ETCD_NO_ANSWER;

	if (!cJSON_IsObject(reply) && r->is_busy) {
		*text = "it is too busy to answer, or what stands before it";
		return ETCD_BUSY;
	}
	/* A whole message is a line, behind which more would come. */
	if (!r->has_ended || !r->stream || (reply && code))
		return code;
	*text = "etcd ended the stream of changes";
	return ETCD_NO_ANSWER;
}

static void deliver_answer(const struct etcd_request *r, const char *json, size_t bytes)
{
	cJSON *reply = bytes ? cJSON_ParseWithLength(json, bytes) : NULL;
	const char *text = no_json_reason(json, bytes);
	int code = answer_code(r, reply, &text);

	r->fn(r->arg, code ? NULL : reply, code, text);
	cJSON_Delete(reply);
}

/* Takes what arrived. A message of a stream is a line; it is handed over in etcd_process(), as
 * the callback may end requests, which libcurl does not allow here. */
static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct etcd_request *r = arg;
	size_t bytes = size * n;

	r->too_long = kv_buf_bytes(&r->in) + bytes > ETCD_ANSWER_BYTES_MAX;
	if (r->too_long || kv_buf_reserve(&r->in, bytes))
		return 0;
	memcpy(r->in.data + r->in.end, data, bytes);
	r->in.end += bytes;
	return bytes;
}

static void set_tls(const struct etcd *e, CURL *c)
{
	if (e->o.ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, e->o.ca);
	if (e->o.cert)
		curl_easy_setopt(c, CURLOPT_SSLCERT, e->o.cert);
	if (e->o.key)
		curl_easy_setopt(c, CURLOPT_SSLKEY, e->o.key);
}

/* A port of this host can change hands when its etcd dies: so every connection is looked at, before
 * anything is said. */
#if LIBCURL_VERSION_NUM >= 0x075000
static int on_connected(void *arg, char *address, char *own_address, int port, int own_port)
{
	struct etcd_request *r = arg;
	long connects = 1;
	char text[16];

	(void)own_address;
	(void)own_port;
	curl_easy_getinfo(r->curl, CURLINFO_NUM_CONNECTS, &connects);
	if (!connects) /* it was looked at when it was made */
		return CURL_PREREQFUNC_OK;
	snprintf(text, sizeof(text), "%d", port);
	return listener_is_refused(r->refusal, sizeof(r->refusal), address, text)
		       ? CURL_PREREQFUNC_ABORT
		       : CURL_PREREQFUNC_OK;
}

static void check_port_owner(struct etcd_request *r)
{
	curl_easy_setopt(r->curl, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(r->curl, CURLOPT_PREREQDATA, r);
}
#else
static void check_port_owner(struct etcd_request *r)
{
	(void)r;
}
#endif

/*
 * libcurl's limit is for TCP and TLS together. A host that does not answer is to be left soon. A
 * handshake takes seconds on a host that is slow or busy, and one that is broken off at its limit
 * each time never succeeds: it may take what the request may.
 */
static long connect_ms_max(const struct etcd *e)
{
	bool is_tls = !strncmp(etcd_endpoint(e), "https://", 8);

	return is_tls && e->o.timeout_ms > CONNECT_MS ? e->o.timeout_ms : CONNECT_MS;
}

static void set_request_up(struct etcd_request *r, const char *path)
{
	const struct etcd *e = r->etcd;
	const char *endpoint = etcd_endpoint(e);
	bool is_local = endpoint_is_local(endpoint);
	char url[1024];

	snprintf(url, sizeof(url), "%s%s", is_local ? "http://localhost" : endpoint, path);
	curl_easy_setopt(r->curl, CURLOPT_URL, url);
	if (is_local)
		curl_easy_setopt(r->curl, CURLOPT_UNIX_SOCKET_PATH,
				 endpoint + strlen(ENDPOINT_UNIX));
	curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(r->curl, CURLOPT_PROXY, ""); /* http_proxy is not for the cluster's own */
	curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(r->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms_max(e));
#if LIBCURL_VERSION_NUM >= 0x075700
	/* libcurl need not wait for its thread that asks a resolver that does not answer. */
	curl_easy_setopt(r->curl, CURLOPT_QUICK_EXIT, 1L);
#endif
	if (!r->stream)
		curl_easy_setopt(r->curl, CURLOPT_TIMEOUT_MS, (long)e->o.timeout_ms);
	curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, r->body);
	curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(r->body));
	r->headers = curl_slist_append(NULL, "Content-Type: application/json");
	r->headers = curl_slist_append(r->headers, "Expect:"); /* no 100-continue round trip */
	/* With the first answer Go's server throws away what it has not read of a request, that is,
	 * the later messages: but not of the last request of a connection. */
	if (r->stream)
		r->headers = curl_slist_append(r->headers, "Connection: close");
	if (e->token)
		r->headers = curl_slist_append(r->headers, e->token);
	curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
	curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, r->error);
	curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(r->curl, CURLOPT_PRIVATE, r);
	set_tls(e, r->curl);
	if (e->o.own_port && !is_local)
		check_port_owner(r);
}

/* body: is freed with the request. */
static struct etcd_request *start_request(struct etcd *e, const char *path, char *body,
					  struct etcd_request model)
{
	struct etcd_request *r = malloc(sizeof(*r));

	model.etcd = e;
	model.curl = curl_easy_init();
	model.body = body;
	if (!r || !model.curl || !model.body)
		check_alloc(NULL); /* the cluster's leases and the clients' memory survive it */
	*r = model;
	r->next = e->requests;
	e->requests = r;
	set_request_up(r, path);
	curl_multi_add_handle(e->multi, r->curl);
	return r;
}

void etcd_post(struct etcd *e, const char *path, struct cJSON *body, etcd_reply_fn *fn, void *arg)
{
	char *text = cJSON_PrintUnformatted(body);

	cJSON_Delete(body);
	start_request(e, path, text, (struct etcd_request){.fn = fn, .arg = arg});
}

/* A message a line. */
static char *print_messages(const cJSON *messages)
{
	size_t bytes = 0;
	const cJSON *m;
	char *text = NULL;
	FILE *f = check_alloc(open_memstream(&text, &bytes));

	cJSON_ArrayForEach (m, messages) {
		char *line = check_alloc(cJSON_PrintUnformatted(m));

		fprintf(f, "%s\n", line);
		free(line);
	}
	if (fclose(f))
		check_alloc(NULL);
	return text;
}

struct etcd_request *etcd_stream(struct etcd *e, const char *path, struct cJSON *messages,
				 etcd_reply_fn *fn, void *arg)
{
	char *text = print_messages(messages);

	cJSON_Delete(messages);
	return start_request(e, path, text,
			     (struct etcd_request){.fn = fn, .arg = arg, .stream = true});
}

void etcd_end(struct etcd_request *r)
{
	free_request(r);
}

void etcd_cancel_all(struct etcd *e)
{
	while (e->requests) {
		struct etcd_request *r = e->requests;
		etcd_reply_fn *fn = r->fn;
		void *arg = r->arg;

		free_request(r);
		fn(arg, NULL, ETCD_CANCELLED, "cancelled");
	}
}

static bool is_alive(const struct etcd *e, const struct etcd_request *r)
{
	const struct etcd_request *p = e->requests;

	while (p && p != r)
		p = p->next;
	return p;
}

/* What was looked at before is not looked at again: a message may come in many small parts. */
static uint8_t *find_newline(struct etcd_request *r)
{
	size_t bytes = kv_buf_bytes(&r->in);
	uint8_t *data = bytes ? r->in.data + r->in.start : NULL, *end = NULL;

	if (bytes > r->searched)
		end = memchr(data + r->searched, '\n', bytes - r->searched);
	r->searched = end ? 0 : bytes;
	return end;
}

/* What stands between etcd and us may answer in its place, and not in JSON. */
static bool says_busy(CURL *c)
{
	long status = 0;

	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	return status == 429 || (status >= 502 && status <= 504);
}

/* An error is the last message. */
static void deliver_line(struct etcd_request *r, const char *json, size_t bytes)
{
	cJSON *reply = cJSON_ParseWithLength(json, bytes);
	const char *text = no_json_reason(json, bytes);
	etcd_reply_fn *fn = r->fn;
	void *arg = r->arg;
	int code;

	r->is_busy = says_busy(r->curl);
	code = answer_code(r, reply, &text);

	if (code)
		free_request(r);
	fn(arg, code ? NULL : reply, code, text);
	cJSON_Delete(reply);
}

/* The whole lines of a stream. The callback may end the request. */
static void hand_over_lines(struct etcd *e, struct etcd_request *r)
{
	uint8_t *end;

	while (is_alive(e, r) && (end = find_newline(r))) {
		size_t bytes = end - (r->in.data + r->in.start);
		const char *line = (char *)r->in.data + r->in.start;
		char *copy = strndup(line, bytes);

		r->in.start += bytes + 1;
		if (copy && bytes)
			deliver_line(r, copy, bytes);
		free(copy);
	}
}

/* GnuTLS says which way a certificate failed only by these bits, OpenSSL in its text. */
enum { GNUTLS_SIGNER_NOT_FOUND = 1 << 6, GNUTLS_NOT_YET = 1 << 9, GNUTLS_EXPIRED = 1 << 10 };

static const char *certificate_reason(CURL *c, const char *text)
{
	const char *library = curl_version_info(CURLVERSION_NOW)->ssl_version;
	long bits = 0;

	if (!library || strncmp(library, "GnuTLS", 6) ||
	    curl_easy_getinfo(c, CURLINFO_SSL_VERIFYRESULT, &bits))
		return text;
	if (bits & GNUTLS_SIGNER_NOT_FOUND)
		return "etcd's certificate is not signed by an authority that is trusted here";
	if (bits & GNUTLS_EXPIRED)
		return "etcd's certificate has expired";
	if (bits & GNUTLS_NOT_YET)
		return "etcd's certificate is not valid yet: is the clock right?";
	return text;
}

/* The connection broke within the handshake: nobody has refused anything. In the words of GnuTLS,
 * of OpenSSL, and of the system. */
static bool has_broken(const char *text)
{
	static const char *const words[] = {
		"reset by peer",     "non-properly terminated", "pull function", "push function",
		"SSL_ERROR_SYSCALL", "unexpected eof",		"Broken pipe"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/* A server refuses by an alert; who reads once more after that is told that the session is invalid.
 */
static bool is_refusal(const char *text)
{
	return strstr(text, "alert") || strstr(text, "session has been invalidated");
}

/* NULL: it is no error of TLS. Else the reason. Waiting does not cure it. */
static const char *tls_reason(CURL *c, CURLcode result, const char *text)
{
	static const char *const refused =
		"etcd wants a certificate of ours, or does not accept the one it got";

	switch ((int)result) {
	case CURLE_PEER_FAILED_VERIFICATION: return certificate_reason(c, text);
	case CURLE_SSL_CONNECT_ERROR: /* also for an alert that is read with the first answer */
		if (strstr(text, "recv error") && is_refusal(text))
			return refused;
		return has_broken(text) ? NULL : text;
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR: return text;
	}
	/* With TLS 1.3 a server refuses our certificate after the handshake. */
	return is_refusal(text) ? refused : NULL;
}

static void describe_failure(struct etcd_request *r, CURLcode result, char *error, size_t size)
{
	const char *text = *r->error ? r->error : curl_easy_strerror(result);
	const char *tls = result ? tls_reason(r->curl, result, text) : NULL;

	if (result == CURLE_GOT_NOTHING && endpoint_is_clear(etcd_endpoint(r->etcd)))
		text = "an empty answer: does it want https://?";
	if (*r->refusal)
		text = r->refusal;
	snprintf(error, size, "%s%s", tls ? ETCD_NO_TLS : "", tls ? tls : text);
}

static void finish_request(struct etcd_request *r, CURLcode result)
{
	struct etcd_request done = *r;
	char error[sizeof(ETCD_NO_TLS) + CURL_ERROR_SIZE];

	describe_failure(r, result, error, sizeof(error));
	done.is_busy = says_busy(r->curl);
	done.has_ended = true;
	r->in = (struct kv_buf){0};
	free_request(r);
	if (done.too_long)
		done.fn(done.arg, NULL, ETCD_TOO_LONG, "its answer is longer than is allowed");
	else if (result)
		done.fn(done.arg, NULL,
			result == CURLE_OPERATION_TIMEDOUT ? ETCD_BUSY : ETCD_NO_ANSWER, error);
	else
		deliver_answer(&done, (char *)done.in.data + done.in.start, kv_buf_bytes(&done.in));
	kv_buf_free(&done.in);
}

void etcd_process(struct etcd *e)
{
	struct etcd_request *r, *next;
	CURLMsg *m;
	int n;

	curl_multi_perform(e->multi, &n);
	for (r = e->requests; r; r = next) {
		next = r->next;
		if (!r->stream)
			continue;
		hand_over_lines(e, r);
		if (next && !is_alive(e, next))
			next = e->requests; /* those before it have no lines any more */
	}
	while ((m = curl_multi_info_read(e->multi, &n))) {
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
		finish_request(r, result);
	}
}

void etcd_wait(struct etcd *e, struct curl_waitfd *fds, unsigned int n, int timeout_ms)
{
	curl_multi_poll(e->multi, fds, n, timeout_ms, NULL);
	etcd_process(e);
}
