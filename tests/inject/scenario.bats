# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Scenarios: read, shown and played on this host.

load inject

@test "a scenario with a mistake: status 2, file, line and field" {
	wrong() { # LINE PATTERN CONTENT
		printf '%s\n' "$3" >x.json
		run shift-inject run x.json
		expect_status 2
		expect_line "^shift-inject: x.json:$1: .*$2"
	}
	event='{"at": "1s", "fault": "down", "nic": "lo", "for": "1s"}'
	wrong 2 'not JSON' '{"timeline":
		[}'
	wrong 1 'timeline. is needed' '{}'
	wrong 2 'nmae: not a field' '{"timeline": ['"$event"'],
		"nmae": "x"}'
	wrong 3 'timeline\[1\]: .at. is needed' '{"timeline": [
		'"$event"',
		{"fault": "down", "nic": "lo", "for": "1s"}]}'
	wrong 3 'timeline\[1\].at: before the one above' '{"timeline": [
		'"$event"',
		{"at": "0.5s", "fault": "down", "nic": "lo", "for": "1s"}]}'
	wrong 1 'timeline\[0\].fault: no such fault' '{"timeline": [{"at": "1s", "fault": "dwon"}]}'
	wrong 1 'timeline\[0\]: .for. is needed' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo"}]}'
	wrong 3 'timeline\[0\].rate: loss: --rate 200%' '{"timeline":
		[
		{"at": "1s", "fault": "loss", "nic": "lo", "for": "1s", "rate": "200%"}]}'
	# The line is that of the value.
	wrong 4 'timeline\[1\].rate: loss: --rate 0.0.1%' '{"timeline": [
		{"at": "1s", "fault": "mtu", "size": 1400, "nic": "lo", "for": "1s"},
		{"at": "1s", "fault": "loss", "nic": "lo",
		"rate": "0.0.1%",
		"for": "1s"}]}'
	wrong 3 'timeline\[0\].size: drop-larger 0: not a size' '{"timeline": [
		{"at": "1s", "fault": "drop-larger",
		"size": 0,
		"nic": "lo", "for": "1s"}]}'
	wrong 2 'timeline\[0\]: loss: --rate is needed' '{"timeline": [
		{"at": "1s", "fault": "loss",
		"nic": "lo", "for": "1s"}]}'
	# Abbreviated options are refused, also those of options that a scenario may not have.
	for field in dr unt hel rate; do
		wrong 2 "timeline\[0\].$field: not an option" '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s",
			"'$field'": true}]}'
	done
	wrong 2 'timeline\[0\].process: not an option' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s",
		"process": "x"}]}'
	wrong 1 'timeline\[0\].dry-run: has no place' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s", "dry-run": true}]}'
	for time in 1.2.3s . -1s 1e3 0x5s; do
		wrong 2 'timeline\[0\].at: not a time' '{"timeline":
			[{"at": "'$time'", "fault": "down", "nic": "lo", "for": "1s"}]}'
		wrong 2 'timeline\[0\].for: down: --for' '{"timeline":
			[{"at": "1s", "fault": "down", "nic": "lo", "for": "'$time'"}]}'
	done
	wrong 2 'nmae: not a field' $'\xef\xbb\xbf{"timeline": ['"$event"'],
		"nmae": "x"}'
	wrong 1 'timeline\[0\].host: not a name' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s", "host": "-x"}]}'
	wrong 3 'expect\[1\]: none of' '{"timeline": ['"$event"'],
		"expect": ["no-error",
			"no-fun"]}'
	run shift-inject run nowhere.json
	expect_status 2
	expect_line 'nowhere.json: No such file'
}

@test "numbers of a scenario are as they were written" {
	for number in 12345678901 9007199254740992 0; do
		echo '{"timeline": [{"at": "0.5", "fault": "up", "nic": "lo", "for": 0.25, "seed": '$number'}]}' >x.json
		run -0 shift-inject run --dry-run x.json
		expect_line "up --nic=lo --for=0.25 --seed=$number\$"
	done
}

