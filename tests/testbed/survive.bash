# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs between two guests under libshift.so, and faults from outside. For survive_file.bash and
# survive-matrix, which set $NAME (of the testbed), $SRCDIR and $BUILDDIR, and have shift-testbed in $PATH.
# The sender or client is host a, the receiver or server host b; rail 0 is eth1, rail 1 eth2.
# shellcheck shell=bash disable=SC2016,SC2034  # code for the guests' shells; variables for the caller

# shellcheck source=tests/wait.bash
. "$SRCDIR/tests/wait.bash"

rendezvous=http://10.0.255.1:2379
rails=${rails:-2} # NICs of a host: 1 for one_nic.bash

survive_up() { # [KERNEL]: two guests, an etcd on a, a daemon on both
	local host
	export survive_kernel=${1:-6.1}
	shift-testbed up --name "$NAME" --layout pair --kernel "$survive_kernel" --rails "$rails" --lease 2h \
		--share "$BUILDDIR" --share "$SRCDIR" || return
	on a sh -c 'setsid etcd --data-dir /tmp/etcd --listen-client-urls '$rendezvous' \
		--advertise-client-urls '$rendezvous' --listen-peer-urls http://127.0.0.1:0 \
		>/tmp/etcd.log 2>&1 </dev/null &'
	for host in a b; do
		on "$host" sh -c "setsid '$BUILDDIR/kv/shift-kvd' --kv $rendezvous --job survive --grace 1h \
			>/tmp/kvd.log 2>&1 </dev/null &"
	done
	for host in a b; do
		wait_until 30 met "$host" || return
	done
}

met() { # HOST: is its daemon connected?
	on "$1" "$BUILDDIR/kv/shift-kvd" status --job survive 2>/dev/null | grep -q 'etcd up'
}

# A guest whose kernel panicked or hangs (6.1 does that now and then with soft-RoCE under load, with stock programs too)
# has shown nothing about us: that is reported, and the step repeated, with new guests. $panics: how often at most.
outlives_panic() { # COMMAND...
	local status dead left=${panics:-1}
	while true; do
		status=0
		"$@" || status=$?
		[ $status -ne 0 ] && [ "$left" -gt 0 ] && dead=$(panicked) || return $status
		left=$((left - 1))
		echo "# ${dead//$'\n'/$'\n# '}" >&3
		survive_down
		survive_up "$survive_kernel" || return
		server='' client=''
	done
}

panicked() { # says which and why, or fails
	local host said
	said=$(shift-testbed status --name "$NAME") || true
	grep 'Kernel panic' <<<"$said" && return
	for host in a b; do
		said=$(shift-testbed exec --name "$NAME" --timeout 10s "$host" -- true 2>&1) || true # 125, if it hangs
		grep 'its kernel hangs' <<<"$said" && return
	done
	return 1
}

survive_down() {
	shift-testbed down --name "$NAME"
}

on() { # HOST COMMAND...
	local host=$1
	shift
	shift-testbed exec --name "$NAME" --timeout 120s "$host" -- "$@"
}

# --- programs -------------------------------------------------------------------------------------

# $job: its name for shift-ctl; $shift_env: more variables for the library; ${host_env[HOST]}: one for that host alone; $library: its file in
# lib/.libs; $stock: a host that has none; $out: a directory for what programs say; $patience: seconds after which a
# program is ended with status 124; $mute: warn, if the library is to log no more than warnings (a line takes from a guest
# to here about as long as a phase of a switch) and shift-ctl is asked instead; $delay: see batch;
# $connections: how many are to be protected at each host before a fault (met_all), and all that lead to another host, if that must not
# be just some.
job=survive
shift_env=()
declare -gA host_env=()
library=libshift.so
stock=
out=
patience=150
mute=
delay=
connections=

protected() {
	prefix=(env "LD_PRELOAD=$BUILDDIR/lib/.libs/$library" SHIFT_JOB=survive SHIFT_RAILS=auto
		"SHIFT_LOG=${mute:-debug}" "${shift_env[@]}")
}

unprotected() {
	prefix=(env)
}

# Starts a pair, $server and $client, with "$PREFIX" before both; host.out and host.err are in $out.
start() { # PROGRAM OPTIONS...
	local port=4853 options=(-F -d mlx5_0 -x 1)
	program=$1
	shift
	if [[ $program = integrity || $program = collective ]]; then
		port=4854
		options=(--device mlx5_0 --gid-index 1 --json)
	elif [[ $program = ibv_*_pingpong ]]; then # of the same port
		options=(-d mlx5_0 -g 1)
	elif [ "$program" = ucx_perftest ]; then
		port=3419
		options=(-w 100)
	fi
	options+=("$@")
	launch b "$program" "${options[@]}" & server=$!
	# The port, in hexadecimal, in state LISTEN.
	on b timeout 30 sh -c "until grep -qE ':$port 0+:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done" || {
		echo "$program does not listen"
		tail -n 20 "$out/b.out" "$out/b.err"
		return 1
	}
	launch a "$program" "${options[@]}" b & client=$!
}

