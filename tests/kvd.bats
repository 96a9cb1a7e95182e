# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-kvd and its client: two "hosts" (run directories A and B) and a private etcd on loopback.

load kvd

@test "two hosts see each other's keys; the job key is the same" {
	two_hosts
	client A a1
	client B b1
	tell b1 watch conn/
	tell a1 put conn/1 first value
	tell a1 put other/1 not watched
	expect b1 'put conn/1 first value'
	tell a1 put conn/1 second
	expect b1 'put conn/1 second'
	tell b1 get other/1
	expect b1 'put other/1 not watched'
	tell b1 get other/1
	expect b1 'got other/1 = not watched'
	tell b1 get nowhere
	expect b1 'got nowhere: Resource temporarily unavailable'
	ask b1 'get nowhere' 'got nowhere: No such file or directory'
	tell a1 del conn/1
	expect b1 'delete conn/1 '
	tell b1 del other/1
	expect b1 'del: No such file or directory'
	tell b1 put job-key x
	expect b1 "error 4 put refused: a name of shift-kvd's own: job-key"
	[ "$(job_key a1)" = "$(job_key b1)" ]
}

@test "a killed process is reported at once, and its keys vanish" {
	local from
	two_hosts
	client A a1
	client A a2
	client B b1
	tell b1 watch
	tell a1 fill f 300
	tell a2 put kept 1
	expect b1 'put f299 value-299'
	expect b1 'put kept 1'
	ready a2
	from=$(date +%s%N)
	murder a1
	until says b1 'died a1'; do [ $((($(date +%s%N) - from) / 1000000)) -lt 10000 ]; sleep 0.005; done
	echo "# told after at most $((($(date +%s%N) - from) / 1000000)) ms" >&3
	expect a2 'died a1'
	expect b1 'delete f299 '
	ask b1 'get f7' 'got f7: No such file or directory'
	[ -z "$(ctl get --prefix --keys-only "/shift/v1/$JOB/f")" ]
	ask b1 'get kept' 'got kept = 1'
	client B b2 # one that comes later hears of it too
	expect b2 'died a1'
	tell b2 lose # but once, unless it refutes it
	ask b2 state 'state 1 lease 1 unsent 0'
	run ! grep '^died' b2.out
	tell b2 refute a1
	tell b2 lose
	expect b2 'died a1'
}

@test "a death that was refuted is told again when it is reported again, on each host" {
	local c
	two_hosts
	for c in a2 a3; do client A "$c"; done
	for c in b1 b2; do client B "$c"; done
	client A a1
	ready a1
	murder a1
	for c in a2 a3 b1 b2; do expect "$c" 'died a1'; done
	for c in a2 b1; do tell "$c" refute a1; done
	rm a1.in a1.out
	client A a1 # it lives
	ready a1
	murder a1
	for c in a2 b1; do wait_until 30 eval "[ \"\$(grep -cx 'died a1' $c.out)\" -eq 2 ]"; done
	for c in a2 b1; do tell "$c" refute a1; done
	for c in a2 a3 b1 b2; do # nobody echoes it, and who has not refuted it is told once
		ready "$c"
	done
	wait_until 30 status_is A .queue 0
	wait_until 30 status_is B .queue 0
	tell a2 put last 1
	tell b1 get last
	expect b1 'put last 1'
	for c in a2 b1; do [ "$(grep -cx 'died a1' "$c.out")" -eq 2 ]; done
	for c in a3 b2; do [ "$(grep -cx 'died a1' "$c.out")" -eq 1 ]; done
}

@test "goodbye is no death; a lost socket is none either" {
	two_hosts
	client A a1
	client A a2
	client B b1
	tell b1 watch
	tell a1 put k1 1
	tell a2 put k2 2
	expect b1 'put k1 1'
	expect b1 'put k2 2'
	hang_up a1
	expect b1 'delete k1 '
	tell a2 lose
	ask a2 state 'state 1 lease 1 unsent 0'
	tell a2 put k3 3
	expect b1 'put k3 3'
	run ! grep -E '^died|^delete k2' b1.out
	run ! grep '^error' b1.out
}

