/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/fds.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/read_wait.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/table.h"
#include "lib/base/uncancelled.h"
#include "lib/object/object.h"

/* So many events of the kernel may come before the shadows are looked at: they are not starved. */
enum { KERNEL_TURNS = 16 };

struct channel {
	struct object obj; /* the program has a reference, and each CQ on it */
	struct ibv_comp_channel
		kernel; /* what libibverbs sees of it; its fd is the kernel's file */
	int own_fd;	/* eventfd: readable while the list is not empty */
	struct vdev *dev;

	pthread_mutex_t lock;
	int fd; /* the program's: epoll over all others; -1: it has destroyed the channel */
	struct cq_events *first, **end;		   /* events of ours, in order */
	struct ibv_comp_channel *shadow[NICS_MAX]; /* written on that NIC's worker */
	unsigned int shadows;			   /* how many of them were ever made */
	bool kernel_gone;  /* the program's NIC was removed, which the CQs' connections survive */
	unsigned int turn; /* of the shadows, or of the kernel */
	bool doubtful;	   /* there may be events whose completions the program has had */
	_Atomic bool slept_in; /* a thread of the program has slept in ibv_get_cq_event */
};

static struct table channels = TABLE_INIT; /* by the program's pointer */
static struct table events = TABLE_INIT;   /* struct cq_events by the program's CQ */

static struct channel *channel_find(const struct ibv_comp_channel *program)
{
	return program ? table_get(&channels, (uintptr_t)program) : NULL;
}

/* --- descriptors ------------------------------------------------------------------------------ */

static int fd_unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int epoll_add(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* The last quarter is the program's: what it can open without us must not fail for our sake. */
static bool few_are_left(int fd)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)fd >= limit.rlim_cur / 4 * 3;
}

/* The program's descriptor becomes ours, under the same number. */
static bool fds_take_over(struct channel *c, int program_fd)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	bool ok;

	c->kernel.fd = fd_duplicate(program_fd);
	c->own_fd = fd_move(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ok = epoll_fd >= 0 && c->kernel.fd >= 0 && c->own_fd >= 0 && !few_are_left(c->own_fd) &&
	     !epoll_add(epoll_fd, c->kernel.fd) && !epoll_add(epoll_fd, c->own_fd) &&
	     !fd_unblock(c->kernel.fd) && dup3(epoll_fd, program_fd, O_CLOEXEC) >= 0;
	fd_close_if_open(epoll_fd);
	if (ok)
		return true;
	fd_close_if_open(c->kernel.fd);
	fd_close_if_open(c->own_fd);
	return false;
}

/* --- the life of a channel -------------------------------------------------------------------- */

static void channel_free(struct object *obj)
{
	struct channel *c = (struct channel *)obj;

	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct channel *channel_new(struct vdev *dev, struct ibv_comp_channel *program)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->obj.refs = 1;
	c->obj.free = channel_free;
	c->dev = dev;
	c->kernel.context = program->context;
	c->fd = program->fd;
	c->end = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	if (!table_put(&channels, (uintptr_t)program, c) && fds_take_over(c, program->fd))
		return c;
	table_remove(&channels, (uintptr_t)program);
	channel_free(&c->obj);
	return NULL;
}

static void channel_close(struct channel *c)
{
	close(c->kernel.fd);
	close(c->own_fd);
}

struct ibv_comp_channel *hook_created_channel(struct ibv_comp_channel *program)
{
	static atomic_bool warned;
	struct vdev *dev = program ? vdev_find(program->context) : NULL;

	if (dev && dev->rails > 1 && !fork_in_child_warn() && !channel_new(dev, program) &&
	    !atomic_exchange(&warned, true))
		log_warn("%s: queue pairs on some completion channels are not protected: few "
			 "descriptors (RLIMIT_NOFILE) or no memory are left",
			 dev->nic[0]->name);
	return program;
}

