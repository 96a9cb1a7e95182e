# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that connect by RDMA-CM, between two guests under libshift.so: a pulled cable, and an end while it is out. The
# kernel's connection manager speaks over rail 0 only. With kernels from 6.0 on it calls an established connection
# UNREACHABLE some seconds after the pull, at the end that has connected.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-rdmacm

address=10.0.1.2
silent_s=8 # how long the cable is out: the kernel needs 5 s to call the peer unreachable

# Starts a pair, as start() of survive.bash does; $sockets: first or last, if it is a program for sockets.
start_cm() { # PROGRAM OPTIONS...
	local server_options client_options
	program=$1
	shift
	case $program in
	rping) server_options=(-s -a "$address" -v) client_options=(-c -a "$address" -v) ;;
	ucmatose) server_options=(-b "$address") client_options=(-s "$address") ;;
	rstream) server_options=(-b "$address") client_options=(-s "$address") ;;
	iperf) server_options=(-s -P 1) client_options=(-c "$address") ;;
	ib_*) server_options=(-R -F -d mlx5_0 -x 1) client_options=("${server_options[@]}" "$address") ;;
	esac
	[ $program != iperf ] || under_sockets
	launch b $program "${server_options[@]}" "$@" & server=$!
	on b timeout 30 sh -c 'until rdma resource show cm_id | grep -q "state LISTEN"; do sleep 0.1; done' || {
		echo "$program does not listen"
		tail -n 20 "$out/b.out" "$out/b.err"
		return 1
	}
	launch a $program "${client_options[@]}" "$@" & client=$!
}

