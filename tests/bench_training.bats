# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench training between two hosts that are stand-ins, and its job by itself, over TCP.

load helper
load bench_hosts

setup() {
	standin_hosts
	cd "$BATS_TEST_TMPDIR" || return
}

# Three seconds, or far more where others have the processors.
training() {
	shift-bench training --testbed standin --repetitions 1 --steps 60 --compute-ms 50 --messages 2 --checkpoint-every 20 \
		--fault-at-ms 400 --restart-ms 200 --flaps 2 --flap-ms 100 --json t.json "$@"
}

sample() { # SCENARIO SIDE FILTER: is it true?
	jq -e --arg case "$1" --arg side "$2" "[.cases[] | select(.id == \$case) | .samples[] | select(.side == \$side)] | last | $3" \
		t.json >/dev/null || {
		echo "$1, $2: not $3"
		jq -c --arg case "$1" '.cases[] | select(.id == $case) | .samples[]' t.json
		return 1
	}
}

nothing_left() {
	wait_until 5 no_standins
	[ -z "$(find /tmp -maxdepth 1 -name "shift-bench-*-checkpoint-*" -newer "$STANDIN/status.json")" ]
}

no_standins() {
	[ -z "$(standins_left)" ]
}

# train-steps by itself, on both hosts; the client says what is in said.
pair_start() { # WORDS of both
	local own=("$BUILDDIR/tests/clients/train-steps" --tcp --port 18530 --compute-ms 20 --messages 3 --checkpoint-every 4 "$@")
	"${own[@]}" --checkpoint checkpoint-b 2>server-err &
	server=$!
	"${own[@]}" --checkpoint checkpoint-a 127.0.0.1 >said 2>client-err &
	client=$!
}

pair() { # STATUS WORDS: the status of both
	local status=0
	pair_start "${@:2}"
	wait $client || status=$?
	[ $status -eq "$1" ]
	status=0
	wait $server || status=$?
	[ $status -eq "$1" ]
}

@test "train-steps: a job that was killed goes on from its checkpoint, and has the sum of one that was not" {
	pair 0 --steps 12
	[ "$(grep -c '^step' said)" -eq 12 ]
	[ "$(grep '^checkpoint' said | xargs)" = "checkpoint 4 checkpoint 8 checkpoint 12" ]
	grep '^sum' said >sum
	rm checkpoint-*
	pair_start --steps 12 --compute-ms 500
	wait_until 30 grep -q '^step 6$' said
	kill -KILL $client
	status=0
	wait $server || status=$?
	[ $status -eq 3 ]
	grep -q 'the peer left' server-err
	pair 0 --steps 12
	head -n 1 said | grep -qE '^step (5|9)$'
	tail -n 1 said | diff - sum
}

@test "train-steps: if only one side has the last checkpoint, both take the one before; if they have none in common, they say so" {
	pair 0 --steps 8
	grep '^sum' said >sum
	mv checkpoint-b.old checkpoint-b
	pair 0 --steps 8
	head -n 1 said | grep -qx 'step 5'
	tail -n 1 said | diff - sum
	rm checkpoint-b*
	pair 1 --steps 8
	grep -q 'the checkpoints are of steps' client-err
	grep -q 'the checkpoints are of steps' server-err
}

@test "training: without shift the job dies and is restarted; with it, it stands still and goes on" {
	run training --scenarios none,fatal
	expect_status 0
	expect_match 'fatal +total s'
	expect_match 'lost_steps steps'
	for side in baseline shift; do
		sample none $side '.values.total > 3 and .values.restarts == 0 and .values.lost_steps == 0 and .values.lost_time == null and .values.step_after == null'
		sample none $side '.values | .first_step > 0 and .training > 2.5 and (.first_step + .training - .total | fabs) < 0.002'
		sample none $side '(.detail.steps | map(.[1])) == [range(1; 61)] and (.detail.checkpoints | map(.[1])) == [20, 40, 60] and .detail.lives[0].ended == "done"'
	done
	sample fatal baseline '.values.restarts == 1 and .values.lost_steps < 20 and .values.lost_time > 0.2 and .values.standstill >= 200'
	sample fatal baseline '.detail.lives[1].began_ms as $again | .values.lost_steps == ([.detail.steps[] | select(.[0] < $again)[1]] | max)
		- ([0, (.detail.checkpoints[] | select(.[0] < $again)[1])] | max)'
	sample fatal baseline '(.detail.lives | map(.ended)) == ["died", "done"] and .detail.lives[0].reason == "host a: status 137"'
	sample fatal baseline '([.detail.marks[].what] | sort) == ["died", "fault", "mended", "restarted"]'
	sample fatal shift '.values.restarts == 0 and .values.lost_steps == 0 and .values.standstill >= 400'
	sample fatal shift '.detail.protection.a.protected == 1 and ([.detail.marks[].what] | sort) == ["failover", "fault", "mended"]'
	sample fatal shift '(.detail.marks | map(.at_ms)) == (.detail.marks | map(.at_ms) | sort)'
	grep -q '^down --nic mlx5_0 --after 400ms --json' "$STANDIN/inject"
	nothing_left
}