@test "goodbye behind more than is read at once is no death" {
	local kvd
	etcd_start
	kvd A
	client A a1
	client A a2
	tell a2 watch
	ready a1
	tell a2 sync
	expect a2 synced-all
	kvd=$(<A/kvd.pid)
	kill -STOP "$kvd"
	wait_until 30 grep -q '^State:.*[tT] (' "/proc/$kvd/status"
	tell a1 fill f 4000 # 100 kB
	ask a1 state 'state 1 lease 1 unsent 0'
	hang_up a1
	kill -CONT "$kvd"
	expect a2 'put f3999 value-3999'
	expect a2 'delete f3999 '
	run ! grep '^died' a2.out
}

@test "1000 puts at once: batches" {
	two_hosts
	client A a1
	client B b1
	tell b1 watch
	tell a1 fill f 1000
	ready a1
	expect b1 'put f999 value-999'
	ask b1 count 'count 1000'
	wait_until 30 status_is A .queue 0
	[ "$(ctl get --prefix --keys-only "/shift/v1/$JOB/f" | grep -c f)" -eq 1000 ]
}

@test "more deletes at once than etcd takes in one transaction" {
	local connects
	etcd_start
	kvd A --timeout 20s # requests wait that long
	client A a1
	tell a1 fill f 200
	ready a1
	wait_until 30 status_is A .queue 0
	connects=$(status_of A .connects)
	kill -STOP "$ETCD"
	wait_until 30 etcd_stopped
	for i in {0..149}; do tell a1 del "f$i"; done
	wait_until 10 status_is A .queue 150
	kill -CONT "$ETCD"
	wait_until 30 status_is A .queue 0
	[ "$(ctl get --prefix --keys-only "/shift/v1/$JOB/f" | grep -c f)" -eq 50 ]
	status_is A .connects "$connects"
}

@test "etcd stopped: answers from memory, puts arrive afterwards" {
	etcd_start
	kvd A --lease 4s
	kvd B --lease 4s
	client A a1
	client B b1
	tell b1 watch
	tell a1 put k old
	expect b1 'put k old'
	kill -STOP "$ETCD"
	wait_until 30 etcd_stopped
	tell a1 put k new
	tell a1 fill f 200
	wait_until 30 status_is B .etcd down
	wait_until 30 status_is A .queue 201
	ask b1 state 'state 1 lease 2 unsent 0'
	ask b1 'get k' 'got k = old'
	client B b2 # and from the daemon's
	tell b2 watch
	expect b2 'put k old'
	kill -CONT "$ETCD"
	expect b1 'put k new'
	expect b1 'put f199 value-199'
	ask b1 state 'state 1 lease 1 unsent 0'
	wait_until 30 status_is A .queue 0
	wait_until 30 status_is A .error ''
}

@test "etcd dies, and comes back as it was, then empty" {
	local key
	two_hosts
	client A a1
	client B b1
	tell b1 watch
	tell a1 put k1 1
	expect b1 'put k1 1'
	key=$(job_key a1)
	etcd_kill
	tell a1 put k2 2
	etcd_start
	expect b1 'put k2 2'
	etcd_kill
	tell a1 put k3 3
	etcd_start empty
	expect b1 'put k3 3'
	wait_until 30 status_is A .queue 0
	[ "$(ctl get --prefix --keys-only "/shift/v1/$JOB/k" | xargs)" = \
		"/shift/v1/$JOB/k1 /shift/v1/$JOB/k2 /shift/v1/$JOB/k3" ]
	ask b1 'get k1' 'got k1 = 1'
	: >a1.out
	[ "$(job_key a1)" = "$key" ]
	client B b2
	[ "$(job_key b2)" = "$key" ]
}

@test "a key that was forgotten: no more events, and room for another" {
	etcd_start
	kvd A
	client A a1
	client A a2
	tell a1 put k 1
	ask a2 'get k' 'got k = 1'
	tell a2 get other
	tell a2 forget k
	tell a2 put mine 1
	ready a2 # all of that has been said
	tell a1 put k 2
	tell a1 put other 1
	expect a2 'put other 1'
	run ! says a2 'put k 2'
	ask a2 'get k' 'got k = 2' # again
	tell a1 put k 3
	expect a2 'put k 3'
	tell a2 forget k
	tell a2 get k # at once
	tell a1 put k 4
	expect a2 'put k 4'
	tell a1 gets x 65536
	expect a1 'delete x65535 '
	tell a1 forgets x 65536
	tell a1 gets y 65536
	expect a1 'delete y65535 '
	run ! grep '^error' a1.out
	tell a1 get z
	expect a1 'error 5 more than 65,536 keys are asked for'
}