@test "the scenarios that are shipped are right, and at least twelve" {
	n=0
	for file in "$SRCDIR"/faultinject/scenarios/*.json; do
		run -0 shift-inject run --dry-run "$file"
		expect_match 'expected: no-error'
		[ "$(jq -r .name "$file")" = "$(basename "$file" .json)" ]
		jq -e '.about and .without' "$file"
		n=$((n + 1))
	done
	[ $n -ge 12 ]
}

@test "random: the same seed, the same faults; what it prints can be run" {
	shift-inject random --seed 7 --minutes 5 --print >one
	shift-inject random --seed 7 --minutes 5 --print >two
	shift-inject random --seed 8 --minutes 5 --print >three
	cmp one two
	! cmp -s one three
	shift-inject run --dry-run one
	[ "$(jq '.timeline | length' one)" -gt 20 ]
}

@test "a scenario on this host: faults in time, undone, status 0; 1 if one fails" {
	playing() {
		state() { ip -br link show | sort; ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null || true; }
		state >before
		echo '{"timeline": [{"at": "0s", "fault": "down", "nic": "v0", "for": "300ms"},
			{"at": "2s", "fault": "flap", "period": "100ms", "count": 2, "nic": "v0"}]}' >x.json
		shift-inject run x.json --json >result
		same_as before
		jq -e '.ok and ([.timeline[].status] == [0, 0])' result
		echo '{"timeline": [{"at": "0s", "fault": "down", "nic": "v0", "for": "60s"},
			{"at": "200ms", "fault": "down", "nic": "v0", "for": "60s"}]}' >x.json
		shift-inject run x.json && exit 1 || [ $? -eq 1 ]
		same_as before
		sed -i "s/, *$/]}/; 2d" x.json
		shift-inject run x.json &
		begun() { ls "$SHIFT_INJECT_DIR"/down-*.json; }
		wait_until 30 begun
		kill $!
		wait $! && exit 1 || [ $? -eq 1 ]
		same_as before
	}
	run in_netns playing
	expect_status 0
}

@test "a fault that is not over when the timeline says so holds up what comes behind it" {
	sleep 60 3>&- &
	sleeper=$!
	stop='"fault": "sigstop", "pid": '$sleeper', "for": "500ms"}'
	echo '{"timeline": [{"at": "0s", '$stop', {"at": "500ms", '$stop', {"at": "1s", '$stop']}' >x.json
	run -0 --separate-stderr shift-inject run x.json --json
	jq -e '.ok and ([.timeline[].status] == [0, 0, 0]) and .seconds > 1.5' <<<"$output"
	# Two that overlap on the timeline still exclude each other.
	sed -i 's/"1s"/"700ms"/' x.json
	run -1 shift-inject run x.json
	kill -KILL $sleeper
	expect_match 'excludes sigstop'
}

@test "a host where shift-ctl fails is not one without protected processes" {
	export SHIFT_RUN_DIR=$PWD/run SHIFT_TESTBED_DIR=$PWD/none
	mkdir bin
	# The host "broken" never answers, "late" only at the beginning.
	cat >bin/ssh <<-'END'
		#!/bin/sh
		while [ "$1" != -- ]; do shift; done
		case $2 in
		broken) exit 255 ;;
		late) [ ! -e was-asked ] || exit 255; touch was-asked ;;
		esac
		shift 2
		exec sh -c "$*"
	END
	chmod +x bin/ssh
	PATH=$PWD/bin:$PATH
	# A protected process here makes all expectations hold.
	mkfifo in
	"$BUILDDIR/tests/stats/stats_live" j <in >out 3>&- &
	exec 9>in
	echo add 17 >&9
	wait_until 30 grep -q done out
	for words in 'broken beginning' 'late end'; do
		echo '{"hosts": ["one", "'"${words% *}"'"], "expect": ["no-error", "no-switch"],
			"timeline": [{"at": "0s", "fault": "cpu-stress", "cpus": 1, "for": "50ms"}]}' >x.json
		run --separate-stderr shift-inject run x.json --json 9>&-
		expect_status 1
		# shellcheck disable=SC2016
		jq -e --arg found "not known: shift-ctl failed on host ${words% *} at the ${words#* }" \
			'[.expect[] | .ok == false and .found == $found] | all' <<<"$output"
	done
	sed 's/"broken"\|"late"/"two"/' x.json >y.json
	run shift-inject run y.json 9>&-
	expect_status 0
	exec 9>&-
	wait $!
}