launch() { # HOST PROGRAM ARGUMENTS...
	local host=$1 program=$2
	shift 2
	[ "$host" != "$stock" ] || prefix=(env)
	case $program in
	integrity) program=$BUILDDIR/tests/clients/integrity/integrity ;;
	collective) program=$BUILDDIR/tests/clients/collective ;;
	net-allreduce) program=$BUILDDIR/examples/nccl/net-allreduce ;;
	srq_events) program=$BUILDDIR/tests/clients/srq_events ;;
	esac
	exec shift-testbed exec --name "$NAME" --timeout "${patience}s" "$host" -- \
		"${prefix[@]}" ${host_env[$host]:+"${host_env[$host]}"} "$program" "$@" >"$out/$host.out" 2>"$out/$host.err"
}

# Waits for both: $client_status, $server_status.
finish() {
	client_status=0 server_status=0
	wait "$client" || client_status=$?
	wait "$server" || server_status=$?
}

# Ends the programs. The rails are mended first: a QP that is destroyed while its packets are in a queue that stands still
# (the other end's interface is down) makes the guest panic when the queue moves (doc/soft-roce.md).
kill_programs() {
	local host
	if ! running "$client" && ! running "$server"; then
		return 0
	fi
	mend_all || true
	client_status='' server_status=''
	for host in a b; do
		on "$host" sh -c 'pkill -KILL -x "ibv?_.*|integrity.*|collective|srq_events|ucx_perftest|net-allreduce|mpi_.*|mpirun.*|orted|torchrun|python3.*|rping|ucmatose|rstream|iperf|qperf|fio" || true'
	done
	wait "$client" "$server" 2>/dev/null || true
}

running() { # PID of a shift-testbed exec
	[ -n "$1" ] && kill -0 "$1" 2>/dev/null
}

# How many messages (per QP) keep the program busy for that long; $rate is measured by calibrate. Whole hundreds:
# perftest 4.5 counts the last completion as a hundred. With several QPs, one of them late, it then stops polling too
# early and hangs, on any NIC.
count_for() { # SECONDS PROGRAM OPTIONS...
	local per=10 qps=1 # tenths of $rate
	case $2 in
	ib_atomic_bw) per=25 ;;
	ibv_srq_pingpong) per=50 ;; # of 16 QPs
	net-allreduce) per=1 ;;
	mpi_train) per=2 ;; # 40 KB each way
	ucx_perftest) [[ " $* " != *_bw\ * ]] || per=100 ;;
	*_bw) per=50 ;; # of one packet
	esac
	[[ " $* " != *' -s 65536 '* ]] || per=$((per / 10))
	[[ ! " $* " =~ ' -q '([0-9]+) ]] || qps=${BASH_REMATCH[1]}
	[[ " $* " != *' -b '* ]] || per=$((per / 2))
	[[ " $* " != *_lat*' -e '* && " $* " != *pingpong*' -e '* ]] || per=$((per / 2)) # it sleeps in between
	echo $((($1 * rate * per / 10 / qps + 99) / 100 * 100))
}

# $rate: 2-byte WRITE ping-pongs per second, which is about the latency programs' messages per second.
calibrate() {
	unprotected
	start ib_write_lat -n 1500 && finish
	rate=$(awk '$1 == 2 && $2 == 1500 {print int(1e6 / $6 / 2)}' "$out/a.out")
	[ -n "$rate" ] || { cat "$out"/a.*; return 1; }
}

# --- traffic --------------------------------------------------------------------------------------

# Waits (in the guest) until the rail carries more than probes do: a probe and its ACK each way every 25 ms
# are 160 packets per second. Gives up at once when the program has ended (integrity may still become integrity-dlopen).
# $busy: another bound, for a program that is slow.
carries() { # HOST RAIL
	on "$1" timeout 30 sh -c '
		cd /sys/class/net/eth'$(($2 + 1))'/statistics || exit
		now() {
			read -r up _ </proc/uptime; read -r rx <rx_packets; read -r tx <tx_packets
			t=${up%.*}${up#*.} n=$((rx + tx))
		}
		now
		while t0=$t n0=$n; sleep 0.3; now; [ $(((n - n0) * 100 / (t - t0))) -lt '"${busy:-350}"' ]; do
			pgrep '"'^$program'"' >/dev/null || exit
		done' || {
		echo "no traffic over rail $2 at host $1"
		return 1
	}
}

# Does host a's rail 0 receive nothing?
still() {
	[ "$(rail0_packets)" = "$(sleep 3 && rail0_packets)" ]
}

rail0_packets() {
	on a cat /sys/class/net/eth1/statistics/rx_packets
}

# The rail of each QP at that host after its latest switch, as the library says: one line "QP RAIL" each.
latest_rails() { # HOST
	if [ "$mute" ]; then
		on "$1" "$BUILDDIR/cmd/shift-ctl/shift-ctl" status --job "$job" --json |
			jq -r '.processes[].connections[] | select(.protected and .state == "ACTIVE") | "\(.qpn) \(.rail)"'
		return
	fi
	# shift[1]: debug: QP 0x12: SWITCHING -> ACTIVE (COMMIT), rail 1, epoch 2
	sed -n 's/.* QP \(0x[0-9a-f]*\): .* -> ACTIVE ([A-Z_]*), rail \([0-9]*\),.*/\1 \2/p' "$out/$1.err" |
		awk '{rail[$1] = $2} END {for (qp in rail) print qp, rail[qp]}'
}

all_on() { # RAIL [HOST]: are all connections (of both hosts)?
	local host
	for host in ${2:-a b}; do
		latest_rails "$host" | awk -v r="$1" '$2 != r {bad = 1} END {exit bad || !NR}' || return
	done
}

