# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench between two guests: one case of a command, each side once.
# shellcheck disable=SC2154,SC2016  # before: set by the test; variables of jq

load guests

export NAME=check-bench

setup_file() {
	guests_up --layout pair --kernel 6.1
}

teardown() {
	[ -z "${tree:-}" ] || rm -rf "$tree"
}

samples() { # FILTER FILE: is it true of each sample that counts, and are both sides there?
	jq -e "[.cases[].samples[] | select(has(\"failure\") | not)] | (map(.side) | unique | length) == 2 and all($1)" "$2" >/dev/null
}

@test "failover: the link of host a goes down; shift's side is protected and loses nothing" {
	run shift-bench failover --testbed $NAME --faults down:a --repetitions 1 --warmup 0 --fault-ms 1000 --json "$BATS_TEST_TMPDIR/f.json"
	expect_status 0
	expect_match 'fence..repost: .* SHIFT'
	samples '.values.lost == 0 and .values.duplicated == 0 and (.side == "baseline" or (.values.ended == 0 and
		.values.outage > 0 and .values["fence..repost"] > 0 and .detail.protection.b.protected == 1))' "$BATS_TEST_TMPDIR/f.json"
}

@test "timeline: what rail 0 carried is on rail 1 while the link is down" {
	run shift-bench timeline --testbed $NAME --ops send --faults down:a --repetitions 1 --fault-ms 3000 --json "$BATS_TEST_TMPDIR/t.json"
	expect_status 0
	samples '.side == "baseline" or ((.values | .during > .before / 10 and .after > 0) and
		([.detail.marks[].what] | contains(["fault", "mended", "failover"])) and
		(.values.before as $before | [.detail.series[] | select(.name == "a rail 1 out").values | max] | .[0] > $before / 10))' "$BATS_TEST_TMPDIR/t.json"
}

@test "setup: eight connections are protected, and move" {
	run shift-bench setup --testbed $NAME --qps 8 --backups 1 --repetitions 1 --warmup 0 --json "$BATS_TEST_TMPDIR/s.json"
	expect_status 0
	samples '(.values | .init > 0 and .memory > 0) and (.side == "baseline" or (.detail.protection.a.protected == 8 and .detail.protection.b.protected == 8 and
		(.values | .protected > 0 and .protected_max > 0 and .move > 0 and .etcd_puts > 0 and .etcd_bytes > 0)))' \
		"$BATS_TEST_TMPDIR/s.json"
}

# A build whose library is libshift-hooks.so, which can be slow; guests see it. $tree is its directory.
slow_tree() {
	tree=$(mktemp -d -p "$BUILDDIR" slow.XXXXXX)
	mkdir -p "$tree"/{cmd/shift-bench,cmd/shift-run,cmd/shift-ctl,cmd/shift-inject,kv,lib/.libs,testbed}
	cp "$BUILDDIR/cmd/shift-bench/shift-bench" "$tree/cmd/shift-bench/"
	cp "$BUILDDIR/cmd/shift-run/shift-run" "$tree/cmd/shift-run/"
	cp "$BUILDDIR/kv/shift-kvd" "$tree/kv/"
	cp "$BUILDDIR/lib/.libs/libshift-hooks.so" "$tree/lib/.libs/libshift.so"
	ln -s "$BUILDDIR/cmd/shift-ctl/shift-ctl" "$tree/cmd/shift-ctl/"
	ln -s "$BUILDDIR/cmd/shift-inject/shift-inject" "$tree/cmd/shift-inject/"
	ln -s "$BUILDDIR/testbed/shift-testbed" "$tree/testbed/"
}

@test "latency: two sides alike show no difference, a library slower by 2 us per post does" {
	local common=(latency --layout single --ops write --sizes 8 --repetitions 8 --seed 1)
	slow_tree
	cd "$BATS_TEST_TMPDIR"
	run -0 shift-bench "${common[@]}" --control --json control.json
	run -0 "$tree/cmd/shift-bench/shift-bench" "${common[@]}" --json fast.json
	run -0 "$tree/cmd/shift-bench/shift-bench" "${common[@]}" --env SHIFT_SLOW_POST=2us --json slow.json
	jq -e '.cases[0].results[] | select(.metric == "p50").ratio | .difference == "more" and .ratio > 1.02' slow.json
	run shift-bench compare fast.json slow.json
	expect_status 4
	expect_match 'write 8 B +p50 .*WORSE'
}

@test "latency beside idle QPs: theirs are protected, too" {
	run shift-bench latency --testbed $NAME --ops write --sizes 8 --iterations 500 --idle-qps 16 --repetitions 1 --warmup 0 --json "$BATS_TEST_TMPDIR/l.json"
	expect_status 0
	samples '.values.p50 > 0 and (.side == "baseline" or .detail.protection.a.protected == 1)' "$BATS_TEST_TMPDIR/l.json"
	run ! shift-testbed exec --name $NAME b -- pgrep -x idle-qps
}

training() {
	shift-bench training --testbed $NAME --repetitions 1 --steps 50 --compute-ms 100 --messages 16 --flaps 1 --json "$BATS_TEST_TMPDIR/p.json" "$@"
}

@test "training: without shift the job dies and is restarted, with it no step is lost" {
	run training --scenarios none,fatal
	expect_status 0
	samples '.values.total > 0 and (.detail.steps | last | .[1]) == 50 and
		(.side == "baseline" or (.values.restarts == 0 and .values.lost_steps == 0))' "$BATS_TEST_TMPDIR/p.json"
	jq -e '.cases[1].samples | map(select(has("failure") | not)) | (map(select(.side == "baseline"))[0].values | .restarts >= 1 and .lost_steps >= 1) and
		(map(select(.side == "shift"))[0] | .values.step_after > 0 and ([.detail.marks[].what] | contains(["fault", "failover", "mended"])))' \
		"$BATS_TEST_TMPDIR/p.json"
}

@test "training: a busy backup NIC, and a link that flaps" {
	run training --scenarios busy,flap
	expect_status 0
	samples '.side == "baseline" or (.values.restarts == 0 and .values.lost_steps == 0 and (.detail.steps | last | .[1]) == 50)' "$BATS_TEST_TMPDIR/p.json"
	for host in a b; do
		run ! shift-testbed exec --name $NAME $host -- pgrep -x 'train-steps|ib_write_bw'
	done
}
