/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What stands in for the rendezvous and the control links, in tests of connections that look for
 * their peer. Each test, or its world, defines these. */
#ifndef MEETING_WRAPS_H
#define MEETING_WRAPS_H

#include "lib/session/rendezvous.h"
#include "tests/unit/rooms.h"

struct kv_client *__wrap_job_client(void);
uint64_t __wrap_job_nonce(void);
const uint64_t *__wrap_job_key_if_known(void);
bool __wrap_job_is_full(void);
int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);
int __wrap_kv_client_watch(struct kv_client *c, const char *prefix);
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);
struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce);
void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer);
int __wrap_nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid);
void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);

#endif
