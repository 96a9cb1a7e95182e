# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shellcheck shell=bash
# A job of its own on the null provider, with shift-kvd, that is gone at the end. For scripts that have set $build.

: "${build:?}"
dir=$(mktemp -d)
job=${NULL_JOB:-${0##*/}-$$}
trap end_job EXIT

# The NICs of the null provider are named in the inner environment: shift-run knows none but the host's.
run_job() { # COMMAND ARGUMENT...
	# shellcheck disable=SC2016
	NULLVERBS_NET=$job SHIFT_RUN_DIR=$dir/run LD_LIBRARY_PATH=$build/tests/nullverbs/.libs \
		"$build/cmd/shift-run/shift-run" --job "$job" -- \
		sh -c 'SHIFT_RAILS=mlx5_0=mlx5_1,mlx5_1=mlx5_0 exec "$@"' sh "$@"
}

daemons() {
	pgrep -f "shift-kvd .*--job $job( |\$)"
}

# They outlive a job by seconds, and write into its directory.
end_job() {
	local pid
	for pid in $(daemons); do kill "$pid" 2>/dev/null || true; done
	for _ in {1..300}; do
		daemons >/dev/null || break
		sleep 0.1
	done
	rm -rf "$dir"
}
