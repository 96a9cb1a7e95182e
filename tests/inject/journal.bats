# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The journals, by which faults are undone: whom they may belong to, left behind, broken, of other network namespaces.

load inject

@test "journals that others could write, or that may not be read: status 5" {
	mkdir "$SHIFT_INJECT_DIR"
	for mode in 777 770; do
		chmod $mode "$SHIFT_INJECT_DIR"
		run shift-inject cpu-stress --for 10ms
		expect_status 5
		expect_line 'not a directory of this user alone'
	done
	chmod 700 "$SHIFT_INJECT_DIR"
	for words in list 'undo --all'; do
		run setpriv --bounding-set -all --inh-caps -all --reuid 65534 --clear-groups \
			env SHIFT_INJECT_DIR=/proc/1/map_files shift-inject $words
		[ "$status" -ne 127 ] && [ "$status" -ne 1 ] || skip "setpriv: $output"
		expect_status 5
		expect_line 'run it as root'
	done
}

@test "journals in a relative directory, which the guard would not find: status 2, nothing made" {
	for words in 'cpu-stress --for 10ms' list 'undo --all'; do
		# shellcheck disable=SC2086
		SHIFT_INJECT_DIR=journals run shift-inject $words
		expect_status 2
		expect_line 'SHIFT_INJECT_DIR=journals: not an absolute path'
	done
	[ ! -e journals ]
}

