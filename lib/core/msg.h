/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Control messages and their codec. Many connections of one pair of processes share a datagram;
 * it fits the payload of one UD packet at path MTU 4096. Big endian, no padding; the layout is in
 * doc/protocol.md. Pure; any thread.
 */
#ifndef SHIFT_CORE_MSG_H
#define SHIFT_CORE_MSG_H

#include "lib/core/types.h"

#define SHIFT_MSG_VERSION      3
#define SHIFT_MSG_MAGIC	       0x53485446u /* "SHTF" */
#define SHIFT_MSG_ENVELOPE     36	   /* bytes before the first record, tag included */
#define SHIFT_MSG_DATAGRAM_MAX 4096
#define SHIFT_MSG_BLOB_MAX     200 /* bytes of a SESSION; with all around it fits an MTU of 256 */
#define SHIFT_MSG_RECORD_MAX   210 /* the longest record */

enum shift_msg_type {
	SHIFT_MSG_HELLO = 1,
	SHIFT_MSG_SWITCH = 2,
	SHIFT_MSG_FAILED = 3,
	SHIFT_MSG_CLOSED = 4,
	SHIFT_MSG_UNKNOWN = 5,
	SHIFT_MSG_NOT_YET = 6,
	SHIFT_MSG_PREPARE = 7,
	SHIFT_MSG_READY = 8,
	SHIFT_MSG_QUERY_PSN = 9,
	SHIFT_MSG_PSN = 10,
	/* Rule 23: for the caller, not for the state machine. */
	SHIFT_MSG_KEY_ASK = 11,	   /* which key does the shadow of your MR have on that rail? */
	SHIFT_MSG_KEY = 12,	   /* the answer */
	SHIFT_MSG_KEY_GONE = 13,   /* the MR is gone: forget its key */
	SHIFT_MSG_KEY_FORGOT = 14, /* done */
	/* Between the processes, not of a connection: for the caller, who alone knows what the
	 * bytes mean. */
	SHIFT_MSG_SESSION = 15,
	SHIFT_MSG_TYPE_END
};

/* How much a fence proves. */
enum shift_fence {
	SHIFT_FENCE_SURE = 0,	 /* barrier passed, rq_psn is live */
	SHIFT_FENCE_UNSURE = 1,	 /* rq_psn is not to be trusted: the receive count alone decides */
	SHIFT_FENCE_PENDING = 2, /* in a SWITCH only: I entered the epoch, my proof follows */
	SHIFT_FENCE_LEAVING = 3, /* in a SWITCH only: I begin my fence, begin yours */
};

enum shift_key_status {
	SHIFT_KEY_OK = 0,
	SHIFT_KEY_NONE = 1, /* no such MR in the connection's protection domain */
};

/* One record. Which fields travel depends on the type; the others decode as 0. */
struct shift_msg {
	/* From the envelope: who speaks and to whom. */
	uint64_t src_nonce;
	uint64_t dst_nonce;

	uint8_t type;	    /* enum shift_msg_type */
	uint8_t rail;	    /* SWITCH, PREPARE, READY: target rail */
	uint8_t fence;	    /* SWITCH, CLOSED, PSN: enum shift_fence */
	uint8_t recv_valid; /* SWITCH, CLOSED: recv_cum counts (no SRQ) */
	uint32_t dst_conn;  /* id that the receiver of the message allocated */
	uint32_t src_conn;  /* id that the sender of the message allocated */
	uint32_t epoch;	    /* SWITCH, PREPARE, READY, QUERY_PSN, PSN */
	uint32_t heard;	    /* SWITCH: newest epoch of yours whose SWITCH I have; HELLO: 0 or 1 */
	uint32_t committed; /* SWITCH: newest epoch of which what I sent may still live (7.52) */
	uint32_t rep_epoch; /* SWITCH, CLOSED: newest epoch in which I executed a packet of yours */
	uint32_t rep_psn;   /* ... and its final rq_psn; PSN: the live rq_psn; 24 bits */
	uint32_t recv_avail; /* SWITCH, PSN: receives posted and not consumed, saturating */
	uint64_t recv_cum;   /* SWITCH, CLOSED: receives consumed since connect */
	uint32_t qpn;	     /* HELLO: my rail 0 QP; 24 bits */
	uint32_t dest_qpn;   /* HELLO */
	uint32_t sq_psn;     /* HELLO: original PSNs of rail 0 */
	uint32_t rq_psn;     /* HELLO */
	uint32_t life; /* HELLO: number of my QP's life, from 1, counted for each QP it is connected
			  to */
	uint32_t serial;    /* PREPARE, READY, QUERY_PSN, PSN, KEY_...: pairs question and answer */
	uint32_t hold_ms;   /* PREPARE: how long to hold, 0: no longer; READY: how long I shall */
	uint32_t rkey;	    /* KEY_...: of the MR on rail 0 */
	uint32_t twin_rkey; /* KEY: of its twin on the rail */
	uint8_t key_status; /* KEY: enum shift_key_status */
	uint8_t past_matched; /* HELLO: the life before it was matched */
	uint8_t blob_bytes;   /* SESSION: 1 .. SHIFT_MSG_BLOB_MAX */
	const uint8_t *blob;  /* SESSION; a decoded one points into the datagram */
};

