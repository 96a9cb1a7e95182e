# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The guard: a fault is over after its time although its process stands still, and whenever one of the two is killed.

load inject

# Stops the process that has said something, and waits until the NIC is as before.
stopped_is_undone() { # PID
	wait_until 30 test -s said
	kill -STOP $1
	! same_as before || [ "${2-}" = wave ]
	wait_until 30 same_as before || { cat before.diff; exit 1; }
}

# Lets it go on: it says what happened, with a status of its own.
continued_says_so() { # PID
	kill -CONT $1 2>/dev/null || true
	status=0
	wait $1 || status=$?
	# Stopped amid a wave, it is killed.
	[ $status -eq 7 ] || [ "$status${2-}" = 137wave ] || { echo "status $status"; exit 1; }
	same_as before
}

@test "a fault with --for whose process is stopped is undone all the same, and says so afterwards" {
	stopped() {
		ip addr add 192.0.2.1/24 dev v0
		ip addr add 2001:db8::1/64 dev v0
		wait_until 30 calm
		state >before
		for words in down 'flap --period 30s' 'addr-move --time 10s'; do
			rm -f said
			shift-inject $words --nic v0 --for 3s >said 2>errors & pid=$!
			stopped_is_undone $pid wave
			continued_says_so $pid
			grep -E "^${words%% *}-$pid: undone by its guard after [2-9]\.[0-9] s" said
			grep -E "^shift-inject: ${words%% *}-$pid: this process stood still" errors
		done
		rm said
		shift-inject down --nic v0 --for 3s --json >said & pid=$!
		stopped_is_undone $pid
		continued_says_so $pid
		jq -es '.[-1] | .event == "end" and .reason == "guard" and .undone' said
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns stopped
	expect_status 0
}

@test "a fault with --count has an end, too" {
	counted() {
		state >before
		shift-inject flap --nic v0 --period 250ms --count 4 --jitter >said & pid=$!
		stopped_is_undone $pid wave
		continued_says_so $pid wave
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns counted
	expect_status 0
}

@test "a fault whose process waits for a terminal, or a pipe, that nobody reads is undone" {
	unread() {
		state >before
		mkfifo full
		exec 9<>full
		dd if=/dev/zero of=full bs=4096 oflag=nonblock 2>/dev/null || true
		for words in down 'flap --period 10s --json'; do
			shift-inject $words --nic v0 --for 2s >full & pid=$!
			begun() { ls "$SHIFT_INJECT_DIR"/*-$pid.json; }
			wait_until 30 begun
			wait_until 30 same_as before
			# Nothing is held that others need meanwhile.
			shift-inject mtu 1300 --nic v0 --for 10ms
			kill -9 $pid
			wait $pid || true
		done
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns unread
	expect_status 0
}

@test "a scenario: its process and that of its fault are stopped, and the fault is over in time" {
	played() {
		state >before
		echo '{"timeline": [{"at": "0s", "fault": "down", "nic": "v0", "for": "3s"}], "expect": ["no-switch"]}' >s.json
		shift-inject run s.json >ran 2>&1 & run=$!
		begun() { ls "$SHIFT_INJECT_DIR"/down-*.json; }
		wait_until 30 begun
		fault=$(cd "$SHIFT_INJECT_DIR" && echo down-*.json)
		fault=${fault#down-}
		kill -STOP $run ${fault%.json}
		wait_until 30 same_as before
		kill -CONT ${fault%.json} $run
		wait $run && exit 1 || [ $? -eq 1 ]
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns played
	expect_status 0
}

@test "a fault that its guard has undone is not undone again: another one may be there" {
	twice() {
		state >before
		shift-inject down --nic v0 --for 3s >said & pid=$!
		stopped_is_undone $pid
		shift-inject down --nic v0 >other & other=$!
		wait_until 30 test -s other
		kill -CONT $pid
		wait $pid && exit 1 || [ $? -eq 7 ]
		ip link show v0 | grep -q 'state DOWN'
		kill $other
		wait $other
		same_as before
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns twice
	expect_status 0
}

@test "a guard that is stopped holds nobody up, and undo repairs what it would have" {
	guard_stopped() {
		state >before
		shift-inject down --nic v0 --for 2s >said & pid=$!
		wait_until 30 test -s said
		guard=$(jq .guard "$SHIFT_INJECT_DIR/down-$pid.json")
		kill -STOP $guard
		timeout --foreground 20 tail --pid=$pid -f /dev/null
		wait $pid
		same_as before
		# Killed, with a guard that does nothing.
		rm said
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		guard=$(jq .guard "$SHIFT_INJECT_DIR/down-$pid.json")
		kill -STOP $guard
		kill -9 $pid
		wait $pid || true
		start=$SECONDS
		shift-inject undo --all
		[ $((SECONDS - start)) -lt 8 ]
		same_as before
		# Both stopped, and no time.
		rm said
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		guard=$(jq .guard "$SHIFT_INJECT_DIR/down-$pid.json")
		kill -STOP $guard $pid
		start=$SECONDS
		shift-inject undo down-$pid
		[ $((SECONDS - start)) -lt 8 ]
		same_as before
		wait $pid
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns guard_stopped
	expect_status 0
}

@test "a guard that was killed is replaced; killed again and again, it ends the fault" {
	replaced() {
		state >before
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		for i in {1..10}; do
			guard=$(jq .guard "$journal")
			kill -9 $guard
			other() { [ "$(jq .guard "$journal")" -ne $guard ]; }
			wait_until 30 other
		done
		[ "$i" -eq 10 ]
		kill -9 $(jq .guard "$journal")
		wait $pid && exit 1 || [ $? -eq 1 ]
		same_as before
		# The new one does what the old one would have done.
		for end in KILL STOP; do
			rm said
			shift-inject down --nic v0 $([ $end = KILL ] || echo --for 5s) >said & pid=$!
			wait_until 30 test -s said
			journal=$SHIFT_INJECT_DIR/down-$pid.json
			guard=$(jq .guard "$journal")
			kill -9 $guard
			wait_until 30 other
			kill -$end $pid
			wait_until 30 same_as before
			kill -CONT $pid 2>/dev/null || true
			wait $pid && exit 1 || [ $? -eq $([ $end = KILL ] && echo 137 || echo 7) ]
		done
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns replaced
	expect_status 0
	expect_match 'it has no guard process any more'
}

# --- at each step ------------------------------------------------------------------------------------------------------

# Runs the fault with a signal right before each of its steps in turn (or each STRIDE of them), until there is none left.
strike_each() { # main|guard SIGNAL FUNCTION WORDS...
	local who=$1 sig=$2 after=$3 n=0
	shift 3
	export STRUCK=$PWD/struck ASAN_OPTIONS=verify_asan_link_order=0
	while [ $((n += ${STRIDE-1})) -lt 200 ]; do
		rm -f struck said
		LD_PRELOAD=$PWD/strike.so STRIKE="$who $n $(kill -l $sig)" shift-inject "$@" >said 2>errors & pid=$!
		$after || { echo "$who $sig at step $n of $*"; cat errors; exit 1; }
		wait $pid 2>/dev/null || true
		wait_until 30 same_as before || { echo "$who $sig at step $n of $*"; cat before.diff; exit 1; }
		[ -e struck ] || break
	done
	[ $n -gt 3 ] # the signal does strike
	echo "$n steps of $*: $who $sig"
}

prepare() {
	${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -o strike.so "$SRCDIR/tests/inject/strike.c" -ldl
	ip addr add 192.0.2.1/24 dev v0
	ip route add 198.51.100.0/24 via 192.0.2.9
	wait_until 30 calm
	state >before
}

over() {
	wait $pid || true
}

killed() {
	prepare
	for words in "$@"; do
		strike_each main KILL over $words --nic v0 --for 50ms
	done
}

@test "kill -9 before some of its steps: undone" {
	some_killed() { killed down 'flap --period 30ms'; }
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	STRIDE=4 run in_netns some_killed
	expect_status 0
}

# bats test_tags=long
@test "kill -9 before each step: undone" {
	each_killed() { killed down 'flap --period 30ms' 'mtu 1300' addr-move; }
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns each_killed
	expect_status 0
}

# A stop in the middle costs 2 s: a second for a process that is only late, and one for a stopped one to go on.
paused() {
	prepare
	# Not begun: it has changed nothing, and goes on afterwards.
	goes_on() {
		struck_or_over() { [ -e struck ] || dead $pid; }
		wait_until 30 struck_or_over
		[ ! -e struck ] || wait_until 30 same_as before
		kill -CONT $pid 2>/dev/null || true
		status=0
		wait $pid || status=$?
		[[ $status = 0 || $status = 7 || $status = 137 ]]
	}
	for words in "$@"; do
		strike_each main STOP goes_on $words --nic v0 --for 50ms
	done
}

@test "stopped before some of its steps: undone after its time, or not begun" {
	some_paused() { paused down; }
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	STRIDE=17 run in_netns some_paused
	expect_status 0
}

# bats test_tags=long
@test "stopped before each step: undone after its time, or not begun" {
	each_paused() { paused down 'flap --period 30ms'; }
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns each_paused
	expect_status 0
}

@test "the guard is killed or stopped before each of its steps: undo repairs" {
	bereft() {
		prepare
		guard_struck() {
			wait_until 30 test -s said
			guard=$(jq .guard "$SHIFT_INJECT_DIR/down-$pid.json")
			kill -9 $pid
			guard_done() { [ -e struck ] || dead $guard; }
			wait_until 30 guard_done
			shift-inject undo --all
		}
		strike_each guard KILL guard_struck down --nic v0
		STRIDE=3 strike_each guard STOP guard_struck down --nic v0
		# At the end of its time: the process does it, when it goes on.
		guard_late() {
			wait_until 30 test -s said
			guard=$(jq .guard "$SHIFT_INJECT_DIR/down-$pid.json")
			kill -STOP $pid
			guard_done() { [ -e struck ] || dead $guard; }
			wait_until 30 guard_done
			kill -CONT $pid
		}
		STRIDE=5 strike_each guard KILL guard_late down --nic v0 --for 1s
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns bereft
	expect_status 0
}

@test "a process that is stopped with the lock is named to those who wait for it" {
	waits() {
		prepare
		export ASAN_OPTIONS=verify_asan_link_order=0
		LD_PRELOAD=$PWD/strike.so STRIKE="main 2 19" STRIKE_ONLY=rename STRUCK=struck shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -e struck
		shift-inject down --nic v1 --for 10ms 2>errors & other=$!
		wait_until 30 grep -q "waiting for process $pid, which is stopped and holds .*/lock; kill -CONT $pid" errors
		kill -CONT $pid
		wait $other
		kill $pid
		wait $pid
		same_as before
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns waits
	expect_status 0
}

@test "a guard that has killed its process says so only where that is read, and ends" {
	mute() {
		prepare
		export ASAN_OPTIONS=verify_asan_link_order=0
		mkfifo full
		exec 9<>full
		dd if=/dev/zero of=full bs=4096 oflag=nonblock 2>/dev/null || true
		LD_PRELOAD=$PWD/strike.so STRIKE="main 2 19" STRIKE_ONLY=rename STRUCK=struck shift-inject down --nic v0 --for 1s \
			>said 2>full & pid=$!
		wait_until 30 test -e struck
		guard=$(pgrep -P $pid -x inject-guard)
		wait_until 60 dead $pid
		wait_until 30 dead $guard
		same_as before
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns mute
	expect_status 0
}
