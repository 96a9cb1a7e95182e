# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Waiting, for tests and for scripts that are no tests.
# shellcheck shell=bash

# Polls until the command succeeds; the bound is generous, as machines differ by far.
wait_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || {
			echo "gave up waiting for: $*"
			return 1
		}
		sleep 0.05
	done
}
