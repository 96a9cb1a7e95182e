/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The NICs of this host, who backs whom, and why not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/nics.h"
#include "common/rails.h"

static const char help[] =
	"usage: shift-diag rails [options]\n"
	"The RDMA NICs of this host, which of them back up which, and why others do not.\n"
	"\n"
	"  -r, --rails LIST     as for shift-run; default: $SHIFT_RAILS, or auto\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { REMARKS_MAX = 8 };

/* What one NIC is to another as its backup. */
struct pairing {
	const struct diag_nic *nic, *backup;
	bool listed;		/* by --rails, or by the rule for auto */
	const char *unsuitable; /* NULL: it can back it up now */
	const char *remark[REMARKS_MAX];
	unsigned int remarks;
};

struct rails_view {
	struct diag_nics nics;
	const char *words; /* NULL: auto */
	int verdict;
	cJSON *json; /* "rails", an array; NULL: text */
};

static bool same_layer(const struct diag_nic *a, const struct diag_nic *b)
{
	return a->rail.link_layers & b->rail.link_layers;
}

static void remark(struct pairing *p, const char *text)
{
	if (p->remarks < REMARKS_MAX)
		p->remark[p->remarks++] = text;
}

static void compare_gids(struct pairing *p)
{
	union ibv_gid gid;

	if (p->nic->gid_index < 0 || nic_gid_like(&p->backup->nic, &p->nic->gid.value, &gid) < 0)
		return;
	if (!nic_gid_same_kind(&gid, &p->nic->gid.value))
		remark(p, format_text("it has no address of the kind of %s; %s would be used",
				      diag_gid_text(&p->nic->gid.value), diag_gid_text(&gid)));
}

static void compare_devices(struct pairing *p)
{
	const struct diag_nic *n = p->nic, *b = p->backup;

	if (b->nic.mtu_bytes < n->nic.mtu_bytes)
		remark(p, format_text("its MTU is %u bytes, that of %s is %u", b->nic.mtu_bytes,
				      n->rail.name, n->nic.mtu_bytes));
	if (b->rate_gbps < n->rate_gbps)
		remark(p,
		       format_text("it is slower: %s, %s has %s", b->rate, n->rail.name, n->rate));
	if (b->attr.max_qp_wr < n->attr.max_qp_wr || b->attr.max_sge < n->attr.max_sge)
		remark(p, format_text(
				  "its queue pairs are smaller (%d requests, %d SGEs; %s: %d, %d): "
				  "large ones get no twin there",
				  b->attr.max_qp_wr, b->attr.max_sge, n->rail.name,
				  n->attr.max_qp_wr, n->attr.max_sge));
	if (strcmp(b->driver, n->driver))
		remark(p, format_text("its driver is %s, that of %s is %s", b->driver, n->rail.name,
				      n->driver));
	if (b->rail.numa_node != n->rail.numa_node && n->rail.numa_node >= 0)
		remark(p, format_text("it is on NUMA node %d, %s on %d", b->rail.numa_node,
				      n->rail.name, n->rail.numa_node));
}

static void pairing_judge(struct pairing *p)
{
	const char *trouble = diag_nic_trouble(p->backup);

	if (!same_layer(p->nic, p->backup))
		p->unsuitable = "another link layer";
	else if (!p->listed)
		p->unsuitable = "--rails does not name it";
	else
		p->unsuitable = trouble;
	if (p->unsuitable || p->nic->err)
		return;
	if (p->nic == p->backup) {
		remark(p, "the same NIC: a link that flaps is survived, a dead NIC is not");
		return;
	}
	compare_gids(p);
	compare_devices(p);
}

/* ---- showing -------------------------------------------------------------------------------- */

static const char *text_of(const char *text)
{
	return *text ? shown(text) : "-";
}

static void show_nics(const struct diag_nics *nics)
{
	printf("%-10s %4s  %-7s %-20s %5s  %4s  %-9s %-10s %-12s %s\n", "NIC", "PORT", "STATE",
	       "SPEED", "MTU", "NUMA", "NETDEV", "DRIVER", "FIRMWARE", "GID");
	for (unsigned int i = 0; i < nics->count; i++) {
		const struct diag_nic *n = nics->nic + i;

		printf("%-10s %4u  %-7s %-20s %5u  %4d  %-9s %-10s %-12s ", shown(n->rail.name),
		       n->nic.port, text_of(n->state), text_of(n->rate),
		       n->err ? 0 : n->nic.mtu_bytes, n->rail.numa_node, text_of(n->netdev),
		       text_of(n->driver), text_of(n->firmware));
		if (n->gid_index >= 0)
			printf("%d: %s, %s\n", n->gid_index, diag_gid_text(&n->gid.value),
			       diag_gid_type(&n->gid));
		else
			puts("-");
	}
}

static void show_troubles(const struct rails_view *v)
{
	for (unsigned int i = 0; i < v->nics.count; i++) {
		const char *trouble = diag_nic_trouble(v->nics.nic + i);

		if (trouble)
			printf("%s: %s\n", v->nics.nic[i].rail.name, trouble);
	}
}

