/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/shift-run/run.h"
#include "common/shell_command.h"

static const char help[] =
	"usage: shift-run [options] [--] COMMAND [ARGUMENT...]\n"
	"Runs a program whose RDMA connections live through failures of NICs, links and switches.\n"
	"\n"
	"  -r, --rails WORDS         auto (the default), or the backups of each NIC:\n"
	"                            mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0\n"
	"  -k, --kv URL[,URL...]     etcd, where the hosts of the job meet; default: $SHIFT_KV\n"
	"      --kv start@HOST[:PORT]  the shift-run on HOST starts it, the others wait;\n"
	"                            HOST may be left out where $MASTER_ADDR is set\n"
	"  -K, --key-file FILE       the job key: 16 bytes, mode 0600, the same on all hosts; or\n"
	"                            $SHIFT_JOB_KEY: 32 hexadecimal digits; default: one is made,\n"
	"                            and etcd's readers can read it\n"
	"      --kv-ca FILE          who may sign etcd's certificate (PEM); default: the system's\n"
	"      --kv-cert FILE        our certificate for etcd; --kv-key FILE its key\n"
	"      --kv-user-file FILE   USER:PASSWORD for etcd, mode 0600\n"
	"  -J, --job NAME            default: $SHIFT_JOB, the launcher's, or \"default\"\n"
	"  -w, --wait TIME           how long to wait for etcd, before the command starts without\n"
	"                            protection; default: 60s\n"
	"  -g, --give-up TIME|never  with no way to the peer for so long, errors go to the "
	"program;\n"
	"                            default: 30s, or twice the time of its own retries, if "
	"longer\n"
	"  -b, --failback WHEN       to a NIC that works again: auto (the default), manual, never\n"
	"  -a, --lost-atomic WHAT    an atomic whose result is lost: error (the default), "
	"continue\n"
	"      --atomics WHAT        a connection that posts atomics: stay (the default), or "
	"move,\n"
	"                            which is right only if each word has one user\n"
	"      --collectives WHAT    record collective operations, for shift-diag collect: auto\n"
	"                            (the default: if the program's file is linked with Open MPI,\n"
	"                            MPICH or NCCL), mpi, mpich, nccl, off\n"
	"      --trace WHAT          record the traffic of each queue pair, for shift-diag "
	"collect:\n"
	"                            off (the default), epochs, or epochs,32us with their length\n"
	"  -l, --log-level LEVEL     of the library: error, warn (the default), info, debug\n"
	"  -o, --log-file FILE       where the library writes; default: standard error\n"
	"      --on-switch CMD       what a shell runs on this host after each switch, as you: "
	"for\n"
	"                            a checkpoint; SHIFT_SWITCH_... in its environment say which\n"
	"      --on-switch-limit TIME  how long it may take; default: 60s\n"
	"  -R, --report FILE         write what happened, as JSON, when the command has ended\n"
	"  -c, --check               can this command be protected? says why not\n"
	"  -n, --dry-run             print what would be done, and which NICs back up which\n"
	"  -j, --json                for --dry-run and --check\n"
	"      --help                this text\n"
	"      --version             the version\n"
	"\n"
	"Exit status: the command's own; 125 shift-run failed, and the command was not started;\n"
	"126 the command cannot be executed; 127 it is not found; --check: 0 yes, 1 no.\n";

enum {
	OPT_HELP = 256,
	OPT_VERSION,
	OPT_ATOMICS,
	OPT_COLLECTIVES,
	OPT_TRACE,
	OPT_ON_SWITCH,
	OPT_SWITCH_LIMIT,
	OPT_ACCESS
};

static const char short_options[] = "+r:k:K:J:w:g:b:a:l:o:R:cnj";