went_to() { # RAIL: has each connection been there, on both hosts?
	local host qp
	for host in a b; do
		for qp in $(latest_rails "$host" | cut -d' ' -f1); do
			grep -q " QP $qp: .* -> ACTIVE (COMMIT), rail $1," "$out/$host.err" || {
				echo "QP $qp at host $host was never on rail $1"
				return 1
			}
		done
	done
}

# --- faults ---------------------------------------------------------------------------------------

# Which of its GIDs the program uses. With 0, which is link-local, packets are IPv6.
gid=1
roce() {
	if [ "$gid" -eq 0 ]; then
		echo 'protocol ipv6 u32 match ip6 protocol 17 0xff match u16 0x12b7 0xffff at 42'
	else
		echo 'protocol ip u32 match ip protocol 17 0xff match u16 0x12b7 0xffff at 22'
	fi
}

# Lines for ip or tc. The start and the end of a process stop the guest's other programs for tens of milliseconds: with
# $delay it starts that many seconds before the lines come, and ends a second after them.
batch() { # HOST ip|tc LINES
	on "$1" sh -ec "{ ${delay:+sleep $((delay + 1)) & sleep $delay;} echo '$3'; } | $2 -batch -"
}

# Drops packets of rail 0 that match any MATCH, all from one moment on: the last filter leads to the others.
drop() { # HOST DIRECTION MATCH...
	local host=$1 direction=$2 filters='' match
	shift 2
	for match; do
		[ "$gid" -ne 0 ] || match=${match/ at 28/ at 48} # the opcode in the BTH
		[ "$gid" -ne 0 ] || match=${match/% at 2/ at 4} # the length
		filters+="filter add dev eth1 $direction chain 1 $(roce) $match action drop"$'\n'
	done
	filters+="filter add dev eth1 $direction $(roce) action goto chain 1"
	on "$host" sh -c 'tc qdisc add dev eth1 clsact 2>/dev/null || tc qdisc show dev eth1 | grep -q clsact' &&
		batch "$host" tc "$filters"
}

# The fault begins. KIND:HOST, rail 0 unless it says otherwise.
faults='down:a down:b pull:a pull:b hole:b hole:ab acks:b big:b flap:a flap:b both:a both:b'
break_it() { # FAULT
	local kind=${1%%:*} host=${1##*:}
	case $kind in
	down | readd) batch "$host" ip 'link set eth1 down' ;;
	move) readdress "$host" "$(number "$host")" 77 ;;
	two) on "$host" sh -c 'ip link set eth1 down; sleep 0.1; ip link set eth2 down' ;;
	pull) sleep "${delay:-0}" && shift-testbed link --name "$NAME" "$host" 0 down && { [ -z "$delay" ] || sleep 1; } ;;
	hole) # all packets are dropped silently, at b or at both
		drop b ingress '' && { [ "$host" = b ] || drop a ingress ''; } ;;
	acks) # all acknowledgements: READ responses from first to only, ACK, atomic ACK
		drop "$host" egress 'match u8 0x0d 0xff at 28' 'match u8 0x0e 0xfe at 28' 'match u8 0x10 0xfe at 28' \
			'match u8 0x12 0xff at 28' ;;
	big) # IP length 1024 to 8191
		drop "$host" ingress 'match u16 0x0400 0xfc00 at 2' 'match u16 0x0800 0xf800 at 2' \
			'match u16 0x1000 0xf000 at 2' ;;
	esac
}

number() { # HOST: in its addresses
	[ "$1" = a ] && echo 1 || echo 2
}

# Another address takes the place of the one on rail 0.
readdress() { # HOST FROM TO
	batch "$1" ip "addr del 10.0.1.$2/24 dev eth1
		addr add 10.0.1.$3/24 dev eth1"
}

# The addresses of the beginning, at their GID index of the beginning: an index whose address was taken away is free
# again only when the last QP that used it is gone, so what a moved address leaves behind is not there, but beside it. The
# kernel changes the table a moment after the address.
address_anew() {
	local host
	for host in a b; do
		on "$host" sh -c 'gids=/sys/class/infiniband/mlx5_0/ports/1/gids
			ip -4 addr flush dev eth1 && while grep -qr :ffff: $gids; do sleep 0.1; done
			ip addr add "10.0.1.$0/24" dev eth1 && until grep -q :ffff: $gids/1; do sleep 0.1; done' "$(number "$host")" || return
	done
}

mend_it() { # FAULT
	local kind=${1%%:*} host=${1##*:}
	case $kind in
	down) on "$host" ip link set eth1 up ;;
	readd) # while rail 0 is dead its address goes and comes again, behind another: the index of its GID is a new one
		readdress "$host" "$(number "$host")" 77 && batch "$host" ip "addr add 10.0.1.$(number "$host")/24 dev eth1
			link set eth1 up" ;;
	move) readdress "$host" 77 "$(number "$host")" ;;
	pull) shift-testbed link --name "$NAME" "$host" 0 up ;;
	*)
		on b sh -c 'tc qdisc del dev eth1 clsact 2>/dev/null || true'
		[ "$host" = b ] || on a sh -c 'tc qdisc del dev eth1 clsact 2>/dev/null || true'
		;;
	esac
}