@test "a prefix that is not watched any more: no more events, room for another, and all again when it is" {
	etcd_start
	kvd A
	client A a1
	client A a2
	tell a1 put p/k 1
	tell a2 watch p/
	expect a2 'put p/k 1'
	tell a2 unwatch p/
	tell a2 get other
	tell a2 put mine 1
	ready a2 # all of that has been said
	tell a1 put p/k 2
	tell a1 put other 1
	expect a2 'put other 1'
	run ! says a2 'put p/k 2'
	tell a2 watch p/
	expect a2 'put p/k 2'
	tell a2 unwatch p/
	tell a2 watch p/ # at once
	tell a1 put p/k 3
	expect a2 'put p/k 3'
	tell a2 unwatch p/
	tell a2 watches w 4096
	ready a2
	run ! grep '^error' a2.out
	tell a2 watch p/
	expect a2 'error 5 more than 4,096 prefixes are asked for'
	tell a2 unwatch w7
	tell a2 watch p/
	tell a1 put p/k 4
	expect a2 'put p/k 4'
}

@test "a process watches a prefix for each of 1000 peers, and hears of each" {
	two_hosts
	client A a1
	client B b1
	tell a1 fill gid/ 500
	ready a1
	tell b1 watches gid/ 1000
	wait_until 60 eval '[ "$(grep -c "^synced gid/" b1.out)" -eq 1000 ]'
	tell a1 fill gid/ 1000
	tell a1 put gid/999/x last
	wait_until 60 eval '[ "$(grep -c "^put gid/[0-9]* value" b1.out)" -eq 1000 ]'
	expect b1 'put gid/999/x last'
	run ! grep '^error' a1.out b1.out
	echo "# a daemon with them: $(grep VmHWM "/proc/$(<B/kvd.pid)/status")" >&3
}

@test "compacted while a daemon slept: it reads all again" {
	two_hosts
	client A a1
	client B b1
	tell b1 watch
	tell a1 put gone 1
	tell a1 put k old
	expect b1 'put k old'
	kill -STOP "$(<B/kvd.pid)"
	tell a1 del gone
	tell a1 put k new
	tell a1 fill f 10
	wait_until 30 status_is A .queue 0
	wait_until 30 status_is A '.keys' 11
	ctl put x 1
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	etcd_kill
	etcd_start
	kill -CONT "$(<B/kvd.pid)"
	expect b1 'put k new'
	expect b1 'put f9 value-9'
	expect b1 'delete gone '
}

@test "racing starts give one daemon, which is nobody's child, and ends after its last client" {
	local pids=() p n=0
	etcd_start
	for _ in 1 2 3 4 5 6; do
		SHIFT_RUN_DIR=$PWD/A shift-kvd --kv "$KV" --job "$JOB" --grace 3s 3>&- &
		pids+=($!)
	done
	for p in "${pids[@]}"; do wait "$p"; done
	status_of A .pid >A/kvd.pid
	client A a1
	ready a1
	for p in $(pgrep -x shift-kvd); do
		[[ $(tr '\0' ' ' <"/proc/$p/cmdline") != *"--job $JOB "* ]] || n=$((n + 1))
	done
	[ "$n" -eq 1 ]
	p=$(<A/kvd.pid)
	[ "$(ps -o ppid= -p "$p" | xargs)" != $$ ]
	[ "$(ps -o sid= -p "$p" | xargs)" != "$(ps -o sid= -p $$ | xargs)" ]
	[ "$(stat -c %a "A/$JOB" "A/$JOB/kvd.sock" "A/$JOB/kvd.lock" | xargs)" = "700 600 600" ]
	tell a1 put k 1
	sleep 3.5 # longer than the grace time: a client keeps it
	kill -0 "$p"
	hang_up a1
	wait_until 30 gone A
	wait_until 30 eval "! kill -0 $p 2>/dev/null"
	[ "$(ctl get --prefix --keys-only "/shift/v1/$JOB/" | xargs)" = "/shift/v1/$JOB/job-key" ]
}

@test "a daemon that was killed: its successor takes over, no process is reported dead" {
	two_hosts
	client A a1
	client B b1
	tell b1 watch
	tell a1 put k 1
	expect b1 'put k 1'
	kill -9 "$(<A/kvd.pid)"
	ask a1 state 'state 0 .*'
	tell a1 put k2 2
	ask a1 'get k' 'got k = 1'
	kvd A
	expect b1 'put k2 2'
	ask a1 state 'state 1 lease 1 unsent 0'
	kill "$(<A/kvd.pid)" # and one that is told to end removes its files
	wait_until 30 gone A
	run ! grep -E '^died|^delete' b1.out
}

