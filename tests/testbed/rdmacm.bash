# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that connect by RDMA-CM, between two guests under libshift.so. For rdmacm.bats and survive-matrix; survive.bash
# comes first.
# shellcheck shell=bash disable=SC2034,SC2154  # variables for, and of, survive.bash

address=10.0.1.2
silent_s=8 # how long the cable is out: the kernel needs 5 s to call the peer unreachable

# Starts a pair, as start() of survive.bash does; $sockets: first or last, if it is a program for sockets. perftest's server
# tells its client to connect, and listens then; a client that is faster is rejected, crashes, and leaves the server to
# wait for ever (4.5 with stock verbs: 3 of 8 starts). Such a pair is started again.
start_cm() { # PROGRAM OPTIONS...
	local try
	for try in 1 2 3 4 5 6; do
		start_pair_cm "$@" || return
		[[ $program = ib_* ]] || return 0
		wait_until 60 connected_or_rejected && ! rejected && return
		kill_programs
	done
	echo "$*: does not connect"
	return 1
}

# The server has perftest's own connection, and one that carries data.
connected_or_rejected() {
	rejected || ! running "$client" || [ "$(on b rdma resource show cm_id | grep -c 'state CONNECT')" -ge 2 ]
}

rejected() {
	grep -q RDMA_CM_EVENT_REJECTED "$out/a.err"
}

start_pair_cm() { # PROGRAM OPTIONS...
	local server_options client_options listens='rdma resource show cm_id | grep -q "state LISTEN"'
	program=$1
	shift
	case $program in
	rping) server_options=(-s -a "$address" -v "$@") client_options=(-c -a "$address" -v "$@") ;;
	ucmatose | rstream) server_options=(-b "$address" "$@") client_options=(-s "$address" "$@") ;;
	iperf) server_options=(-s -P 1 "$@") client_options=(-c "$address" "$@") ;;
	ib_*) server_options=(-R -F -d mlx5_0 -x 1 "$@") client_options=("${server_options[@]}" "$address") ;;
	qperf) # TEST SECONDS; port 19765
		listens='grep -q ":4D35 0*:0000 0A" /proc/net/tcp /proc/net/tcp6'
		server_options=() client_options=("$address" -cm1 -t "$2" "$1" quit)
		;;
	fio) # VERB MB. Not send: it meets RNR, and ends, also with stock verbs.
		set -- "$1" --name=job --ioengine=rdma --port=7777 --bs=16k --size="$2m"
		server_options=("${@:2}" --rw=read --iodepth=8)
		client_options=("${@:2}" --rw=write --iodepth=8 --verb="$1" --hostname="$address")
		;;
	esac
	[ "$program" != iperf ] || under_sockets
	launch b "$program" "${server_options[@]}" & server=$!
	on b timeout 30 sh -c "until $listens; do sleep 0.1; done" || {
		echo "$program does not listen"
		tail -n 20 "$out/b.out" "$out/b.err"
		return 1
	}
	launch a "$program" "${client_options[@]}" & client=$!
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
	qperf) grep -qE '^ +(bw|latency) += ' "$out/a.out" ;;
	fio) grep -q 'err= 0' "$out/a.out" && grep -q 'err= 0' "$out/b.out" && ! grep -q '^fio: ' "$out"/[ab].err ;;
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