/* On the NIC's worker, after the shadows of the channel's CQs. */
static void channel_unshadow(struct object *obj, struct nic *nic)
{
	struct channel *c = (struct channel *)obj;
	struct ibv_comp_channel *shadow;

	pthread_mutex_lock(&c->lock);
	shadow = c->shadow[nic->index];
	c->shadow[nic->index] = NULL;
	pthread_mutex_unlock(&c->lock);
	if (shadow && real.destroy_comp_channel(shadow))
		log_debug("%s: a shadow channel is still in use", nic->name);
}

/* A thread that has acknowledged the last event may still be about to leave the lock. */
static void channel_retire(struct channel *c)
{
	pthread_mutex_lock(&c->lock);
	channel_close(c);
	pthread_mutex_unlock(&c->lock);
	/* Also without a shadow: a job that makes one may be under way. */
	for (unsigned int i = 1; i < c->dev->rails; i++)
		object_job(&c->obj, c->dev->nic[i], channel_unshadow);
	object_put(&c->obj);
}

/* EBUSY, or closes the program's descriptor: under the lock, as its number may be another file's at
 * once. */
static int channel_destroy_real(struct channel *c, struct ibv_comp_channel *program)
{
	int err;

	if (!c || fork_in_child())
		return quietly(real.destroy_comp_channel(program));
	pthread_mutex_lock(&c->lock);
	err = quietly(real.destroy_comp_channel(program));
	if (!err)
		c->fd = -1;
	pthread_mutex_unlock(&c->lock);
	return err;
}

int hook_destroy_channel(struct ibv_comp_channel *program)
{
	struct channel *c = channel_find(program);
	int err = channel_destroy_real(c, program);

	if (!c || err)
		return err;
	if (fork_in_child_warn()) {
		table_remove_forked(&channels, (uintptr_t)program);
		channel_close(c);
		return 0;
	}
	/* Another thread may have created one at this address already, which has replaced ours. */
	if (channel_find(program) == c)
		table_remove(&channels, (uintptr_t)program);
	channel_retire(c);
	return 0;
}

struct ibv_comp_channel *channel_shadow(struct channel *c, struct nic *nic)
{
	struct ibv_comp_channel *shadow = c->shadow[nic->index];

	if (shadow)
		return shadow;
	shadow = real.create_comp_channel(nic->ctx);
	if (!shadow)
		return NULL;
	shadow->fd = fd_move(shadow->fd);
	pthread_mutex_lock(&c->lock);
	if (fd_unblock(shadow->fd) || (c->fd >= 0 && epoll_add(c->fd, shadow->fd))) {
		pthread_mutex_unlock(&c->lock);
		real.destroy_comp_channel(shadow);
		return NULL;
	}
	c->shadow[nic->index] = shadow;
	c->shadows++;
	pthread_mutex_unlock(&c->lock);
	return shadow;
}

/* --- CQs on it ---------------------------------------------------------------------------------
 */

struct ibv_comp_channel *channel_for_kernel(struct ibv_comp_channel *program)
{
	struct channel *c = channel_find(program);

	return c ? &c->kernel : program;
}

void channel_adopt_cq(struct ibv_cq *cq, struct ibv_comp_channel *program)
{
	struct channel *c = channel_find(program);

	if (!c || cq->channel != &c->kernel)
		return;
	/* libibverbs counts the CQs of a channel under this lock. */
	pthread_mutex_lock(&program->context->mutex);
	c->kernel.refcnt--;
	program->refcnt++;
	cq->channel = program;
	pthread_mutex_unlock(&program->context->mutex);
}

struct ibv_cq_init_attr_ex *channel_attr_for_kernel(const struct ibv_cq_init_attr_ex *attr,
						    struct ibv_cq_init_attr_ex *copy)
{
	*copy = (struct ibv_cq_init_attr_ex){
		.cqe = attr->cqe,
		.cq_context = attr->cq_context,
		.channel = channel_for_kernel(attr->channel),
		.comp_vector = attr->comp_vector,
		.wc_flags = attr->wc_flags,
		.comp_mask = attr->comp_mask,
	};
	/* An older program's ends before these. */
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		copy->flags = attr->flags;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		copy->parent_domain = attr->parent_domain;
	return copy;
}

