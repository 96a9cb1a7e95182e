// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Much memory, whose registration on the backup NIC takes long (NULLVERBS_REG_MS): what the program
 * does meanwhile must not wait for it. The program does not know of shift.
 */
#include <time.h>

#include "tests/preload/rc.h"

enum { REGIONS = 80, ENOUGH_MS = 1000 };

static struct ibv_mr *region[REGIONS];

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void register_all(void)
{
	for (int i = 0; i < REGIONS; i++) {
		region[i] = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
		expect(region[i] != NULL, "reg_mr");
	}
}

/* From the last: most were never registered on the backup NIC. */
static void deregister_all(void)
{
	for (int i = REGIONS; i-- > 0;)
		expect(!ibv_dereg_mr(region[i]), "dereg_mr");
}

static void quick(void)
{
	struct ibv_qp *qp = create_qp(pd, 4);
	int64_t begin;

	connect_to(qp, qp->qp_num + 1);
	/* The backup NIC is opened, and has the twin, before the memory comes. */
	for (begin = now_ms(); now_ms() - begin < ENOUGH_MS;)
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	register_all();
	begin = now_ms();
	destroy(qp);
	expect(now_ms() - begin < ENOUGH_MS, "destroy_qp in time");
	begin = now_ms();
	deregister_all();
	expect(now_ms() - begin < 3 * ENOUGH_MS, "dereg_mr in time");
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"quick", quick}};

	return rc_main(argc, argv, uses, 1);
}
