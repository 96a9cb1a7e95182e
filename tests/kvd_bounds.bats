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
	wait_until 90 status_is B .unproved_deaths 2
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
	wait_until 90 put_back
	# It counts for this process only.
	ctl put "/shift/v1/$JOB/dead/00000000000000b1" "$death"
	wait_until 90 status_is A .unproved_deaths 4
	run ! grep -h '^died b1' b2.out
}

hostile() { # with the shell's help, its process is ${PID[hostile]}
	command -v python3 >/dev/null || skip "needs python3, for an etcd that is against us"
	PORT=$(free_port)
	python3 "$SRCDIR/tests/kv/hostile_etcd.py" "$PORT" >hostile.out 2>&1 3>&- &
	PID[hostile]=$!
	wait_until 90 requests any 2>curl.out
}

requests() { # MODE: that it has had
	curl -sS "http://127.0.0.1:$PORT/$1"
}

ticks_of() { # PROCESS: of a processor, a hundred a second
	sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'
}

@test "an etcd that is broken or hostile: said, bounded, survived" {
	local mode kvd n=0 from=$SECONDS broken=(short-key empty-key foreign-key bad-base64 same-page empty-page biggest-revision
		no-revision lease-0 lease-negative lease-text no-json wrong-types deep endless escape fields
		short-event foreign-event no-event biggest-event)
	# These are no errors by themselves.
	local odd=(good lost-lease ttl-0 ttl-negative granted-gone huge-key control-key key-deleted compacted
		always-compacted compacted-page chatter)
	local most=150000 # kB; a sanitizer keeps what was freed
	! nm -D "$BUILDDIR/kv/shift-kvd" | grep -qE '__(asan|tsan)' || most=1500000
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
		SHIFT_RUN_DIR=$PWD/$mode run -0 timeout 60 shift-kvd status --job "$JOB"
		echo "$mode: $(requests "$mode") requests, $(ticks_of "$kvd") ticks, $(grep VmHWM "/proc/$kvd/status"): $output" |
			cat -v >>modes
		# With two seconds between two tries, and some five requests each; and a lease of two seconds.
		[ "$(requests "$mode")" -lt $((60 + 8 * (SECONDS - from))) ] || { cat modes; false; }
		# A daemon that spins has a hundred a second.
		[ "$(ticks_of "$kvd")" -lt $((100 + 25 * (SECONDS - from))) ] || { cat modes; false; }
		[ "$(awk '/VmHWM/ {print $2}' "/proc/$kvd/status")" -lt $most ] || { cat modes; false; }
		[[ $output != *[$'\e\a\r']* ]] || { cat modes; false; }
		! printf %s "$output" | tail -n +2 | grep -q '^second line' || { cat modes; false; }
	done
	for mode in "${broken[@]}"; do
		JOB=$mode
		wait_until 90 eval "[ -n \"\$(status_of $mode .error)\" ]"
	done
	JOB=good
	wait_until 90 status_is good .etcd up
	wait_until 90 status_is good .queue 0
}

crowd() { # HOST NUMBER hello|silent
	command -v python3 >/dev/null || skip "needs python3, for many connections"
	drive crowd python3 "$SRCDIR/tests/kv/crowd.py" "$PWD/$1/$JOB/kvd.sock" "$JOB" "$2" "$3"
}

is_lazy() { # HOST: it needs little of a processor
	local before
	before=$(ticks_of "$(<"$1/kvd.pid")")
	sleep 2
	[ $(($(ticks_of "$(<"$1/kvd.pid")") - before)) -lt 50 ]
}

@test "more processes than descriptors: those that are there keep theirs, and etcd; the others hear why" {
	local places connects
	etcd_start
	(ulimit -n 256 && kvd A --lease 2s)
	client A a1
	ready a1
	connects=$(status_of A .connects)
	places=$(status_of A .places)
	[ "$places" -lt 85 ]
	crowd A 150 hello
	wait_until 90 grep -q "^ended $((151 - places)) error 5 this host's shift-kvd takes no more than $places processes; raise its ulimit -n$" \
		crowd.out
	is_lazy A
	tell a1 put k 1
	wait_until 90 status_is A .queue 0
	status_is A .connects "$connects"
	hang_up crowd
	client A a2
	ready a2
}

@test "no descriptor is left: nothing spins, and it is over when there are some again" {
	local kvd free=0
	command -v prlimit >/dev/null || skip "needs prlimit (util-linux)"
	etcd_start
	kvd A
	client A a1
	ready a1
	kvd=$(<A/kvd.pid)
	while [ -e "/proc/$kvd/fd/$free" ]; do free=$((free + 1)); done
	prlimit --pid "$kvd" --nofile="$free:"
	crowd A 20 silent
	expect crowd connected
	is_lazy A
	expect crowd 'ended [0-9]+ error 5 shift-kvd has no file descriptor left; raise its ulimit -n'
	prlimit --pid "$kvd" --nofile=1000:
	client A a2
	ready a2
}