@test "the job key is made once, also by six hosts at the same time" {
	local h pids=()
	etcd_start
	for h in 1 2 3 4 5 6; do kvd "$h" & pids+=($!); done
	for h in "${pids[@]}"; do wait "$h"; done
	for h in 1 2 3 4 5 6; do client "$h" "c$h"; done
	for h in 1 2 3 4 5 6; do job_key "c$h"; done | sort -u >keys
	[ "$(wc -l <keys)" -eq 1 ]
}

@test "--key-file: 0600 and 16 bytes; the key is not in etcd" {
	etcd_start
	head -c 16 /dev/zero | tr '\0' k >key
	chmod 644 key
	SHIFT_RUN_DIR=$PWD/A run shift-kvd --kv "$KV" --job "$JOB" --key-file key
	expect_status 2
	expect_line '^shift-kvd: key is open to others \(mode 0644\); try: chmod 0600 key$'
	chmod 600 key
	head -c 15 key >short
	chmod 600 short
	SHIFT_RUN_DIR=$PWD/A run shift-kvd --kv "$KV" --job "$JOB" --key-file short
	expect_status 2
	[ ! -e A ]
	kvd A --key-file key
	kvd B --key-file key
	client A a1
	client B b1
	tell b1 watch
	tell a1 put k 1
	expect b1 'put k 1'
	[ "$(job_key a1)" = "key $(printf '6b%.0s' {1..16})" ]
	run ! grep -q kkkkkkkk <(ctl get --prefix "/shift/v1/$JOB/")
}

@test "directories open to others, or of others, are refused" {
	KV=http://127.0.0.1:1
	mkdir -p "A/$JOB"
	chmod 755 "A/$JOB"
	SHIFT_RUN_DIR=$PWD/A run shift-kvd --kv "$KV" --job "$JOB"
	expect_status 1
	expect_line "^shift-kvd: .*/A/$JOB is open to others \(mode 0755\); try: chmod 0700 "
	chmod 700 "A/$JOB"
	chmod 777 A
	SHIFT_RUN_DIR=$PWD/A run shift-kvd --kv "$KV" --job "$JOB"
	expect_status 1
	[ "$(id -u)" -eq 0 ] || skip "the rest needs root: files of another user"
	chmod 755 A
	chown nobody "A/$JOB"
	SHIFT_RUN_DIR=$PWD/A run shift-kvd --kv "$KV" --job "$JOB"
	expect_status 1
	expect_line "belongs to another user"
}

@test "a daemon of another user is not believed, a process of another user not served" {
	local dir
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be two users"
	etcd_start
	dir=$(mktemp -d /tmp/shift-kvd-XXXXXX)
	chown nobody "$dir"
	# the build directory may be out of another user's reach
	cp "$BUILDDIR/kv/shift-kvd" "$BUILDDIR/tests/kv/kv_shell" "$dir"
	SHIFT_RUN_DIR=$dir/run setpriv --reuid nobody --clear-groups "$dir/shift-kvd" --kv "$KV" \
		--job "$JOB" --grace 1m
	SHIFT_RUN_DIR=$dir/run drive root "$BUILDDIR/tests/kv/kv_shell" "$JOB" 1
	expect root 'error 0 .*: cannot connect: Operation not permitted'
	hang_up root
	kvd A
	chmod 755 . A "A/$JOB"
	chmod 666 "A/$JOB/kvd.sock"
	SHIFT_RUN_DIR=/proc/$$/cwd/A drive nobody setpriv --reuid nobody --clear-groups "$dir/kv_shell" "$JOB" 1
	tell nobody put k 1
	expect nobody 'error 0 .*: cannot connect: .*'
	[ "$(status_of A .keys)" -eq 0 ]
	hang_up nobody
	kill "$(pgrep -f "^$dir/shift-kvd ")"
	wait_until 30 eval "[ ! -e $dir/run/$JOB ]"
	rm -r "$dir"
}