@test "training: a busy backup NIC, and a link that flaps" {
	run training --scenarios busy,flap --fault down:b
	expect_status 0
	for side in baseline shift; do
		sample busy $side '.values.total > 0'
		sample flap $side '[.detail.marks[].what | select(. == "fault")] | length > 0'
	done
	grep -q '^flap --period 200ms --count 2 --nic mlx5_0' "$STANDIN/inject"
	nothing_left
}

@test "training --command: any job that says its steps, on either host" {
	cat >job.sh <<-'END'
		[ "$SHIFT_BENCH_STEPS $SHIFT_BENCH_CHECKPOINT_EVERY $SHIFT_BENCH_MASTER $SHIFT_BENCH_NIC" = "30 20 127.0.0.1 mlx5_0" ] || exit 9
		[ "$SHIFT_BENCH_RANK" = 0 ] || exec sleep 1.5
		echo "loading data"
		for i in 2 4 6 8; do sleep 0.1; printf 'epoch 1\r step %d loss 0.5\n' $i; done
		echo "checkpoint 8 of many"
		echo "step"; echo "stepping 9"; echo "step 1e3"; echo "step 9x"
	END
	run training --scenarios none --steps 30 --command "exec bash $PWD/job.sh"
	expect_status 0
	for side in baseline shift; do
		sample none $side '(.detail.steps | map(.[1])) == [2, 4, 6, 8] and (.detail.checkpoints | map(.[1])) == [8]'
	done
	jq -e '.cases[0].parameters.command | test("job.sh")' t.json
	nothing_left
}

@test "training --command: a job that cannot start, that prints nothing, that is over too soon" {
	run training --scenarios none --command 'echo "no such model" >&2; exit 7'
	expect_status 1
	expect_match 'none, without shift: host [ab]: status 7: no such model'
	run training --scenarios none --command 'sleep 0.1'
	expect_status 1
	expect_match 'the job printed less than two lines "step N"'
	run training --scenarios fatal --fault-at-ms 60000 --command 'for i in 1 2 3; do echo step $i; done'
	expect_status 1
	expect_match 'the job was over before the fault'
	jq -e 'all(.cases[].samples[]; has("failure"))' t.json
}

@test "training: a job that stands still for too long counts as dead" {
	cat >job.sh <<-'END'
		for i in 1 2; do sleep 0.1; echo step $i; done
		[ -e "$SHIFT_BENCH_CHECKPOINT" ] || { touch "$SHIFT_BENCH_CHECKPOINT"; exec sleep 86400; }
	END
	run training --scenarios none --stall-ms 1000 --command "exec bash $PWD/job.sh"
	expect_status 0
	sample none shift '.values.restarts == 1 and .values.lost_steps == 2 and .detail.lives[0].ended == "stalled" and .detail.lives[0].reason == "no step for 1 s"'
	nothing_left
}

@test "training: a fault that cannot be made is told, and is no death of the job" {
	touch "$STANDIN/inject-fails"
	run training --scenarios fatal
	expect_status 1
	expect_match 'shift-inject on a: status 1: shift-inject: mlx5_0 has no network interface'
	nothing_left
}

@test "training: ended in the middle, what was measured is kept, and nothing is left" {
	for signal in TERM KILL; do
		rm -f t.json "$STANDIN"/job-*
		training --scenarios none,fatal >out 2>&1 3>&- &
		wait_until 120 test -s t.json
		wait_until 120 test -s "$STANDIN/job-a-protected"
		pid=$(pgrep -x -P $! shift-bench)
		kill -$signal "$pid"
		status=0
		wait $! || status=$?
		[ $signal = KILL ] || [ $status -eq 130 ]
		jq -e '.cases[0].samples | length > 0' t.json
		[ $signal = KILL ] || jq -e '.state == "interrupted"' t.json
		wait_until 10 no_standins
	done
}

@test "training: what cannot be understood" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-bench training $arguments
		expect_status 2
		expect_line '^shift-bench'
	done <<-END
		--scenarios meteor
		--fault down
		--fault down:a,down:b
		--fault-at-ms 1
		--flaps 0
		--steps 1
		--port 80
		--command
	END
}

@test "compare: training that takes longer with shift than before is worse" {
	result() { # FACTOR
		jq -n --argjson f "$1" '{program: "shift-bench", schema: 1, command: "training", seed: "1", cases: [{
			id: "fatal", metrics: [{name: "total", unit: "s", better: "less"}, {name: "restarts", unit: "restarts", better: "less"}],
			samples: [range(10) | . as $n | {side: "baseline", warmup: false, values: {total: (30 + $n / 100), restarts: 1}},
				{side: "shift", warmup: false, values: {total: ($f * (20 + $n / 100)), restarts: 0}}]}]}'
	}
	result 1 >old.json
	result 1.3 >new.json
	run -0 shift-bench compare old.json old.json
	run shift-bench compare old.json new.json
	expect_status 4
	expect_match 'fatal +total +1\.3.*WORSE'
}
