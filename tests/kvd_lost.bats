# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What shift-kvd does when etcd has lost the history that it wants, when an answer is older than what it knows, and when etcd
# is slow or gone while something begins: it goes on, and as little as possible begins anew.

load kvd

# Deaths and the job key.
OWN=2

asked_again() { # REQUESTS NUMBER: so many came since there were REQUESTS
	[ "$(requests)" -ge $(($1 + $2)) ]
}

@test "the history of a prefix that was quiet for long is compacted: it is read once more, and all is heard" {
	two_hosts
	client A a1
	client B b1
	tell a1 put quiet/k 1
	tell b1 watch quiet/
	tell b1 watch busy/
	expect b1 'put quiet/k 1'
	tell a1 fill busy/ 50
	expect b1 'put busy/49 value-49'
	kill -STOP "$(<B/kvd.pid)"
	tell a1 put quiet/k 2
	tell a1 put busy/49 2
	wait_until 30 status_is A .queue 0
	compact
	etcd_kill
	etcd_start
	kill -CONT "$(<B/kvd.pid)"
	expect b1 'put quiet/k 2'
	expect b1 'put busy/49 2'
	wait_until 30 status_is B .etcd up
	tell a1 put quiet/k 3
	expect b1 'put quiet/k 3'
}

@test "compacted again and again, each time before something new is asked for: the session goes on" {
	local connects i
	two_hosts
	client A a1
	client B b1
	tell a1 put quiet/k 0
	tell b1 watch quiet/
	expect b1 'put quiet/k 0'
	wait_until 30 status_is B .watchers $((OWN + 1))
	ready a1
	ready b1
	connects=$(status_of B .connects)
	for i in 1 2 3; do
		tell a1 fill "other-$i/" 20
		wait_until 30 status_is A .queue 0
		compact
		tell b1 watch "new-$i/"
		expect b1 "synced new-$i/ "
		tell b1 watch "newer-$i/"
		expect b1 "synced newer-$i/ "
		tell a1 put quiet/k "$i"
		tell a1 put "new-$i/k" "$i"
		expect b1 "put new-$i/k $i"
		expect b1 "put quiet/k $i"
	done
	murder a1 # the deaths, too
	expect b1 'died a1'
	status_is B .connects "$connects"
}

@test "compacted before most prefixes are not wanted any more: the session goes on" {
	local connects i
	two_hosts
	client A a1
	client B b1
	for i in 1 2 3 4 5; do
		tell b1 watch "p$i/"
		expect b1 "synced p$i/ "
	done
	wait_until 30 status_is B .watchers $((OWN + 5))
	ready a1
	ready b1
	tell a1 fill other/ 50
	wait_until 30 status_is A .queue 0
	compact
	connects=$(status_of B .connects)
	for i in 1 2 3 4; do tell b1 unwatch "p$i/"; done
	wait_until 30 status_is B .watchers $((OWN + 1))
	tell a1 put p5/k 1
	expect b1 'put p5/k 1'
	status_is B .connects "$connects"
}

@test "compacted while a long answer is read by pages: it is read once more, and the session goes on" {
	local before connects
	proxy_start
	KV=$DIRECT kvd A
	kvd B --timeout 20s
	client A a1
	client B b1
	ready b1
	tell a1 fill p/ 4100
	ready a1
	wait_until 60 status_is A .queue 0
	connects=$(status_of B .connects)
	echo hold range >mode
	before=$(requests)
	tell b1 watch p/
	wait_until 30 asked_again "$before" 2 # the first answer has come, and a page is asked for
	compact
	rm mode
	expect b1 'synced p/ '
	status_is B .keys 4100
	tell a1 put p/4099 new
	expect b1 'put p/4099 new'
	status_is B .connects "$connects"
}

old_answer() { # QUESTION [END]: p/k is deleted while etcd's answer to another's question is on its way, who perhaps ends it
	local before
	proxy_start
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
	echo hold-answer read >mode
	before=$(requests)
	tell b2 "$1"
	wait_until 30 asked_again "$before" 1
	sleep 0.5 # etcd has answered the proxy
	tell a1 del p/k
	expect b1 'delete p/k '
	[ -z "${2:-}" ] || tell b2 "$2"
	tell b2 put marker 1
	wait_until 30 eval '[ -n "$(direct get "/shift/v1/$JOB/marker")" ]'
	rm mode
	tell b2 watch behind/
	expect b2 'synced behind/ '
	[ "$(grep 'p/k' b1.out | xargs)" = 'put p/k 1 delete p/k' ]
	wait_until 30 status_is B .keys 1
}

@test "deleted while another asks for the key, who forgets it: no older answer brings it back" {
	old_answer 'get p/k' 'forget p/k'
}

