/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A network of hosts and switches in which flows are fluids: between two events every flow has one
 * rate at each port of its path. A port that gets more than it can send has a queue, first in first
 * out. PFC: a switch, or the NIC of a host, pauses the port that sends to it while it holds more
 * than xoff bytes from that port, until it holds fewer than xon. Congestion control: a flow begins
 * at line rate, and cc_ns after each change goes towards its max-min fair share.
 *
 * Times are ns since the simulation began, rates bytes/ns. One thread.
 */
#ifndef SHIFT_TESTS_COLLSIM_NET_H
#define SHIFT_TESTS_COLLSIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NET_HOPS = 12, NET_NONE = -1 };

/* Payload and length on the wire of a packet, as in the recorded telemetry. */
#define NET_PACKET_BYTES 1300.0
#define NET_TELEMETRY_NS 1e6

/* What ports do; a port of a lower kind is before one of a higher kind on every sane path. */
enum port_kind {
	PORT_NIC_TX,
	PORT_UP,
	PORT_CORE_UP,
	PORT_TOP_DOWN, /* from the core of a fat tree */
	PORT_CORE_DOWN,
	PORT_DOWN,
	PORT_NIC_RX,
	PORT_INSIDE, /* a bus of a host */
	PORT_KINDS
};

/* One direction of a link: what sends at its head. */
struct port {
	enum port_kind kind;
	int node, number; /* whose; as topology.txt numbers them, from 1 */
	int peer;	  /* the node that it sends to */
	int back;	  /* the port at the other end of the link */
	double paused_at; /* when it last was */
	double line;	  /* its rate */
	double factor;	  /* of it, what is left: faults */
	double queue;	  /* bytes that wait here */
	double ahead;	  /* bytes that came through here and wait at the next hop */
	bool paused;
	double storm_until; /* it is paused until then, whatever is ahead; 0: no */
	double sent;	    /* bytes, in all */
	/* Of the present rates. */
	double arrive, fill, ahead_fill;
	int first; /* of the list of live hops, as flow * NET_HOPS + hop */
};

/* What a switch has counted of a flow at a hop in one epoch of telemetry. */
struct hop_count {
	int64_t epoch;
	/* ahead: packets before each, summed, but for paused ones; paused: bytes; most: bytes that
	 * one has found in front. */
	double bytes, ahead, paused, most;
	double first, last; /* sequence numbers */
};

struct flow {
	int src, dst; /* nodes */
	int sport, dport;
	bool collective, controlled, dead;
	bool sunk; /* it never arrives: a loop, until its packets die */
	bool live;
	int hops, path[NET_HOPS];
	int next[NET_HOPS];	/* in the list of the port */
	double in[NET_HOPS];	/* rate at which it comes to the hop */
	double out[NET_HOPS];	/* and leaves */
	double queue[NET_HOPS]; /* bytes of it at the hop; 0 at the first, which is the sender */
	double limit, share;	/* rate of congestion control, max-min fair share */
	double idle_since;
	double posted, sent, delivered, lost; /* bytes, in all */
	double mark;		      /* when so much is delivered, somebody wants to know */
	double message;		      /* where the message that is sent began */
	double latency_ns;	      /* of its path, without queues */
	struct hop_count *now, *last; /* of each hop; NULL: no telemetry */
	double rate, since;	      /* what it sends, since when: not told yet */
	bool by_switch;		      /* a port of a switch limits its share */
	bool met;		      /* it was in a switch's queue together with a collective's */
};

struct pfc {
	double t;
	int port;
	bool pause;
};

struct node {
	bool is_switch;
	int ports; /* how many */
};

struct net {
	struct node *node;
	int nodes, switches; /* switches are nodes 0 to switches - 1 */
	struct port *port;
	int ports;
	int *order; /* the ports, from senders to receivers */
	struct flow *flow;
	int flows;
	int *live, lives;
	struct pfc *pfc;
	size_t pfcs;
	double now;
	double link_ns;		       /* delay of a link */
	double xoff, xon, kmin, cc_ns; /* bytes, bytes, bytes, ns; 0: chosen for the line rate */
	double cc_at;		       /* when congestion control acts next; 0: nothing to do */
	bool telemetry;		       /* count at switches */
	bool dirty;		       /* rates have to be computed again */
	bool cyclic;		       /* some flow does not go from senders to receivers */
	/* Called when a flow's mark is reached, to set another (or INFINITY). */
	void (*arrived)(void *arg, int flow);
	/* Called when it is known what a flow has sent from begin to end; may be NULL. */
	void (*sending)(void *arg, int flow, double begin, double end, double rate);
	void *arg;
};

/* Nodes first, then links, then flows. They end the process if there is no memory. */
void net_init(struct net *n, int switches, int hosts);
void net_free(struct net *n);

/* A link with a port at both ends. The port at a; that at b is the next. up: what a's is. */
int net_link(struct net *n, int a, int b, double rate, enum port_kind up, enum port_kind down);

/* A port that is no switch's: the receiving side of a NIC, or a bus within a host. */
int net_bus(struct net *n, int node, double rate, enum port_kind kind);

/* A flow over hops ports. collective, controlled: true; sport, dport: for the caller. */
int net_flow(struct net *n, int src, int dst, const int *path, int hops);

/* bytes more to send; a message begins where the last one ended. */
void net_post(struct net *n, int flow, double bytes);

/* The rest of a flow is no longer wanted. What is on its way arrives. */
void net_abandon(struct net *n, int flow);

/* All of its packets are lost from now on, and it sends nothing more. */
void net_kill(struct net *n, int flow);

/* From now on over another path; what waits on the old one is lost. */
void net_reroute(struct net *n, int flow, const int *path, int hops, bool sunk);

/* Another capacity, from now on. */
void net_degrade(struct net *n, int port, double factor);

/* The node behind the port pauses it until then. */
void net_storm(struct net *n, int port, double until);

/* The time of the next event by itself; INFINITY: none. Computes rates, if need be. */
double net_next(struct net *n);

/* To that time, which is not after net_next(), and what happens at it. */
void net_advance(struct net *n, double t);

/* Max-min fair shares of the live flows, into share. */
void net_share(struct net *n);

double port_rate(const struct port *p);

/* The switch's port that sends to b. */
int net_port_to(const struct net *n, int a, int b);

#endif