@test "undo --all ends what is active, and what was left behind" {
	undoing() {
		state >before
		shift-inject down --nic v0 >one &
		shift-inject sigstop --pid $(sleep 60 >/dev/null & echo $!) >two & two=$!
		wait_until 30 test -s one
		wait_until 30 test -s two
		# Neither the process nor its guard is left to undo it.
		id=$(cut -d: -f1 two)
		stopped=$(jq .process "$SHIFT_INJECT_DIR/$id.json")
		kill_both $two sigstop
		shift-inject list
		grep 'State:.T' /proc/$stopped/status
		shift-inject undo --all
		! grep 'State:.T' /proc/$stopped/status
		kill $stopped
		same_as before
		shift-inject undo --all
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns undoing
	expect_status 0
	expect_match 'sigstop-[0-9]* .*left behind'
	expect_match 'down-[0-9]*: undone'
}

@test "a journal from before a reboot is dropped" {
	rebooted() {
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		kill -9 $pid
		wait_until 30 sh -c "! ls $SHIFT_INJECT_DIR/*.json 2>/dev/null"
		shift-inject down --nic v0 >again & pid=$!
		wait_until 30 test -s again
		cp "$SHIFT_INJECT_DIR/down-$pid.json" old
		kill $pid
		wait $pid
		jq '.boot_id = "another" | .pid = 4194303 | .guard = 4194303' old >"$SHIFT_INJECT_DIR/down-$pid.json"
		ip link set v0 down
		shift-inject list
		shift-inject undo --all
		shift-inject list
		ip link show v0 | grep -q 'state DOWN'
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns rebooted
	expect_status 0
	expect_match 'gone with a reboot'
	expect_match 'no fault is active'
}

@test "a journal that cannot be read is said, with status 6, and left alone" {
	broken() {
		shift-inject "$@" && exit 1 || [ $? -eq 6 ]
	}
	unreadable() {
		broken=$SHIFT_INJECT_DIR/broken.json
		for content in '{"id": "../x' '{"id": "../x", "steps": []}' '{"id": "broken"}' ''; do
			echo "$content" >$broken
			broken list 2>&1 | grep -c "broken.json: not a journal"
			broken undo --all 2>&1 | grep -c "broken.json: not a journal"
			broken undo broken
			broken down --nic v0 --for 10ms >said
			[ ! -s said ]
			ip link show v0 | grep -q 'state UP'
			[ "$(cat $broken)" = "$content" ]
		done
		broken undo --drop broken
		shift-inject list
		# The readable journal is shown, and its fault undone.
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		mkdir $broken
		broken list | grep "^down-$pid .*active"
		broken undo --all | grep -x "down-$pid: undone"
		wait $pid
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns unreadable
	expect_status 0
}

@test "a journal of more than 1 MiB is undone" {
	many_routes() {
		ip addr add 192.0.2.1/24 dev v0
		for i in {1..36}; do
			for j in {0..249}; do echo "route add 10.$i.$j.0/24 via 192.0.2.9"; done
		done | ip -batch -
		ip route show | sort >before
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		[ $(stat -c %s "$SHIFT_INJECT_DIR/down-$pid.json") -gt 1048576 ]
		kill -9 $pid
		wait $pid || true
		all() { ip route show | sort | cmp -s before - && ! ls "$SHIFT_INJECT_DIR"/*.json; }
		wait_until 30 all
	}
	run in_netns many_routes
	expect_status 0
}

@test "undo: what is over by the time that the lock is free is not undone" {
	late() {
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		kill_both $pid down
		flock "$SHIFT_INJECT_DIR/lock" sh -c 'echo >locked; until test -e go; do sleep 0.05; done' &
		wait_until 30 test -s locked
		shift-inject undo --all >undone & undo=$!
		wait_until 30 grep -q -- "-> FLOCK .* $undo " /proc/locks
		# Another process has undone it, and the link is down for another reason.
		rm "$SHIFT_INJECT_DIR/down-$pid.json"
		touch go
		wait $undo
		grep -qx "down-$pid: undone" undone
		ip link show v0 | grep 'state DOWN'
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns late
	expect_status 0
}

@test "undo: each ID once, also if it is said twice; those that are not there by name" {
	shift-inject cpu-stress --cpus 1 >"$BATS_TEST_TMPDIR/said" 3>&- &
	pid=$!
	wait_until 30 test -s "$BATS_TEST_TMPDIR/said"
	run --separate-stderr shift-inject undo cpu-stress-$pid loss-1 cpu-stress-$pid
	expect_status 3
	[ "$output" = "cpu-stress-$pid: undone" ]
	[[ $stderr = *'no fault loss-1 is active'* ]]
}

# In a network namespace beside the test's, with the same names and numbers of interfaces.
beside() { # COMMAND...
	exec unshare --net --mount sh -c 'mount -t sysfs sysfs /sys
		ip link add v0 type veth peer name v1
		ip link set v0 up
		exec "$@"' sh "$@"
}

@test "faults of other network namespaces: one per process, and undo ends them" {
	namespaces() {
		sleep 60 >/dev/null & sleeper=$!
		(beside shift-inject sigstop --pid $sleeper) >one & one=$!
		(beside shift-inject down --nic v0) >two & two=$!
		wait_until 30 test -s one
		wait_until 30 test -s two
		shift-inject sigstop --pid $sleeper --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic v0 --for 10ms
		shift-inject undo --all
		wait $one
		wait $two
		! grep 'State:.T' /proc/$sleeper/status
		# Left behind there: a process is the same here.
		(beside shift-inject sigstop --pid $sleeper) >three & three=$!
		wait_until 30 test -s three
		kill_both $three sigstop
		shift-inject undo --all
		! grep 'State:.T' /proc/$sleeper/status
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns namespaces
	expect_status 0
	expect_match 'sigstop-[0-9]* is active there, and excludes sigstop'
}

@test "a journal of a network namespace: undone there only, and dropped by its ID when that is gone" {
	gone() {
		mkfifo hold
		(beside sh -c 'shift-inject down --nic v0 >said & read -r word <hold') & holder=$!
		wait_until 30 test -s said
		id=$(cut -d: -f1 said)
		kill_both ${id#down-} down
		for words in --all $id; do
			shift-inject undo $words 2>errors && exit 1 || [ $? -eq 6 ]
			grep "$id is in another network namespace.*--net=/proc/.*/ns/net" errors
		done
		# Only a mount, or a descriptor, keeps it.
		touch name
		mount --bind /proc/$holder/ns/net name
		exec 9</proc/$holder/ns/net
		echo >hold
		wait $holder
		shift-inject undo $id && exit 1 || [ $? -eq 6 ]
		umount name
		shift-inject undo $id && exit 1 || [ $? -eq 6 ]
		exec 9<&-
		shift-inject undo --all 2>errors && exit 1 || [ $? -eq 6 ]
		grep "$id: its network namespace is gone; shift-inject undo $id drops it" errors
		# Its number is used again, by this one.
		if jq -e .netns_cookie "$SHIFT_INJECT_DIR/$id.json"; then
			jq ".netns = $(stat -Lc %i /proc/self/ns/net)" "$SHIFT_INJECT_DIR/$id.json" >new
			mv new "$SHIFT_INJECT_DIR/$id.json"
			shift-inject down --nic v0 --for 10ms
			shift-inject undo --all && exit 1 || [ $? -eq 6 ]
		fi
		shift-inject undo $id | grep -x "$id: dropped; .*gone.*"
		shift-inject undo --all
		ip link show v0 | grep 'state UP'
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns gone
	expect_status 0
}

@test "only a plain file of this user alone, in a directory of its own, is believed" {
	foreign() {
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		kill_both $pid down
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		cp "$journal" kept
		state >left
		refused() { # TEXT: nothing is undone, and no fault begins
			for words in list 'undo --all' "undo down-$pid" 'down --nic v1 --for 10ms'; do
				timeout 10 shift-inject $words >answer 2>&1 && exit 1 || [ $? -eq 6 ]
				grep "down-$pid.json: $1" answer || { cat answer; exit 1; }
			done
			state | diff left -
			rm "$journal"
		}
		chown 65534 "$journal"
		refused 'another user may have written it'
		cp kept "$journal"
		chmod 666 "$journal"
		refused 'another user may have written it'
		ln -s "$PWD/kept" "$journal"
		refused 'a symbolic link'
		mkfifo "$journal"
		refused 'not a journal'
		truncate -s 1T "$journal"
		refused 'too large for a journal'
		# Nor is a way to another directory.
		cp kept "$journal"
		mv "$SHIFT_INJECT_DIR" real
		ln -s real "$SHIFT_INJECT_DIR"
		for words in list 'undo --all' 'down --nic v1 --for 10ms'; do
			shift-inject $words && exit 1 || [ $? -eq 5 ]
		done
		rm "$SHIFT_INJECT_DIR"
		# Another user's: no process of its journals gets a signal.
		chown -R 65534 real
		sleep 60 & sleeper=$!
		began=$(cut -d' ' -f22 /proc/$sleeper/stat)
		jq ".pid = $sleeper | .pid_began = $began" kept >real/down-$pid.json
		mv real "$SHIFT_INJECT_DIR"
		for words in list 'undo --all' "undo down-$pid"; do
			shift-inject $words && exit 1 || [ $? -eq 5 ]
		done
		kill $sleeper
		chown -R 0 "$SHIFT_INJECT_DIR"
		cp kept "$journal"
		# What stands in the way of a new journal is not followed.
		echo precious >other
		ln -sf "$PWD/other" "$SHIFT_INJECT_DIR/lock"
		shift-inject undo --all && exit 1 || [ $? -eq 1 ]
		rm "$SHIFT_INJECT_DIR/lock"
		shift-inject undo --all
		grep -x precious other
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	[ "$(id -u)" -eq 0 ] || skip "only root can give a file to another user"
	run in_netns foreign
	expect_status 0
}

@test "no room for the journal: nothing is changed, and status 1; undo needs none" {
	no_room() {
		state >before
		for words in 'down --nic v0' 'flap --period 1s --nic v0' 'mtu 1300 --nic v0' 'loss --rate 1% --nic v0' cpu-stress; do
			status=0
			answer=$(ulimit -f 0; shift-inject $words --for 10ms 2>&1) || status=$?
			[ $status -eq 1 ]
			grep 'journals/.*File too large: nothing is changed' <<<"$answer"
			same_as before
		done
		# The first is there already, and its state does not fit.
		mount -t tmpfs -o size=8k,mode=700 none "$SHIFT_INJECT_DIR"
		ip addr add 192.0.2.1/24 dev v0
		for i in {1..99}; do ip route add 10.9.$i.0/24 via 192.0.2.9; done
		state >before
		shift-inject down --nic v0 --for 10ms 2>errors && exit 1 || [ $? -eq 1 ]
		grep 'No space left on device: nothing is changed' errors
		same_as before
		shift-inject loss --nic v0 --rate 1% >said & pid=$!
		wait_until 30 test -s said
		dd if=/dev/zero of="$SHIFT_INJECT_DIR/full" 2>/dev/null || true
		kill_both $pid loss
		(ulimit -f 0; shift-inject undo --all)
		rm "$SHIFT_INJECT_DIR/full"
		same_as before
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns no_room
	expect_status 0
}

@test "many at once on one NIC: one of them, the others are refused, and nothing stays" {
	crowd() {
		state >before
		for i in {1..8}; do
			shift-inject down --nic v0 --for 1s >said$i 2>&1 &
			pids[i]=$!
		done
		done_ones=0
		for i in {1..8}; do
			status=0
			wait ${pids[i]} || status=$?
			[[ $status = 0 || $status = 4 ]] || { cat said$i; exit 1; }
			[ $status -eq 4 ] || done_ones=$((done_ones + 1))
		done
		[ $done_ones -ge 1 ]
		grep -l 'is active there, and excludes down' said*
		same_as before
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns crowd
	expect_status 0
}

@test "a NIC that is renamed, or gone, or in another namespace meanwhile" {
	renamed() {
		ip addr add 192.0.2.1/24 dev v0
		ip route add 198.51.100.0/24 via 192.0.2.9
		for words in down 'flap --period 40ms' 'mtu 1300' 'loss --rate 1%'; do
			rm -f said
			state >before
			shift-inject $words --nic v0 >said & pid=$!
			wait_until 30 test -s said
			ip link set v0 name other
			kill $pid
			wait $pid
			ip link set other name v0
			wait_until 30 same_as before || { echo "$words"; cat before.diff; exit 1; }
			[ ! -e "$SHIFT_INJECT_DIR"/*-$pid.json ]
		done
		for words in down 'flap --period 40ms' 'loss --rate 1%'; do
			rm -f said
			shift-inject $words --nic v0 --for 700ms >said & pid=$!
			wait_until 30 test -s said
			ip link del v0
			status=0
			wait $pid || status=$?
			# A flap has nothing to go on with.
			[[ $status = 0 || $words$status = flap*1 ]]
			[ ! -e "$SHIFT_INJECT_DIR"/*-$pid.json ]
			ip link add v0 type veth peer name v1
			ip link set v0 up
		done
	}
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns renamed
	expect_status 0
}
