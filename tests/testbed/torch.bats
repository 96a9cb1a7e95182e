# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Training by torchrun (examples/torch), between two guests: its tensors go over RDMA. Under shift-run it outlives each fault,
# with the losses and weights of a run without faults, to the bit. For build-aux/training-packages.
# shellcheck disable=SC2016,SC2034,SC2154  # variables for, and of, survive.bash

load ../helper
load survive
load torch
load busy

export NAME=check-torch

setup_file() {
	cd "$BUILDDIR" || return
	survive_up "${KERNEL:-6.1}"
}

teardown_file() {
	survive_down
}

setup() {
	cd "$BUILDDIR" || return
	out=$BATS_TEST_TMPDIR
	client='' server=''
}

teardown() {
	empty_backup
	kill_programs
	outlives_panic mend_all
}

# From one fault to the next the connections come home: by shift-ctl, as the pause before an automatic fail-back doubles.
outlive() { # FAULT...
	local fault
	for fault; do
		if ! { "through_${fault%%:*}" "$fault" && goes_on 2 && wait_until 120 sent_home && goes_on 2; }; then
			echo "through $fault"
			tail -n 3 "$out/a.out" "$out/a.err" "$out/b.err"
			return 1
		fi
	done
}

trains_through() { # FAULT...
	shift_run
	start_training --epochs 1000 --timeout "$timeout"
	trains
	outlive "$@"
	end_training
	as_without_faults
	grep 'shift.*0 requests in doubt' "$out/a.err" # it says that it moved
}

away() { # FAULT [COMMAND that says that they have moved]
	local began=$SECONDS moved=("${@:2}")
	[ $# -gt 1 ] || moved=(all_on 1)
	break_it "$1" && wait_until 120 "${moved[@]}" && goes_on 2 || return
	[ $((SECONDS - began)) -ge "$lasts" ] || sleep $((began + lasts - SECONDS))
	mend_it "$1"
}
through_pull() { away "$1"; }
through_down() { away "$1"; }
# Two of the six connections post nothing any more, and miss no acknowledgement.
through_acks() { away "$1" four_on 1; }
four_on() { # RAIL
	local host
	for host in a b; do
		[ "$(latest_rails "$host" | awk -v r="$1" '$2 == r' | wc -l)" -ge 4 ] || return
	done
}

# Fast ones, and then slow ones: each down for longer than the training's timeout, and up for a moment.
through_flap() {
	flaps "${1##*:}" 1 3 && flaps "${1##*:}" "$lasts" 2
}
flaps() { # HOST SECONDS TIMES
	on "$1" sh -c 'for i in $(seq $1); do ip link set eth1 down; sleep $0; ip link set eth1 up; sleep 1; done' "$2" "$3"
}

# Both cables, the second 100 ms after the first; and then one at either end, as soon.
through_twice() {
	shift-testbed link --name "$NAME" all 0 down && sleep 0.1 && shift-testbed link --name "$NAME" all 1 down && sleep 2 &&
		shift-testbed link --name "$NAME" all 1 up && wait_until 120 all_on 1 && goes_on 2 && mend_all &&
		wait_until 120 sent_home && goes_on 2 &&
		shift-testbed link --name "$NAME" a 0 down && sleep 0.1 && on b ip link set eth1 down && away_already && mend_all
}
away_already() { wait_until 120 all_on 1 && goes_on 2; }

# bats test_tags=long
@test "training outlives a cable pulled and a link taken down at either end" {
	trains_through pull:a down:b pull:b down:a
}

# bats test_tags=long
@test "training outlives lost ACKs at either end, flaps, and two failures in 100 ms" {
	trains_through acks:b flap:a acks:a twice
}

# bats test_tags=long
@test "training outlives a cable pulled and a link taken down while other traffic fills the backup NIC" {
	fill_backup
	trains_through pull:a down:b
	backup_is_filled
	outlives_panic ends_by break_it pull:a
}

# bats test_tags=long
@test "without shift each of these faults ends the training" {
	local fault
	for fault in pull:a down:b acks:b two:a; do
		outlives_panic ends_by break_it "$fault" || { echo "$fault"; return 1; }
	done
	outlives_panic ends_by flaps a "$lasts" 2
}

met_six() {
	local host
	for host in a b; do
		[ "$(grep -c 'SETUP -> ACTIVE' "$out/$host.err")" -eq 6 ] || return
	done
}

# When the queue pairs have met their peers, which is before the first gradients; not sooner, as TensorPipe does not notice that
# RTR failed (examples/torch/README.md). And when the last step is done: what is left is to say good-bye.
# bats test_tags=long
@test "training outlives a failure while it starts, and one while it ends" {
	shift_run --log-level debug
	start_training --epochs 2
	wait_until 240 met_six
	shift-testbed link --name "$NAME" all 0 down
	run ! at_step 3
	wait_until 120 at_step 5
	shift-testbed link --name "$NAME" all 0 up
	wait_until 120 grep -q '^epoch 2' "$out/a.out"
	shift-testbed link --name "$NAME" all 0 down
	both_right
	mend_all
	as_without_faults
}

# bats test_tags=long
@test "without shift a failure while the training starts, or while it ends, ends it with an error" {
	outlives_panic stock_starts
	outlives_panic stock_ends
}

# The cable has to be out before the first step, soon after the queue pairs are there: not each try is in time.
stock_starts() {
	local try
	for try in 1 2 3 4 5; do
		unprotected
		start_training --epochs 2 --timeout "$timeout"
		wait_until 240 six_made || return
		shift-testbed link --name "$NAME" all 0 down
		ends_by_timeout || return
		at_step 1 || return 0
		kill_programs
	done
	echo "the first step was always sooner"
	return 1
}

# It says good-bye when its epoch is over: not each try is in time to keep it from that.
stock_ends() {
	local try
	for try in 1 2 3 4 5; do
		unprotected
		start_training --epochs 1 --timeout "$timeout"
		wait_until 240 grep -q '^epoch 1' "$out/a.out" || return
		shift-testbed link --name "$NAME" all 0 down
		ends_by_timeout && return
		[ "$client_status $server_status" = '0 0' ] || return
	done
	echo "it was always over sooner"
	return 1
}

six_made() {
	local host
	for host in a b; do
		on "$host" sh -c '[ "$(rdma resource show qp link mlx5_0 | grep -c "type RC state RTS")" -ge 6 ]' || return
	done
}

# bats test_tags=long
@test "--on-switch: a checkpoint as soon as the NIC has failed, and the training goes on" {
	job=early # another than that of the daemons that run already
	shift_run --job $job --on-switch 'kill -USR1 "$SHIFT_SWITCH_PID"'
	start_training --epochs 1000 --every 100000 --checkpoint /tmp/early
	trains
	run ! grep '^checkpoint' "$out/a.out"
	break_it pull:a && wait_until 120 all_on 1
	wait_until 30 grep '^checkpoint at step' "$out/a.out"
	goes_on 2 && mend_it pull:a
	end_training
	as_without_faults
}

# bats test_tags=long
@test "without shift the same pull ends the training by its timeout, and torchrun starts it again from the checkpoint" {
	unprotected
	torchrun=(--max_restarts 1)
	start_training --epochs 3 --timeout 10 --every 10 --checkpoint /tmp/checkpoint
	wait_until 240 at_step 13
	shift-testbed link --name "$NAME" all 0 down
	wait_until 60 timeout_said
	shift-testbed link --name "$NAME" all 0 up
	both_right
	grep '^resumed at step 10' "$out/a.out"
	[ "$(grep -c '^step 12 ' "$out/a.out")" -eq 2 ] # work that was lost
}
