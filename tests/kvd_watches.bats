# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What shift-kvd reads and watches in etcd: what is looked at on its host, and how it spares an etcd that is busy.

load kvd

# Deaths and the job key.
OWN=2

@test "who looks at nothing hears of nothing" {
	two_hosts
	client A a1
	client B b1
	ready b1
	tell a1 fill f 300
	ready a1
	wait_until 30 status_is A .queue 0
	tell b1 get last
	tell a1 put last 1
	expect b1 'put last 1'
	status_is B .watchers $((OWN + 1))
	[ "$(status_of B .events)" -le 1 ]
	status_is B .keys 1
	status_is A .events 0
	murder a1 # but of that
	expect b1 'died a1'
}

@test "who looks at a prefix hears of that, also through another client, until nobody looks" {
	two_hosts
	client A a1
	client B b1
	client B b2
	tell b1 watch p/
	tell b2 watch p/
	tell b1 watch q/
	tell a1 fill p/ 20
	tell a1 fill other/ 20
	expect b1 'put p/19 value-19'
	expect b2 'put p/19 value-19'
	status_is B .keys 20
	wait_until 30 status_is B .watchers $((OWN + 2))
	tell b1 unwatch p/
	tell b1 unwatch q/
	tell a1 put p/x 1
	expect b2 'put p/x 1'
	tell b2 unwatch p/
	wait_until 30 status_is B .watchers $OWN
	wait_until 30 status_is B .keys 0
	wait_until 30 status_is B .streams 1
	tell a1 put p/x 2
	tell b2 watch p/
	expect b2 'put p/x 2'
	expect b2 'put p/3 value-3'
}

@test "many prefixes, one after the other, need few streams; very many are the whole job" {
	local i
	two_hosts
	client A a1
	client B b1
	client B b2
	for i in {1..60}; do
		tell b1 watch "p$i/"
		expect b1 "synced p$i/ "
	done
	wait_until 30 status_is B .watchers $((OWN + 60))
	[ "$(status_of B .streams)" -le 7 ]
	for i in 1 30 60; do
		tell a1 put "p$i/x" 1
		expect b1 "put p$i/x 1"
	done
	tell b1 watches q 4000
	tell b2 watches r 4000
	expect b1 'synced q3999 '
	expect b2 'synced r3999 '
	wait_until 30 status_is B .streams 1
	[ "$(status_of B .watchers)" -le $((OWN + 1)) ]
	tell a1 put "r3999/x" 2
	expect b2 'put r3999/x 2'
	tell b2 get nothing
	expect b2 'delete nothing '
	# It goes on that way.
	etcd_kill
	etcd_start
	tell a1 put "q7/x" 3
	expect b1 'put q7/x 3'
}

@test "etcd takes all of a long request" {
	proxy_start
	kvd A --timeout 20s
	kvd B --timeout 20s
	client A a1
	client B b1
	tell b1 watches w- 190
	expect b1 'synced w-189 '
	tell a1 fill w- 190
	wait_until 60 status_is B .keys 190
	wait_until 30 status_is B .watchers $((OWN + 190))
	status_is B .connects 1
}

@test "what changes between reading and watching is heard of" {
	proxy_start
	kvd A
	kvd B --timeout 20s
	client A a1
	client B b1
	ready b1
	tell a1 put p/k old
	tell a1 put p/gone old
	ready a1
	wait_until 30 status_is A .queue 0
	echo hold watch >mode
	tell b1 watch p/
	expect b1 'put p/k old'
	expect b1 'synced p/ '
	tell a1 put p/k new
	tell a1 del p/gone
	wait_until 30 status_is A .queue 0
	run ! says b1 'put p/k new'
	rm mode
	expect b1 'put p/k new'
	expect b1 'delete p/gone '
}

@test "interest that begins while etcd is away: answered from memory, and from etcd when it is back" {
	two_hosts
	client A a1
	client B b1
	client B b2
	tell a1 put p/k 1
	tell b2 put p/here 1
	ready a1
	ready b1
	etcd_kill
	wait_until 30 status_is B .etcd down
	tell b1 watch p/
	tell b1 watch q/
	expect b1 'put p/here 1'
	run ! says b1 'synced p/ '
	etcd_start
	expect b1 'put p/k 1'
	expect b1 'synced p/ '
	tell a1 put q/k 2
	expect b1 'put q/k 2'
	run ! grep '^delete' b1.out
	etcd_kill
	tell b1 watch r/
	tell a1 put r/k 3
	etcd_start empty
	expect b1 'put r/k 3'
	tell a1 put p/k 4
	expect b1 'put p/k 4'
}

@test "a daemon that starts anew while etcd is away takes nothing from its clients" {
	head -c 16 /dev/zero | tr '\0' k >key
	chmod 600 key
	etcd_start
	kvd A --key-file key
	kvd B --key-file key
	client A a1
	client B b1
	tell b1 watch p/
	tell a1 put p/k 1
	tell a1 put p/gone 1
	expect b1 'put p/gone 1'
	kill -STOP "$ETCD"
	wait_until 30 etcd_stopped
	kill -9 "$(<B/kvd.pid)"
	ask b1 state 'state 0 .*'
	kvd B --key-file key
	ask b1 state 'state 1 .*'
	tell b1 put mine 1 # behind what it watches
	tell b1 get mine
	tell a1 del p/gone
	ask b1 'get p/k' 'got p/k = 1'
	run ! grep '^delete' b1.out
	kill -CONT "$ETCD"
	expect b1 'delete p/gone '
	ask b1 'get p/k' 'got p/k = 1'
}

spared() { # MODE: few requests while etcd has no time; then all goes on, and no session has begun anew
	local before connects from
	proxy_start
	kvd A --lease 30s --timeout 4s
	client A a1
	client A a2
	tell a1 watch p/
	ready a1
	ready a2
	wait_until 30 status_is A .queue 0
	connects=$(status_of A .connects)
	echo "$1" >mode
	before=$(requests)
	from=$(date +%s%N)
	tell a1 put p/k 1
	tell a2 watch q/
	sleep 4
	rm mode
	echo "# $(($(requests) - before)) requests in $((($(date +%s%N) - from) / 1000000)) ms" >&3
	[ $(($(requests) - before)) -le 24 ]
	expect a2 'synced q/ '
	wait_until 30 status_is A .queue 0
	wait_until 30 status_is A .error ''
	[ "$(direct get --print-value-only "/shift/v1/$JOB/p/k")" = 1 ]
	status_is A .connects "$connects"
	ask a1 state 'state 1 lease 1 unsent 0'
}

@test "an etcd that has too many requests gets few" {
	spared busy
}

@test "a proxy that reaches no etcd gets few requests" {
	spared gateway
}

@test "an etcd whose answers come late gets few requests" {
	spared late
}

@test "an etcd that is busy for long is left, and tried again more and more seldom" {
	local before
	proxy_start
	kvd A
	client A a1
	ready a1
	echo busy >mode
	tell a1 put k 1
	wait_until 30 status_is A .etcd down
	before=$(requests)
	sleep 6
	[ $(($(requests) - before)) -le 12 ]
	rm mode
	wait_until 30 status_is A .queue 0
}