static const struct option options[] = {
	{"rails", required_argument, NULL, 'r'},
	{"kv", required_argument, NULL, 'k'},
	{"key-file", required_argument, NULL, 'K'},
	{"kv-ca", required_argument, NULL, OPT_ACCESS + ACCESS_CA},
	{"kv-cert", required_argument, NULL, OPT_ACCESS + ACCESS_CERT},
	{"kv-key", required_argument, NULL, OPT_ACCESS + ACCESS_KEY},
	{"kv-user-file", required_argument, NULL, OPT_ACCESS + ACCESS_USER},
	{"job", required_argument, NULL, 'J'},
	{"wait", required_argument, NULL, 'w'},
	{"give-up", required_argument, NULL, 'g'},
	{"failback", required_argument, NULL, 'b'},
	{"lost-atomic", required_argument, NULL, 'a'},
	{"atomics", required_argument, NULL, OPT_ATOMICS},
	{"collectives", required_argument, NULL, OPT_COLLECTIVES},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"log-level", required_argument, NULL, 'l'},
	{"log-file", required_argument, NULL, 'o'},
	{"on-switch", required_argument, NULL, OPT_ON_SWITCH},
	{"on-switch-limit", required_argument, NULL, OPT_SWITCH_LIMIT},
	{"report", required_argument, NULL, 'R'},
	{"check", no_argument, NULL, 'c'},
	{"dry-run", no_argument, NULL, 'n'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

static void check_on_switch(const struct options *o)
{
	const char *why = o->on_switch ? shell_command_problem(o->on_switch) : NULL;

	if (why)
		die(EXIT_OURS, "--on-switch %s: %s", o->on_switch, why);
	if (o->on_switch_limit && !o->on_switch)
		die(EXIT_OURS, "--on-switch-limit is for --on-switch");
	if (o->on_switch_limit && parse_ms(o->on_switch_limit) < 1)
		die(EXIT_OURS, "--on-switch-limit %s: not a time; try 60s", o->on_switch_limit);
}

static void check_together(const struct options *o)
{
	check_on_switch(o);
	if (o->json && !o->dry_run && !o->check)
		die(EXIT_OURS, "--json is for --dry-run and --check; see shift-run --help");
	if (o->dry_run && o->check)
		die(EXIT_OURS, "--dry-run and --check exclude each other");
	if (!o->command[0])
		die(EXIT_OURS, "a command is needed; see shift-run --help");
	settings_check();
}

static void parse_wait(struct options *o, const char *s)
{
	o->wait_ms = parse_ms(s);
	if (o->wait_ms < 0)
		die(EXIT_OURS, "--wait %s: not a time; try 60s", s);
}

void run_options_parse(struct options *o, int argc, char **argv)
{
	int c;

	*o = (struct options){.wait_ms = 60000};
	while ((c = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
		switch (c) {
		case 'r': setting_give(SET_RAILS, optarg); break;
		case 'k': o->kv = optarg; break;
		case 'K': o->key_file = optarg; break;
		case 'J': o->job = optarg; break;
		case 'w': parse_wait(o, optarg); break;
		case 'g': setting_give(SET_GIVE_UP, optarg); break;
		case 'b': setting_give(SET_FAILBACK, optarg); break;
		case 'a': setting_give(SET_LOST_ATOMIC, optarg); break;
		case OPT_ATOMICS: setting_give(SET_ATOMICS, optarg); break;
		case OPT_COLLECTIVES: setting_give(SET_COLLECTIVES, optarg); break;
		case OPT_TRACE: setting_give(SET_TRACE, optarg); break;
		case 'l': setting_give(SET_LOG_LEVEL, optarg); break;
		case 'o': setting_give(SET_LOG_FILE, optarg); break;
		case OPT_ON_SWITCH: o->on_switch = optarg; break;
		case OPT_SWITCH_LIMIT: o->on_switch_limit = optarg; break;
		case 'R': o->report = optarg; break;
		case 'c': o->check = true; break;
		case 'n': o->dry_run = true; break;
		case 'j': o->json = true; break;
		case OPT_ACCESS + ACCESS_CA:
		case OPT_ACCESS + ACCESS_CERT:
		case OPT_ACCESS + ACCESS_KEY:
		case OPT_ACCESS + ACCESS_USER: access_give(c - OPT_ACCESS, optarg); break;
		case OPT_HELP: print_and_exit(help); break;
		case OPT_VERSION: print_version(); break;
		default: exit(EXIT_OURS);
		}
	}
	access_take_key();
	o->command = argv + optind;
	check_together(o);
}