@test "an endpoint that does not answer: the next one" {
	etcd_start
	KV=http://127.0.0.1:1,$KV kvd A
	client A a1
	ready a1
	[ "$(status_of A .endpoint)" = "$KV" ]
	SHIFT_RUN_DIR=$PWD/A run -0 shift-kvd status --job "$JOB"
	expect_match "^job $JOB: etcd up at $KV, "
}

@test "a resolver that takes its time does not stop the daemon" {
	! nm -D "$BUILDDIR/kv/shift-kvd" | grep -qE '__(asan|tsan)' || skip "sanitized: nothing can be preloaded"
	"${CC:-gcc}" -shared -fPIC -x c -o slow.so - <<-'END'
		#include <unistd.h>
		int getaddrinfo(void) { sleep(20); return -3; }
	END
	LD_PRELOAD=$PWD/slow.so KV=http://kv.invalid:2379 kvd A
	wait_until 15 eval '[[ $(status_of A .error) == *kv.invalid* ]]'
	for _ in 1 2 3; do SHIFT_RUN_DIR=$PWD/A timeout 15 shift-kvd status --job "$JOB"; done
}

@test "user and password; a token that is worth nothing any more is renewed" {
	etcd_start
	ctl user add root:secret
	ctl user grant-role root root
	ctl auth enable
	kvd A # without
	wait_until 30 eval '[[ $(status_of A .error) == *user* ]]'
	printf 'root:secret\n' >user
	SHIFT_RUN_DIR=$PWD/B run shift-kvd --kv "$KV" --job "$JOB" --user-file user
	expect_status 2
	chmod 600 user
	kvd B --user-file user
	client B b1
	ready b1
	etcd_kill # its tokens go with it
	AUTH=1 etcd_start
	tell b1 put k 1
	wait_until 30 eval "ctl --user root:secret get '/shift/v1/$JOB/k' | grep -qx 1"
	ask b1 state 'state 1 lease 1 unsent 0'
}

fds_of() { # NONCE
	ls "/proc/${PID[$1]}/fd" | wc -l
}

@test "a client leaks no descriptor and needs libc only" {
	local before
	etcd_start
	kvd A
	client A a1
	ready a1
	before=$(fds_of a1)
	for _ in 1 2 3; do
		tell a1 lose
		: >a1.out
		ready a1
	done
	kill -9 "$(<A/kvd.pid)"
	ask a1 state 'state 0 .*'
	sleep 0.5
	kvd A
	: >a1.out
	ready a1
	[ "$before" = "$(fds_of a1)" ]
	readelf -d "$BUILDDIR/tests/kv/kv_shell" | grep NEEDED | grep -vE 'lib(c|asan|ubsan)\.so' >needed || true
	[ ! -s needed ]
}

@test "a user file: the end of its line is no part of the password, whatever it is" {
	etcd_start
	ctl user add root:secret
	ctl user grant-role root root
	ctl auth enable
	printf 'root:secret\r\n' >user
	printf 'root\n:secret\n' >nonsense
	chmod 600 user nonsense
	kvd A --user-file user --timeout 5s # etcd takes its time with passwords
	client A a1
	ready a1
	SHIFT_RUN_DIR=$PWD/B run shift-kvd --kv "$KV" --job "$JOB" --user-file nonsense
	expect_status 2
	expect_line '^shift-kvd: nonsense: not USER:PASSWORD$'
}

@test "the key of our certificate is open to others: one line" {
	: >key.pem
	chmod 640 key.pem
	SHIFT_RUN_DIR=$PWD/A run -0 shift-kvd --kv https://127.0.0.1:1 --job "$JOB" --key key.pem --grace 0
	expect_line "^shift-kvd: $PWD/key.pem: others can use the key of our certificate \(mode 0640\); try: chmod 0600 $PWD/key.pem$"
	wait_until 30 gone A
	chmod 600 key.pem
	SHIFT_RUN_DIR=$PWD/A run -0 shift-kvd --kv https://127.0.0.1:1 --job "$JOB" --key key.pem --grace 0
	[ -z "$output" ]
	wait_until 30 gone A
}

