/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One world with receives posted, anew for each test, in which nothing may have gone wrong. */
#ifndef SHIFT_TESTS_UNIT_FIXTURE_H
#define SHIFT_TESTS_UNIT_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/world.h"

static struct world w;

static int setup(void **state)
{
	(void)state;
	w_init_ready(&w, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(w.bad, 0);
	w_free(&w);
	return 0;
}

/* The world of this test is another one. */
static inline void again(const struct shift_conn_cfg *cfg)
{
	w_free(&w);
	w_init_ready(&w, cfg);
}

static inline const struct shift_conn_stats *stats(int h)
{
	return shift_conn_stats(w.h[h].c);
}

#endif
