# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The page of shift-bench --html, from files that bench_results has invented.

load helper
load page

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	command -v gnuplot >/dev/null || skip "gnuplot is not installed"
	PATH=$BUILDDIR/tests/bench:$PATH
}

page() { # KIND [TEXT]: KIND.html
	bench_results "$1" "$1.json" ${2:+"$2"}
	shift-bench report "$1.json" --html "$1.html"
}

@test "pages of all commands: valid, self-contained, without scripts" {
	for kind in latency bandwidth verbs setup failover timeline training; do
		page "$kind"
		check_markup "$kind.html"
	done
}

@test "the figures of each command are there" {
	page latency
	grep -q 'id="ratios"' latency.html
	grep -q 'id="distributions"' latency.html
	grep -q 'no difference can be shown' latency.html
	grep -q 'id="machine"' latency.html
	page verbs
	grep -q 'id="bars"' verbs.html
	page bandwidth
	grep -q 'id="growth"' bandwidth.html
	page failover
	grep -q 'id="phases"' failover.html
	grep -q 'id="timelines"' failover.html
	grep -q '<li>4.00 s: fault, host a</li>' failover.html
	page training
	[ "$(sed -n '/id="progress"/,/id="ratios"/p' training.html | grep -o '<figure' | wc -l)" -eq 4 ]
	grep -qE '<li>without shift, [0-9.]+ s: restarted, host a</li>' training.html
	grep -qE '<li>with shift, [0-9.]+ s: failover, host a</li>' training.html
	grep -q 'without shift, no failure' training.html
}

@test "light and dark, paper, phones: variables for colours, no widths that overflow" {
	page latency
	grep -q 'prefers-color-scheme:dark' latency.html
	grep -q '@media print' latency.html
	grep -q 'name="viewport"' latency.html
	for name in $(grep -o 'var(--[a-z0-9]*)' latency.html | sort -u | sed 's/var(\(.*\))/\1/'); do
		[ "$(grep -o -- "$name:#" latency.html | wc -l)" -eq 2 ] # once for either
	done
	run ! grep -E '<(svg|table|div|td|th|figure)[^>]* (width|style)=' latency.html
	run ! grep -oE '[;{](min-)?width:[0-9]{3,}px' latency.html
}

@test "every figure has a title and a description" {
	page latency
	[ "$(grep -o '<svg role="img"' latency.html | wc -l)" -eq "$(grep -o '</title><desc ' latency.html | wc -l)" ]
}

@test "text of a hostile file is text, not markup, and no command of gnuplot" {
	hostile=$'\'; system("touch hit"); "</title><script>alert(1)</script><img src=x onerror=x>\n`touch hit` S0S %s @\\'
	for kind in latency verbs failover timeline training; do
		page "$kind" "$hostile"
		check_markup "$kind.html" >tags
		run ! grep -wE 'script|img' tags
		grep -q '&lt;script&gt;alert(1)' "$kind.html"
	done
	[ ! -e hit ]
}

@test "a file whose members are of other kinds is drawn without them" {
	bench_results failover a.json
	jq '.cases[0] = 7 | .cases[1].samples = "x" | .cases[1].results = [3] | .cases[2].metrics = {"a": [1]}
		| .cases[3].samples[3].detail = {series: [{values: [null, "x", 1e300]}], marks: 4, phases_us: [1, "x"],
			distribution: {bins: [[1], 2, [-1, -1], [1e308, 1e308]]}, steps: [[1], 2, ["x", 1], [1e308, -1]]}
		| .machine = [] | .testbed = 1 | .confidence = "x" | .state = 5' a.json >b.json
	shift-bench report b.json --html b.html
	check_markup b.html
	jq '.cases = []' a.json >c.json
	shift-bench report c.json --html c.html
	grep -q 'Nothing was measured' c.html
	check_markup c.html
}

@test "cases without results get them, and a page that is not complete says so" {
	bench_results latency a.json
	jq 'del(.cases[].results) | .state = "interrupted"' a.json >b.json
	shift-bench report a.json --html a.html
	shift-bench report b.json --html b.html
	grep -q 'was interrupted' b.html
	diff <(sed -n '/id="numbers"/,/id="environment"/p' a.html) <(sed -n '/id="numbers"/,/id="environment"/p' b.html)
}

@test "without gnuplot: one line and status 5, before anything is measured" {
	bench_results verbs a.json
	mkdir bin
	ln -s "$(command -v bash)" "$(command -v env)" bin
	bench=$(command -v shift-bench)
	PATH=$PWD/bin run "$bench" report a.json --html a.html
	expect_status 5
	expect_line 'gnuplot.* is missing; install it with: apt-get install gnuplot-nox'
	PATH=$PWD/bin run "$bench" latency --html a.html --testbed nowhere
	expect_status 5
	[ ! -e a.html ]
}

@test "what is not understood, a directory that is not there" {
	bench_results verbs a.json
	run shift-bench report a.json
	expect_status 2
	run shift-bench report a.json --html nowhere/a.html
	expect_status 1
	expect_line 'nowhere/a.html'
	[ -z "$(find /tmp -maxdepth 1 -name 'shift-bench.*' -newer a.json -user "$(id -un)")" ]
}