nobody_etcd() { # at $PORT
	local dir
	dir=$(mktemp -d /tmp/shift-kvd-XXXXXX)
	chown nobody "$dir"
	(cd "$dir" && exec setpriv --reuid nobody --clear-groups etcd --name n --data-dir data \
		--listen-client-urls "$KV" --advertise-client-urls "$KV" --listen-peer-urls unix://p:0 \
		--initial-advertise-peer-urls unix://p:0 --initial-cluster n=unix://p:0 --log-level error >/dev/null 2>&1 3>&-) &
	ETCD=$!
	FOREIGN=$dir
	wait_until 30 etcd_answers
}

@test "etcd has died, and another user of this host has its port: nothing is said to it" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
	etcd_start
	kvd A --own-port
	kvd B --grace 2m # one that does not look
	client A a1
	ready a1
	etcd_kill
	nobody_etcd
	wait_until 30 eval '[ "$(status_of A .error)" = "$KV: port $PORT on 127.0.0.1 is taken by uid $(id -u nobody)" ]'
	wait_until 30 status_is B .etcd up
	kill "$(<B/kvd.pid)"
	wait_until 30 gone B
	[ -z "$(ctl get --prefix --keys-only /shift/ | grep -v job-key)" ]
	# Nor is one started beside it, at another address of the same host.
	SHIFT_RUN_DIR=$PWD/C run shift-kvd etcd --job "$JOB" --listen "127.0.0.2:$PORT,127.0.0.1:$PORT"
	expect_status 1
	expect_line "^shift-kvd: port $PORT on 127.0.0.1 is taken by uid $(id -u nobody): choose another port: --kv start@127.0.0.1:PORT$"
	etcd_kill
	rm -r "$FOREIGN"
	etcd_start
	wait_until 30 status_is A .etcd up
}

nobody_listens() { # ADDRESS: at $PORT, of that family only; its process is ${PID[nobody]}
	python3 -c 'import os, socket, sys, time
os.setuid(int(sys.argv[3]))
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
if ":" in sys.argv[1]: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen()
time.sleep(100)' "$1" "$PORT" "$(id -u nobody)" 3>&- &
	PID[nobody]=$!
	wait_until 30 eval 'ss -ltnpH "sport = :$PORT" | grep -q "pid=${PID[nobody]},"'
}

@test "another user listens beside our etcd, at all addresses of the other family: it is in nobody's way" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
	[ -n "$(ip -6 addr show dev lo)" ] || skip "no IPv6 here"
	etcd_start
	nobody_listens ::
	kvd A --own-port
	wait_until 30 status_is A .etcd up
	etcd_kill
	kill "${PID[nobody]}"
	wait "${PID[nobody]}" || true
	launch_etcd data-v6 --listen-client-urls "http://[::1]:$PORT" --advertise-client-urls "http://[::1]:$PORT"
	KV=http://[::1]:$PORT
	wait_until 30 etcd_answers
	nobody_listens 0.0.0.0
	kvd B --own-port
	wait_until 30 status_is B .etcd up
}

@test "somebody fills our etcd: its quota, one line, and all goes on" {
	local n=0
	PORT=$(free_port)
	KV=http://127.0.0.1:$PORT
	SHIFT_ETCD_QUOTA=3000000 SHIFT_RUN_DIR=$PWD/C shift-kvd etcd --job "$JOB" --listen "127.0.0.1:$PORT" --grace 2s 3>&-
	SHIFT_RUN_DIR=$PWD/A shift-kvd --kv "$KV" --job "$JOB" --grace 10s --timeout 20s --foreground >kvd.out 2>&1 3>&- &
	PID[kvd]=$!
	client A a1
	ready a1
	tell a1 put before 1
	head -c 500000 /dev/zero | tr '\0' x >value
	while ctl put "k$n" <value >/dev/null 2>full && [ $n -lt 20 ]; do n=$((n + 1)); done
	grep -q 'database space exceeded' full
	[ "$(du -sk C | cut -f1)" -lt 20000 ]
	tell a1 put after 2
	wait_until 30 grep -q 'quota' kvd.out
	sleep 3
	[ "$(grep -c . kvd.out)" -eq 1 ]
	grep -qx "shift-kvd: $KV: etcdserver: mvcc: database space exceeded: its quota is used up, and it takes nothing new: new connections are not protected" kvd.out
	ask a1 'get before' 'got before = 1'
	client A a2
	ask a2 state 'state 1 lease 2 unsent 0'
	kill "${PID[kvd]}"
	wait "${PID[kvd]}"
	unset "PID[kvd]"
	wait_until 30 gone C
}