struct ibv_cq_ex *channel_adopt_cq_ex(struct ibv_cq_ex *cq, struct ibv_comp_channel *program)
{
	if (cq)
		channel_adopt_cq(ibv_cq_ex_to_cq(cq), program);
	return cq;
}

bool cq_events_begin(struct cq_events *e, struct ibv_cq *cq, struct ibv_comp_channel *program)
{
	struct channel *c = channel_find(program);

	if (!c)
		return true;
	e->cq = cq;
	if (table_put(&events, (uintptr_t)cq, e))
		return false;
	object_get(&c->obj);
	e->channel = c;
	return true;
}

void cq_events_over(struct cq_events *e)
{
	/* Another thread may have created a CQ at this address already. */
	if (table_get(&events, (uintptr_t)e->cq) == e)
		table_remove(&events, (uintptr_t)e->cq);
	pthread_mutex_lock(&e->channel->lock); /* who has acknowledged the last event leaves it */
	pthread_mutex_unlock(&e->channel->lock);
}

void cq_events_end(struct cq_events *e)
{
	if (e->channel)
		object_put(&e->channel->obj);
}

/* --- events of ours ----------------------------------------------------------------------------
 */

/* Each makes the descriptor readable once more: a program that watches for edges has to hear of
 * each. Under the lock. */
static void own_add(struct channel *c, struct cq_events *e)
{
	uint64_t one = 1;
	ssize_t written = write(c->own_fd, &one, sizeof(one));

	c->doubtful = true;
	(void)written; /* it fails only where 2^64 events wait */
	if (e->listed)
		return;
	e->listed = true;
	e->next = NULL;
	*c->end = e;
	c->end = &e->next;
}

/* Under the lock. */
static void own_remove(struct channel *c, struct cq_events *e)
{
	struct cq_events **at = &c->first;
	uint64_t all;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	if (!e->next)
		c->end = at;
	e->listed = false;
	if (!c->first && read(c->own_fd, &all, sizeof(all)) < 0)
		log_debug("an event of a completion channel was read by another");
}

void cq_events_doubt(struct cq_events *e)
{
	pthread_mutex_lock(&e->channel->lock);
	e->channel->doubtful = true;
	pthread_mutex_unlock(&e->channel->lock);
}

void cq_events_settle(struct cq_events *e)
{
	pthread_mutex_lock(&e->channel->lock);
	e->channel->doubtful = false;
	pthread_mutex_unlock(&e->channel->lock);
}

bool cq_events_slept_for(const struct cq_events *e)
{
	return e->channel->slept_in;
}

bool cq_events_may_be_empty(struct cq_events *e, bool slow)
{
	bool may;

	pthread_mutex_lock(&e->channel->lock);
	may = slow || e->channel->doubtful;
	pthread_mutex_unlock(&e->channel->lock);
	return may;
}

void cq_events_add(struct cq_events *e)
{
	struct channel *c = e->channel;

	uncancelled_begin();
	pthread_mutex_lock(&c->lock);
	if (e->closing)
		e->dropped = true;
	else if (c->fd >= 0)
		own_add(c, e);
	pthread_mutex_unlock(&c->lock);
	uncancelled_end();
}

/* --- who has had which events ------------------------------------------------------------------
 */

static uint64_t owed(const struct cq_events *e)
{
	return e->given > e->acked ? e->given - e->acked : 0;
}

/* The kernel has reported so many of the CQ's events, we have given so many to the program, and it
 * has acknowledged so many, which may be more than it was given. libibverbs, which waits in
 * destroy_cq until all that were reported are acknowledged, waits until the program owes nothing.
 * Under the lock. After that the CQ may be gone. */
