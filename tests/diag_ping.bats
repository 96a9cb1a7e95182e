# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag ping between two processes that are two hosts of a network of memory (tests/nullverbs).

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	port=$((20000 + $$ % 10000 + BATS_TEST_NUMBER))
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

# The responder is host 2, the command host 1; $listen: what the responder has in its environment.
with_responder() { # COMMAND: a shell's
	unshare -rm true 2>/dev/null || skip "user namespaces are not allowed here"
	LD_LIBRARY_PATH=$BUILDDIR/tests/nullverbs/.libs NULLVERBS_NET=ping-$port port=$port listen=$listen \
		unshare -rm bash -c '
		mount -t tmpfs none /sys/class || exit 99
		for d in mlx5_0 mlx5_1; do
			mkdir -p /sys/class/infiniband/$d/ports/1
			echo Ethernet >/sys/class/infiniband/$d/ports/1/link_layer
		done
		: >listen.out
		env NULLVERBS_HOST=2 $listen shift-diag ping --listen --bind 127.0.0.1 --port $port >listen.out 2>&1 3>&- &
		pid=$!
		for _ in {1..300}; do grep -q listening listen.out && break || sleep 0.1; done
		export NULLVERBS_HOST=1 peer=127.0.0.1:$port
		eval "$1"
		status=$?
		kill $pid
		wait $pid || { echo "the responder: $?"; cat listen.out; exit 98; }
		exit $status' bash "$1"
}

@test "ping: all arrives, on each NIC, and in several datagrams" {
	with_responder 'shift-diag ping --wait 20s --count 5 $peer' >out
	[ "$(grep -c 'lost      0 %     0 %     0 %     0 %     0 %     0 %$' out)" -eq 4 ]
	grep -q ' mlx5_0 -> 127.0.0.1:.* mlx5_0 ' out && grep -q ' mlx5_1 -> 127.0.0.1:.* mlx5_1 ' out
	[ "$(grep -cE 'median( +[0-9]+){6}$' out)" -eq 2 ]
	with_responder 'shift-diag ping --wait 20s --count 3 --size 16384,64 --cross --json $peer' >out
	jq -e '.verdicts == [] and (.paths | length == 4 and all(.error == null and .mtu_bytes == 4096 and
		.sizes[0].payload_bytes == 64 and .sizes[0].sent == 3 and
		.sizes[1].payload_bytes == 16384 and .sizes[1].sent == 12 and .sizes[1].arrived == 12 and
		.sizes[1].echoed == 12 and .sizes[1].loss_forward == 0 and .sizes[1].loss_back == 0 and
		.sizes[1].rtt_us.p50 > 0 and .sizes[1].rtt_us.max >= .sizes[1].rtt_us.p50))' out
}

@test "ping: a network that loses only what is larger than 1 KB is found, and not by 64 bytes alone" {
	run with_responder 'NULLVERBS_DROP=1024 shift-diag ping --wait 1s --count 5 --nic mlx5_0 $peer'
	expect_status 2
	expect_match ' mlx5_0 -> [^ ]* mlx5_0 +lost +0 % +0 % +0 % +100 % +100 % +100 %'
	expect_match ' mlx5_0 -> [^ ]* mlx5_0: datagrams of 1024 bytes arrive, those of 2048 and more are lost'
	run -0 with_responder 'NULLVERBS_DROP=1024 shift-diag ping --wait 20s --count 5 --size 64 --nic mlx5_0 $peer'
}

@test "ping: the direction of the loss" {
	listen=NULLVERBS_DROP=1024
	run with_responder 'shift-diag ping --wait 1s --count 5 --nic mlx5_1 --json $peer'
	expect_status 2
	jq -e '.verdicts | length == 1 and (.[0] | .rule == "large-lost" and .class == "loss" and .level == "link" and
		.culprits[0].from.device == "mlx5_1" and (.culprits[0].from.host | startswith("127.0.0.1")))' <<<"$output"
	jq -e '.paths[0].sizes[] | select(.payload_bytes == 4096) | .loss_forward == 0 and .loss_back == 1' <<<"$output"
	listen=NULLVERBS_DROP=0
	run with_responder 'shift-diag ping --wait 1s --count 5 --nic mlx5_1 --json $peer'
	expect_status 2
	jq -e '.verdicts[0].rule == "all-lost"' <<<"$output"
	listen=
	run with_responder 'NULLVERBS_DROP=0 shift-diag ping --wait 1s --count 5 --nic mlx5_1 --json $peer'
	expect_status 2 # and of the way back nothing is known
	jq -e '.verdicts | length == 1 and .[0].rule == "all-lost" and .[0].culprits[0].from.device == "mlx5_1"' <<<"$output"
}