# Undoes all faults; returns when the links are up.
mend_all() {
	local host rail
	for host in a b; do
		for rail in $(seq 0 $((rails - 1))); do
			shift-testbed link --name "$NAME" "$host" "$rail" up
		done
		on "$host" timeout 20 sh -c 'for i in $(seq -f eth%g '"$rails"'); do
			tc qdisc del dev $i clsact 2>/dev/null
			ip link set $i up
			until grep -q 1 /sys/class/net/$i/carrier; do sleep 0.1; done
		done
		until [ "$(rdma link | grep -c "state ACTIVE")" -eq '"$rails"' ]; do sleep 0.1; done' || return
	done
}

# --- one program through one fault ----------------------------------------------------------------

# Are the connections protected on both sides?
met_all() {
	if [ "$mute" ]; then
		all_on 0
		return
	fi
	grep -q 'SETUP -> ACTIVE' "$out/a.err" && grep -q 'SETUP -> ACTIVE' "$out/b.err" || return
	[ -z "$connections" ] || all_protected "$connections"
}

# Each step waits for its effect; the program has to outlast them all.
through() { # FAULT
	local kind=${1%%:*} host=${1##*:} i
	carries a 0 || return
	wait_until 20 met_all && sleep 1 || return # a fault before HELLO meets an unprotected QP
	case $kind in
	flap)
		for i in 1 2 3 4 5; do
			on "$host" sh -c 'ip link set eth1 down; sleep 2; ip link set eth1 up; sleep 2' || return
		done ;;
	both)
		on "$host" ip link set eth1 down && carries a 1 || return
		on "$host" sh -c 'ip link set eth1 up; ip link set eth2 down' && carries a 0 || return
		on "$host" ip link set eth2 up ;;
	*)
		break_it "$1" && carries a 1 || return
		mend_it "$1" ;;
	esac
	wait_until 60 home || return
	carries a 0
}

# Each QP of host a's program is moved to ERR on its NIC, one after the other. The NIC is fine: they soon fail back.
through_qp_errors() { # FAULT: not one of the network
	carries a 0 && wait_until 20 met_all && sleep 1 || return
	on a sh -ec '"$1/shift-ctl/shift-ctl" status --job survive --json |
		jq -r ".processes[].connections[] | select(.protected) | .qpn" |
		while read -r qpn; do "$1/shift-inject/shift-inject" qp-error --qpn "$qpn"; done' sh "$BUILDDIR/cmd" || return
	wait_until 20 went_to 1 && wait_until 60 home || return
	carries a 0
}

home() { # or the program is over
	all_on 0 || ! running "$client"
}

# The protected program gets through the fault (by the steps of $course): status 0, all iterations, over rail $over and
# back to rail 0. A program that ended well before the fault was over has shown nothing: it is run again, for longer.
starter=start
course=through
over=1
prepare=true # before each try
survives() { # FAULT PROGRAM OPTIONS...; the duration is added
	local fault=$1 usual=16 long duration try got_through started took rate=$rate
	shift
	[[ " $* " != *' -b -q 4 '* ]] || usual=22 # both guests are busy, and the steps take longer
	local seconds=${seconds:-$usual}
	[[ $fault != flap:* ]] || seconds=45 # 20 s of them, and a pause before the last fail-back of 16 s
	for try in 1 2 3; do
		long=$((seconds * try * (try + 1) / 2))
		[ "$long" -le 90 ] || long=90 # well below $patience
		duration=(-n "$(count_for "$long" "$@")")
		[[ $1 = ib_* || $1 = ibv_* || $1 = ucx_* || $1 = mpi_* || $1 = net-* ]] || duration=(--seconds "$long")
		protected
		$prepare && "$starter" "$@" "${duration[@]}" || return
		got_through=true started=$SECONDS
		"$course" "$fault" >"$out/steps" 2>&1 || got_through=false
		# A program that was over too early takes a moment to end here, too: it is to be run again, for longer.
		$got_through || wait_until 5 ended "$client" >/dev/null || true
		if ! $got_through && running "$client"; then
			kill_programs
			failed "$fault: $*"
			return 1
		fi
		$got_through || mend_all || return # first: with soft-RoCE no program ends while a link is down
		finish
		[ "$client_status $server_status" = '0 0' ] || break
		if $got_through; then
			went_to "$over" && all_on 0 && right && return
			break
		fi
		took=$((SECONDS - started + 1))
		[ $took -ge "$long" ] || rate=$((rate * long / took))
	done
	failed "$fault: $*"
	return 1
}

# Are the program's own results right?
right() {
	case $program in
	integrity) clean ;;
	collective) jq -es 'all(.wrong_messages == 0 and .fatal_events == 0 and .flushes > 0)' "$out/a.out" "$out/b.out" >/dev/null ;;
	ibv_*_pingpong) grep -q "^${duration[1]} iters" "$out/a.out" && grep -q "^${duration[1]} iters" "$out/b.out" ;;
	net-allreduce) jq -es 'all(.wrong == 0 and .iterations == '"${duration[1]}"')' "$out/a.out" "$out/b.out" >/dev/null ;;
	mpi_pingpong) [ "$(grep -c 'exchanges, 0 bytes wrong' "$out/a.out")" -eq 2 ] ;;
	mpi_train) trained "${duration[@]}" ;;
	ucx_perftest) grep -q '^Final: ' "$out/a.out" && ! grep -q ERROR "$out"/[ab].{out,err} ;;
	*) full_count "${duration[1]}" ;;
	esac
}

