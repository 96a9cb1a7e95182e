# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What a reviewer should not have to look for.

load helper

sources() { # PATTERN: our own files of that name
	find "$SRCDIR" \( -path "$SRCDIR/.git" -o -path "$SRCDIR/build*" -o -path "$SRCDIR/m4" -o \
		-path "$SRCDIR/shift-[0-9]*" -o -path "$SRCDIR/autom4te.cache" \) -prune -o \
		-name "$1" -not -name config.h -print
	[ "$1" != '*.sh' ] || echo "$SRCDIR/build-aux/setup.sh"
}

@test "every source file carries the licence line" {
	for pattern in '*.c' '*.h' '*.sh' '*.bats' '*.bash' '*.mk' '*.am' '*.pml'; do
		sources "$pattern"
	done | while read -r file; do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB' || {
			echo "$file"
			false
		}
	done
}

@test "C is formatted by .clang-format" {
	command -v clang-format >/dev/null || skip "clang-format is not installed"
	{ sources '*.c'; sources '*.h'; } | xargs clang-format --style=file --dry-run --Werror
}

@test "headers stand on their own" {
	sources '*.h' | while read -r header; do
		${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -DHAVE_CONFIG_H -I"$BUILDDIR" -I"$SRCDIR" -fsyntax-only \
			-x c "$header"
	done
}

@test "no C file is longer than 1,000 lines" {
	{ sources '*.c'; sources '*.h'; } | xargs wc -l | awk '$2 != "total" && $1 > 1000 {print; n++} END {exit n > 0}'
}

@test "shell scripts pass shellcheck" {
	command -v shellcheck >/dev/null || skip "shellcheck is not installed"
	{
		sources '*.sh'
		sources '*.bash'
		printf '%s\n' "$SRCDIR"/demo "$SRCDIR"/check "$SRCDIR"/.ci/run "$SRCDIR"/tests/testbed/cycles "$SRCDIR"/tests/testbed/survive-matrix \
			"$SRCDIR"/tests/testbed/inject-undone "$SRCDIR"/tests/testbed/inject-long \
			"$SRCDIR"/tests/sim/traces/record "$SRCDIR"/tests/model/run "$SRCDIR"/tests/bench/datapath
	} | xargs shellcheck -x -P "$SRCDIR"
}

@test "manual pages pass mandoc's lint" {
	mandoc -T lint -W warning "$SRCDIR"/man/*.[1-9]
}
