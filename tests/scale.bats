# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What many connections of one process cost (tests/bench/scale), and one of them that moves (tests/bench/moved-path), on a libibverbs whose devices are memory.

load helper

needs_unsanitized() {
	! ldd "$BUILDDIR/lib/.libs/libshift.so" | grep -qE '^\s*lib[at]san' || skip "not with a sanitizer"
}

scale() {
	"$SRCDIR/tests/bench/scale" "$@"
}

@test "200 connections: their memory, an idle process and the rendezvous stay within bounds" {
	needs_unsanitized
	run scale --check
	[ "$status" -ne 77 ] || skip "$output"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "a queue pair that moves costs its neighbours no lock of their own, and a message on a twin stays within bounds" {
	needs_unsanitized
	run "$SRCDIR/tests/bench/moved-path" --check
	[ "$status" -ne 77 ] || skip "$output"
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "100 connections whose NIC is lost move all" {
	needs_unsanitized
	run --separate-stderr "$SRCDIR/tests/bench/moved-path" --all 100
	[ "$status" -ne 77 ] || skip "$output"
	expect_status 0
	expect_match "^100 connections moved: "
}

@test "nothing is left of a measurement" {
	needs_unsanitized
	TMPDIR=$BATS_TEST_TMPDIR/tmp
	export TMPDIR
	mkdir "$TMPDIR"
	NULL_JOB=left-$$ run scale --connections 1 --idle 0
	[ "$status" -ne 77 ] || skip "$output"
	[ "$status" -eq 0 ]
	expect_match 'bytes resident per further connection'
	[ -z "$(ls "$TMPDIR")" ]
	run ! pgrep -f -- '--job left-[0-9]+( |$)'
}

@test "bad usage of the measurement is status 2" {
	for bad in --connections=0 --connections=1001 --window=129 --idle=x word; do
		run "$BUILDDIR/tests/bench/scale_ends" $bad
		expect_status 2
	done
	run -0 "$BUILDDIR/tests/bench/scale_ends" --help
	expect_match '--connections N'
}