static void events_count(struct cq_events *e, unsigned int reported, unsigned int given,
			 unsigned int acked)
{
	uint64_t before = owed(e);
	unsigned int n;

	e->given += given;
	e->acked += acked;
	n = reported + (unsigned int)(before - owed(e)); /* may be -1: it is a counter that wraps */
	if (n)
		real.ack_cq_events(e->cq, n);
}

void hook_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	struct cq_events *e = table_get(&events, (uintptr_t)cq);
	struct channel *c;

	if (!e || fork_in_child()) {
		real.ack_cq_events(cq, n);
		return;
	}
	c = e->channel;
	pthread_mutex_lock(&c->lock);
	events_count(e, 0, 0, n);
	pthread_mutex_unlock(&c->lock);
}

void cq_events_take_back(struct cq_events *e)
{
	struct channel *c = e->channel;

	pthread_mutex_lock(&c->lock);
	events_count(e, 0, 0, 1);
	pthread_mutex_unlock(&c->lock);
}

/* --- the next event ----------------------------------------------------------------------------
 */

struct event {
	struct ibv_cq *cq;
	void *cq_context;
	struct cq_events *e; /* NULL: shift does not know the CQ */
};

/* These return 0, or a negative errno. Under the lock. */

static int own_next(struct channel *c, struct event *ev)
{
	struct cq_events *e = c->first;

	if (!e)
		return -EAGAIN;
	own_remove(c, e);
	*ev = (struct event){e->cq, e->cq->cq_context, e};
	events_count(e, 0, 1, 0);
	return 0;
}

/* It was removed, and so reports an error for ever. Where connections may live on elsewhere the
 * program does not hear of it. */
static void kernel_lost(struct channel *c)
{
	log_info("a completion channel has lost its NIC, and goes on with others");
	c->kernel_gone = true;
	epoll_ctl(c->fd, EPOLL_CTL_DEL, c->kernel.fd, NULL);
}

static int kernel_next(struct channel *c, struct event *ev)
{
	struct cq_events *e;

	if (c->kernel_gone)
		return -EAGAIN;
	if (real.get_cq_event(&c->kernel, &ev->cq, &ev->cq_context)) {
		if (errno != EIO || !c->shadows)
			return -errno;
		kernel_lost(c);
		return -EAGAIN;
	}
	e = table_get(&events, (uintptr_t)ev->cq);
	ev->e = e;
	if (e)
		events_count(e, 1, 1, 0);
	return 0;
}

/* The next event of a shadow on that NIC, for a CQ that is not being destroyed; or NULL. */
static struct cq_events *shadow_next_of(struct channel *c, unsigned int nic)
{
	struct ibv_comp_channel *shadow = c->shadow[nic];
	struct cq_events *e;
	struct ibv_cq *cq;
	void *context;
	bool closing;

	while (shadow && !real.get_cq_event(shadow, &cq, &context)) {
		e = context;
		closing = e->closing;
		real.ack_cq_events(cq, 1); /* a worker that destroys the shadow waits for it */
		if (!closing)
			return e;
	}
	if (shadow && errno == EIO) /* the NIC was removed */
		epoll_ctl(c->fd, EPOLL_CTL_DEL, shadow->fd, NULL);
	return NULL;
}

static int shadow_next(struct channel *c, struct event *ev)
{
	struct cq_events *e = NULL;

	for (unsigned int i = 0; c->shadows && !e && i < NICS_MAX; i++)
		e = shadow_next_of(c, i);
	if (!e)
		return -EAGAIN;
	*ev = (struct event){e->cq, e->cq->cq_context, e};
	events_count(e, 0, 1, 0);
	return 0;
}

/* While nothing fails all events are the kernel's, and a thread that was woken finds its one with
 * the first read. */
