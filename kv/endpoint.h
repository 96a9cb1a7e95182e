/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The words of --kv: endpoints of etcd. For shift-run and shift-kvd; pure. */
#ifndef SHIFT_KV_ENDPOINT_H
#define SHIFT_KV_ENDPOINT_H

#include <stdbool.h>

#define ENDPOINT_UNIX "unix:" /* and an absolute path */

struct endpoint_user {
	char name[256], password[256]; /* without a name: there is none */
};

/* http://HOST..., https://HOST... or unix:/PATH; then NULL, else what is wrong, a static text. */
const char *endpoint_refusal(const char *url);

bool endpoint_is_local(const char *url);     /* only this host's processes reach it */
bool endpoint_is_clear(const char *url);     /* http:// */
bool endpoint_is_encrypted(const char *url); /* https:// */

/*
 * Takes USER:PASSWORD@ out of the URLs of a list (joined by commas), in place, so that a list in
 * argv or in the environment does not show it any more. The first one counts. False: one of them
 * is too long, or is not well-formed (%XX).
 */
bool endpoints_take_user(char *list, struct endpoint_user *u);

#endif