static void show_pairing(const struct pairing *p)
{
	if (p->unsuitable) {
		printf(p->listed ? "  %s, but not now: %s\n" : "  not %s: %s\n",
		       p->backup->rail.name, p->unsuitable);
		return;
	}
	printf("  %s\n", p->backup->rail.name);
	for (unsigned int i = 0; i < p->remarks; i++)
		printf("    %s\n", p->remark[i]);
}

static void json_add_pairing(cJSON *array, const struct pairing *p)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToArray(array, o);
	cJSON_AddStringToObject(o, "device", p->backup->rail.name);
	cJSON_AddBoolToObject(o, "listed", p->listed);
	if (p->unsuitable)
		cJSON_AddStringToObject(o, "unsuitable", p->unsuitable);
	else
		cJSON_AddNullToObject(o, "unsuitable");
	cJSON_AddItemToObject(o, "remarks", cJSON_CreateStringArray(p->remark, (int)p->remarks));
}

/* ---- all pairs ------------------------------------------------------------------------------ */

static bool list_has(const char *backups, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = backups; *p; p += strcspn(p, "+")) {
		p += *p == '+';
		if (!strncmp(p, name, n) && (!p[n] || p[n] == '+'))
			return true;
	}
	return false;
}

static bool pairing_do(struct rails_view *v, cJSON *array, struct pairing *p)
{
	pairing_judge(p);
	if (array)
		json_add_pairing(array, p);
	else
		show_pairing(p);
	if (p->remarks)
		v->verdict = diag_worse(v->verdict, EXIT_WARNING);
	return !p->unsuitable;
}

/* First those that are listed, best first, then the others, with the reasons. */
static void device_do(void *arg, const char *device, const char *backups)
{
	struct rails_view *v = arg;
	struct pairing p = {.nic = diag_nic_find(&v->nics, device)};
	char copy[DIAG_NICS_MAX * RAIL_NAME_MAX], *save = NULL;
	cJSON *rail = v->json ? cJSON_CreateObject() : NULL, *array = NULL;
	bool backed = false;

	if (!p.nic)
		return;
	if (rail) {
		cJSON_AddItemToArray(v->json, rail);
		cJSON_AddStringToObject(rail, "device", device);
		array = cJSON_AddArrayToObject(rail, "backups");
	} else {
		printf("\n%s is backed up by\n", device);
	}
	snprintf(copy, sizeof(copy), "%s", backups);
	for (char *b = strtok_r(copy, "+", &save); b; b = strtok_r(NULL, "+", &save)) {
		p = (struct pairing){.nic = p.nic, .backup = diag_nic_find(&v->nics, b), true};
		backed |= p.backup && pairing_do(v, array, &p);
	}
	for (unsigned int i = 0; i < v->nics.count; i++) {
		p = (struct pairing){.nic = p.nic, .backup = v->nics.nic + i};
		if (p.backup != p.nic && p.backup->nic.port == 1 &&
		    !list_has(backups, p.backup->rail.name))
			pairing_do(v, array, &p);
	}
	if (!backed)
		v->verdict = diag_worse(v->verdict, EXIT_WARNING);
	if (!backed && !rail)
		puts("  no NIC: its connections survive no failure");
}

static void take_option(void *arg, int letter, const char *value)
{
	(void)letter;
	*(const char **)arg = value;
}

static const char *rails_words(const char *given)
{
	const char *words = given ? given : getenv("SHIFT_RAILS"), *missing;
	char *why;

	if (!words || !*words)
		return NULL;
	why = rails_refusal(words);
	if (why)
		die(EXIT_BAD_USAGE, "rails: %s %s: %s", given ? "--rails" : "SHIFT_RAILS", words,
		    why);
	missing = rails_missing(words);
	if (missing)
		die(EXIT_BAD_USAGE, "rails: %s: no such RDMA device; see rdma link", missing);
	return words;
}

static void view_json(struct rails_view *v)
{
	cJSON *o = diag_json(), *nics = cJSON_AddArrayToObject(o, "nics");

	for (unsigned int i = 0; i < v->nics.count; i++)
		cJSON_AddItemToArray(nics, diag_nic_json(v->nics.nic + i));
	v->json = cJSON_AddArrayToObject(o, "rails");
	rails_each(v->words, device_do, v);
	diag_print_json(o);
}

static void view_text(struct rails_view *v)
{
	show_nics(&v->nics);
	show_troubles(v);
	rails_each(v->words, device_do, v);
}

int cmd_rails(int argc, char **argv)
{
	const char *given = NULL;
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"rails", 'r', true}},
					   .take = take_option,
					   .arg = &given};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct rails_view v = {.verdict = EXIT_FINE};

	diag_no_arguments(argc, argv);
	v.words = rails_words(given);
	v.nics = diag_nics_open();
	if (!v.nics.count)
		say("rails: there is no RDMA device here; see rdma link");
	if (format == FORMAT_JSON)
		view_json(&v);
	else if (v.nics.count)
		view_text(&v);
	for (unsigned int i = 0; i < v.nics.count; i++)
		if (diag_nic_trouble(v.nics.nic + i))
			v.verdict = EXIT_CULPRIT;
	if (!v.nics.count)
		v.verdict = EXIT_UNDECIDED;
	diag_nics_close(&v.nics);
	return fflush(stdout) ? EXIT_FAILED : v.verdict;
}
