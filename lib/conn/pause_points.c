/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/pause_points.h"

#include "lib/base/log.h"
#include "lib/conn/vqp.h"

#ifdef SHIFT_TEST_HOOKS

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS	    1000000ull
#define LOOK_NS	    (20 * MS) /* how often it is checked whether a pause is over */
#define FILE_MAX_NS (60000 * MS)

enum { POINTS_MAX = 16 };

struct pause_point {
	enum stats_phase phase;
	uint8_t nth;
	uint64_t ns;
	const char *file; /* NULL: the time counts */
};

struct points {
	struct pause_point at[POINTS_MAX];
	char *text; /* the points' files are in it */
	unsigned int n;
};

static struct points pauses, hangs;
static int psn_believed = -1; /* -1: what was measured counts */
static uint64_t slow_post_ns;

/* --- the environment ------------------------------------------------------------------------- */

static bool read_time(const char *text, uint64_t *ns)
{
	char *unit;
	unsigned long n = strtoul(text, &unit, 10);

	if (unit == text || n > 3600000)
		return false;
	*ns = n * MS;
	if (!strcmp(unit, "s"))
		*ns *= 1000;
	return !strcmp(unit, "s") || !strcmp(unit, "ms");
}

static bool read_nth(const char *text, uint8_t *nth)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*nth = (uint8_t)n;
	return end != text && !*end && n > 0 && n <= UINT8_MAX;
}

static bool read_phase(const char *word, enum stats_phase *phase)
{
	for (unsigned int i = 0; i < STATS_PHASE_COUNT; i++)
		if (!strcmp(word, stats_phase_name(i))) {
			*phase = (enum stats_phase)i;
			return true;
		}
	return false;
}

static bool read_point(char *word, struct pause_point *p)
{
	char *value = strchr(word, ':'), *nth;

	if (!value)
		return false;
	*value++ = 0;
	nth = strchr(word, '@');
	if (nth)
		*nth++ = 0;
	*p = (struct pause_point){.nth = 1, .ns = FILE_MAX_NS};
	if (*value == '/')
		p->file = value;
	else if (!read_time(value, &p->ns))
		return false;
	return read_phase(word, &p->phase) && (!nth || read_nth(nth, &p->nth));
}

static void read_points(const char *variable, struct points *points)
{
	const char *value = secure_getenv(variable);
	char *rest, *word;

	if (points->n || !value || !*value)
		return;
	rest = points->text = strdup(value);
	while (rest && (word = strsep(&rest, ",")))
		if (points->n == POINTS_MAX || !read_point(word, &points->at[points->n++])) {
			log_warn("%s=%s is not understood (expected: fence:2s,handshake@2:/file, "
				 "...): nothing pauses",
				 variable, value);
			points->n = 0;
			return;
		}
}

static void read_psn(void)
{
	const char *value = secure_getenv("SHIFT_PSN");

	for (int i = 0; value && i <= STATS_PSN_STALE; i++)
		if (!strcmp(value, stats_psn_name((unsigned int)i)))
			psn_believed = i;
	if (value && *value && psn_believed < 0)
		log_warn("SHIFT_PSN=%s is not understood (expected: live, stale or unmeasured): "
			 "what was measured counts",
			 value);
}

static void read_slow_post(void)
{
	const char *value = secure_getenv("SHIFT_SLOW_POST");
	char *unit;
	unsigned long n;

	if (!value || !*value)
		return;
	n = strtoul(value, &unit, 10);
	if (unit == value || n > 1000000 || strcmp(unit, "us"))
		log_warn("SHIFT_SLOW_POST=%s is not understood (expected: 2us): nothing is slow",
			 value);
	else
		slow_post_ns = n * 1000;
}

uint64_t pause_post_ns(void)
{
	return slow_post_ns;
}

void pause_read(void)
{
	read_psn();
	read_slow_post();
	read_points("SHIFT_PAUSE", &pauses);
	read_points("SHIFT_HANG", &hangs);
}

/* The point of that phase, if the connection comes to it for the Nth time, counted in *times; or
 * NULL. */
static const struct pause_point *point_of(const struct points *points, enum stats_phase phase,
					  uint8_t *times)
{
	if (*times < UINT8_MAX)
		++*times;
	for (unsigned int i = 0; i < points->n; i++)
		if (points->at[i].phase == phase && points->at[i].nth == *times)
			return &points->at[i];
	return NULL;
}

/* --- the pause ------------------------------------------------------------------------------- */

/* The phase that begins with a change of state; STATS_PHASE_COUNT: none that can be paused. */
static enum stats_phase phase_begun_by(const struct shift_action *report)
{
	int phase = stats_phase_of((enum shift_state)report->to);

	if (report->to == SHIFT_ST_ACTIVE && report->reason == SHIFT_R_COMMIT)
		return STATS_PHASE_REPOST;
	if (phase < 0 || report->to == SHIFT_ST_GIVEUP || report->to == SHIFT_ST_CLOSING)
		return STATS_PHASE_COUNT;
	return (enum stats_phase)phase;
}

static bool in_phase(const struct vqp *v, enum stats_phase phase)
{
	return v->pause.point && v->pause.point->phase == phase;
}

