/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The inner side of the network: between net.c and net_rates.c. */
#ifndef SHIFT_TESTS_COLLSIM_NET_RATES_H
#define SHIFT_TESTS_COLLSIM_NET_RATES_H

#include "tests/collsim/net.h"

/* Room for one more behind n elements. Ends the process if there is no memory. */
void *net_grow(void *array, size_t n, size_t size);

/* Rates from now on; flows that have nothing left leave the list of live ones. */
void rates_compute(struct net *n);

/* A step of congestion control. */
void rates_control(struct net *n);

/* Tells what has been sent until now. */
void rates_tell(struct net *n);

#endif
