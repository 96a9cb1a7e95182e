# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What shift-kvd does when clients, descriptors, keys or etcd are too many, too slow, or against it.

load kvd

storm() { # CLIENTS KEYS: how long an answer takes while they die and etcd is away
	head -c 16 /dev/zero | tr '\0' k >key
	chmod 600 key
	KV=http://127.0.0.1:1 kvd A --key-file key
	run -0 timeout --foreground 250 "$BUILDDIR/tests/kv/kv_storm" "$PWD/A/$JOB/kvd.sock" "$JOB" "$1" "$2" 1000
	echo "# $output" >&3
}

@test "64 clients with 1,000 keys die while etcd is down: answers come all the time" {
	storm 64 1000
}

# bats test_tags=long
@test "1,000 clients with 100 keys die while etcd is down: answers come all the time" {
	storm 1000 100
}

@test "a death that somebody wrote to etcd is none; a true one that somebody overwrote is put back" {
	local death
	two_hosts
	client A a1
	client A a2
	client B b1
	ready a1
	ready a2
	ready b1
	ctl put "/shift/v1/$JOB/dead/00000000000000a1" 1
	ctl put "/shift/v1/$JOB/dead/00000000000000a2" "$(printf '0%.0s' {1..32})"
	wait_until 30 status_is B .unproved_deaths 2
	client B b2 # one that comes later hears nothing either
	ready b2
	SHIFT_RUN_DIR=$PWD/B run -0 shift-kvd status --job "$JOB"
	expect_match '2 records of deaths were ignored'
	murder a2
	expect b1 'died a2'
	expect b2 'died a2'
	run ! grep -h '^died a1' a1.out b1.out b2.out
	death=$(ctl get --print-value-only "/shift/v1/$JOB/dead/00000000000000a2")
	[[ $death =~ ^[0-9a-f]{32}$ ]]
	ctl put "/shift/v1/$JOB/dead/00000000000000a2" gone
	put_back() { [ "$(ctl get --print-value-only "/shift/v1/$JOB/dead/00000000000000a2")" = "$death" ]; }
	wait_until 30 put_back
	# It counts for this process only.
	ctl put "/shift/v1/$JOB/dead/00000000000000b1" "$death"
	wait_until 30 status_is A .unproved_deaths 4
	run ! grep -h '^died b1' b2.out
}

hostile() { # with the shell's help, its process is ${PID[hostile]}
	command -v python3 >/dev/null || skip "needs python3, for an etcd that is against us"
	PORT=$(free_port)
	python3 "$SRCDIR/tests/kv/hostile_etcd.py" "$PORT" >hostile.out 2>&1 3>&- &
	PID[hostile]=$!
	wait_until 30 requests any 2>curl.out
}

requests() { # MODE: that it has had
	curl -sS "http://127.0.0.1:$PORT/$1"
}

ticks_of() { # PROCESS: of a processor, a hundred a second
	sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'
}

@test "an etcd that is broken or hostile: said, bounded, survived" {
	local mode kvd n=0 broken=(short-key empty-key foreign-key bad-base64 same-page empty-page biggest-revision
		no-revision lease-0 lease-negative lease-text no-json wrong-types deep endless escape fields
		short-event foreign-event no-event biggest-event)
	# These are no errors by themselves.
	local odd=(good lost-lease ttl-0 ttl-negative huge-key control-key key-deleted compacted chatter)
	hostile
	for mode in "${broken[@]}" "${odd[@]}"; do
		JOB=$mode KV=http://127.0.0.1:$PORT/$mode
		kvd "$mode" --lease 2s
		client "$mode" $((n += 1))
		tell $n put k 1
	done
	sleep 4
	for mode in "${broken[@]}" "${odd[@]}"; do
		JOB=$mode
		kvd=$(<"$mode/kvd.pid")
		SHIFT_RUN_DIR=$PWD/$mode run -0 timeout 5 shift-kvd status --job "$JOB"
		echo "$mode: $(requests "$mode") requests, $(ticks_of "$kvd") ticks, $(grep VmHWM "/proc/$kvd/status"): $output" |
			cat -v >>modes
		# With two seconds between two tries: some five requests each. Without, it is thousands a second.
		[ "$(requests "$mode")" -lt 500 ] || { cat modes; false; }
		[ "$(ticks_of "$kvd")" -lt 500 ] || { cat modes; false; }
		[ "$(awk '/VmHWM/ {print $2}' "/proc/$kvd/status")" -lt 150000 ] || { cat modes; false; }
		[[ $output != *[$'\e\a\r']* ]] || { cat modes; false; }
		! printf %s "$output" | tail -n +2 | grep -q '^second line' || { cat modes; false; }
	done
	for mode in "${broken[@]}"; do
		JOB=$mode
		wait_until 10 eval "[ -n \"\$(status_of $mode .error)\" ]"
	done
	JOB=good
	wait_until 10 status_is good .etcd up
	wait_until 10 status_is good .queue 0
}