/* Is its sender fenced, and are its counts final? Only on such a SWITCH may a peer commit. */
static inline bool shift_switch_proves(const struct shift_msg *m)
{
	return m->fence == SHIFT_FENCE_SURE || m->fence == SHIFT_FENCE_UNSURE;
}

/* Serials wrap. */
static inline bool shift_serial_newer(uint32_t serial, uint32_t than)
{
	return (int32_t)(serial - than) > 0;
}

/* Decoder verdicts; each malformation has its own. Negative, so that counts can be >= 0. */
enum shift_msg_err {
	SHIFT_MSG_ESHORT = -1,	  /* ends inside the envelope */
	SHIFT_MSG_EMAGIC = -2,	  /* not ours */
	SHIFT_MSG_EVERSION = -3,  /* a version we do not speak: shift_msg_sender() */
	SHIFT_MSG_ELENGTH = -4,	  /* envelope length > what was received */
	SHIFT_MSG_ETRAILING = -5, /* bytes after the envelope's length or after the last record */
	SHIFT_MSG_EAUTH = -6,	  /* wrong tag */
	SHIFT_MSG_ETYPE = -7,	  /* unknown record type */
	SHIFT_MSG_ERECORD = -8, /* record ends outside the datagram, or wrong length for its type */
	SHIFT_MSG_ECOUNT = -9,	/* fewer or more records than announced, or none */
	SHIFT_MSG_ERAIL = -10,	/* rail >= SHIFT_RAILS_MAX */
	SHIFT_MSG_EPSN = -11,	/* a PSN or QPN of more than 24 bits */
	SHIFT_MSG_EFENCE = -12, /* not an enum shift_fence, or PENDING where it cannot be */
	SHIFT_MSG_EEPOCH = -13, /* epoch 0 in a SWITCH, rep_epoch >= epoch, ... */
	SHIFT_MSG_EFLAG = -14,	/* a boolean that is neither 0 nor 1, or a reserved byte set */
	SHIFT_MSG_ENONCE = -15, /* source nonce 0 */
	SHIFT_MSG_ESPACE = -16, /* encoder: the record does not fit; send what is there first */
};

/*
 * Authentication, passed in: 64-bit tag over data with the key behind ctx. NULL for none (tag 0;
 * a tag that is not 0 is then refused). Must be pure.
 */
typedef uint64_t (*shift_msg_auth)(const void *ctx, const void *data, size_t len);

/* The usual shift_msg_auth: ctx points to a 128-bit SipHash key (const uint64_t[2]). */
uint64_t shift_msg_siphash(const void *ctx, const void *data, size_t len);

/* Builds one datagram in the caller's buffer. */
struct shift_msg_writer {
	uint8_t *buf;
	size_t cap;
	size_t len;
	uint16_t count;
};

/* Begin a datagram from one process to another; cap >= SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX,
 * more than SHIFT_MSG_DATAGRAM_MAX is not used. */
void shift_msg_begin(struct shift_msg_writer *w, void *buf, size_t cap, uint64_t src_nonce,
		     uint64_t dst_nonce);

/* Append one record. 0, SHIFT_MSG_ESPACE, or the error its content would be refused with. */
int shift_msg_add(struct shift_msg_writer *w, const struct shift_msg *m);

/* Seal the datagram; returns its length in bytes, 0 if it has no record. */
size_t shift_msg_end(struct shift_msg_writer *w, shift_msg_auth auth, const void *ctx);

/* Reads one datagram; the buffer must outlive it. */
struct shift_msg_reader {
	const uint8_t *buf;
	size_t len;
	size_t pos;
	uint64_t src_nonce;
	uint64_t dst_nonce;
	uint16_t left;
};

/*
 * Check the whole envelope (tag included) and every record before anything is acted upon: a
 * datagram is good or refused as a whole. Returns the number of records, or an enum shift_msg_err.
 */
int shift_msg_open(struct shift_msg_reader *r, const void *buf, size_t len, shift_msg_auth auth,
		   const void *ctx);

/*
 * Who sent a datagram, and in which version: also of one that shift_msg_open() refuses for its
 * version, as all versions begin alike. Nothing is checked, so it is good for a log only. false: it
 * is none of ours.
 */
bool shift_msg_sender(const void *buf, size_t len, uint8_t *version, uint64_t *nonce);

/* Next record into *m. 1, or 0 at the end, or an enum shift_msg_err. */
int shift_msg_next(struct shift_msg_reader *r, struct shift_msg *m);

/* For logs: "SWITCH", ... ; never NULL. */
const char *shift_msg_type_name(uint8_t type);
const char *shift_msg_err_name(int err);

#endif
