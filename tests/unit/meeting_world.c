/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/unit/meeting_world.h"

#include <errno.h>

#include "lib/session/job.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "lib/verbs/qp.h"

struct vqp *v;
struct record ours, theirs;
size_t our_bytes, their_bytes;
unsigned int puts_n, gets_n;
int put_result;
bool key_known, job_full, answers, keep_for_peer;
void (*on_enter)(void);
int peer_psn[SHIFT_RAILS_MAX];

/* --- the rendezvous, the control links ----------------------------------------------------- */

struct kv_client *__wrap_job_client(void);
uint64_t __wrap_job_nonce(void);
const uint64_t *__wrap_job_key_if_known(void);
bool __wrap_job_is_full(void);
int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);
int __wrap_kv_client_get(struct kv_client *c, const char *key, const void **value, size_t *bytes);
int __wrap_kv_client_delete(struct kv_client *c, const char *key);
void __wrap_kv_client_forget(struct kv_client *c, const char *key);
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);
struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce);
void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer);
int __wrap_nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid);
bool __wrap_path_health_answers(struct peer_path *path);
bool __wrap_path_health_keep_for_peer(struct peer_path *path);
void __wrap_vqp_enter(struct vqp *of);
void __real_vqp_enter(struct vqp *of);
void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);

struct kv_client *__wrap_job_client(void)
{
	return (struct kv_client *)(void *)&world;
}

uint64_t __wrap_job_nonce(void)
{
	return NONCE;
}

const uint64_t *__wrap_job_key_if_known(void)
{
	static const uint64_t key[2] = {11, 12};

	return key_known ? key : NULL;
}

bool __wrap_job_is_full(void)
{
	return job_full;
}

int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes)
{
	(void)c;
	puts_n++;
	assert_string_equal(key, OUR_KEY);
	if (put_result)
		return put_result;
	memcpy(&ours, value, bytes);
	our_bytes = bytes;
	return 0;
}

int __wrap_kv_client_get(struct kv_client *c, const char *key, const void **value, size_t *bytes)
{
	(void)c;
	gets_n++;
	assert_string_equal(key, PEER_KEY);
	*value = &theirs;
	*bytes = their_bytes;
	return their_bytes ? 0 : -ENOENT;
}

int __wrap_kv_client_delete(struct kv_client *c, const char *key)
{
	(void)c;
	trace_add("delete %s\n", key);
	return 0;
}

void __wrap_kv_client_forget(struct kv_client *c, const char *key)
{
	(void)c;
	trace_add("forget %s\n", key);
}

void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr)
{
	*addr = (struct ctrl_link_addr){.qpn = 0x500u + nic->index, .qkey = 0x600u + nic->index};
}

struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce)
{
	trace_add("path over %s to %#x of %#llx\n", nic->name, addr->qpn,
		  (unsigned long long)nonce);
	return (struct ctrl_link_peer *)(void *)nic->name;
}

void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer)
{
	trace_add("no path over %s\n", (const char *)(void *)peer);
}

int __wrap_nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid)
{
	assert_int_equal(like->raw[15], 1);
	memset(gid, 0, sizeof(*gid));
	gid->raw[15] = (uint8_t)(0x80 + nic->index);
	return 5 + nic->index;
}

bool __wrap_path_health_answers(struct peer_path *path)
{
	(void)path;
	return answers;
}

bool __wrap_path_health_keep_for_peer(struct peer_path *path)
{
	(void)path;
	return keep_for_peer;
}

/* What another thread does just before a thread has the lock. */
void __wrap_vqp_enter(struct vqp *of)
{
	if (on_enter)
		on_enter();
	__real_vqp_enter(of);
}

void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn)
{
	(void)slot;
	peer_psn[rail] = (int)psn;
}

/* --- begin and end ------------------------------------------------------------------------- */

void set_their_rails(uint8_t rails)
{
	theirs.rails = rails;
	their_bytes = offsetof(struct record, rail) + rails * sizeof(struct rail_addr);
}

void reset_theirs(void)
{
	memset(&theirs, 0, sizeof(theirs));
	theirs.version = 1;
	theirs.id = PEER_ID;
	theirs.nonce = PEER_NONCE;
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		theirs.rail[i] = (struct rail_addr){.link = {.qpn = 0x300u + i},
						    .gid.raw = {[0] = 0xc0, [15] = i},
						    .qpn = 0x400u + i,
						    .lid = (uint16_t)(0x20 + i),
						    .mtu_bytes = 2048,
						    .nic = (uint8_t)(4 + i),
						    .psn = STATS_PSN_LIVE};
	set_their_rails(RAILS);
}

int meeting_begin(void **state)
{
	rooms_begin(state);
	world.gid_at = 2; /* as the program has asked */
	reset_theirs();
	memset(&ours, 0, sizeof(ours));
	memset(peer_psn, 0xff, sizeof(peer_psn));
	their_bytes = our_bytes = puts_n = gets_n = 0;
	put_result = 0;
	key_known = true;
	job_full = answers = keep_for_peer = false;
	on_enter = NULL;
	core.view.state = SHIFT_ST_SETUP;
	core.view.protected_ = false;
	v = rooms_create_qp();
	return 0;
}

void start_and_look(void)
{
	rooms_start_qp(v);
	rendezvous_begin(v);
	trace_clear();
	rooms_pass(0);
}

int meeting_begin_looking(void **state)
{
	meeting_begin(state);
	start_and_look();
	return 0;
}

void peer_comes(void)
{
	set_their_rails(theirs.rails);
	rooms_pass(MS * 1000);
}

/* The two have met, and HELLO has matched. */
void become_active(void)
{
	core.view.state = SHIFT_ST_ACTIVE;
	core.view.protected_ = true;
}

static void it_is_closed(void)
{
	v->life.closed = true;
}

int meeting_end(void **state)
{
	rooms_unlock(v);
	world.on_wait = it_is_closed;
	on_enter = NULL;
	keep_for_peer = false;
	if (v->setup.meeting)
		rendezvous_end(v);
	hook_destroy_qp(v->qp);
	rooms_pass(200ull * 1000 * MS); /* tombstones go */
	rooms_pass(200ull * 1000 * MS);
	return rooms_end(state);
}
