/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Stands in for the upper layers of the library in programs that use its lower ones alone. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "common/standin.h"

#undef ibv_query_port /* a macro that reaches the newer entry */
#undef ibv_reg_mr

struct real_verbs real;
enum log_level standin_log_level = LOG_DEBUG;

void standin_init(void)
{
	real = (struct real_verbs){
		.get_device_list = ibv_get_device_list,
		.free_device_list = ibv_free_device_list,
		.open_device = ibv_open_device,
		.close_device = ibv_close_device,
		.get_async_event = ibv_get_async_event,
		.ack_async_event = ibv_ack_async_event,
		.query_device = ibv_query_device,
		.query_port = ibv_query_port,
		.query_gid = ibv_query_gid,
		.alloc_pd = ibv_alloc_pd,
		.dealloc_pd = ibv_dealloc_pd,
		.reg_mr = ibv_reg_mr,
		.dereg_mr = ibv_dereg_mr,
		.create_comp_channel = ibv_create_comp_channel,
		.destroy_comp_channel = ibv_destroy_comp_channel,
		.create_cq = ibv_create_cq,
		.destroy_cq = ibv_destroy_cq,
		.get_cq_event = ibv_get_cq_event,
		.ack_cq_events = ibv_ack_cq_events,
		.create_qp = ibv_create_qp,
		.query_qp = ibv_query_qp,
		.modify_qp = ibv_modify_qp,
		.destroy_qp = ibv_destroy_qp,
		.create_ah = ibv_create_ah,
		.destroy_ah = ibv_destroy_ah,
	};
}

void log_at(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	int saved = errno;
	char line[512];
	va_list ap;

	if (level > standin_log_level)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s\n", names[level], line);
	errno = saved;
}
