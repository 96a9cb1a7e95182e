# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Shared by the tests on a testbed, whose name is $NAME. The testbed goes down after the file's last test.
# shellcheck shell=bash disable=SC2154  # before: set by the test

load ../helper

# In a file's setup_file. Guests see the build and the source.
guests_up() { # OPTIONS of shift-testbed up
	cd "$BUILDDIR" || return
	echo "$*" >"$BATS_FILE_TMPDIR/guests"
	shift-testbed up --name "$NAME" --lease 30m --share "$BUILDDIR" --share "$SRCDIR" "$@"
}

# A guest whose kernel hung or panicked in one test must not fail the tests after it, each after its own time.
guests_up_again() {
	local host
	for host in a b; do
		shift-testbed exec --name "$NAME" --timeout 10s "$host" -- true 2>"$BATS_TEST_TMPDIR/dead" && continue
		echo "# new guests: $(cat "$BATS_TEST_TMPDIR/dead")" >&3
		shift-testbed down --name "$NAME"
		# shellcheck disable=SC2046  # words without blanks
		guests_up $(cat "$BATS_FILE_TMPDIR/guests")
		return
	done
}

teardown_file() {
	shift-testbed down --name "$NAME"
}

setup() {
	cd "$BUILDDIR" || return
	guests_up_again
}

patience=120 # seconds for a command, from its start to its end

on() { # HOST COMMAND...
	local host=$1
	shift
	shift-testbed exec --name "$NAME" --timeout "${patience}s" "$host" -- "$@"
}

listening() { # at host b, on the port of perftest and rc_trace, 18515
	on b grep -q ':4853 00000000:0000 0A' /proc/net/tcp
}

netdev() { # HOST RAIL
	shift-testbed status --name "$NAME" --json |
		jq -r ".testbeds[0].hosts[] | select(.name == \"$1\").rails[$2].netdev"
}

received_bytes() { # HOST RAIL
	on "$1" cat "/sys/class/net/$(netdev "$1" "$2")/statistics/rx_bytes"
}

flows() { # BYTES: has host b got as many more on rail 0 since it had $before?
	[ "$(received_bytes b 0)" -gt $((before + $1)) ]
}

carrier() { # HOST RAIL VALUE: is it so?
	[ "$(on "$1" cat "/sys/class/net/$(netdev "$1" "$2")/carrier")" = "$3" ]
}