static void pause_begin(struct vqp *v, enum stats_phase phase)
{
	struct pause *p = &v->pause;

	p->point = point_of(&pauses, phase, &p->times[phase]);
	if (!p->point)
		return;
	p->until_ns = now_ns() + p->point->ns;
	log_always("QP %#x: pause point %s", v->qp->qp_num, stats_phase_name(phase));
}

static void pause_end(struct vqp *v, const char *why)
{
	struct pause *p = &v->pause;

	if (!p->point)
		return;
	log_always("QP %#x: pause point %s is over (%s)", v->qp->qp_num,
		   stats_phase_name(p->point->phase), why);
	p->point = NULL;
	p->over = p->holds;
	p->holds = false;
	vqp_await_answers(v); /* it may have missed one */
}

bool pause_take_held(struct vqp *v, struct shift_action *a)
{
	if (!v->pause.over)
		return false;
	v->pause.over = false;
	*a = v->pause.held;
	return true;
}

void pause_change(struct vqp *v, const struct shift_action *report)
{
	enum stats_phase phase = phase_begun_by(report);

	/* NO_RAIL and QUARANTINE are one phase. */
	if (v->pause.point && v->pause.point->phase == phase && phase == STATS_PHASE_WAIT)
		return;
	pause_end(v, "the phase is");
	if (phase != STATS_PHASE_COUNT)
		pause_begin(v, phase);
}

bool pause_action(struct vqp *v, const struct shift_action *a)
{
	if (!in_phase(v, a->type == SHIFT_ACT_FENCE ? STATS_PHASE_FENCE : STATS_PHASE_ARM))
		return false;
	v->pause.held = *a;
	v->pause.holds = true;
	return true;
}

/* --- what is held back ----------------------------------------------------------------------- */

/* Is this the first sign of a fault of the rail in use? */
static bool is_first_sign(const struct vqp *v, const struct shift_event *ev)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	if (view.state != SHIFT_ST_ACTIVE)
		return false;
	if (ev->type == SHIFT_EV_LINK_DOWN)
		return (1u << ev->rail | ev->also) >> view.r & 1;
	return ev->type == SHIFT_EV_MSG && ev->msg->type == SHIFT_MSG_SWITCH &&
	       ev->msg->epoch > view.e;
}

/* Is it messages and timers that end the phase? */
static bool ends_by_control(enum stats_phase phase)
{
	return phase == STATS_PHASE_DETECT || phase == STATS_PHASE_PREPARE ||
	       phase == STATS_PHASE_DRAIN || phase == STATS_PHASE_WAIT ||
	       phase == STATS_PHASE_HANDSHAKE;
}

bool pause_event(struct vqp *v, const struct shift_event *ev)
{
	if (!v->pause.point && is_first_sign(v, ev))
		pause_begin(v, STATS_PHASE_DETECT);
	if (!v->pause.point || !ends_by_control(v->pause.point->phase))
		return false;
	if (ev->type == SHIFT_EV_MSG)
		return true; /* the peer repeats it */
	if (v->pause.point->phase != STATS_PHASE_DETECT)
		return false;
	v->pause.links |= ev->type == SHIFT_EV_LINK_DOWN || ev->type == SHIFT_EV_LINK_UP;
	return true;
}

bool pause_next_link(struct vqp *v, struct shift_event *ev)
{
	struct pause *p = &v->pause;

	if (p->point || !p->links)
		return false;
	if (p->next_link == v->setup.peer_rails) {
		p->links = false;
		p->next_link = 0;
		return false;
	}
	*ev = (struct shift_event){.type = v->dev->nic[p->next_link]->link_up ? SHIFT_EV_LINK_UP
									      : SHIFT_EV_LINK_DOWN,
				   .rail = p->next_link};
	p->next_link++;
	return true;
}

bool pause_repost(const struct vqp *v)
{
	return in_phase(v, STATS_PHASE_REPOST);
}

bool pause_tick(struct vqp *v)
{
	struct pause *p = &v->pause;

	if (p->point && now_ns() >= p->until_ns)
		pause_end(v, "the time is");
	if (p->point && p->point->file && !access(p->point->file, F_OK))
		pause_end(v, "the file is there");
	return p->point && ends_by_control(p->point->phase);
}

uint64_t pause_deadline(const struct vqp *v, uint64_t at_ns)
{
	uint64_t look = now_ns() + LOOK_NS;

	if (!v->pause.point)
		return v->pause.links && look < at_ns ? look : at_ns;
	return ends_by_control(v->pause.point->phase) || look < at_ns ? look : at_ns;
}

/* --- a NIC that hangs ------------------------------------------------------------------------ */

void pause_hang(struct vqp *v, enum stats_phase phase)
{
	const struct pause_point *point = point_of(&hangs, phase, &v->pause.asked[phase]);
	struct timespec t;

	if (!point)
		return;
	t = (struct timespec){.tv_sec = (time_t)(point->ns / (1000 * MS)),
			      .tv_nsec = (long)(point->ns % (1000 * MS))};
	log_always("QP %#x: the NIC hangs: %s", v->qpn, stats_phase_name(phase));
	nanosleep(&t, NULL);
}

/* --- whether a NIC's rq_psn is live ---------------------------------------------------------- */

enum stats_psn pause_psn(enum stats_psn measured)
{
	return psn_believed < 0 ? measured : (enum stats_psn)psn_believed;
}

#endif
