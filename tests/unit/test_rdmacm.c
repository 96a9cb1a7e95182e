/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The functions of librdmacm that programs call (lib/preload/rdmacm.c): which hook comes before
 * which function of librdmacm, with what, and what the program gets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/verbs/cm_ids.h"

#define DECLARE(name, type, args) type rdma_##name args;
REAL_RDMACM(DECLARE)
#undef DECLARE

static struct rdma_cm_id id;
static struct rdma_conn_param param;
static struct rdma_event_channel channel;
static struct rdma_cm_event event, *got;
static char trace[256];
static bool loaded; /* librdmacm is */
static unsigned int lent;

/* --- the hooks, and librdmacm: each adds its name --------------------------------------------- */

static int adds(const char *name, const void *arg, const void *expected)
{
	assert_ptr_equal(arg, expected);
	assert_true(strlen(trace) + strlen(name) + 2 < sizeof(trace));
	strcat(strcat(trace, name), " ");
	errno = ETIMEDOUT;
	return -7;
}

void hook_cm_connects(struct rdma_cm_id *of, const struct rdma_conn_param *with)
{
	adds("hook_connects", of, &id);
	assert_ptr_equal(with, &param);
}

void hook_cm_disconnects(struct rdma_cm_id *of, bool expects)
{
	assert_false(expects);
	adds("hook_leaves", of, &id);
}

int hook_cm_disconnect(struct rdma_cm_id *of)
{
	return adds("hook_disconnect", of, &id);
}

int hook_cm_destroy_id(struct rdma_cm_id *of)
{
	return adds("hook_destroy_id", of, &id);
}

void hook_cm_destroy_ep(struct rdma_cm_id *of)
{
	adds("hook_destroy_ep", of, &id);
}

void hook_cm_destroys_channel(struct rdma_event_channel *of)
{
	adds("hook_destroys_channel", of, &channel);
}

int hook_cm_migrate_id(struct rdma_cm_id *of, struct rdma_event_channel *to)
{
	assert_ptr_equal(to, &channel);
	return adds("hook_migrate_id", of, &id);
}

int hook_cm_get_event(struct rdma_event_channel *from, struct rdma_cm_event **to)
{
	assert_ptr_equal(to, &got);
	return adds("hook_get_event", from, &channel);
}

int hook_cm_ack_event(struct rdma_cm_event *e)
{
	return adds("hook_ack_event", e, &event);
}

static int real_connect(struct rdma_cm_id *of, struct rdma_conn_param *with)
{
	assert_ptr_equal(with, &param);
	return adds("connect", of, &id);
}

static int real_accept(struct rdma_cm_id *of, struct rdma_conn_param *with)
{
	assert_ptr_equal(with, &param);
	return adds("accept", of, &id);
}

static void real_destroy_qp(struct rdma_cm_id *of)
{
	adds("destroy_qp", of, &id);
}

static void real_destroy_event_channel(struct rdma_event_channel *of)
{
	adds("destroy_event_channel", of, &channel);
}

static const struct real_rdmacm real = {.connect = real_connect,
					.accept = real_accept,
					.destroy_qp = real_destroy_qp,
					.destroy_event_channel = real_destroy_event_channel};

const struct real_rdmacm *real_rdmacm(void)
{
	return loaded ? &real : NULL;
}

/* The hooks need it, or would crash. */
void cm_set_real(const struct real_rdmacm *rdmacm)
{
	assert_ptr_equal(rdmacm, &real);
	lent++;
}

/* --- the tests -------------------------------------------------------------------------------- */

static void call_all(int result, int error)
{
#define CALL(call)                                 \
	do {                                       \
		errno = 0;                         \
		assert_int_equal(call, result);    \
		assert_int_equal(errno, error);    \
		if (result == -7)                  \
			assert_int_equal(lent, 1); \
	} while (0)
	CALL(rdma_connect(&id, &param));
	CALL(rdma_accept(&id, &param));
	CALL(rdma_disconnect(&id));
	CALL(rdma_destroy_id(&id));
	CALL(rdma_migrate_id(&id, &channel));
	CALL(rdma_get_cm_event(&channel, &got));
	CALL(rdma_ack_cm_event(&event));
	rdma_destroy_qp(&id);
	rdma_destroy_ep(&id);
	rdma_destroy_event_channel(&channel);
}

/* The peer is told before the kernel is; no id is found any more when it is being destroyed. What
 * waits on a channel is destroyed before it is. */
static void each_has_its_hook_first(void **state)
{
	(void)state;
	loaded = true;
	trace[0] = 0;
	call_all(-7, ETIMEDOUT);
	assert_string_equal(trace, "hook_connects connect hook_connects accept "
				   "hook_disconnect hook_leaves hook_destroy_id "
				   "hook_migrate_id hook_get_event hook_ack_event "
				   "hook_leaves destroy_qp hook_leaves hook_destroy_ep "
				   "hook_destroys_channel destroy_event_channel ");
}

/* As a symbol of ours may be found by who looks whether it exists. */
static void without_librdmacm_all_fail(void **state)
{
	(void)state;
	loaded = false;
	trace[0] = 0;
	call_all(-1, EOPNOTSUPP);
	assert_string_equal(trace, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_its_hook_first),
		cmocka_unit_test(without_librdmacm_all_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
