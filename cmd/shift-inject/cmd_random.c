/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cmd/shift-inject/command.h"
#include "faultinject/scenario.h"

static const char text[] =
	"usage: shift-inject random [options]\n"
	"Faults by chance, one after the other, each on a NIC and host by chance; in between the\n"
	"network is whole for a moment. The same seed, the same faults.\n"
	"\n"
	"      --seed N        the seed; default: another each time, shown\n"
	"      --minutes N     how long; default: 5\n"
	"      --hosts A,B     default: a,b\n"
	"      --nics A,B      default: mlx5_0,mlx5_1\n"
	"      --testbed NAME  the hosts are those of that testbed\n"
	"  -j, --json          the result, for a program\n"
	"      --print         only print the scenario, for shift-inject run\n"
	"      --help          this text\n";

enum { NAMES_MAX = 8 };

struct random_options {
	uint64_t seed, minutes;
	char *hosts[NAMES_MAX], *nics[NAMES_MAX];
	unsigned int host_count, nic_count;
	struct play_options play;
	bool print;
};

static uint64_t random_below(uint64_t *x, uint64_t below)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return (*x >> 33) % below;
}

/* The faults and their options; time, duration, host and NIC are added to them. */
static const char *const kinds[] = {
	"{\"fault\":\"down\"}",
	"{\"fault\":\"flap\",\"period\":\"1s\",\"jitter\":\"30%\"}",
	"{\"fault\":\"blackhole\"}",
	"{\"fault\":\"blackhole\",\"direction\":\"in\"}",
	"{\"fault\":\"blackhole\",\"direction\":\"out\"}",
	"{\"fault\":\"ack-drop\"}",
	"{\"fault\":\"drop-larger\",\"size\":1024}",
	"{\"fault\":\"loss\",\"rate\":\"1%\"}",
	"{\"fault\":\"loss\",\"rate\":\"20%\",\"burst\":10}",
	"{\"fault\":\"corrupt\",\"rate\":\"1%\"}",
	"{\"fault\":\"duplicate\",\"rate\":\"5%\"}",
	"{\"fault\":\"ecn-mark\",\"rate\":\"50%\"}",
	"{\"fault\":\"delay\",\"time\":\"5ms\",\"jitter\":true}",
	"{\"fault\":\"reorder\",\"rate\":\"5%\"}",
	"{\"fault\":\"rate\",\"limit\":\"20mbit\"}",
	"{\"fault\":\"pause\",\"period\":\"500ms\"}",
};

static cJSON *random_event(const struct random_options *o, uint64_t *x, uint64_t at_ms,
			   uint64_t for_ms)
{
	cJSON *e = cJSON_Parse(kinds[random_below(x, sizeof(kinds) / sizeof(*kinds))]);
	char time[32];

	snprintf(time, sizeof(time), "%llums", (unsigned long long)at_ms);
	cJSON_AddStringToObject(e, "at", time);
	snprintf(time, sizeof(time), "%llums", (unsigned long long)for_ms);
	cJSON_AddStringToObject(e, "for", time);
	cJSON_AddStringToObject(e, "host", o->hosts[random_below(x, o->host_count)]);
	cJSON_AddStringToObject(e, "nic", o->nics[random_below(x, o->nic_count)]);
	cJSON_AddNumberToObject(e, "seed", (double)random_below(x, 1000000));
	return e;
}

static char *make_scenario(const struct random_options *o)
{
	uint64_t x = o->seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull, at_ms = 1000;
	cJSON *all = cJSON_CreateObject(), *list, *hosts;
	char name[48], *s;

	snprintf(name, sizeof(name), "random-%llu", (unsigned long long)o->seed);
	cJSON_AddStringToObject(all, "name", name);
	hosts = cJSON_AddArrayToObject(all, "hosts");
	for (unsigned int i = 0; i < o->host_count; i++)
		cJSON_AddItemToArray(hosts, cJSON_CreateString(o->hosts[i]));
	list = cJSON_AddArrayToObject(all, "timeline");
	for (int i = 0; i < SCENARIO_EVENTS_MAX && at_ms < o->minutes * 60000; i++) {
		uint64_t for_ms = 500 + random_below(&x, 5000);

		cJSON_AddItemToArray(list, random_event(o, &x, at_ms, for_ms));
		at_ms += for_ms + 2000 + random_below(&x, 4000);
	}
	cJSON_AddItemToArray(cJSON_AddArrayToObject(all, "expect"), cJSON_CreateString("no-error"));
	s = check_alloc(cJSON_Print(all));
	cJSON_Delete(all);
	return s;
}

static unsigned int split_names(char *list, char *names[NAMES_MAX], const char *option)
{
	unsigned int n = 0;

	for (char *save, *s = strtok_r(list, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		if (n == NAMES_MAX)
			die(INJECT_BAD_USAGE, "random: --%s: at most %d", option, NAMES_MAX);
		names[n++] = s;
	}
	if (!n)
		die(INJECT_BAD_USAGE, "random: --%s: a list of names is needed", option);
	return n;
}

static void random_parse(struct random_options *o, int argc, char **argv)
{
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
						{"minutes", required_argument, NULL, 'm'},
						{"hosts", required_argument, NULL, 'H'},
						{"nics", required_argument, NULL, 'n'},
						{"testbed", required_argument, NULL, 't'},
						{"json", no_argument, NULL, 'j'},
						{"print", no_argument, NULL, 'p'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int c;

	while ((c = getopt_long(argc, argv, "j", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (parse_uint64(optarg, 0, 1ull << 53, &o->seed))
				die(INJECT_BAD_USAGE, "random: --seed %s: not a number", optarg);
			break;
		case 'm':
			if (parse_uint64(optarg, 1, 60, &o->minutes))
				die(INJECT_BAD_USAGE, "random: --minutes %s: not 1 to 60", optarg);
			break;
		case 'H': o->host_count = split_names(optarg, o->hosts, "hosts"); break;
		case 'n': o->nic_count = split_names(optarg, o->nics, "nics"); break;
		case 't': o->play.testbed = optarg; break;
		case 'j': o->play.json = true; break;
		case 'p': o->print = true; break;
		case 'h': print_and_exit(text);
		default: exit(INJECT_BAD_USAGE);
		}
	}
	if (optind < argc)
		die(INJECT_BAD_USAGE, "random: unexpected argument %s", argv[optind]);
}

int cmd_random(int argc, char **argv)
{
	struct random_options o = {.minutes = 5,
				   .hosts = {"a", "b"},
				   .nics = {"mlx5_0", "mlx5_1"},
				   .host_count = 2,
				   .nic_count = 2};
	struct problem p = {0};
	struct scenario s;
	char *json;
	int status;

	if (getrandom(&o.seed, sizeof(o.seed), 0) != sizeof(o.seed))
		o.seed = 1;
	o.seed &= 0xffffffff;
	random_parse(&o, argc, argv);
	json = make_scenario(&o);
	if (o.print) {
		puts(json);
		free(json);
		return fflush(stdout) ? INJECT_FAILED : INJECT_OK;
	}
	if (scenario_parse(json, strlen(json), &s, &p))
		die(INJECT_BAD_USAGE, "random: %s", p.text);
	free(json);
	if (!o.play.json)
		printf("%s: %d faults in %llu minutes\n", shown(s.name), s.events,
		       (unsigned long long)o.minutes);
	fflush(stdout);
	status = scenario_play(&s, &o.play);
	scenario_free(&s);
	return status;
}