@test "one descriptor is left, and none for the process: it is not taken for another container's" {
	local kvd free=0
	command -v prlimit >/dev/null || skip "needs prlimit (util-linux)"
	etcd_start
	kvd A
	client A a1
	ready a1
	kvd=$(<A/kvd.pid)
	while [ -e "/proc/$kvd/fd/$free" ]; do free=$((free + 1)); done
	prlimit --pid "$kvd" --nofile="$((free + 1)):"
	crowd A 20 silent
	expect crowd connected
	expect crowd 'ended 20 error 5 shift-kvd has no file descriptor left; raise its ulimit -n'
	prlimit --pid "$kvd" --nofile=1000:
	client A a2
	ready a2
	[ "$(status_of A '.clients | length')" -eq 2 ]
}

@test "connections that say nothing make room for one that does" {
	etcd_start
	kvd A
	crowd A 200 silent
	expect crowd connected
	client A a1
	ready a1
	status_of A .pid
	wait_until 90 grep -q '^ended [0-9]* error 1 too many connections that say nothing$' crowd.out
	is_lazy A
	ready a1
}

# bats test_tags=long
@test "a connection that says nothing is ended" {
	etcd_start
	kvd A
	client A a1
	ready a1
	crowd A 10 silent
	expect crowd 'ended 10 error 1 no HELLO came in 10 s'
	: >a1.out
	ready a1
}

fill_by() { # CLIENTS KEYS: so many in all, by the host A
	local i
	for ((i = 1; i <= $1; i++)); do
		client A "$i"
		tell "$i" fill "keys-of-$i-" $(($2 / $1))
	done
	wait_until 500 status_is A .keys "$2"
	wait_until 500 status_is A .queue 0
}

@test "more keys than fit on a page, and a compacted history: a new daemon reads all that is asked for, and what went" {
	etcd_start
	kvd A
	fill_by 1 3500
	client A a2
	tell a2 put zzz last
	tell a2 put aaa first
	ready a2
	tell 1 del keys-of-1-7
	wait_until 90 status_is A .queue 0
	wait_until 90 status_is A .keys 3501
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	kvd B
	client B b1
	tell b1 watch
	wait_until 90 status_is B .keys 3501
	status_is B .etcd up
	expect b1 'put keys-of-1-3499 value-3499'
	expect b1 'put zzz last'
	expect b1 'put aaa first'
	run ! grep '^put keys-of-1-7 ' b1.out
	# What goes while B looks away is gone when it has read all again.
	kill -STOP "$(<B/kvd.pid)"
	tell 1 del keys-of-1-8
	tell a2 del zzz
	wait_until 90 status_is A .queue 0
	ctl put x 1
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	etcd_kill
	etcd_start
	kill -CONT "$(<B/kvd.pid)"
	expect b1 'delete keys-of-1-8 '
	expect b1 'delete zzz '
	wait_until 90 status_is B .keys 3499
}

# bats test_tags=long
@test "500,000 keys with a compacted history: a new daemon is up, and reads them for who asks" {
	local from
	etcd_start
	kvd A --lease 120s --timeout 10s
	fill_by 8 500000
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	from=$(date +%s%N)
	kvd B --timeout 3s --grace 5m
	wait_until 300 status_is B .etcd up
	echo "# up after $((($(date +%s%N) - from) / 1000000)) ms, $(awk '/VmHWM/ {print $2}' "/proc/$(<B/kvd.pid)/status") kB" >&3
	status_is B .keys 0
	client B b1
	from=$(date +%s%N)
	tell b1 watch keys-of-
	wait_until 300 status_is B .keys 500000
	echo "# read after $((($(date +%s%N) - from) / 1000000)) ms, $(awk '/VmHWM/ {print $2}' "/proc/$(<B/kvd.pid)/status") kB" >&3
	status_is B .connects 1
	ask b1 'get keys-of-8-62499' 'got keys-of-8-62499 = value-62499'
}

@test "the job key is in no core file, and no other process of its user reads it from memory" {
	local dir kvd
	etcd_start
	kvd A
	client A a1
	ready a1
	kvd=$(<A/kvd.pid)
	# dd: "do not dump"; private memory that can be written is ours, and not the kernel's.
	awk '/^[0-9a-f]+-[0-9a-f]+ / {own = $2 == "rw-p" && NF == 5} /^VmFlags:.* dd( |$)/ && own {n++} END {exit !n}' \
		"/proc/$kvd/smaps"
	[ "$(id -u)" -eq 0 ] || skip "the rest needs root, to be another user"
	dir=$(mktemp -d /tmp/shift-kvd-XXXXXX)
	chown nobody "$dir"
	cp "$BUILDDIR/kv/shift-kvd" "$dir"
	SHIFT_RUN_DIR=$dir/run setpriv --reuid nobody --clear-groups "$dir/shift-kvd" --kv "$KV" --job "$JOB" --grace 1s
	kvd=$(SHIFT_RUN_DIR=$dir/run setpriv --reuid nobody --clear-groups "$dir/shift-kvd" status --job "$JOB" --json |
		jq .pid)
	# What belongs to root there is closed to the user.
	[ "$(stat -c %U "/proc/$kvd/mem")" = root ]
	run ! setpriv --reuid nobody --clear-groups head -c 1 "/proc/$kvd/environ"
	wait_until 90 eval "[ ! -e $dir/run/$JOB ]"
	rm -r "$dir"
}