@test "what shift-kvd does not understand" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		SHIFT_RUN_DIR=$PWD/A run shift-kvd $arguments
		expect_status 2
		expect_line '^shift-kvd: '
	done <<-END
		--job x
		--kv ftp://h
		--kv ,
		--kv http://h --job ../x
		--kv http://h --job $(printf 'x%.0s' {1..65})
		--kv http://h --grace soon
		--kv http://h --lease 1s
		--kv http://h --key-file /nowhere
		--kv http://h --ca /nowhere
		--kv http://h something
		etcd something
		etcd --job /
		etcd --listen localhost
		etcd --listen 127.0.0.1:x
		etcd --listen 127.0.0.1:1,localhost
		etcd --listen ,
		etcd --listen $(printf '127.0.0.%s,' {1..32})127.0.0.33
		etcd --advertise 127.0.0.1:1
		etcd --grace soon
		status --job /
		status something
	END
	[ ! -e A ]
	SHIFT_RUN_DIR=$PWD/A run shift-kvd status
	expect_status 3
	expect_line '^shift-kvd: no shift-kvd of job default runs here$'
}

# A program under the library, over a libibverbs without RDMA, until a line comes for ${IN[pair]}.
program() { # USE [PROGRAM]
	mkfifo in
	sanitizer=$(ldd "$BUILDDIR/lib/.libs/libshift.so" | awk '$1 ~ /^lib[at]san/ {print $3}')
	STAY=1 SHIFT_RUN_DIR=$PWD/A SHIFT_JOB=$JOB SHIFT_RAILS=mlx5_0=mlx5_1 SHIFT_LOG=info \
		SHIFT_LOG_FILE=$PWD/shift.log LD_LIBRARY_PATH=$BUILDDIR/tests/nullverbs/.libs \
		LD_PRELOAD=${sanitizer:+$sanitizer:}$BUILDDIR/lib/.libs/libshift.so \
		"$BUILDDIR/tests/preload/${2:-odd_objects}" "$1" <in >pair.out 3>&- &
	PID[pair]=$!
	exec {IN[pair]}>in
}

@test "two QPs of one process on one NIC meet, and are not protected" {
	etcd_start
	kvd A
	program pair
	both_are() { [ "$(grep -c 'is not protected: connected to itself,' shift.log)" -eq 2 ]; }
	wait_until 30 both_are
	echo >&"${IN[pair]}"
	wait "${PID[pair]}"
	[ "$(<pair.out)" = done ]
}

@test "exit() of a child that shares the memory is not the end of its parent" {
	# Their run-time does not bear an exit of a process whose threads are another's.
	! nm -D "$BUILDDIR/kv/shift-kvd" | grep -qE '__(asan|tsan)' || skip "sanitized: its leak check stops the parent's threads"
	etcd_start
	kvd A
	program child ending
	wait "${PID[pair]}" || { cat pair.out; return 1; }
	[ "$(<pair.out)" = done ]
}

@test "an etcd at a unix socket; the job key by a descriptor and by the environment" {
	local long
	KV=$(SHIFT_RUN_DIR=C shift-kvd etcd --job "$JOB" --grace 2s 3>&-) # a relative one
	[ "$KV" = "unix:$PWD/C/$JOB/etcd:0" ]
	[ "$(stat -c %a "C/$JOB")" = 700 ]
	head -c 16 /dev/zero | tr '\0' k >key
	kvd A --grace 1m --key-fd 9 9<key
	SHIFT_JOB_KEY=$(printf '6B%.0s' {1..16}) kvd B --grace 1m
	client A a1
	client B b1
	tell b1 watch
	tell a1 put k 1
	expect b1 'put k 1'
	[ "$(job_key a1)" = "key $(printf '6b%.0s' {1..16})" ]
	[ "$(job_key b1)" = "$(job_key a1)" ]
	[ "$(status_of A .key_id)" = "$(status_of B .key_id)" ]
	[ "$(status_of A .endpoint)" = "$KV" ]
	SHIFT_RUN_DIR=$PWD/D
	export SHIFT_RUN_DIR
	run shift-kvd --kv "$KV" --job "$JOB" --key-fd 9 9< <(head -c 15 key)
	expect_status 2
	expect_line '^shift-kvd: --key-fd 9: not 16 bytes$'
	run shift-kvd --kv "$KV" --job "$JOB" --key-fd 2
	expect_status 2
	expect_line '^shift-kvd: --key-fd 2: not the number of an inherited descriptor$'
	SHIFT_JOB_KEY=6b run shift-kvd --kv "$KV" --job "$JOB"
	expect_status 2
	expect_line '^shift-kvd: SHIFT_JOB_KEY: not 32 hexadecimal digits'
	run shift-kvd --kv unix:x --job "$JOB"
	expect_status 2
	expect_line '^shift-kvd: unix:x: unix: needs an absolute path$'
	long=/$(printf 'x%.0s' {1..120})
	run shift-kvd --kv "unix:$long" --job "$JOB"
	expect_status 2
	expect_line ': too long a path for a socket$'
	[ ! -e D ]
	hang_up a1
	hang_up b1
	kill "$(<A/kvd.pid)" "$(<B/kvd.pid)"
	wait_until 30 eval '[ ! -e "A/$JOB" ] && [ ! -e "B/$JOB" ] && [ ! -e "C/$JOB" ]'
}

