# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Switches that stall in a phase (SHIFT_PAUSE, by libshift-hooks.so), and faults meanwhile. For pause.bats and
# survive-matrix; survive.bash comes first.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154  # code for the guests' shells; variables of survive.bash

# --- the points -----------------------------------------------------------------------------------

# For the next pair: at these hosts (a, b, ab) each QP stalls when it first comes to each of these phases, until the host
# has a file /tmp/go.PHASE.
pauses() { # HOSTS PHASE...
	pause_hosts=$1
	shift
	pause_phases=$*
	host_env=([a]='' [b]='')
	[[ $pause_hosts != *a* ]] || host_env[a]=SHIFT_PAUSE=$(points)
	[[ $pause_hosts != *b* ]] || host_env[b]=SHIFT_PAUSE=$(points)
}

points() {
	local phase list=''
	for phase in $pause_phases; do list+=,$phase:/tmp/go.$phase; done
	echo "${list#,}"
}

stands_still() { # PHASE: does a QP of either host?
	grep -q "pause point $1\$" "$out"/[ab].err
}

stop_all() { # nothing goes on by itself
	on a sh -c 'rm -f /tmp/go.*' && on b sh -c 'rm -f /tmp/go.*'
}

go_on() { # PHASE
	on a touch "/tmp/go.$1" && on b touch "/tmp/go.$1"
}

# --- rail 0 comes back during a switch ------------------------------------------------------------

# Courses for survives. The fault is mended when the switch that it causes stalls in the first of the phases; in each of
# the others it comes and goes once more.
mended_on_the_way() { # FAULT
	local phase
	carries a 0 && wait_until 20 met_all && stop_all && sleep 1 && break_it "$1" || return
	for phase in $pause_phases; do
		wait_until 30 stands_still "$phase" || return
		step "stands still: $phase"
		[[ $pause_phases = "$phase"* ]] || break_it "$1" || return
		sleep 0.3 # time for link events; they are not waited for, as they may make no difference
		mend_it "$1" && sleep 0.3 && go_on "$phase" || return
	done
	step 'on its way'
	wait_until 60 home && step home && carries a 0
}

# The phases are those of the fail-back, during which the fault is back.
broken_on_the_way_home() { # FAULT
	local phase
	carries a 0 && wait_until 20 met_all && stop_all && sleep 1 && break_it "$1" && carries a 1 || return
	mend_it "$1"
	for phase in $pause_phases; do
		wait_until 30 stands_still "$phase" || return
		step "stands still: $phase"
		break_it "$1" && sleep 0.3 && go_on "$phase" && sleep 0.3 && mend_it "$1" || return
	done
	step 'on its way'
	wait_until 60 home && step home && carries a 0
}

# Both rails of b go down, and rail 0 comes up first: straight back to it, not over rail 1.
dark_on_the_way() {
	carries a 0 && wait_until 20 met_all && stop_all && sleep 1 || return
	on b sh -c 'ip link set eth2 down; ip link set eth1 down'
	wait_until 30 stands_still wait && step 'stands still: wait' && sleep 0.3 || return
	on b ip link set eth1 up && sleep 0.3 && go_on wait && wait_until 30 went_to 0 >/dev/null || return
	step home
	on b ip link set eth2 up && carries a 0
}

step() { # WHAT: a step that is reached, for the log
	echo "$(date +%T.%1N) $1"
}

# The program gets through with its results right, however long its switch takes and wherever it stalls.
survives_pause() { # FAULT HOSTS "PHASE..." PROGRAM OPTIONS...
	local fault=$1 library=libshift-hooks.so course=mended_on_the_way
	local over=1
	case "$fault $3" in
	dark*) course=dark_on_the_way over=0 ;;
	*prepare | *drain) course=broken_on_the_way_home ;;
	esac
	# shellcheck disable=SC2086
	pauses "$2" $3
	shift 3
	survives "$fault" "$@"
}

# --- kill -9 during a switch ----------------------------------------------------------------------

# Jobs by shift-run with nothing else set up: the meeting point is on b.
give_up_s=15 # on a busy machine seconds pass between the pause and the kill

# shift-run with libshift-hooks.so. $run: a directory that both hosts see.
run_tree() { # DIRECTORY
	run=$1
	mkdir -p "$run/cmd/shift-run" "$run/kv" "$run/lib/.libs" &&
		cp "$BUILDDIR/cmd/shift-run/shift-run" "$run/cmd/shift-run/" &&
		cp "$BUILDDIR/kv/shift-kvd" "$run/kv/" &&
		cp "$BUILDDIR/lib/.libs/libshift-hooks.so" "$run/lib/.libs/libshift.so"
}

kill_9() { # kvd, etcd, or the program at host a or b
	local host=$1
	case $1 in
	kvd) # not the one that looks after etcd
		on a pkill -KILL -f '^shift-kvd --kv' && on b pkill -KILL -f '^shift-kvd --kv' ;;
	etcd) on b pkill -KILL -x etcd ;;
	*) on "$host" pkill -KILL -x "$program" ;;
	esac
}

# Of the job: processes, programs and shared memory at a host; files and sockets but crash records.
processes() { # HOST
	on "$1" pgrep -fl -- "$job" || true
	on "$1" sh -c 'ps -eo comm= | grep -xE "ib_[a-z]+_(bw|lat)"; ls -A /dev/shm; true'
}

