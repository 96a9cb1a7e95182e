# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
load kvd

OWN=2

two_fronts() { # two endpoints of one etcd: P1, P2; mode files d1/mode, d2/mode
	local i
	etcd_start
	DIRECT=$KV
	for i in 1 2; do
		mkdir -p d$i
		FRONT[i]=$(free_port)
		(cd d$i && exec python3 "$SRCDIR/tests/kv/etcd_proxy.py" "${FRONT[i]}" "$PORT" >proxy.out 2>&1 3>&-) &
		PID[front$i]=$!
		wait_until 30 eval "curl -sS http://127.0.0.1:${FRONT[i]}/ >/dev/null 2>&1"
	done
	KV=http://127.0.0.1:${FRONT[1]},http://127.0.0.1:${FRONT[2]}
}

@test "R1 compaction, then something new is asked for: the session goes on" {
	local connects
	two_hosts
	client A a1
	client B b1
	tell a1 put quiet/k 1
	tell b1 watch quiet/
	expect b1 'put quiet/k 1'
	wait_until 30 status_is B .watchers $((OWN + 1))
	ready a1
	ready b1
	tell a1 fill other/ 50
	wait_until 30 status_is A .queue 0
	connects=$(status_of B .connects)
	ctl put x 1
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	tell b1 watch new/
	expect b1 'synced new/ '
	tell b1 watch newer/
	expect b1 'synced newer/ '
	tell a1 put quiet/k 2
	tell a1 put new/k 2
	expect b1 'put new/k 2'
	expect b1 'put quiet/k 2'
	sleep 1
	echo "# connects $connects -> $(status_of B .connects)" >&3
	status_is B .connects "$connects"
}

@test "R2 compaction, then one of five prefixes is not wanted any more: the session goes on" {
	local connects i
	two_hosts
	client A a1
	client B b1
	for i in 1 2 3 4 5; do tell b1 watch p$i/; expect b1 "synced p$i/ "; done
	ready a1
	ready b1
	tell a1 fill other/ 50
	wait_until 30 status_is A .queue 0
	ctl put x 1
	ctl compact "$(ctl get x -w json | jq .header.revision)"
	connects=$(status_of B .connects)
	tell b1 unwatch p3/
	sleep 12
	echo "# connects $connects -> $(status_of B .connects), watchers $(status_of B .watchers)" >&3
	status_is B .connects "$connects"
}

@test "R3 a proxy refuses only a watch, with a page of several lines" {
	local connects
	etcd_start
	DIRECT=$KV
	PROXY_PORT=$(free_port)
	sed -e 's/if mode() == "gateway":/if mode() == "gateway" and self.path == "\/v3\/watch":/' \
		-e 's/<html>503/<html>\\r\\n<head><title>503/' \
		"$SRCDIR/tests/kv/etcd_proxy.py" >proxy.py
	python3 proxy.py "$PROXY_PORT" "$PORT" >proxy.out 2>&1 3>&- &
	PID[proxy]=$!
	KV=http://127.0.0.1:$PROXY_PORT
	wait_until 30 eval 'curl -sS "$KV/" >/dev/null 2>&1'
	kvd A --lease 30s --timeout 4s
	client A a1
	ready a1
	connects=$(status_of A .connects)
	echo gateway >mode
	tell a1 watch p/
	expect a1 'synced p/ '
	sleep 2
	echo "# error: $(status_of A .error)" >&3
	rm mode
	wait_until 30 status_is A .watchers $((OWN + 1))
	echo "# connects $connects -> $(status_of A .connects)" >&3
	status_is A .connects "$connects"
}

@test "R4 the endpoint does not answer any more: a death is heard by way of the other one" {
	local from
	two_fronts
	kvd A --timeout 3s
	KV=$DIRECT kvd B --timeout 3s
	client A a1
	client A a2
	client B b1
	ready a1
	ready a2
	ready b1
	kill -STOP "${PID[front1]}"
	from=$(date +%s%N)
	murder a1
	expect b1 'died a1'
	echo "# heard after $((($(date +%s%N) - from) / 1000000)) ms" >&3
	kill -CONT "${PID[front1]}"
	[ $((($(date +%s%N) - from) / 1000000)) -lt 5000 ]
}