# perftest's line of results: bytes, iterations, ...
full_count() { # COUNT
	local n
	n=$(awk '/^ #bytes/ {getline; print $2}' "$out/a.out")
	[ "${n:-0}" -ge "$1" ] || {
		echo "$n iterations, not $1"
		return 1
	}
}

# Nothing lost, duplicated, reordered or corrupted, on either side; results of atomics aside.
clean() {
	jq -e '[(.found, .peer_found) | del(.lost_results)[]] | add == 0' <"$out/a.out" >/dev/null
}

failed() { # WHAT
	echo "FAILED: $1: client ${client_status:-?}, server ${server_status:-?}"
	tail -n 40 "$out/steps" "$out"/[ab].out "$out"/[ab].err
}

# At-least-once is not enough for this fault: one run of a few shows duplicates.
duplicates() { # FAULT
	local try host
	shift_env=(SHIFT_LOST_ATOMIC=continue SHIFT_EXACTLY_ONCE=0)
	for try in 1 2 3 4 5; do
		protected
		start integrity --allow-lost-results --seconds 60 || return
		carries a 0 && wait_until 20 met_all && sleep 1 && break_it "$1" &&
			wait_until 30 went_to 1 >/dev/null && sleep 1 && mend_all || return
		for host in a b; do
			on "$host" pkill -TERM -x integrity
		done
		finish
		jq -e '.found.duplicated + .peer_found.duplicated > 0' "$out/a.out" >/dev/null && return
	done
	failed "$1: no duplicates found"
	return 1
}

# By default an executed atomic whose result was lost ends in an error that says so, and none is executed twice.
loses_atomic() { # PROGRAM OPTIONS...
	local try error=false
	shift_env=()
	for try in 1 2 3 4 5; do
		protected
		start "$@" && carries a 0 && wait_until 20 met_all && sleep 1 && break_it acks:b || return
		wait_until 30 lost_or_moved
		! running "$client" || on a pkill -TERM -x "$program"
		! running "$server" || on b pkill -TERM -x "$program"
		mend_all && finish || return
		! lost_atomic || error=true
		[ "$program" != integrity ] || none_twice || break
		! $error || return 0
	done
	failed "$*: no error of a lost atomic, or one that was executed twice"
	return 1
}

lost_or_moved() {
	lost_atomic || went_to 1 >/dev/null
}

# Its first error is "retries exceeded" with the library's own code for a lost atomic (0x53480002).
lost_atomic() {
	case $program in
	integrity) jq -e '.error | .code == 12 and .vendor_err == 1397227522' "$out/a.out" ;;
	*) grep -q 'Failed status 12:.*syndrom 0x53480002' "$out"/a.* ;;
	esac >/dev/null 2>&1
}

none_twice() {
	jq -e '.found.duplicated + .peer_found.duplicated == 0' "$out/a.out" >/dev/null
}

# The server is stopped (SIGSTOP), its NIC is not: nothing switches.
stopped() { # SECONDS PROGRAM OPTIONS...
	local seconds=$1 count
	shift
	count=$(count_for 4 "$@")
	protected
	start "$@" -n "$count" && carries a 0 || return
	on b sh -c "pkill -STOP -x $1; sleep $seconds; pkill -CONT -x $1"
	finish
	if [ "$client_status $server_status" != '0 0' ] || ! full_count "$count" ||
		grep -q 'ACTIVE -> [^C]' "$out"/[ab].err; then
		failed "stopped: $*"
		return 1
	fi
}

# QPs of one process on both NICs, each the other's backup: when one NIC's link goes down, its QPs join the others, and
# fail back later.
both_nics() {
	local eth
	protected
	start integrity --allow-lost-results --device mlx5_0,mlx5_1 --seconds 25 && carries a 0 &&
		wait_until 20 away 0 && sleep 1 || return
	for eth in eth1 eth2; do
		if ! { on b ip link set $eth down && wait_until 20 away 2 &&
			on b ip link set $eth up && wait_until 30 away 0; }; then
			failed "$eth down"
			return 1
		fi
	done
	finish
	[ "$client_status $server_status" = '0 0' ] && clean && [ "$(grep -c 'ACTIVE (COMMIT), rail 1' "$out/a.err")" -ge 4 ] &&
		return
	failed 'QPs on both NICs'
	return 1
}

away() { # N: so many of the four QPs are on their rail 1, at both hosts
	local host
	for host in a b; do
		[ "$(grep -c 'SETUP -> ACTIVE' "$out/$host.err")" -eq 4 ] &&
			[ "$(latest_rails $host | awk '$2 == 1' | wc -l)" -eq "$1" ] || return
	done
}

# With the library at one end only it is as with none: the program works; when the cable is pulled it gets its NIC's
# error at the end of the retries; no QP was protected.
lone() { # HOST with the library
	protected
	[ "$1" = a ] && stock=b || stock=a
	start ib_write_bw -s 4096 -n "$(count_for 3 ib_write_bw)" && finish
	if [ "$client_status $server_status" != '0 0' ]; then
		failed "alone at $1"
		return 1
	fi
	start integrity --outage --one-way --seconds 30 --retry 6 --stall 20 && carries a 0 && sleep 2 && break_it pull:b || return
	wait_until 10 ended "$client" && finish && mend_it pull:b || return
	if [ "$client_status" -ne 3 ] || grep -q 'SETUP -> ACTIVE' "$out"/[ab].err; then
		failed "alone at $1, cable pulled"
		return 1
	fi
}

ended() { # PID of a shift-testbed exec
	! running "$1"
}

