# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Helpers of all .bats files. Run through `make check`, or by hand from the build directory:
#   SRCDIR=path/to/source BUILDDIR=$PWD bats path/to/source/tests/cli.bats
# shellcheck shell=bash disable=SC2154  # status, output, lines: set by bats

bats_require_minimum_version 1.5.0

: "${SRCDIR:=$(cd "$BATS_TEST_DIRNAME" && git rev-parse --show-toplevel)}"
: "${BUILDDIR:=$SRCDIR}"
SRCDIR=$(cd "$SRCDIR" && pwd)
BUILDDIR=$(cd "$BUILDDIR" && pwd)
PATH=$BUILDDIR/testbed:$BUILDDIR/kv:$BUILDDIR/cmd/shift-ctl:$BUILDDIR/cmd/shift-run:$BUILDDIR/cmd/shift-inject:$BUILDDIR/cmd/shift-bench:$BUILDDIR/cmd/shift-diag:$BUILDDIR/tests/clients:$PATH
export PATH SRCDIR BUILDDIR

# Fails with the output that did not match.
expect_status() { # STATUS, after `run`
	[ "$status" -eq "$1" ] || {
		echo "exit status $status, not $1; output: $output"
		return 1
	}
}

expect_line() { # REGEX: the output is one line, and like this
	if [ "${#lines[@]}" -ne 1 ] || ! [[ $output =~ $1 ]]; then
		echo "not one line like '$1': $output"
		return 1
	fi
}

expect_match() { # REGEX
	[[ $output =~ $1 ]] || {
		echo "nothing like '$1' in: $output"
		return 1
	}
}

# shellcheck source=tests/wait.bash
. "$SRCDIR/tests/wait.bash"
