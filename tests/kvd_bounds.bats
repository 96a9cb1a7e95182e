# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What shift-kvd does when clients, descriptors, keys or etcd are too many, too slow, or against it.

load kvd

storm() { # CLIENTS KEYS: how long an answer takes while they die and etcd is away
	head -c 16 /dev/zero | tr '\0' k >key
	chmod 600 key
	KV=http://127.0.0.1:1 kvd A --key-file key
	run -0 timeout --foreground 250 "$BUILDDIR/tests/kv/kv_storm" "$PWD/A/$JOB/kvd.sock" "$JOB" "$1" "$2" 1000
	echo "# $output" >&3
}

@test "64 clients with 1,000 keys die while etcd is down: answers come all the time" {
	storm 64 1000
}

# bats test_tags=long
@test "1,000 clients with 100 keys die while etcd is down: answers come all the time" {
	storm 1000 100
}

@test "a death that somebody wrote to etcd is none; a true one that somebody overwrote is put back" {
	local death
	two_hosts
	client A a1
	client A a2
	client B b1
	ready a1
	ready a2
	ready b1
	ctl put "/shift/v1/$JOB/dead/00000000000000a1" 1
	ctl put "/shift/v1/$JOB/dead/00000000000000a2" "$(printf '0%.0s' {1..32})"
	wait_until 30 status_is B .unproved_deaths 2
	client B b2 # one that comes later hears nothing either
	ready b2
	SHIFT_RUN_DIR=$PWD/B run -0 shift-kvd status --job "$JOB"
	expect_match '2 records of deaths were ignored'
	murder a2
	expect b1 'died a2'
	expect b2 'died a2'
	run ! grep -h '^died a1' a1.out b1.out b2.out
	death=$(ctl get --print-value-only "/shift/v1/$JOB/dead/00000000000000a2")
	[[ $death =~ ^[0-9a-f]{32}$ ]]
	ctl put "/shift/v1/$JOB/dead/00000000000000a2" gone
	put_back() { [ "$(ctl get --print-value-only "/shift/v1/$JOB/dead/00000000000000a2")" = "$death" ]; }
	wait_until 30 put_back
	# It counts for this process only.
	ctl put "/shift/v1/$JOB/dead/00000000000000b1" "$death"
	wait_until 30 status_is A .unproved_deaths 4
	run ! grep -h '^died b1' b2.out
}
