# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench latency between two hosts that are stand-ins.

load helper
load bench_hosts

setup() {
	standin_hosts
	cd "$BATS_TEST_TMPDIR" || return
}

latency() {
	shift-bench latency --testbed standin --ops write --sizes 8 --iterations 200 --repetitions 1 --warmup 0 --json l.json "$@"
}

@test "latency: without idle QPs nothing has changed" {
	run -0 latency
	[ "$(jq -r '.cases[] | .id, (.parameters | keys | join(" "))' l.json | xargs)" = "write 8 B op size" ]
	[ ! -e "$STANDIN/idle-a" ]
}

@test "latency --idle-qps: beside each run of either side, on both hosts, under shift like the run itself" {
	run -0 latency --idle-qps 0,5
	[ "$(jq -r '.cases[].id' l.json | paste -sd+)" = "write 8 B+write 8 B, 5 idle QPs" ]
	jq -e '.cases[1].parameters.idle_qps == 5 and ([.cases[].samples[] | select(.values.p50 > 10)] | length == 4)' l.json
	for run in a a-protected b b-protected; do
		grep -q -- '--device mlx5_0 --gid-index 1 --port 18517 --qps 5' "$STANDIN/idle-$run"
	done
	grep -q ' 127.0.0.1$' "$STANDIN/idle-a"
	wait_until 5 sh -c '! grep -qi ":4855 0*:0000 0A" /proc/net/tcp'
	[ -z "$(standins_left)" ]
}

@test "latency --idle-qps: one that ends is told, with its reason" {
	standin idle-qps <<<'[ $SHIFT_HOST = b ] || exec sleep 86400; echo "idle-qps: create_qp: Cannot allocate memory" >&2; exit 1'
	run latency --idle-qps 5
	expect_status 1
	expect_match 'write 8 B, 5 idle QPs, without shift: host b: idle-qps ended with status 1: idle-qps: create_qp: Cannot'
	jq -e 'all(.cases[0].samples[]; has("failure"))' l.json
	[ -z "$(standins_left)" ]
}