files() { # HOST
	on "$1" sh -c 'find "/run/shift/$0" \( -type f -o -type s \) 2>/dev/null | grep -v /crash/; true' "$job"
}

nothing_left() { # FUNCTION
	[ -z "$($1 a; $1 b)" ]
}

# The switches of a job stall in a phase at both hosts, and the victims are killed. If both ends of the program live,
# it goes on to its end, and fails back. Else the other end gets an error: at once, during the pause, if a shift-kvd and
# etcd live to report the death; otherwise a little after the give-up time. And nothing is left, except after a killed
# shift-kvd: its socket, and files that it would have made crash records of, stay until the job's next shift-kvd.
# The fault leaves the neighbour's address known: else soft-RoCE (6.1) keeps an ending process waiting for what it has
# not sent until the link is back, or panics.
killed_in() { # PHASE "VICTIM..." PROGRAM OPTIONS...
	local phase=$1 victims=$2 victim fault=hole:b since host job=kill-$RANDOM
	local how_long=(-D 20) # in a slow guest the fault comes after ten
	local told_s=11 # by shift-kvd, at once
	local shift_run=("$run/cmd/shift-run/shift-run" --kv start@b --job "$job")
	shift 2
	[[ $victims != *[ab] ]] || how_long=(-n 1000000) # only an error ends it
	pauses ab "$phase"
	prefix=(env "SHIFT_PAUSE=$(points)" "${shift_run[@]}" --give-up "${give_up_s}s" --log-level debug)
	host_env=()
	start "$@" "${how_long[@]}" && wait_until 60 met_all && carries a 0 && stop_all && break_it "$fault" &&
		wait_until 30 stands_still "$phase" && step "stands still: $phase" || return
	for victim in $victims; do
		kill_9 "$victim" || return
	done
	since=$SECONDS
	# No process is left to report the death: the give-up time decides, which is checked when the pause is over.
	[[ $victims != *' '[ab] ]] || { told_s=$((give_up_s + 5)) && go_on "$phase"; } || return
	case $victims in
	*[ab]) wait_until $told_s error_told && step 'error' && mend_it "$fault" && finish &&
		[ "$client_status" -ne 0 ] && [ "$server_status" -ne 0 ] ;;
	*) sleep 0.3 && mend_it "$fault" && go_on "$phase" && finish &&
		[ "$client_status $server_status" = '0 0' ] && went_to 1 && all_on 0 ;;
	esac || { failed "kill $victims: $phase"; return 1; }
	wait_until 120 nothing_left processes || { processes a; processes b; return 1; }
	if [[ $victims = *kvd* ]]; then
		for host in b a; do
			on $host "${shift_run[@]}" -- true || return
		done
	fi
	wait_until 120 nothing_left files || { files a; files b; return 1; }
	step "$((SECONDS - since)) s later: $client_status, $server_status; nothing left"
}

error_told() { # in perftest's words
	grep -q 'ompletion with error' "$out"/[ab].out "$out"/[ab].err
}

# --- a NIC that hangs -----------------------------------------------------------------------------

# At that host the first fence, or arming, of each QP hangs for that long: it is given up after its deadline, and the
# program gets through.
survives_hang() { # FAULT HOST PHASE SECONDS PROGRAM OPTIONS...
	local fault=$1 host=$2 library=libshift-hooks.so seconds=${seconds:-15}
	host_env=(["$host"]="SHIFT_HANG=$3:$4s")
	shift 4
	survives "$fault" "$@" && grep -q 'does not answer' "$out/$host.err"
}

# --- NICs whose rq_psn is not trusted -------------------------------------------------------------

# A course for survives, with SHIFT_PSN=stale.
disbelieving() { # FAULT
	carries a 0 && wait_until 20 met_all && sleep 1 || return
	wait_until 20 status_is '[.processes[].connections[] | select(.protected) | .rails[].rq_psn] |
		length > 0 and all(. == "stale")' || return
	break_it "$1" && carries a 1 || return
	wait_until 20 status_is 'any(.processes[]; .totals.counters.at_least_once > 0)' || return
	mend_it "$1" && wait_until 60 home && carries a 0
}

status_is() { # JQ: of host a's processes
	on a sh -c '"$1/shift-ctl/shift-ctl" status --job survive --json | jq -e "$2" >/dev/null' sh "$BUILDDIR/cmd" "$1"
}

# --- QPs destroyed during a switch ----------------------------------------------------------------

# One end of the program destroys all its objects while its QPs stall in a phase and work is under way; the other end
# notices and does so too. Both end at once.
torn_down_in() { # PHASE HOST
	local library=libshift-hooks.so want='6 1'
	[ "$2" = a ] || want='1 6'
	pauses ab "$1"
	protected
	start integrity --allow-lost-results --seconds 60 && carries a 0 && wait_until 20 met_all && stop_all &&
		sleep 1 && break_it hole:b && wait_until 30 stands_still "$1" && on "$2" pkill -USR1 -x integrity || return
	wait_until 15 ended "$client" && wait_until 15 ended "$server" && finish || return
	[ "$client_status $server_status" = "$want" ] && nobody_there && return
	failed "torn down in $1 at $2"
	return 1
}

nobody_there() { # no process is left in the list of either host
	local host
	for host in a b; do
		[ "$(on $host "$BUILDDIR/cmd/shift-ctl/shift-ctl" status --job survive --json 2>/dev/null |
			jq '.processes | length')" -eq 0 ] || return
	done
}
