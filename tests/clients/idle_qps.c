/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QPs that are connected and do nothing, for as long as the client lives: what they cost others is
 * measured by shift-bench latency --idle-qps.
 *
 * Exit status: 0 the peer has left, 1 set-up failed, 2 bad usage.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "tests/clients/rc_peer.h"
#include "tests/clients/tcp.h"

enum { EXIT_USAGE = 2, QPS_MAX = 1000, DEPTH = 4, GID_INDEX_MAX = 255 };

static const char help[] =
	"usage: idle-qps [options] [PEER]\n"
	"Holds QPs that are connected to those of the peer, and does nothing with them. The server "
	"has\n"
	"no PEER, and ends when the client does.\n"
	"\n"
	"  --device NAME    RDMA device (mlx5_0)\n"
	"  --gid-index N    (0)\n"
	"  --qps N          the same on both sides (500)\n"
	"  --port TCP-PORT  where the server listens (18517)\n"
	"  --help           this text\n";

static const struct option options[] = {
	{"device", required_argument, NULL, 'd'}, {"gid-index", required_argument, NULL, 'g'},
	{"qps", required_argument, NULL, 'q'},	  {"port", required_argument, NULL, 'p'},
	{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0},
};

static const char *device = "mlx5_0", *port = "18517", *peer;
static long gid_index, qps = 500;

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'd': device = optarg; break;
		case 'g': gid_index = parse_number(optarg, 0, GID_INDEX_MAX); break;
		case 'q': qps = parse_number(optarg, 1, QPS_MAX); break;
		case 'p': port = optarg; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_USAGE);
		}
	if (gid_index < 0 || qps < 0 || argc - optind > 1)
		die(EXIT_USAGE, "not understood; see idle-qps --help");
	peer = argv[optind];
}

int main(int argc, char **argv)
{
	struct rc_peer p;
	char byte;
	int tcp;

	cli_begin("idle-qps", EXIT_FAILURE);
	parse(argc, argv);
	tcp = tcp_open("idle-qps", peer, port);
	rc_peer_open(&p, tcp, device, (int)gid_index, (int)qps * 2 * DEPTH);
	for (long i = 0; i < qps; i++)
		rc_peer_connect(&p, DEPTH);
	rc_peer_meet(&p);
	printf("%ld connected\n", qps);
	fflush(stdout);
	tcp_receive(tcp, &byte, 1); /* until the peer leaves */
	return EXIT_SUCCESS;
}