@test "another key than the job's: nothing is believed, and the reason is said" {
	etcd_start
	head -c 16 /dev/urandom >key
	head -c 16 /dev/urandom >other
	chmod 600 key other
	kvd A --key-file key --grace 1m
	kvd B --key-file other --grace 1m
	wait_until 30 eval '[[ $(status_of B .error) == *"the job has another key: --key-file of another job?" ]]'
	kvd C --grace 1m
	wait_until 30 eval '[[ $(status_of C .error) == *"must be given on all hosts of a job, or on none" ]]'
	[ "$(status_of B .job_key)" = true ] # its own, from the file
	[ "$(status_of C .job_key)" = false ]
	[ "$(status_of B .etcd)" != up ]
	[ "$(status_of C .etcd)" != up ]
	ctl put "/shift/v1/old-$JOB/job-key" "$(printf 'x%.0s' {1..32})" # of another version
	JOB=old-$JOB kvd D --grace 1m
	JOB=old-$JOB wait_until 30 eval '[[ $(status_of D .error) == *"or one of another version of shift" ]]'
	kill "$(<A/kvd.pid)" "$(<B/kvd.pid)" "$(<C/kvd.pid)" "$(<D/kvd.pid)"
}

@test "a user in a URL: used, warned of, and shown nowhere" {
	local pid url
	etcd_start
	ctl user add root:secret
	ctl user grant-role root root
	ctl auth enable
	url=http://root:sec%72et@${KV#http://}
	mkdir A
	SHIFT_RUN_DIR=$PWD/A shift-kvd --foreground --kv "$url" --job "$JOB" --grace 20s 2>err 3>&- &
	PID[kvd]=$!
	wait_until 30 status_is A .etcd up
	grep -qx 'shift-kvd: --kv USER:PASSWORD@ shows in the list of processes; --user-file FILE does not' err
	grep -qx "shift-kvd: $KV: the password is not encrypted on its way; https:// would" err
	[ "$(wc -l <err)" -eq 2 ]
	ps -o args= -p "${PID[kvd]}" >args
	grep -q -- "--kv $KV" args
	status_of A . >status.json
	run ! grep -E 'sec(%72|r)et' args status.json err
	SHIFT_RUN_DIR=$PWD/B run shift-kvd --kv 'http://root:%zz@h:1' --job "$JOB"
	expect_status 2
	[ ! -e B ]
}

@test "64 connections of a process put one key, and a forged one beside it is ignored" {
	local rail
	etcd_start
	kvd A
	program many
	rails() { ctl get --prefix "/shift/v1/$JOB/rail/" --keys-only | grep .; }
	one_is() { [ "$(rails | wc -l)" -eq 1 ]; }
	wait_until 30 one_is
	sleep 1 # for those that should not come
	[ "$(ctl get --prefix "/shift/v1/$JOB/" --keys-only | grep -c -E "/(rail|conn|probe)/")" -eq 1 ]
	rail=$(rails)
	ctl put "${rail%/*}/0000000000000bad" "$(printf '\3%055d')"
	forged_is() { grep -q "/0000000000000bad in etcd is ignored: it was not put by a" shift.log; }
	wait_until 30 forged_is
	ctl put "${rail%/*}/0000000000000bae" "$(printf '\2%055d')"
	older_is() { grep -q "/0000000000000bae in .* ignored: that process speaks version 2 of" shift.log; }
	wait_until 30 older_is
	echo >&"${IN[pair]}"
	wait "${PID[pair]}"
	[ "$(<pair.out)" = done ]
}