# librspreload.so, before or behind ours in LD_PRELOAD.
under_sockets() {
	local rs i
	rs=$(echo /usr/lib/*/rsocket/librspreload.so)
	for i in "${!prefix[@]}"; do
		[[ ${prefix[i]} != LD_PRELOAD=* ]] || break
	done
	case ${prefix[i]} in
	LD_PRELOAD=*) [ "${sockets:-first}" = first ] && prefix[i]="LD_PRELOAD=$rs:${prefix[i]#*=}" || prefix[i]+=":$rs" ;;
	*) prefix+=("LD_PRELOAD=$rs") ;;
	esac
}

# The rail is away for so long that the kernel has said what it says.
through_silence() { # FAULT
	carries a 0 && wait_until 20 met_all && sleep 1 && break_it "$1" && carries a 1 && sleep $silent_s && running "$client" &&
		mend_it "$1" && wait_until 60 home && carries a 0
}

# A program whose work is a number (its last option) that takes some seconds here: here_s=SECONDS its OPTIONS. The number
# grows until the program outlasts the fault.
survives_cm() { # FAULT PROGRAM OPTIONS... NUMBER
	local fault=$1 number=${*: -1} try got_through
	shift
	for try in 1 2 3; do
		protected
		start_cm "${@:1:$#-1}" "$number" || return
		got_through=true
		through_silence "$fault" >"$out/steps" 2>&1 || got_through=false
		$got_through || ! running "$client" || {
			kill_programs
			failed "$fault: $*"
			return 1
		}
		mend_all && finish || return
		[ "$client_status $server_status" = "${ends:-0 0}" ] || break
		if $got_through; then
			went_to 1 && all_on 0 && right_cm && return
			break
		fi
		number=$((number * 2)) # it was over too early
	done
	failed "$fault: $*"
	return 1
}

# What the programs say of themselves.
right_cm() {
	case $program in
	rping) [ "$(grep -c '^ping data' "$out/a.out")" -eq "$number" ] && ! grep -q '^cma event' "$out/a.err" ;;
	ucmatose) grep -q '^return status 0' "$out/a.out" && grep -q '^return status 0' "$out/b.out" && ! grep -q '^cmatose: event' "$out"/[ab].out ;;
	rstream) grep -q '^custom' "$out/b.out" ;;
	iperf) grep -q 'sec .*bits/sec' "$out/a.out" && grep -q 'sec .*bits/sec' "$out/b.out" ;;
	ib_*) grep -q '^ [0-9]' "$out/a.out" && ! grep -q 'RDMA CM event error' "$out"/[ab].err ;;
	esac
}

# Without a fault: the same lines and status as without us, all numbers alike (rping's with the data). Of its library's
# lines those remain that warn. Whether rping's client still sees its own DISCONNECTED before it exits is a race.
as_without() { # PROGRAM OPTIONS...
	local host what
	for what in unprotected protected; do
		mute=warn
		shift_env=(SHIFT_SUMMARY=0)
		$what
		start_cm "$@" && finish || return
		for host in a b; do
			shape_of <(sort "$out/$host.out" "$out/$host.err" | sed 's/^\(server \)*ping data: .*/ping data/; /^client DISCONNECT EVENT/d') | uniq >"$out/$host.$what"
			echo "status $client_status $server_status" >>"$out/$host.$what"
		done
	done
	diff "$out/a.unprotected" "$out/a.protected" && diff "$out/b.unprotected" "$out/b.protected"
}

# The cable is pulled, and the client killed, if it has not ended by itself (UNREACHABLE).
killed_in_silence() {
	start_cm rping -C 100000 && carries a 0 && sleep 2 && break_it pull:a && sleep 3 || return
	on a pkill -KILL -x rping || true
	wait_until 10 ended "$client"
}

# bats test_tags=long
@test "without a fault: the same lines and status" {
	as_without rping -C 200
	as_without ucmatose -C 50 -S 4096
	as_without ib_send_lat -n 1000
}

@test "rping: cable pulled at the client" {
	outlives_panic survives_cm pull:a rping -C 2000
}

@test "a client that disconnects while its cable is out: the server hears of it" {
	protected
	start_cm rping -C 600 && carries a 0 && wait_until 20 met_all && break_it pull:a
	finish
	[ "$client_status $server_status" = '0 0' ]
	grep -q 'its RDMA-CM is told that it is disconnected' "$out/b.err"
	grep -q '^server DISCONNECT EVENT' "$out/b.err"
}

@test "a client that is killed while its cable is out: the server ends; with stock verbs it stands still" {
	protected
	killed_in_silence
	wait_until 20 ended "$server"
	mend_all
	unprotected
	killed_in_silence
	sleep 20
	running "$server"
}

# bats test_tags=long
@test "ucmatose: cable pulled at either end" {
	outlives_panic survives_cm pull:a ucmatose -S 65536 -C 4000
	outlives_panic survives_cm pull:b ucmatose -S 65536 -C 4000
}

# bats test_tags=long
@test "perftest -R: cable pulled at either end" {
	outlives_panic survives_cm pull:a ib_write_bw -s 4096 -n 100000
	outlives_panic survives_cm pull:b ib_read_bw -s 4096 -n 100000
	outlives_panic survives_cm pull:a ib_send_lat -n 8000
}

# bats test_tags=long
@test "integrity --rdma-cm: the cable is out until the kernel calls its peer unreachable, and no event is heard of" {
	connections=4 course=through_silence outlives_panic survives pull:a integrity --allow-lost-results --rdma-cm
	grep -q 'RDMA-CM event .* is hidden' "$out/a.err"
	jq -es 'all(.rdma_cm and .found.bad_events == 0)' "$out/a.out" "$out/b.out" >/dev/null
}

# bats test_tags=long
@test "unprotected, the same hears that its connections are unreachable" {
	unprotected
	start integrity --allow-lost-results --rdma-cm --seconds 20
	carries a 0 && break_it pull:a && sleep $silent_s && mend_all
	finish
	[ "$client_status $server_status" = '5 5' ]
	grep -q 'RDMA_CM_EVENT_UNREACHABLE' "$out/a.err"
	jq -e '.found.bad_events > 0' "$out/a.out" >/dev/null
}

# bats test_tags=long
@test "rsocket: rstream, and iperf by librspreload in either order; cable pulled at the client" {
	outlives_panic survives_cm pull:a rstream -S 65536 -C 2 -I 2000
	sockets=first outlives_panic survives_cm pull:a iperf -t 40
	sockets=last outlives_panic survives_cm pull:a iperf -t 40
}
