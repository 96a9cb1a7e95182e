# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Shared by the tests of shift-inject on this machine: a network namespace of the test's own, the state that a fault may
# change there, and the ways in which a fault ends.
# shellcheck shell=bash disable=SC2016,SC2046,SC2086  # code for another shell; words and numbers that are to be split

load ../helper

setup() {
	export SHIFT_INJECT_DIR=$BATS_TEST_TMPDIR/journals
	PATH=$BUILDDIR/cmd/shift-inject:$PATH
	unset SSH_CONNECTION
	cd "$BATS_TEST_TMPDIR" || return
}

# Runs the function of that name, the rest of the test, in a network namespace that has only lo and a pair of
# interfaces, v0 and v1.
in_netns() { # FUNCTION
	unshare --net --mount true 2>/dev/null || skip "no network namespace without root"
	unshare --net --mount bash -c '
		set -eu
		mount -t sysfs sysfs /sys
		ip link add v0 type veth peer name v1
		for i in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 >$i; done
		ip link set lo up; ip link set v0 up; ip link set v1 up
		trap "jobs -p | xargs -r kill -9" EXIT
		. "$SRCDIR/tests/wait.bash"
		eval "$1"
		wait_until 30 calm
		'"$1" bash "$(declare -f)" 3>&-
}

# All that a fault may change, and must restore, without counters and ages.
state() {
	ip -d link show
	ip addr show | sed 's/valid_lft.*//'
	ip -4 route show table all
	ip -6 route show table all | sort # the kernel's own of several interfaces change places
	ip neigh show nud permanent
	ip neigh show proxy
	tc qdisc show
	for i in v0 v1; do
		tc filter show dev $i ingress
		tc filter show dev $i egress
	done
	ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null || true
}

# Links just set up take a moment.
calm() {
	! { ip link show; ip addr show; } | grep -qE 'NO-CARRIER|LOWERLAYERDOWN|tentative'
}

same_as() { # BEFORE: now, or soon (IPv6 addresses take a moment)
	state | diff "$1" - >"$1.diff"
}

# Every fault that this machine's kernel has, ended in every way, leaves no trace.
all_faults() {
	ip addr add 192.0.2.1/24 dev v0
	ip addr add 2001:db8::1/64 dev v0
	ip route add 198.51.100.0/24 via 192.0.2.9
	ip -6 route add 2001:db8:2::/64 via 2001:db8::9
	wait_until 30 calm
	state >before
	while read -r words; do
		for end in 'for' INT TERM HUP USR1 KILL; do
			if [ $end = for ]; then
				shift-inject $words --nic v0 --for 60ms || exit
			else
				rm -f said
				shift-inject $words --nic v0 >said &
				wait_until 30 test -s said || exit
				state >during
				! cmp -s before during || { echo "$words: nothing is different"; exit 1; }
				kill -$end $!
				status=0
				wait $! || status=$?
				[ $status -eq $([ $end = KILL ] && echo 137 || echo 0) ] || exit
			fi
			wait_until 30 same_as before || { echo "$words, $end"; cat before.diff; exit 1; }
		done
	done
}

# In a namespace: a fault comes and goes, and all is as before.
comes_and_goes() { # FAULT [ARGS...]
	state >before
	shift-inject "$@" --for 100ms || exit
	wait_until 30 same_as before || { cat before.diff; exit 1; }
}

# As if a fault's process and its guard were killed at once: the guard first, or it would undo, while its process is
# stopped, which would replace it.
kill_both() { # PID FAULT
	local guard
	guard=$(jq .guard "$SHIFT_INJECT_DIR/$2-$1.json")
	kill -STOP "$1"
	kill -9 $guard "$1"
	wait "$1" || true
	wait_until 30 dead $guard # it is no child of ours
}

dead() { # PID: gone, or a zombie
	! grep -qs '^State:.[^ZX]' "/proc/$1/status"
}
