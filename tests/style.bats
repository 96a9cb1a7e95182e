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
	local mpi
	read -ra mpi <<<"$(pkg-config --cflags ompi-c 2>/dev/null || pkg-config --cflags mpich 2>/dev/null)"
	sources '*.h' | while read -r header; do
		[[ $header != */collectives/mpi_* || ${#mpi[@]} -gt 0 ]] || continue # there is no mpi.h here
		${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -DHAVE_CONFIG_H -I"$BUILDDIR" -I"$SRCDIR" "${mpi[@]}" -fsyntax-only \
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
			"$SRCDIR"/tests/sim/traces/record "$SRCDIR"/tests/mutants/preloaded "$SRCDIR"/tests/mutants/protected "$SRCDIR"/tests/model/run "$SRCDIR"/tests/bench/datapath "$SRCDIR"/tests/bench/scale "$SRCDIR"/tests/bench/moved-path
	} | xargs shellcheck -x -P "$SRCDIR"
}

@test "manual pages pass mandoc's lint" {
	mandoc -T lint -W warning "$SRCDIR"/man/*.[1-9]
}

references() { # PAGE: the pages of ours that it refers to, as NAME.SECTION
	grep -oE '^\.(It )?Xr shift[a-z-]* [1-9]|shift(-[a-z]+)?\([1-9]\)' "$1" |
		sed -E 's/.*Xr //; s/[( ]/./; s/\)//' | sort -u
}

@test "manual pages refer only to pages that exist" {
	for page in "$SRCDIR"/man/*.[1-9]; do
		references "$page" | while read -r name; do
			[ -e "$SRCDIR/man/$name" ] || {
				echo "${page##*/}: $name"
				false
			}
		done
	done
	references "$SRCDIR/man/shift.7" | grep -qx shift-run.1
	# Sources, scripts and documents too.
	{ sources '*.[ch]'; sources '*.md'; sources '*.bats'; echo "$SRCDIR/NEWS"; } | while read -r file; do
		references "$file" | while read -r name; do
			[ -e "$SRCDIR/man/$name" ] || {
				echo "$file: $name"
				false
			}
		done
	done
}

@test "every manual page is installed" {
	for page in "$SRCDIR"/man/*.[1-9]; do
		grep -qwF "man/${page##*/}" "$SRCDIR/man/local.mk"
	done
}

@test "shift(7) names every variable that the sources read or set" {
	for dir in lib kv cmd common testbed faultinject; do
		[ ! -d "$SRCDIR/$dir" ] || grep -rhoE --include='*.c' '"SHIFT_[A-Z_]+"' "$SRCDIR/$dir"
	done | tr -d '"' | sort -u >"$BATS_TEST_TMPDIR/variables"
	grep -qx SHIFT_JOB "$BATS_TEST_TMPDIR/variables"
	while read -r variable; do
		grep -qE "^\.It Ev (.* )?$variable( |\$)" "$SRCDIR/man/shift.7" || {
			echo "$variable"
			false
		}
	done <"$BATS_TEST_TMPDIR/variables"
}

reasons() { # why a connection is not protected: NAME "TEXT"
	sed -n '/define STATS_UNPROTECTED(X)/,/^$/s/^\tX(\([A-Z_]*\), \(".*"\)).*/\1 \2/p' "$SRCDIR/lib/stats/layout.h"
}

@test "shift(7) and README.md have every reason for being unprotected, as it is printed" {
	reasons | grep -q '^SRQ "'
	reasons | while read -r name text; do
		text=${text:1:-1}
		grep -qxF ".It Li $name Dq $text" "$SRCDIR/man/shift.7" || {
			echo "shift(7): $name: $text"
			false
		}
		[ "$name" = NONE ] || grep -qF "| \`$name\` | $text |" "$SRCDIR/README.md" || {
			echo "README.md: $name: $text"
			false
		}
	done
}

names_of() { # TABLE: the names of lib/core/conn.h's SHIFT_STATES or SHIFT_REASONS
	sed -n "/define $1(X)/,/^\$/s/^\tX(\([A-Z_]*\), .*/\1/p" "$SRCDIR/lib/core/conn.h"
}

@test "shift-ctl(1) names every state and every reason that it shows" {
	names_of SHIFT_STATES | grep -qx QUARANTINE
	names_of SHIFT_REASONS | grep -qx LINK_DOWN
	{ names_of SHIFT_STATES; names_of SHIFT_REASONS; } | while read -r name; do
		grep -qE "^\.It Li (.* )?$name( |\$)" "$SRCDIR/man/shift-ctl.1" || {
			echo "$name"
			false
		}
	done
}

@test "links among the documents lead somewhere" {
	sources '*.md' | while read -r file; do
		grep -oE '\]\([^)#:]+' "$file" | sed 's/^](//' | while read -r link; do
			[ -e "${file%/*}/$link" ] || {
				echo "$file: $link"
				false
			}
		done
	done
}

@test "HACKING.md is short" {
	[ "$(wc -c <"$SRCDIR/HACKING.md")" -le 8192 ]
}

@test "a room of lib/ includes only rooms below it" {
	"$SRCDIR/tests/layout.py" includes "$SRCDIR"
}

# A copy of the floor plan in which something is planted.
plant() { # TEXT FILE
	cd "$BATS_TEST_TMPDIR"
	mkdir plan
	cp -r "$SRCDIR/lib" "$SRCDIR/doc" "$SRCDIR/kv" "$SRCDIR/cmd" plan
	chmod -R u+w plan
	echo "$1" >>"plan/$2"
}

@test "an include against the order of the rooms is found" {
	plant '#  include <lib/nic/../session/job.h>' lib/nic/nic.c
	run "$SRCDIR/tests/layout.py" includes plan
	[ "$status" -eq 1 ]
	[ "$output" = 'lib/nic/nic.c includes lib/nic/../session/job.h: session is above nic' ]
}

@test "objects of a room call only rooms below it, and no large circle of files" {
	"$SRCDIR/tests/layout.py" calls "$SRCDIR" "$BUILDDIR"
}

@test "a call against the order of the rooms is found" {
	local source
	cd "$BATS_TEST_TMPDIR"
	mkdir build
	cp -r "$BUILDDIR/lib" build
	chmod -R u+w build
	echo 'void rendezvous_wake(void) __attribute__((weak)); void table_up(void) { rendezvous_wake(); }' >up.c
	source=build/lib/base/.libs/libshiftrooms_la-table.o
	${CC:-gcc} -c up.c -o "$source"
	run "$SRCDIR/tests/layout.py" calls "$SRCDIR" build
	[ "$status" -eq 1 ]
	[[ $output = *'lib/base/table.c takes rendezvous_wake of lib/session/rendezvous.c: session is above base'* ]]
}

@test "functions of lib/ have a noun, and no name stands twice" {
	"$SRCDIR/tests/layout.py" names "$SRCDIR"
}

@test "a name that stands twice is found" {
	plant 'static void slot_find(void)
{
}' lib/nic/nic.c
	run "$SRCDIR/tests/layout.py" names plan
	[ "$status" -eq 1 ]
	[ "$output" = 'slot_find() stands in lib/base/table.c and lib/nic/nic.c' ]
}