# No fault for that long, at full load in both directions: nothing switches, and the output is as without us.
quiet() { # SECONDS PROGRAM OPTIONS...
	local seconds=$1 host
	shift
	unprotected
	start "$@" -D 10 && finish && [ "$client_status $server_status" = '0 0' ] || return
	for host in a b; do
		shape_of "$out/$host.out" >"$out/$host.shape"
	done
	echo "without: $(rate_of "$out/a.out") MB/s"
	protected
	patience=$((seconds + 60)) start "$@" -D "$seconds" && finish || return
	for host in a b; do
		shape_of "$out/$host.out" | diff "$out/$host.shape" - || client_status=other
	done
	if [ "$client_status $server_status" != '0 0' ] || ! met_all || grep -q 'ACTIVE -> [^C]' "$out"/[ab].err; then
		failed "quiet: $*"
		for host in a b; do
			echo "host $host:"
			grep -E 'ACTIVE -> [^C]|FENCE\(|not answered' "$out/$host.err" | head -n 20
			on "$host" dmesg | tail -n 5
		done
		return 1
	fi
	echo "no switch in $seconds s of $*: $(rate_of "$out/a.out") MB/s"
}

shape_of() { # FILE: perftest's output with all numbers alike; on a busy machine it complains of its clock
	sed -E '/^Warning: measured timestamp frequency|Correlation coefficient/d; s/0x[0-9a-f]+/H/g; s/[0-9]+(\.[0-9]+)?/N/g; s/(N:)+N/GID/; s/[ \t]+/ /g' "$1"
}

rate_of() { # FILE: average of perftest's line of results
	awk '/^ #bytes/ {getline; print $4}' "$1"
}

# Without the library, with retry_cnt 7, which is for ever on soft-RoCE: an error, or a stall of 10 s (WRs that were posted
# before the sender's link went down wait, WRs that are posted afterwards fail); or a stall as long as a fault of 2 s.
suffers() { # FAULT error-or-hang|stall OPTIONS...
	local fault=$1 effect=$2 since fault_ms
	shift 2
	unprotected
	start integrity --outage --one-way --seconds 60 --stall 10 "$@" && carries a 0 && break_it "$fault" || return
	since=$(date +%s%N)
	if [ "$effect" = error-or-hang ]; then
		finish
		[ "$client_status" -eq 3 ] || [ "$client_status" -eq 4 ]
	else
		sleep 2
		fault_ms=$((($(date +%s%N) - since) / 1000000))
		mend_it "$fault"
		carries a 0
		on a pkill -TERM -x integrity && on b pkill -TERM -x integrity
		finish
		[ "$client_status $server_status" = '0 0' ] &&
			jq -e ".longest_gap_ms >= $fault_ms" "$out/a.out" >/dev/null
	fi || {
		failed "$fault: no $effect"
		return 1
	}
}

# Without the library: its first error completion is the end of the program, as with NCCL.
ends_in_error() { # FAULT PROGRAM OPTIONS...
	local fault=$1
	shift
	unprotected
	start "$@" && carries a 0 && break_it "$fault" || return
	finish
	mend_it "$fault"
	[ "$client_status" -eq 3 ] || {
		failed "$fault: no error"
		return 1
	}
}

# How long the NIC itself takes to give up, in ms: the longest gap of an unprotected program, which ends with its error;
# that many times, a line each.
retry_times() { # FAULT TIMES OPTIONS...
	local fault=$1 times=$2 delay=2 i
	shift 2
	for ((i = 1; i <= times; i++)); do
		unprotected
		start integrity --outage --one-way --seconds 60 "$@" && carries a 0 && break_it "$fault" || return
		finish
		mend_it "$fault"
		if [ "$client_status" -ne 3 ]; then
			failed "$fault: no error"
			return 1
		fi
		jq .longest_gap_ms "$out/a.out"
	done
}

