/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-run/run.h"

/*
 * Set by launchers, the same in all processes of a job. Steps of a Slurm job may talk to each
 * other, so the step is no part of it. torchrun says "none" where it was given no id.
 */
static const char *const launchers[] = {
	"TORCHELASTIC_RUN_ID",
	"SLURM_JOB_ID",
	"OMPI_MCA_ess_base_jobid",
	"PMIX_NAMESPACE",
};

static void sanitise_name(char name[KV_JOB_MAX + 1], const char *id)
{
	size_t n = strnlen(id, KV_JOB_MAX);

	memcpy(name, id, n);
	name[n] = 0;
	for (size_t i = 0; i < n; i++) {
		char c[2] = {name[i]};

		if (!kv_job_is_valid(c, 1) && (!i || !strchr(".-", *c)))
			name[i] = '_';
	}
}

const char *job_name(const char *option)
{
	static char name[KV_JOB_MAX + 1];
	const char *job = option ? option : getenv("SHIFT_JOB");

	for (size_t i = 0; !(job && *job) && i < sizeof(launchers) / sizeof(*launchers); i++) {
		const char *id = getenv(launchers[i]);

		if (!id || !*id || !strcmp(id, "none"))
			continue;
		sanitise_name(name, id);
		job = name;
	}
	if (!option && !(job && *job))
		job = "default";
	if (!kv_job_is_valid(job, strlen(job)))
		die(EXIT_OURS, "%s is no name for a job: 1 to %d letters, digits, . - _", job,
		    KV_JOB_MAX);
	return job;
}
