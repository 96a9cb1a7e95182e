/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/table.h"

int measure_between_hosts(struct results *r, bool makes_faults, part_cases_fn *cases)
{
	struct hosts h;
	int status = hosts_open(&h, r);

	if (!status && makes_faults)
		status = hosts_need_faults(&h);
	if (!status) {
		table_head(r);
		status = cases(r, &h);
	}
	hosts_close(&h);
	return plan_end(r, status);
}