@test "deleted while another asks for its prefix, who forgets it: no older answer brings it back" {
	old_answer 'watch p/k' 'unwatch p/k'
}

@test "deleted while another asks for the key: no older answer brings it back" {
	old_answer 'get p/k'
}

@test "a watch is refused by what stands before etcd: it is begun later, then all is well, and the session has gone on" {
	local connects
	proxy_start
	kvd A --lease 120s --timeout 500ms
	client A a1
	ready a1
	connects=$(status_of A .connects)
	echo gateway watch >mode
	tell a1 watch p/
	expect a1 'synced p/ '
	wait_until 30 eval '[[ "$(status_of A .error)" == *"too busy to answer"* ]]'
	rm mode
	wait_until 30 status_is A .watchers $((OWN + 1))
	# Not only when the lease is due: the next failure, some day, would count as one that has lasted since then.
	wait_until 10 status_is A .error ''
	status_is A .connects "$connects"
}

@test "reading is refused at the beginning: that is asked again, and not all" {
	proxy_start
	echo busy read >mode
	kvd A --timeout 4s
	wait_until 30 asked_again 0 5 # the job's lease and key, and reading three times
	rm mode
	wait_until 30 status_is A .etcd up
	status_is A .connects 1
}

@test "watches begin slowly, one after the other: no session begins anew for that" {
	local connects i
	proxy_start
	kvd A --timeout 1s
	client A a1
	ready a1
	connects=$(status_of A .connects)
	echo slow watch >mode # all of them take longer than five timeouts
	for i in {1..16}; do tell a1 watch "p$i/"; done
	expect a1 'synced p16/ '
	wait_until 30 status_is A .watchers $((OWN + 16))
	wait_until 30 status_is A .streams 1
	status_is A .connects "$connects"
}

# bats test_tags=long
@test "watches begin slowly, one after the other: a session that begins waits for them" {
	local i
	proxy_start
	kvd A --timeout 1s
	client A a1
	for i in {1..16}; do tell a1 watch "p$i/"; done
	expect a1 'synced p16/ '
	wait_until 30 status_is A .watchers $((OWN + 16))
	echo slow watch >mode
	etcd_kill
	wait_until 30 status_is A .etcd down
	etcd_start
	wait_until 30 status_is A .etcd up
	status_is A .watchers $((OWN + 16))
}

@test "something new is asked for all the time while etcd is slow: the session begins all the same" {
	local i
	head -c 16 /dev/zero | tr '\0' k >key
	chmod 600 key
	proxy_start
	echo slow >mode
	kvd A --timeout 5s --key-file key
	client A a1
	for i in {1..200}; do
		tell a1 get "k$i"
		sleep 0.05
		status_is A .etcd up && break
	done
	status_is A .etcd up
	rm mode
	expect a1 'delete k1 '
	expect a1 "delete k$i "
}

@test "an endpoint does not answer any more: a death is heard by way of the other one" {
	local first
	etcd_start
	DIRECT=$KV
	proxy_before_etcd proxy1 d1
	first=http://127.0.0.1:$PROXY_PORT
	proxy_before_etcd proxy2 d2
	KV=$first,http://127.0.0.1:$PROXY_PORT kvd A --timeout 3s
	KV=$DIRECT kvd B --timeout 3s
	client A a1
	client A a2
	client B b1
	ready a1
	ready a2
	ready b1
	kill -STOP "${PID[proxy1]}"
	murder a1
	wait_until 5 says b1 'died a1' # it is waited for once, and asked no second time
}

@test "after a burst of keys and prefixes a daemon looks at the parts of the job again" {
	two_hosts
	client A a1
	client A a2
	client B b1
	tell b1 watches q 3000
	tell b1 gets r 2000
	expect b1 'synced q2999 '
	wait_until 30 status_is B .streams 1
	murder b1
	client B b2
	ready b2
	wait_until 30 status_is B .watchers $OWN
	tell a1 fill other/ 200
	ready a1
	wait_until 30 status_is A .queue 0
	murder a2 # the last that B hears of
	expect b2 'died a2'
	[ "$(status_of B .keys)" -le 10 ]
}

# bats test_tags=long
@test "many prefixes of the same keys are no million keys" {
	local p='' i
	two_hosts
	client A a1
	client B b1
	ready b1
	for i in {1..120}; do p=${p}a; done
	tell a1 fill "$p" 8950
	ready a1
	wait_until 60 status_is A .queue 0
	for i in {1..120}; do tell b1 watch "${p:0:$i}"; done
	for i in {1..120}; do wait_until 120 says b1 "synced ${p:0:$i} "; done
	status_is B .keys 8950
	status_is B .error ''
	status_is B .connects 1
}