@test "R5 many prefixes of the same keys are no million of keys" {
	local p= i
	two_hosts
	client A a1
	client B b1
	ready b1
	for i in {1..120}; do p=${p}a; done
	tell a1 fill $p 8950
	ready a1
	wait_until 60 status_is A .queue 0
	p=
	for i in {1..120}; do p=${p}a; echo "watch $p"; done >many
	tell b1 "$(<many)"
	sleep 25
	echo "# error: $(status_of B .error), $(status_of B .etcd) keys $(status_of B .keys) A $(status_of A .keys) etcd $(ctl get --prefix /shift/v1/$JOB/ --keys-only | grep -c a0) events $(status_of B .events) put $(grep -c ^put b1.out)" >&3
	status_is B .error ''
}

@test "R6 reading is refused at the beginning: that is asked again, not all" {
	local connects
	etcd_start
	DIRECT=$KV
	PROXY_PORT=$(free_port)
	sed -e 's/if mode() == "busy":/if mode() == "busy" and b"request_range" in body and b"compare" not in body:/' \
		"$SRCDIR/tests/kv/etcd_proxy.py" >proxy.py
	python3 proxy.py "$PROXY_PORT" "$PORT" >proxy.out 2>&1 3>&- &
	PID[proxy]=$!
	KV=http://127.0.0.1:$PROXY_PORT
	wait_until 30 eval 'curl -sS "$KV/" >/dev/null 2>&1'
	echo busy >mode
	kvd A --timeout 4s
	sleep 4
	rm mode
	wait_until 30 status_is A .etcd up
	echo "# connects $(status_of A .connects)" >&3
	[ "$(status_of A .connects)" -le 2 ]
}

@test "R7 after a burst of topics, not the whole job for ever" {
	two_hosts
	client A a1
	client B b1
	tell b1 watches q 3000
	tell b1 gets r 2000
	expect b1 'synced q2999 '
	wait_until 30 status_is B .streams 1
	murder b1
	client B b2
	ready b2
	sleep 12
	tell a1 fill other/ 200
	ready a1
	wait_until 30 status_is A .queue 0
	sleep 1
	echo "# keys of B: $(status_of B .keys), watchers $(status_of B .watchers)" >&3
	[ "$(status_of B .keys)" -le 10 ]
}

resurrect() { # WHAT-b2-asks WHAT-it-says-to-drop-it
	etcd_start
	DIRECT=$KV
	PROXY_PORT=$(free_port)
	python3 - <<'PY' >proxy.py
import os
s = open(os.environ["SRCDIR"] + "/tests/kv/etcd_proxy.py").read()
s = s.replace('''            return self.send(answer.read(), answer.status)
''', '''            data = answer.read()
            while mode() == "hold-answer" and b"request_range" in body and b"compare" not in body:
                time.sleep(0.05)
            return self.send(data, answer.status)
''')
print(s)
PY
	python3 proxy.py "$PROXY_PORT" "$PORT" >proxy.out 2>&1 3>&- &
	PID[proxy]=$!
	KV=http://127.0.0.1:$PROXY_PORT
	wait_until 30 eval 'curl -sS "$KV/" >/dev/null 2>&1'
	KV=$DIRECT kvd A
	kvd B --timeout 20s
	client A a1
	client B b1
	client B b2
	ready b1
	ready b2
	tell b1 watch p/
	tell a1 put p/k 1
	expect b1 'put p/k 1'
	wait_until 30 status_is B .watchers $((OWN + 1))
	echo hold-answer >mode
	tell b2 "$1"
	sleep 1
	tell a1 del p/k
	expect b1 'delete p/k '
	[ -z "$2" ] || tell b2 "$2"
	sleep 1
	rm mode
	sleep 4
	echo "# $(grep 'p/k' b1.out | tr '\n' ';') B has $(status_of B .keys) keys; etcd: $(direct get /shift/v1/$JOB/p/k | wc -l)" >&3
	[[ $(grep 'p/k' b1.out | tail -n 1) == "delete p/k "* ]]
}

direct() {
	KV=$DIRECT ctl "$@"
}

@test "R8 a key that is deleted while another topic is read, which nobody needs any more, stays deleted" {
	resurrect 'get p/k' 'forget p/k'
}

@test "R9 the same with a prefix" {
	resurrect 'watch p/k' 'unwatch p/k'
}

@test "R10 and told once only" {
	resurrect 'get p/k' ''
	[ "$(grep -c 'put p/k' b1.out)" = 1 ]
}