# The outages of that many switches: the longest gap between completions around each, the part of it in which the
# machine did not run the program, the part of it after host a's library had heard of the fault (from its kernel, its
# peer, a probe or a completion), and the longest gap in the second before, in ms; and the hundredths of the machine's
# time that its hypervisor took meanwhile: one "OUTAGE PAUSED HEARD WITHOUT STOLEN" each in $out/gaps; phases in
# $out/events. One more goes before, in $out/first: in it QEMU translates the code of a switch, the guest kernel's too,
# which takes time that no real machine needs.
outages() { # FAULT TIMES OPTIONS...
	local fault=$1 times=$(($2 + 1)) round=timed_round mute=warn delay=2
	shift 2
	: >"$out/stolen"
	campaign "$fault" "$times" --outage --one-way "$@" || return
	# A gap that is not among those that the client kept is shorter than these.
	jq -r --slurpfile client "$out/a.out" '$client[0] as $c | ($c.gaps[-1].ms // 0) as $least |
		{at_ms: 0, ms: $least, paused_ms: 0} as $shorter |
		select(.type == "switch" and .kind == "failover" and .outcome == "committed") |
		(.unix_s * 1000 - $c.started_unix_ms) as $from | ($from + ([.phases_us[]] | add) / 1000) as $to |
		([$c.gaps[] | select(.at_ms + .ms >= $from and .at_ms <= $to)] | max_by(.ms) // $shorter) as $around |
		([$c.gaps[] | select(.at_ms >= $from - 1000 and .at_ms + .ms < $from)] | max_by(.ms) // $shorter) as $before |
		([$around.at_ms + $around.ms - $from, 0] | max) as $heard |
		"\($around.ms) \($around.paused_ms) \($heard) \($before.ms)"' "$out/events" | paste -d ' ' - "$out/stolen" >"$out/all_gaps"
	if [ "$(awk 'NF == 5' "$out/all_gaps" | wc -l)" -ne "$times" ]; then
		echo "$(wc -l <"$out/all_gaps") failovers are recorded, not $times"
		return 1
	fi
	sed 1d "$out/all_gaps" >"$out/gaps"
	sed 1q "$out/all_gaps" >"$out/first"
}

timed_round() { # FAULT
	local before
	before=$(ticks)
	# No process is started in a guest before the switch is over, which it is when break_it returns.
	break_it "$1" && wait_until 30 all_on 1 || return
	stolen_since "$before" >>"$out/stolen"
	mend_it "$1" && wait_until 60 sent_home
}

# Ticks of this machine since its boot: all, and those of them that its hypervisor took away (stolen).
ticks() {
	awk '/^cpu / {for (i = 2; i <= 9; i++) all += $i; print all, $9}' /proc/stat
}

stolen_since() { # TICKS: hundredths
	echo "$1 $(ticks)" | awk '{all = $3 - $1; print all ? int(100 * ($4 - $2) / all) : 0}'
}

# The integrity client (QPs and threads by its defaults), or $campaigner, goes through a fault again and again: to rail 1
# each time, and back by shift-ctl, since the pause before an automatic fail-back doubles each time.
campaigner=(integrity --allow-lost-results)
campaign() { # FAULT TIMES OPTIONS...
	local fault=$1 times=$2 host i=0
	shift 2
	protected
	prefix+=(SHIFT_FAILBACK=manual)
	patience=2100 start "${campaigner[@]}" --seconds 2000 "$@" || return # it is ended before
	if carries a 0 && wait_until 20 met_all && sleep 1; then
		for ((i = 1; i <= times; i++)); do
			"${round:-any_round}" "$fault" >"$out/steps" 2>&1 || break
		done
		on a "$BUILDDIR/cmd/shift-ctl/shift-ctl" events --job survive --json >"$out/events" || true
		for host in a b; do
			on "$host" pkill -TERM -x "$program"
		done
		finish
	else
		kill_programs
	fi
	if [ "$client_status $server_status" != '0 0' ] || [ $i -le "$times" ] || ! right; then
		failed "campaign $fault, round $i of $times"
		return 1
	fi
	jq -r --arg n "$times" '"\($n) faults in \(.duration_ms / 1000 | floor) s"' "$out/a.out"
}

# No fault: the operator moves the integrity client's QPs away from rail 0 and back, that many times, from either host in turn,
# under atomics in both directions. A lost result is an error here, as it is by default. Nothing is lost, every result is
# right, and every switch at both hosts is one that was planned. (What an unplanned one does: loses_atomic.)
migrates() { # TIMES
	local times=$1 i=0 host mute=warn qps=4
	# Nothing but the operator is to move them: on a machine with other work guests stand still for longer than three
	# probes, or than retries of 67 ms, and a failover may cost an atomic.
	shift_env=(SHIFT_FAILBACK=manual SHIFT_PROBES=0)
	protected
	patience=2100 start integrity --ops atomic,send,write,read --signal-all --qps $qps --timeout 18 --seconds 2000 || return # it is ended before
	if carries a 0 && wait_until 20 together_on 0 && sleep 1; then
		for ((i = 1; i <= times; i++)); do
			[ $((i % 2)) -eq 0 ] && host=b || host=a
			wait_until 40 moved "$host" 1 migrate --nic mlx5_0 || break
			wait_until 40 moved "$host" 0 failback || break
		done >"$out/steps" 2>&1
		for host in a b; do
			status_of "$host" >"$out/$host.status" || true
			on "$host" pkill -TERM -x integrity
		done
		finish
	else
		kill_programs
	fi
	if [ "$client_status $server_status" != '0 0' ] || [ $i -le "$times" ] || ! all_right || ! all_planned $((qps * times)); then
		failed "$times migrations, round $i"
		jq -c '.processes[].totals' "$out"/[ab].status || true
		return 1
	fi
	jq -r --arg n "$times" '"\($n) migrations in \(.duration_ms / 1000 | floor) s"' "$out/a.out"
}

# So many connections are set up at once: the time from a QP's RTR until it is protected, of both hosts, in ms. A few sends
# go over each, so that the processor of the guest is not only ours.
sets_up() { # QPS
	local n=$1 host said='' mute=warn
	protected
	patience=600 start integrity --qps "$n" --ops send --size 1024 --depth 4 --receives 4 --inflight 1 --seconds 300 --stall 120 || return
	# A signal that comes before there is any traffic is not seen.
	if wait_until 120 all_protected "$n" && carries a 0 && sleep 1; then
		for host in a b; do
			on "$host" pkill -TERM -x integrity
		done
		finish
		for host in a b; do
			said+="host $host: $(jq '.processes[].connections[].setup_us / 1000' "$out/$host.status" | median_max) ms; "
		done
	fi
	if [ "$client_status $server_status" != '0 0' ] || [ -z "$said" ]; then
		failed "$n connections at once"
		for host in a b; do
			jq -c '[.processes[] | .life, (.connections[] | select(.protected | not) | [.qpn, .unprotected, .state])]' \
				"$out/$host.status" || true
		done
		return 1
	fi
	echo "median and max of $n connections: ${said%; }"
}

all_protected() { # CONNECTIONS: at each host, and no other RC queue pair to another host; what the program of an earlier test has left behind does not count
	local host
	for host in a b; do
		status_of "$host" >"$out/$host.status" || return
		jq -e --argjson n "$1" '[.processes[] | select(.life == "running")] |
			all(.[].passed_through[]; .unprotected == "NOT_RC") and all(.[].connections[]; .protected or .unprotected == "LOOPBACK") and
			([.[].connections[] | select(.protected and .setup_us > 0)] | length) == $n' "$out/$host.status" >/dev/null || return
	done
}

median_max() {
	sort -n | awk '{v[NR] = $1} END {printf "%.0f %.0f\n", v[int((NR + 1) / 2)], v[NR]}'
}

status_of() { # HOST
	on "$1" "$BUILDDIR/cmd/shift-ctl/shift-ctl" status --job "$job" --json
}

# Are all QPs on that rail at both hosts, and at rest? A QP between two states is not among latest_rails.
together_on() { # RAIL
	local host
	for host in a b; do
		[ "$(latest_rails "$host" | awk -v r="$1" '$2 == r' | wc -l)" -eq "$qps" ] || return
	done
}

# Gives the order, again if it did not move all: a plan may be abandoned, and a rail is dirty for a second after it was left.
moved() { # HOST RAIL ORDER...
	local host=$1 rail=$2
	shift 2
	together_on "$rail" && return
	on "$host" "$BUILDDIR/cmd/shift-ctl/shift-ctl" "$@" --job "$job"
	sleep 0.3
	together_on "$rail"
}

# No result is lost either; and atomics went both ways, for else this would show nothing.
all_right() {
	jq -es 'all((.found, .peer_found | add) == 0 and .error == null and .posted["fetch-add"] > 100 and
		.posted["cmp-swap"] > 100)' "$out/a.out" "$out/b.out" >/dev/null
}

# At each host that many connections went, and as many came home; each switch was begun by one host, and joined by the other.
all_planned() { # MIGRATIONS
	jq -es --argjson n "$1" '[.[].processes[] | select(.life == "running") | .totals] |
		length == 2 and all(.migrations == $n and .failbacks == $n and .failovers == 0 and .given_up == 0 and .in_doubt == 0) and
		all(.counters.failovers == 0) and
		(map(.counters.planned) | add) == 2 * $n and (map(.counters.joins) | add) == 2 * $n' "$out/a.status" "$out/b.status" >/dev/null
}

# A fault until all QPs have left rail 0, then back to it.
any_round() { # FAULT
	break_it "$1" && wait_until 30 all_on 1 || return
	sleep 0.$((RANDOM % 10))
	mend_it "$1" && wait_until 60 sent_home
}

sent_home() {
	local host
	all_on 0 && return
	for host in a b; do
		on "$host" "$BUILDDIR/cmd/shift-ctl/shift-ctl" failback --job survive || true
	done
	sleep 0.3
	all_on 0
}

# --- lives ----------------------------------------------------------------------------------------

# The integrity client RESETs its QPs and uses them again, with the same PSNs, and each STEP has a fault; nothing of one
# life may be taken for the next. STEP is one of the functions reuse_STEP below. A fault that takes the link of rail 0 down
# is for `in` only: no program can bring a QP to RTR over a link that is down.
reuses() { # STEP:FAULT...
	local step host life=1
	protected
	patience=$((90 + 60 * $#)) start integrity --allow-lost-results --lives 1000 --seconds 1000 || return
	for step in "$@" end; do
		[ "$step" != end ] || break
		{ wait_until 30 lives_met && "reuse_${step%%:*}" "${step#*:}"; } >"$out/steps" 2>&1 || break
	done
	if { [ "$step" != end ] || ! wait_until 30 lives_met; } && running "$client"; then
		kill_programs
		failed "life $life, $step"
		return 1
	fi
	for host in a b; do
		on "$host" pkill -TERM -x integrity || true
	done
	finish
	if [ "$client_status $server_status" != '0 0' ] || ! clean || [ "$(jq .lives "$out/a.out")" != "$life" ]; then
		failed "life $life, $step"
		return 1
	fi
	jq -r '"\(.lives) lives in \(.duration_ms / 1000 | floor) s"' "$out/a.out"
}

# In the middle of a life.
reuse_in() { # FAULT
	break_it "$1" && wait_until 30 all_on 1 && mend_all && next_life
}

# From one life into the next, which finds rail 0 dead and the twins used.
reuse_over() { # FAULT
	break_it "$1" && wait_until 30 all_on 1 && next_life && wait_until 30 lives_met && wait_until 30 all_on 1 &&
		mend_all && next_life
}

# While one life ends and the next begins.
reuse_between() { # FAULT
	next_life && break_it "$1" && wait_until 30 lives_met && wait_until 30 all_on 1 && mend_all && next_life
}

next_life() {
	local host
	life=$((life + 1))
	for host in a b; do
		on "$host" pkill -USR2 -x integrity || return
	done
}

# Is each of the four QPs protected in life $life, at both hosts? Each life says so once.
lives_met() {
	local host
	for host in a b; do
		[ "$(grep -c 'SETUP -> ACTIVE' "$out/$host.err")" -ge $((4 * life)) ] || return
	done
}
