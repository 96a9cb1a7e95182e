/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The job key that a user gives: where it comes from, and its id. For shift-run and shift-kvd; one
 * thread. What is wrong ends the process with the status that the caller says, after a message.
 */
#ifndef SHIFT_KV_JOB_KEY_H
#define SHIFT_KV_JOB_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/proto.h"

enum { JOB_KEY_ID_BYTES = 8 };

/* What shift-kvd says of a key that does not fit the one of the job's other hosts. */
#define JOB_KEY_ON_SOME \
	"a job key (--key-file, SHIFT_JOB_KEY) must be given on all hosts of a job, or on none"
#define JOB_KEY_DIFFERS "the job has another key: --key-file of another job?"

/* Reads a file of 16 bytes that only its owner, root or this user, can read. */
void job_key_read(uint8_t key[KV_JOB_KEY_BYTES], const char *path, int status);

/*
 * Takes SHIFT_JOB_KEY, 32 hexadecimal digits, out of the environment, where it is overwritten:
 * children do not get it, and /proc/PID/environ does not show it any more. False: it is not set.
 */
bool job_key_take(uint8_t key[KV_JOB_KEY_BYTES], int status);

/* Hands a key to a child: a descriptor from which it can be read once, for --key-fd. */
int job_key_pipe(const uint8_t key[KV_JOB_KEY_BYTES], int status);

/* Reads it there, and closes the descriptor. */
void job_key_receive(uint8_t key[KV_JOB_KEY_BYTES], int fd, int status);

/* Tells one key from another, and does not give it away: SipHash of a constant under the key. */
void job_key_id(uint8_t id[JOB_KEY_ID_BYTES], const uint8_t key[KV_JOB_KEY_BYTES]);

/* The same as 16 hexadecimal digits. */
void job_key_id_text(char text[2 * JOB_KEY_ID_BYTES + 1], const uint8_t key[KV_JOB_KEY_BYTES]);

/*
 * USER:PASSWORD of such a file, its first line: the user becomes the text in data, the password is
 * the result, in data too.
 */
const char *read_user_file(const char *path, char *data, int size, int status);

/* NULL, or what to say of the key of a certificate that others can read; as of format_text(). */
const char *open_key_warning(const char *path);

/* A file with a secret, at most size bytes of it; their number. As job_key_read(). */
int read_secret_file(const char *path, char *data, int size, int status);

#endif