@test "ping: a responder that is not there, or is none" {
	run with_responder 'shift-diag ping 127.0.0.1:1'
	expect_status 3
	expect_match '^shift-diag: ping: 127.0.0.1:1: Connection refused; is shift-diag ping --listen running there'
	run with_responder 'shift-diag ping --wait 20s --count 2 127.0.0.1:1 $peer'
	expect_status 3 # the other one is tried
	expect_match 'lost      0 %'
	run with_responder 'NULLVERBS_DROP=0 shift-diag ping --wait 1s --count 2 127.0.0.1:1 $peer'
	expect_status 2 # a culprit is worse than what is not known
	run with_responder '
		: >python.out
		python3 -c "
import socket
s = socket.create_server((\"127.0.0.1\", $port + 20000))
print(\"ready\", flush=True)
c = s.accept()[0]
c.sendall(b\"shift-ping 1 x\nrail \" + b\"y\" * 3000 + b\"\n\")
c.recv(1)" >python.out 3>&- &
		until grep -q ready python.out; do sleep 0.1; done
		shift-diag ping 127.0.0.1:$((port + 20000))'
	expect_status 3
	expect_line 'what answers there is no shift-diag ping --listen of this version$'
}

# A responder as its own words are, which goes on by the code in $bad: c is the connection, pairs what has been asked for, and
# echo(session, seq, size, kind) sends a datagram to the one who asked.
bad_responder='
import os, socket, struct, sys
port, mtu = int(sys.argv[1]), int(os.environ.get("MTU", 4096))
s = socket.create_server(("127.0.0.1", port + 20000))
print("ready", flush=True)
c = s.accept()[0]
gid = "00000000000000000000ffff0a000002"
c.sendall(b"shift-ping 1 x\n" + b"".join(b"rail mlx5_%d %s 0 %d 5 5\n" % (i, gid.encode(), mtu) for i in (0, 1)) + b"end\n")
f, pairs = c.makefile("rb"), []
def pair():
    pairs.append(f.readline().split())
    c.sendall(b"session %d\n" % len(pairs))
net = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def echo(session, seq, size, kind=2):
    head = struct.pack("!6I", 0x73706e67, session, seq, size, 0, kind)
    net.sendto(struct.pack("=I", int(pairs[session - 1][4])) + head.ljust(64, b"."), "\0nullverbs/ping-%d/1" % port)
'
with_bad_responder() { # CODE COMMAND
	bad=$bad_responder$1 command=$2 with_responder '
		: >python.out
		python3 -c "$bad" $port >python.out 2>&1 3>&- &
		until grep -q ready python.out; do sleep 0.1; done
		peer=127.0.0.1:$((port + 20000))
		eval "$command"'
}

@test "ping: a responder that goes away is told of, for each NIC" {
	run with_bad_responder 'pair(); pair(); f.readline(); c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); os._exit(0)' \
		'shift-diag ping --wait 1ms --count 1 --size 64 $peer'
	expect_status 3
	[ "$(grep -c ': not tried: the responder does not answer any more$' <<<"$output")" -eq 2 ]
}

@test "ping: NICs of another MTU are told of" {
	MTU=1024 run with_bad_responder 'pair(); echo(1, 0, 0); f.readline(); c.sendall(b"counts 1\n"); f.readline()' \
		'shift-diag ping --wait 20s --count 1 --size 64 --nic mlx5_0 $peer'
	expect_status 1
	expect_match 'the MTU of mlx5_0 is 4096, that of 127.0.0.1:[0-9]+ mlx5_0 is 1024'
}

@test "ping: some losses are a warning, many a culprit" {
	local counts
	for counts in '19 1 few-lost' '17 2 lossy'; do
		read -r arrived expected rule <<<"$counts"
		run with_bad_responder "pair()
for i in range($arrived): echo(1, i, 0)
f.readline(); c.sendall(b'counts $arrived\\n'); f.readline()" \
			'shift-diag ping --wait 1ms --count 20 --size 64 --nic mlx5_0 --json $peer'
		expect_status "$expected"
		jq -e --arg rule "$rule" '.verdicts | length == 1 and .[0].rule == $rule and .[0].culprit == ($rule == "lossy")' <<<"$output"
	done
}

@test "ping: echoes that cannot be are none" {
	run --separate-stderr with_bad_responder 'pair()
for _ in range(3):
    for seq in range(40): echo(1, seq, 0)
echo(1, 4000000000, 0); echo(1, 0, 4000000000); echo(1, 2, 1); echo(1, 3, 1)
f.readline(); c.sendall(b"counts 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2\n"); f.readline()' \
		'shift-diag ping --wait 1s --count 2 --nic mlx5_0 --json \
			--size 64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79 $peer'
	jq -e '.paths[0] | .error == null and (.sizes | .[0].echoed == 6 and .[1].echoed == 2 and (.[2:] | all(.echoed == 0)) and
		.[0].rtt_us.max > 0 and .[2].rtt_us.max == null)' <<<"$output"
}

@test "ping: the responder survives nonsense" {
	run -0 with_responder '
		for words in "" "x" "pair" "pair mlx5_0 00 0 1 2" "counts" "counts 1" "$(printf "%01000d" 0)"; do
			exec 5<>/dev/tcp/127.0.0.1/$port
			printf "%s\n" "$words" >&5
			timeout 0.3 cat <&5 >>answers
			exec 5>&-
		done
		for _ in {1..80}; do exec {fd}<>/dev/tcp/127.0.0.1/$port; done
		for fd in {11..120}; do eval "exec $fd>&-"; done 2>/dev/null
		shift-diag ping --wait 20s --count 2 --size 64 $peer'
	grep -q '^shift-ping 1 ' answers
	grep -q '^error no such NIC, or too many paths' answers
}

@test "ping: bad usage is one line and status 64" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag ping $arguments
		expect_status 64
		expect_line '^shift-diag: ping: '
	done <<-END

		--listen x
		--port 1 x
		--listen --port 0
		--size 63 x
		--size 64, x
		--size 65537 x
		--size many x
		--count 0 x
		--count 1001 x
		--interval 0 x
		--wait 2m x
		--nic mlx5_77 x
	END
}
