# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What the tests of shift-kvd share: "hosts", each a run directory, with their daemons and clients.
# shellcheck shell=bash disable=SC2119,SC2120  # arguments are the tests'

load helper
load driven
load etcd

setup_file() {
	needs_etcd
}

setup() {
	needs_etcd
	cd "$BATS_TEST_TMPDIR" || return
	unset SHIFT_KV SHIFT_JOB SHIFT_RUN_DIR SHIFT_KV_USER SHIFT_KV_PASSWORD
	# A detached process has no standard error.
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	ETCD=
	JOB=job-$BATS_TEST_NUMBER
}

end_process() { # PID
	{ kill -CONT "$1" && kill -9 "$1"; } 2>/dev/null || true
}

teardown() {
	local h name
	cd "$BATS_TEST_TMPDIR" || return
	[ "${BATS_TEST_COMPLETED:-}" = 1 ] || for h in A B; do status_of "$h" .; done || true
	rm -f mode
	# What is between the daemons and etcd ends last: they would wait for it to take their goodbyes.
	for name in "${!PID[@]}"; do [[ $name == proxy* ]] || end_process "${PID[$name]}"; done
	for h in */kvd.pid; do
		[ ! -e "$h" ] || { kill -CONT "$(<"$h")" && kill "$(<"$h")"; } 2>/dev/null || true
	done
	for h in */kvd.pid; do
		[ ! -e "$h" ] || wait_until 30 eval "! kill -0 $(<"$h") 2>/dev/null"
	done
	for name in "${!PID[@]}"; do [[ $name != proxy* ]] || end_process "${PID[$name]}"; done
	[ -z "$ETCD" ] || { kill -CONT "$ETCD" && kill -9 "$ETCD"; } 2>/dev/null || true
	[ "${BATS_TEST_COMPLETED:-}" = 1 ] || tail -n 20 ./*.out etcd.log 2>/dev/null || true
	! cat sanitizer.* 2>/dev/null
}

etcd_answers() {
	ctl get --keys-only --limit 1 x >/dev/null 2>&1
}

ctl() {
	ETCDCTL_API=3 timeout 10 etcdctl --endpoints "$KV" "$@"
}

etcd_start() { # [DATA]
	launch_etcd "$@"
	[ -n "${AUTH:-}" ] || wait_until 30 etcd_answers
}

etcd_stopped() { # all its threads
	! grep -h '^State:' /proc/"$ETCD"/task/*/status | grep -qv '[tT] ('
}

etcd_kill() {
	kill -9 "$ETCD"
	wait "$ETCD" || true
	ETCD=
}

proxy_before_etcd() { # NAME DIRECTORY: its port is in PROXY_PORT, its process in PID[NAME]
	command -v python3 >/dev/null || skip "needs python3, for a proxy before etcd"
	mkdir -p "$2"
	PROXY_PORT=$(free_port)
	(cd "$2" && exec python3 "$SRCDIR/tests/kv/etcd_proxy.py" "$PROXY_PORT" "$PORT" >proxy.out 2>&1 3>&-) &
	PID[$1]=$!
	wait_until 30 eval 'requests >/dev/null 2>&1'
}

proxy_start() { # etcd behind a proxy, which the hosts take for it; the file `mode` says what that does
	etcd_start
	DIRECT=$KV
	proxy_before_etcd proxy .
	KV=http://127.0.0.1:$PROXY_PORT
}

requests() { # that the proxy has had
	curl -sS "http://127.0.0.1:$PROXY_PORT/"
}

direct() { # etcdctl, not by way of the proxy
	KV=${DIRECT:-$KV} ctl "$@"
}

compact() { # all of the history
	direct put x 1
	direct compact "$(direct get x -w json | jq .header.revision)"
}

kvd() { # HOST [OPTION...]
	local host=$1
	shift
	SHIFT_RUN_DIR=$PWD/$host timeout --foreground 60 shift-kvd --kv "$KV" --job "$JOB" --grace 5s \
		--timeout 500ms "$@"
	status_of "$host" .pid >"$host/kvd.pid"
}

two_hosts() { # each with its daemon, and one etcd
	etcd_start
	kvd A
	kvd B
}

status_of() { # HOST FILTER
	SHIFT_RUN_DIR=$PWD/$1 timeout 30 shift-kvd status --job "$JOB" --json | jq -r "$2"
}

status_is() { # HOST FILTER VALUE
	[ "$(status_of "$1" "$2")" = "$3" ]
}

client() { # HOST NONCE
	SHIFT_RUN_DIR=$PWD/$1 drive "$2" "$BUILDDIR/tests/kv/kv_shell" "$JOB" "$2"
}

says() { # NONCE REGEX: a whole line of its output
	grep -qxE -- "$2" "$1.out"
}

expect() { # NONCE REGEX: within a time
	wait_until 30 says "$1" "$2"
}

ask() { # NONCE COMMAND REGEX: an answer is repeated until it is that
	local end=$((SECONDS + 30))
	until : >"$1.out"; tell "$1" "$2"; sleep 0.1; says "$1" "$3"; do
		[ $SECONDS -lt $end ] || { cat "$1.out"; return 1; }
	done
}

ready() { # NONCE: it is connected, and everybody can see its keys
	tell "$1" sync
	expect "$1" synced-all
}

job_key() { # NONCE
	tell "$1" sync
	tell "$1" key
	expect "$1" 'key [0-9a-f]{32}'
	grep -E '^key [0-9a-f]{32}$' "$1.out" | tail -n 1
}

gone() { # HOST
	[ ! -e "$1/$JOB" ]
}
