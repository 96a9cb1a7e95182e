#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# tests/once-more hides nothing that fails, and says what failed at first.

setup() {
	once_more=$SRCDIR/tests/once-more
	path=${PATH//$BATS_LIBEXEC:/} # the bats within is another than the one around it
	cd "$BATS_TEST_TMPDIR" || return
	# Not @test here: bats would take these for tests of this file.
	sed 's/^TEST/@test/' >file.bats <<-'END'
		TEST "good" {
			echo run >>good
		}
		TEST "bad (twice) [x] \$y" {
			echo always
			false
		}
		TEST "bad* once: \"a|b\"" {
			[ -e mark ] || { touch mark; echo first time; false; }
		}
	END
}

again() { # COMMAND...: as ./check runs it
	run env -i PATH="$path" HOME="$HOME" SHIFT_ONCE_MORE="${once:-1}" "$once_more" "$@"
}

@test "of a bats file what failed is run again, and nothing else" {
	again bats --tap file.bats
	[ "$status" -ne 0 ]
	[[ $output = *'not ok 2 bad (twice) [x] $y'* ]]
	[[ $output = *'# only when run once more: bad* once: "a|b"'* ]]
	[[ $output = *'ok 3 bad* once: "a|b"'* && $output != *'not ok 3'* ]]
	[[ $output = *'# at first: first time'* ]]
	[ "$(wc -l <good)" -eq 1 ]
}

@test "a file of which all is good the second time is good" {
	sed -i '/always/,/false/d' file.bats
	again bats --tap file.bats
	[ "$status" -eq 0 ]
	[[ $output != *'not ok'* ]]
}

@test "a program that ends without its plan is run again whole" {
	printf '%s\n' 'echo 1..2; echo ok 1 a; [ -e mark ] || { touch mark; kill -9 $$; }; echo ok 2 b' >program
	again bash program
	[ "$status" -eq 0 ]
	[[ $output = *'# only when run once more: program'*'# at first: ok 1 a'*'ok 2 b' ]]
}

@test "a program that fails twice has failed, with its status" {
	again bash -c 'echo 1..1; echo not ok 1 a; exit 7'
	[ "$status" -eq 7 ]
	[[ $output != *'only when'* && $output = *$'\nnot ok 1 a' ]]
}

@test "a status alone is a failure, too" {
	again bash -c 'echo 1..1; echo ok 1 a; exit 3'
	[ "$status" -eq 3 ]
}

@test "without SHIFT_ONCE_MORE nothing is run again" {
	once=0 again bats --tap file.bats
	[ "$status" -ne 0 ]
	[[ $output = *'not ok 3'* && $output != *'at first'* ]]
}