static int channel_next(struct channel *c, struct event *ev)
{
	int err;

	uncancelled_begin();
	pthread_mutex_lock(&c->lock);
	err = own_next(c, ev);
	if (err && c->turn++ % KERNEL_TURNS == 0)
		err = shadow_next(c, ev);
	if (err)
		err = kernel_next(c, ev);
	if (err == -EAGAIN)
		err = shadow_next(c, ev);
	if (err) /* none is left */
		c->doubtful = false;
	pthread_mutex_unlock(&c->lock);
	uncancelled_end();
	return err;
}

/* --- a CQ is destroyed -------------------------------------------------------------------------
 */

/* Of what the kernel has for shadows, the events of other CQs become events of ours. Otherwise a
 * descriptor would be readable for an event that nobody gets. Under the lock. */
static void shadows_empty(struct channel *c)
{
	for (unsigned int i = 0; c->shadows && i < NICS_MAX; i++) {
		struct cq_events *e;

		while ((e = shadow_next_of(c, i)))
			own_add(c, e);
	}
}

void cq_events_close(struct cq_events *e)
{
	struct channel *c = e->channel;

	pthread_mutex_lock(&c->lock);
	e->closing = true;
	e->dropped = e->listed;
	if (e->listed)
		own_remove(c, e);
	shadows_empty(c);
	pthread_mutex_unlock(&c->lock);
}

bool cq_events_closing(struct cq_events *e)
{
	bool closing;

	if (!e->channel)
		return false;
	pthread_mutex_lock(&e->channel->lock);
	closing = e->closing;
	pthread_mutex_unlock(&e->channel->lock);
	return closing;
}

/* It may have had an event of a shadow: one too many does no harm. */
void cq_events_reopen(struct cq_events *e)
{
	struct channel *c = e->channel;

	pthread_mutex_lock(&c->lock);
	e->closing = false;
	if (e->dropped || c->shadows)
		own_add(c, e);
	pthread_mutex_unlock(&c->lock);
}

/* --- ibv_get_cq_event --------------------------------------------------------------------------
 */

/* Whether it blocks is for the program to say, at any time, by the flags of its descriptor. 0:
 * there may be an event now. */
static int channel_wait(struct channel *c, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	if (flags & O_NONBLOCK) {
		errno = EAGAIN;
		return -1;
	}
	c->slept_in = true;
	return read_wait(fd);
}

/* A child of fork() has no more than the kernel's events, as without us. */
static int get_in_child(struct channel *c, int fd, struct event *ev)
{
	int flags = fcntl(fd, F_GETFL);

	while (real.get_cq_event(&c->kernel, &ev->cq, &ev->cq_context))
		if (errno != EAGAIN || flags < 0 || flags & O_NONBLOCK || read_wait(c->kernel.fd))
			return -1;
	return 0;
}

/* What the program's descriptor is ready for is tried first: so a program that has polled it never
 * sleeps here. */
static int get_event(struct channel *c, struct ibv_comp_channel *program, struct event *ev,
		     bool *slept)
{
	int fd = program->fd, err;

	while ((err = channel_next(c, ev)) == -EAGAIN) {
		if (channel_wait(c, fd))
			return -1;
		if (channel_find(program) != c) { /* it was destroyed meanwhile */
			errno = EBADF;
			return -1;
		}
		*slept = true;
	}
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

int channel_get_event(struct ibv_comp_channel *program, struct ibv_cq **cq, void **cq_context,
		      struct cq_events **e, bool *slept)
{
	struct channel *c = channel_find(program);
	struct event ev = {.e = NULL};
	int err;

	*e = NULL;
	if (!c)
		return real.get_cq_event(program, cq, cq_context);
	err = fork_in_child() ? get_in_child(c, program->fd, &ev)
			      : get_event(c, program, &ev, slept);
	if (err)
		return err;
	*cq = ev.cq;
	*cq_context = ev.cq_context;
	*e = ev.e;
	return 0;
}
