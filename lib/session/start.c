/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/start.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/control_socket.h"
#include "lib/base/env.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/conn/key_reuse.h"
#include "lib/conn/memlock.h"
#include "lib/conn/srq_all.h"
#include "lib/object/device.h"
#include "lib/session/bye.h"
#include "lib/session/deaths.h"
#include "lib/session/disconnects.h"
#include "lib/session/dispatch.h"
#include "lib/session/job.h"
#include "lib/session/nic_events.h"
#include "lib/session/operator.h"
#include "lib/session/rendezvous.h"
#include "lib/session/spare_rails.h"
#include "lib/stats/epochs.h"
#include "lib/verbs/cm_ids.h"
#include "lib/verbs/context.h"
#include "lib/verbs/qp.h"

#define LEAVE_MAX_NS 300000000ull

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t owner; /* the process whose threads ours are */
static bool off;    /* not under shift-run, or the background thread could not be started */

static void begin_on_bg(void *arg)
{
	static const struct job_calls calls = {.key_known = rendezvous_wake,
					       .published = rendezvous_published,
					       .died = death_reported};

	(void)arg;
	operator_start();
	job_join(&calls);
}

/* The rooms below call functions of the rooms above only through what they are given here. */
static void connect_rooms(void)
{
	static const struct memory_calls memory = {.is_short = memlock_is_short,
						   .refused = memlock_refused,
						   .registered = memlock_registered,
						   .lacking_changed = memlock_changed,
						   .key_gone = key_reuse_announce,
						   .key_reused = key_reuse_wait};
	static const struct srq_calls srqs = {.evict = srq_qps_evict, .feed = srq_qps_feed};
	struct qp_session session = {
		.nonce = job_nonce(), .begin = rendezvous_begin, .end = rendezvous_end};

	memory_set_calls(&memory);
	qp_set_session(&session);
	cm_set_session(disconnect_say);
	vsrq_set_calls(&srqs);
	nic_on_change(nic_events_changed);
	nic_on_event(nic_events_happened);
	vdev_on_rails_changed(spare_rails_changed);
	ctrl_link_on_message(dispatch_message);
}

static void start_trace(void)
{
	int err = env.trace_epoch_ns ? epochs_open(env.job, env.trace_epoch_ns) : 0;

	if (!err)
		return;
	log_warn("traffic is not recorded (SHIFT_TRACE): %s", strerror(-err));
	env.trace_epoch_ns = 0;
}

static void session_begin(void)
{
	static struct bg_call call = {.fn = begin_on_bg};
	int err;

	owner = getpid();
	job_draw_nonce();
	err = stats_open(env.job, job_nonce(), env.report_dir);
	if (err)
		log_info("no statistics (%s): shift-ctl and the report do not show this process",
			 strerror(-err));
	start_trace();
	connect_rooms();
	bg_call(&call);
}

static void session_init(void)
{
	env_read();
	off = !env.job[0];
	if (off)
		return;
	pause_read();
	gate_start();
	if (bg_start())
		off = true;
	else
		session_begin();
}

struct ibv_context *hook_opened(struct ibv_context *ctx)
{
	int saved = errno;

	if (!ctx || fork_in_child())
		return ctx;
	pthread_once(&once, session_init);
	if (!off)
		context_opened(ctx);
	errno = saved;
	return ctx;
}

/* --- the end -----------------------------------------------------------------------------------
 */

static void say_summary(void)
{
	char line[512];

	if (stats_close(line, sizeof(line)) > 0 && env.summary)
		log_always("%s", line);
}

static void leave_on_bg(void *arg)
{
	bye_say();
	job_leave();
	atomic_store((_Atomic bool *)arg, true);
}

/*
 * A clean exit: the peers are told, and not of a death. It waits at most 300 ms, as exit() must not
 * hang: not even if the program calls it in a handler of a signal that came in the middle of ours.
 * A child that fork.h does not know of (vfork, _Fork, clone) must not end its parent's connections:
 * it may share its memory, and then our threads would do as it says.
 */
static __attribute__((destructor)) void session_end(void)
{
	static _Atomic bool done;
	static struct bg_call call = {.fn = leave_on_bg, .arg = &done};
	uint64_t end = now_ns() + LEAVE_MAX_NS;
	bool called = false;

	if (!job_nonce() || fork_in_child() || getpid() != owner)
		return;
	control_remove();
	epochs_close();
	say_summary();
	while (!done && now_ns() < end) {
		struct timespec t = {.tv_nsec = 200000};

		called = called || bg_call_try(&call);
		nanosleep(&t, NULL);
	}
}
