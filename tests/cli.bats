# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The command line of every program, with no testbed up.

load helper

setup() {
	export SHIFT_TESTBED_DIR=$BATS_TEST_TMPDIR/state
}

commands() {
	for program in "$BUILDDIR"/*/shift-* "$BUILDDIR"/cmd/*/shift-*; do
		case ${program##*/} in
		*.o | *-agent | *-image | *-guest | *-ssh) continue ;;
		esac
		if [ -f "$program" ] && [ -x "$program" ]; then echo "${program##*/}"; fi
	done
}

subcommands() { # PROGRAM: the words of the list in its help
	"$1" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

long_options() {
	grep -oE -- '--[a-z][a-z-]+' | sort -u
}

@test "every command has --help and --version on standard output" {
	[ -n "$(commands)" ]
	for c in $(commands); do
		run -0 --separate-stderr "$c" --help
		[[ $output == "usage: $c"* ]] && [ -z "$stderr" ]
		run -0 --separate-stderr "$c" --version
		[[ $output =~ ^$c\ [0-9.]+$ ]] && [ -z "$stderr" ]
	done
}

@test "every subcommand has --help" {
	for c in $(commands); do
		for s in $(subcommands "$c"); do
			run -0 "$c" "$s" --help
			[[ ${lines[0]} == "usage: $c $s"* ]]
		done
	done
}

@test "help and manual page name the same options and commands" {
	for c in $(commands); do
		page=$SRCDIR/man/$c.1
		subs=$(subcommands "$c")
		for s in '' $subs; do "$c" $s --help; done | long_options >"$BATS_TEST_TMPDIR/help"
		mandoc -T ascii "$page" | col -b | long_options >"$BATS_TEST_TMPDIR/page"
		diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
		sed -n 's/^\.It Cm \([a-z-]*\).*/\1/p' "$page" | sort -u >"$BATS_TEST_TMPDIR/page"
		subcommands "$c" | sort | diff - "$BATS_TEST_TMPDIR/page"
	done
}

@test "no command, or one that there is not" {
	run shift-testbed
	expect_status 2
	expect_line '^shift-testbed: a command is needed'
	run shift-testbed destroy
	expect_status 2
	expect_line '^shift-testbed: no command destroy'
}

@test "up refuses what it does not understand, and leaves nothing behind" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-testbed up $arguments
		expect_status 2
		expect_line '^shift-testbed: '
	done <<-END
		--layout ring
		--rails 0
		--rails 9
		--rails two
		--kernel 5.10
		--accel fast
		--memory 12
		--lease soon
		--lease 0
		--lease -5m
		--name ../x
		--name $(printf 'x%.0s' {1..40})
		--share /nowhere
		--ssh onlyone
		--ssh a,a
		--ssh a,-oProxyCommand=x
		--config x
		--no-such-option
		something
	END
	[ ! -e "$SHIFT_TESTBED_DIR" ]
}

@test "nothing is up: status, and what needs a testbed" {
	run -0 shift-testbed status
	expect_line '^no testbed is up$'
	run -0 shift-testbed status --json
	[ "$(jq '.testbeds | length' <<<"$output")" -eq 0 ]
	for c in "status --name x" "link a 0 down" "console a" down "cp a:x y"; do
		# shellcheck disable=SC2086
		run shift-testbed $c
		expect_status 3
		expect_line '^shift-testbed: no testbed .* is up; start one with: shift-testbed up'
	done
}

@test "exec on a testbed that is down: 125 and one line" {
	run shift-testbed exec a -- true
	expect_status 125
	expect_line '^shift-testbed: no testbed default is up; start one with: shift-testbed up$'
}

@test "exec keeps 125 for its own mistakes" {
	for c in "exec" "exec a" "exec a --" "exec --timeout soon a -- true" \
		"exec --env =x a -- true" "exec --env NOT_SET_HERE a -- true" "exec --bad a -- true"; do
		# shellcheck disable=SC2086
		run shift-testbed $c
		expect_status 125
		expect_line '^shift-testbed: '
	done
}

@test "link refuses what is no link" {
	for c in "link" "link a" "link a 0" "link a 0 sideways" "link a one down" "link a -1 down"; do
		# shellcheck disable=SC2086
		run shift-testbed $c
		expect_status 2
		expect_line '^shift-testbed: '
	done
}

@test "qemu missing: the apt line" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	PATH=$BATS_TEST_TMPDIR/bin run "$BUILDDIR/testbed/shift-testbed" up
	expect_status 5
	expect_line 'qemu-system-x86_64 is missing; install it with: apt-get install qemu-system-x86$'
	[ ! -e "$SHIFT_TESTBED_DIR" ]
}

@test "a kernel package that apt does not have: the apt line" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	for tool in qemu-system-x86_64 cpio; do
		printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/bin/$tool"
	done
	printf '#!/bin/sh\necho linux-image-6.1.0-9-cloud-amd64\n' >"$BATS_TEST_TMPDIR/bin/apt-cache"
	chmod +x "$BATS_TEST_TMPDIR"/bin/*
	PATH=$BATS_TEST_TMPDIR/bin:$PATH SHIFT_CACHE=$BATS_TEST_TMPDIR/cache run shift-testbed up
	expect_status 5
	expect_line 'no stock kernel 6.1 among apt.s packages; try: apt-get update'
	[ ! -e "$SHIFT_TESTBED_DIR" ]
	[ -z "$(ls -A "$BATS_TEST_TMPDIR/cache")" ]
}

@test "memory is short: one line with the figures" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s /bin/true "$BATS_TEST_TMPDIR/bin/qemu-system-x86_64"
	ln -s /bin/true "$BATS_TEST_TMPDIR/bin/cpio"
	printf 'MemTotal: 1024000 kB\nMemAvailable: 512000 kB\n' >"$BATS_TEST_TMPDIR/meminfo"
	unshare -rm true || skip "user namespaces are not allowed here"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run unshare -rm sh -c \
		'mount --bind "$1" /proc/meminfo && exec shift-testbed up' sh "$BATS_TEST_TMPDIR/meminfo"
	expect_status 6
	expect_line 'not enough memory: 500 MiB are available, 1200 are needed$'
	[ ! -e "$SHIFT_TESTBED_DIR" ]
}

@test "configuration of real machines: errors name file and line" {
	conf=$BATS_TEST_TMPDIR/testbed.conf
	run shift-testbed up --ssh x,y --config "$conf"
	expect_status 2
	expect_line 'testbed.conf: No such file'
	printf '[x]\naddress = 127.0.0.1\nsudo = perhaps\n' >"$conf"
	run shift-testbed up --ssh x,y --config "$conf"
	expect_status 2
	expect_line 'testbed.conf:3: not understood: sudo = perhaps$'
	printf '[x]\nadress = 127.0.0.1\n' >"$conf"
	run shift-testbed up --ssh x,y --config "$conf"
	expect_status 2
	expect_line 'testbed.conf:2: not understood: adress = 127.0.0.1$'
	[ ! -e "$SHIFT_TESTBED_DIR" ]
}
