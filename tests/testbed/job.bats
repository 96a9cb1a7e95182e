# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# A job between two hosts by shift-run alone: its meeting point, the operator's orders, and the traces that killed
# daemons, programs and peers leave. The sender is host a, the receiver host b.

# shellcheck disable=SC2016  # code for the guests' shells
load guests

export NAME=check-job
patience=300 # seconds for a program, from its start to its end

setup_file() {
	guests_up
}

setup() {
	# A directory that both guests see, for reports and logs.
	dir=$(mktemp -d "$BUILDDIR/job.XXXXXX")
	cd "$dir" || return
	job=t$BATS_TEST_NUMBER
}

teardown() {
	shift-testbed link --name "$NAME" all 0 up
	# End the programs of a failed test, by name: these guests run nothing else.
	for host in a b; do
		on $host sh -c 'for p in ib_write_bw rc_trace shift-kvd etcd; do pkill -KILL -x $p; done; true'
	done
	cd "$BUILDDIR" && rm -rf "$dir"
}

# Starts a pair under shift-run; $server and $client. $kv: how they meet. $receiver: more options of the receiver.
kv=(--kv start@b)
receiver=()
pair() { # PROGRAM OPTIONS...
	local run=("$BUILDDIR/cmd/shift-run/shift-run" "${kv[@]}" --job "$job")
	on b "${run[@]}" --report "$PWD/b.json" -- "$@" "${receiver[@]}" >b.out 2>b.err 3>&- & server=$!
	wait_until $patience listening || { cat b.err; return 1; }
	on a "${run[@]}" --report "$PWD/a.json" -- "$@" b >a.out 2>a.err 3>&- & client=$!
}

stock() { # PROGRAM OPTIONS...: the same without us
	on b "$@" >b.out 2>b.err 3>&- & server=$!
	wait_until 60 listening
	on a "$@" b >a.out 2>a.err 3>&- & client=$!
}

ctl() { # HOST ARGUMENTS...
	local host=$1
	shift
	on "$host" "$BUILDDIR/cmd/shift-ctl/shift-ctl" "$@"
}

is() { # HOST JQ-EXPRESSION: true of a connection there?
	ctl "$1" status --job "$job" --json >status.json 2>/dev/null && jq -e "[.. | objects | select(has(\"qpn\") and has(\"state\"))][0] | $2" status.json >/dev/null
}

protected() {
	is a '.protected' && is b '.protected'
}

on_rail() { # RAIL
	is a ".protected and .rail == $1" && is b ".rail == $1"
}

