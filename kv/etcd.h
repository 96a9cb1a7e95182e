/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Requests to etcd v3's JSON gateway: libcurl's multi interface, several endpoints, no thread. */
#ifndef SHIFT_KV_ETCD_H
#define SHIFT_KV_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct curl_waitfd;
struct etcd;
struct etcd_request;

enum {
	ETCD_ENDPOINTS_MAX = 16,
	ETCD_ANSWER_BYTES_MAX = 16 << 20, /* of an answer, or of a message of a stream */
};

/* The text of an answer that does not come from an etcd. */
#define ETCD_NO_JSON "no JSON came: is this etcd?"

/* The text if etcd's gateway refuses our certificate because of the name in it. */
#define ETCD_NAMED_CERT                                                                     \
	"it has users, and then takes no certificate with a CommonName: ours must be made " \
	"without one"

/* In the text if the etcd has reached its quota. */
#define ETCD_NO_SPACE "database space exceeded"

/* How the text begins if TLS fails: a certificate is not accepted, or this is no TLS. */
#define ETCD_NO_TLS "TLS: "

/* Strings are the caller's and live as long as the etcd; NULL where not given. */
struct etcd_options {
	const char *endpoint[ETCD_ENDPOINTS_MAX]; /* as of kv/endpoint.h, without a user */
	int endpoints;
	const char *ca, *cert, *key; /* PEM files */
	int timeout_ms;		     /* of every request that is not a stream */
	bool own_port; /* one on this host must be listened to by this user or root, and no other */
};

/* gRPC's, as the gateway passes them on. */
enum etcd_code {
	ETCD_OK = 0,
	ETCD_NO_ANSWER = -1, /* the endpoint cannot be reached, is too slow, or is not an etcd */
	ETCD_CANCELLED = -2, /* by etcd_cancel_all() */
	ETCD_TOO_LONG = -3,  /* an answer of more than ETCD_ANSWER_BYTES_MAX */
	ETCD_BUSY = -4,	     /* no answer in time, or that of a proxy that there is none */
	ETCD_NOT_FOUND = 5,
	ETCD_FAILED_PRECONDITION = 9,
	ETCD_OUT_OF_RANGE = 11, /* that revision has been compacted */
	ETCD_UNAUTHENTICATED = 16,
};

/*
 * An answer: `reply` (valid during the call) with ETCD_OK; else `text` is the error. For a stream
 * it is called for each message, and at last, once, with an error, as a stream has no regular end.
 */
typedef void etcd_reply_fn(void *arg, const struct cJSON *reply, int code, const char *text);

/* NULL: libcurl does not start. */
struct etcd *etcd_new(const struct etcd_options *o);
void etcd_free(struct etcd *e);

/* POSTs body (deleted here) to e.g. "/v3/kv/txn" of the present endpoint. fn is always called, from
 * etcd_process() or etcd_cancel_all(). */
void etcd_post(struct etcd *e, const char *path, struct cJSON *body, etcd_reply_fn *fn, void *arg);

/* The same with several messages, the elements of an array (deleted here), for an answer without
 * end. */
struct etcd_request *etcd_stream(struct etcd *e, const char *path, struct cJSON *messages,
				 etcd_reply_fn *fn, void *arg);

/* Ends a stream that has not ended: fn is not called any more. */
void etcd_end(struct etcd_request *r);

/* Ends all requests; the callbacks get ETCD_CANCELLED. */
void etcd_cancel_all(struct etcd *e);

/* Uses the next endpoint from now on; its URL. */
void etcd_next_endpoint(struct etcd *e);
const char *etcd_endpoint(const struct etcd *e);

/* Sent with every request from now on; NULL: none. 0, or -EINVAL if that is no token. */
int etcd_set_token(struct etcd *e, const char *token);

/*
 * A number for the lease by which a daemon shows that it uses this etcd: random, with a prefix by
 * which `shift-kvd etcd` recognises it.
 */
int64_t etcd_presence_lease(void);
bool etcd_is_presence_lease(int64_t lease);

/* Waits for the network or for fds[] (whose revents are set), at most timeout_ms; then handles
 * what came. */
void etcd_wait(struct etcd *e, struct curl_waitfd *fds, unsigned int n, int timeout_ms);
void etcd_process(struct etcd *e);

/* etcd's bytes are base64, its 64-bit integers strings. */
struct cJSON *etcd_add_bytes(struct cJSON *o, const char *name, const void *data, size_t bytes);
void etcd_add_int(struct cJSON *o, const char *name, int64_t n);
int64_t etcd_int(const struct cJSON *o, const char *name); /* 0: there is none, or no number */

/* The same for a revision: 1..ETCD_REVISION_MAX, to which numbers can be added; or 0. */
#define ETCD_REVISION_MAX (INT64_MAX / 2)
int64_t etcd_revision(const struct cJSON *o, const char *name);

/* enum etcd_code of an answer, which is an object; if not ETCD_OK, *text is set (valid as long as
 * the answer). */
int etcd_code_of(const struct cJSON *reply, const char **text);

/* Is it late, or has it too much to do now? Then the same request may succeed later. One that is
 * full (ETCD_NO_SPACE) stays so. */
bool etcd_is_busy(int code, const char *text);

/* Decodes member `name`, to be freed, NUL-terminated; NULL: not there, or no base64. */
uint8_t *etcd_bytes(const struct cJSON *o, const char *name, size_t *bytes);

#endif