both_end() { # STATUS-OF-CLIENT STATUS-OF-SERVER
	local c=0 s=0
	wait "$client" || c=$?
	wait "$server" || s=$?
	[ "$c $s" = "$1 $2" ] || {
		echo "client $c, server $s, not $1 and $2"
		cat ./*.out ./*.err
		return 1
	}
}

# Nothing of ours stays: no process, and no files but those. The grace time of kvd and etcd is some seconds.
nothing_left() { # [PATTERN of files that may stay]
	for host in a b; do
		wait_until 60 gone "$host" "/run/shift/$job" "${1:-^$}"
	done
}

gone() { # HOST DIRECTORY PATTERN; prints what is still there
	on "$1" sh -c '! { ps -eo comm= | grep -xE "shift-kvd|etcd|rc_trace|ib_[a-z]+_(bw|lat)"; ls -A /dev/shm
		find "$0" -type f -o -type s 2>/dev/null | grep -vE "$1"; } | grep .' "$2" "$3"
}

# A pair that sends a message every 10 ms until ./enough is there: the test and not the machine's speed says how long.
trickle() {
	pair "$BUILDDIR/tests/clients/rc_trace" --gid-index 1 --retry 7 --interval 10 --count 1000000 --stall 240 \
		--until "$PWD/enough"
}

@test "two shift-runs with start@HOST and nothing else set up: protected, and nothing stays" {
	pair ib_write_bw -d mlx5_0 -F -s 4096 -D 6
	both_end 0 0
	[ "$(jq '.totals.protected' a.json b.json | paste -sd' ')" = "1 1" ]
	nothing_left
}

@test "shift-ctl: migrate leaves the NIC, failback comes home" {
	trickle
	wait_until $patience protected
	ctl a migrate --job "$job" --nic mlx5_0
	wait_until 60 on_rail 1
	sleep 2 # longer than a fail-back by itself would take
	on_rail 1
	ctl a failback --job "$job"
	wait_until 60 on_rail 0
	touch enough
	both_end 0 0
	jq -e '.processes[0].switches | map(select(.planned)) | length == 2 and all(.outcome == "committed")' a.json
}

@test "shift-kvd and etcd killed: a switch works without them, and the program hears of no port error" {
	trickle
	wait_until $patience protected
	for host in a b; do
		on $host sh -c 'pkill -KILL -x shift-kvd; pkill -KILL -x etcd; true'
	done
	shift-testbed link --name "$NAME" all 0 down
	wait_until 90 on_rail 1
	shift-testbed link --name "$NAME" all 0 up
	wait_until 90 on_rail 0
	touch enough
	both_end 0 0
	run ! grep '"async"' a.out b.out # of stock verbs hosts.bats shows it
	jq -es 'all(.totals.events_hidden > 0)' a.json b.json
}

# Of the program's own clock: how long nothing had completed when the error came.
ms_without_completion() { # FILE of rc_trace
	jq -s 'map(select(.event == "wc")) | (map(select(.status != "success")) | first.t_ms) -
		(map(select(.status == "success")) | last.t_ms) | floor' "$1"
}

# The error is promised within 1 s (50 ms and two fences on a quiet machine); guests without KVM that stand still, on
# a machine that others use, get more.
an_error_came_soon() {
	local status=0 ms
	wait "$client" || status=$?
	[ $status -eq 3 ] || { tail -n 5 a.out a.err; return 1; }
	grep '"transport retry counter exceeded"' a.out
	ms=$(ms_without_completion a.out)
	echo "$ms ms"
	[ "$ms" -lt 20000 ]
}

@test "a peer killed: an error at once, where stock verbs hang" {
	trickle
	wait_until $patience protected
	on b pkill -KILL -x rc_trace
	an_error_came_soon
	wait "$server" || true
	nothing_left 'crash/'

	stock "$BUILDDIR/tests/clients/rc_trace" --gid-index 1 --retry 7 --interval 10 --count 1000000 --stall 240
	sleep 3
	on b pkill -KILL -x rc_trace
	sleep 21
	kill -0 "$client" # retry 7 is for ever on soft-RoCE
	on a pkill -KILL -x rc_trace
	wait "$client" "$server" || true
}

# It neither destroys its QP nor moves it to ERR, and shift-kvd reports no death of it.
@test "a peer that exits: an error soon" {
	receiver=(--leave --until "$PWD/enough.b")
	trickle
	wait_until $patience protected
	touch enough.b
	wait "$server" || { cat b.err; return 1; }
	an_error_came_soon
}

# bats test_tags=long
@test "valgrind: libshift leaks nothing" {
	# Each takes 30 s to listen or to connect, one after the other, on a machine that is not busy.
	patience=300
	pair valgrind --leak-check=full --show-leak-kinds=definite --log-file="$PWD/valgrind.%p" \
		ib_write_bw -d mlx5_0 -F -s 4096 -n 200
	both_end 0 0
	cat valgrind.*
	run ! sh -c "grep -A30 'definitely lost in' valgrind.* | grep libshift"
	run ! sh -c "grep -A12 'Invalid \\|uninitialised' valgrind.* | grep libshift"
}

job_key() { # in ./key
	head -c 16 /dev/urandom >key
	chmod 600 key
}

# Both ends protected, each exit is 0, and the launchers have said nothing.
meets() { # [SECONDS of the program]
	pair ib_write_bw -d mlx5_0 -F -s 4096 -D "${1:-6}"
	wait_until 60 protected || { cat a.err b.err; return 1; }
	both_end 0 0
	run ! grep '^shift-run:' a.err b.err
}

# bats test_tags=long
@test "two shift-runs with start@HOST and a key file" {
	job_key
	kv=(--kv start@b --key-file "$PWD/key")
	meets
	nothing_left
}

kvd_is_up() { # HOST
	on "$1" "$BUILDDIR/kv/shift-kvd" status --job "$job" 2>/dev/null | grep -q 'etcd up'
}

# bats test_tags=long
@test "two shift-runs, an etcd with TLS, certificates of both sides, and users" {
	local url=https://10.0.255.2:2379 n
	job_key
	{
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
		for n in server client; do # no CommonName: an etcd with users refuses a client's that has one
			openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/O=$n" \
				-addext subjectAltName=IP:10.0.255.2 -keyout $n.key -out $n.csr
			openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy -days 2 -out $n.pem
		done
	} 2>openssl.err
	on b sh -c 'cd "$1" && setsid etcd --data-dir /tmp/tls-etcd --listen-client-urls "$2" --advertise-client-urls "$2" \
		--listen-peer-urls http://127.0.0.1:0 --cert-file server.pem --key-file server.key --client-cert-auth \
		--trusted-ca-file ca.pem --bcrypt-cost 4 >/tmp/tls-etcd.log 2>&1 </dev/null &' sh "$PWD" "$url"
	etcdctl_b() {
		on b env ETCDCTL_API=3 etcdctl --endpoints "$url" --cacert "$PWD/ca.pem" --cert "$PWD/client.pem" \
			--key "$PWD/client.key" "$@"
	}
	wait_until 30 etcdctl_b endpoint health
	etcdctl_b user add root:secret
	etcdctl_b user grant-role root root
	etcdctl_b user add worker:pass
	etcdctl_b role add shift
	etcdctl_b role grant-permission shift --prefix=true readwrite /shift/
	etcdctl_b user grant-role worker shift
	etcdctl_b auth enable
	echo worker:pass >user
	chmod 600 user client.key
	kv=(--kv "$url" --kv-ca "$PWD/ca.pem" --kv-cert "$PWD/client.pem" --kv-key "$PWD/client.key"
		--kv-user-file "$PWD/user" --key-file "$PWD/key")
	# A handshake of Go's and a password take seconds in an emulated guest, too long for the daemon that shift-run starts.
	for host in a b; do
		on $host sh -c 'setsid "$@" >/dev/null 2>&1 </dev/null &' sh "$BUILDDIR/kv/shift-kvd" --kv "$url" --job "$job" \
			--key-file "$PWD/key" --ca "$PWD/ca.pem" --cert "$PWD/client.pem" --key "$PWD/client.key" \
			--user-file "$PWD/user" --timeout 30s --grace 10m
	done
	for host in a b; do
		wait_until 90 kvd_is_up $host
	done
	meets 20
	for host in a b; do
		on $host sh -c 'pkill -x shift-kvd; pkill -x etcd; rm -rf /tmp/tls-etcd'
	done
	nothing_left
}

# bats test_tags=long
@test "two shift-runs on one host and nothing else set up" {
	local run=("$BUILDDIR/cmd/shift-run/shift-run" --job "$job")
	on a "${run[@]}" -- ib_write_bw -d mlx5_0 -F -s 4096 -D 6 >b.out 2>b.err 3>&- & server=$!
	wait_until $patience on a grep -q ':4853 00000000:0000 0A' /proc/net/tcp
	on a "${run[@]}" -- ib_write_bw -d mlx5_0 -F -s 4096 -D 6 a >a.out 2>a.err 3>&- & client=$!
	wait_until 30 both_protected
	both_end 0 0
	grep -x 'shift-run: no --kv: protecting only connections inside this host' a.err
	nothing_left
}

both_protected() {
	ctl a status --job "$job" --json 2>/dev/null | jq -e '[.processes[].connections[].protected] == [true, true]' >/dev/null
}
