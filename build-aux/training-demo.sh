#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# What ./demo --training shows on a testbed that is up: torchrun trains on both hosts, and in the middle of an
# epoch the cable of its NIC is pulled for 30 s. First without shift, then with. The
# plot is training.svg in the build directory.
#
# training-demo.sh TESTBED LOG: both names from ./demo; called in the build directory.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
name=$1
log=$2
away=30 # seconds without the cable: more than the timeout
pull_at=35 # the step: ten after the first epoch
epochs=4 timeout=10 every=10

on() { # HOST COMMAND...
	local host=$1
	shift
	shift-testbed exec --name "$name" --timeout 400s "$host" -- "$@"
}

# Each line with the seconds since the start before it.
mark() {
	local start=$EPOCHREALTIME line
	while IFS= read -r line; do
		awk -v a="$start" -v b="$EPOCHREALTIME" -v line="$line" 'BEGIN {printf "%.2f %s\n", b - a, line}'
	done
}

now() { # RUN: seconds since its start
	awk -v a="$(cat "$log/$1.began")" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.2f\n", b - a}'
}

train() { # RUN [WRAPPER...]: rank 0 is host a
	local run=$1 host
	shift
	local settings=(OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0)
	echo "$EPOCHREALTIME" >"$log/$run.began"
	: >"$log/$run.a"
	for host in b a; do
		# "-r 1:1 -t 1:1": torch 1.13 with Python 3.11 fails at the default. Sockets go over eth0, tensors over RDMA.
		on $host env "${settings[@]}" "$@" torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint a:29500 \
			--max_restarts 1 -r 1:1 -t 1:1 "$top/examples/torch/train.py" --data "$PWD/digits.csv.gz" \
			--epochs $epochs --timeout $timeout --every $every --checkpoint "/tmp/$run" 2>"$log/$run.$host.err" |
			mark >"$log/$run.$host" &
	done
}

last_step() { # RUN
	awk '$2 == "step" {last = $3} END {print last + 0}' "$log/$1.a"
}

# Says once in two seconds how far it is, until it has ended; the cable is out for $away seconds from step $pull_at on.
watch() { # RUN
	local run=$1 pulled='' plugged='' said mark
	while [ -n "$(jobs -pr)" ]; do
		mark=
		if [ -z "$pulled" ] && [ "$(last_step "$run")" -ge $pull_at ]; then
			shift-testbed link --name "$name" all 0 down
			pulled=$(now "$run") mark='<- the cable of rail 0 is pulled'
		elif [ -n "$pulled" ] && [ -z "$plugged" ] && awk -v p="$pulled" -v n="$(now "$run")" "BEGIN {exit n - p < $away}"; then
			shift-testbed link --name "$name" all 0 up
			plugged=$(now "$run") mark='<- the cable is back'
		fi
		said=$(awk '$2 == "step" || $2 == "resumed" {$1 = ""; last = $0} END {print last}' "$log/$run.a")
		[ -z "$said" ] || printf 'demo: %5.0f s  %-62s %s\n' "$(now "$run")" "$said" "$mark"
		sleep 2
	done
	echo "$pulled $plugged" >"$log/$run.cable"
	wait
	grep -q "^[0-9.]* epoch $epochs:" "$log/$run.a" || {
		tail -n 5 "$log/$run".[ab].err >&2
		exit 1
	}
	grep -h '^shift\[' "$log/$run".[ab].err || true
}

# Step over time, for gnuplot: a jump back is a restart.
points() { # RUN
	awk '$2 == "step" {print $1, $3}' "$log/$1.a"
}

# Steps done twice, the longest time without a new step, and the seconds from the first to the last.
figures() { # RUN
	points "$1" | awk 'NR == 1 {first = $1; at = $1; best = $2}
		{n++; if ($2 > best) {if ($1 - at > gap) gap = $1 - at; at = $1; best = $2}}
		END {printf "%d %.1f %.1f\n", n - best, gap, at - first}'
}

weights() { # RUN
	awk '$2 == "epoch" {w = $NF} END {print substr(w, 1, 12)}' "$log/$1.a"
}

plot() {
	local alone shifted
	read -r alone _ <"$log/alone.cable"
	read -r shifted _ <"$log/shift.cable"
	points alone | awk -v t="$alone" '{print $1 - t, $2}' >"$log/alone.points"
	points shift | awk -v t="$shifted" '{print $1 - t, $2}' >"$log/shift.points"
	gnuplot <<-END
		set terminal svg size 760,360 font "sans-serif,13" background "white"
		set output "training.svg"
		set xlabel "seconds since the cable was pulled"
		set ylabel "step"
		set key bottom right
		set grid lc rgb "#d8dee4"
		set object rectangle from 0, graph 0 to $away, graph 1 fc rgb "#eceff2" fs noborder behind
		set label "cable out" at $away / 2., graph 0.95 center tc rgb "#59636e"
		plot "$log/shift.points" with lines lw 3 lc rgb "#b84a00" title "shift-run -- torchrun train.py", \
			"$log/alone.points" with lines lw 3 lc rgb "#0072b2" title "torchrun train.py"
	END
}

compare() {
	local twice_alone gap_alone all_alone twice gap all
	read -r twice_alone gap_alone all_alone < <(figures alone)
	read -r twice gap all < <(figures shift)
	printf 'demo: %-40s %16s %16s\n' '' 'without shift' 'with shift' \
		'steps done twice (progress lost)' "$twice_alone" "$twice" \
		'longest time without a new step' "$gap_alone s" "$gap s" \
		'first to last step' "$all_alone s" "$all s" \
		'weights in the end (sha256)' "$(weights alone)" "$(weights shift)"
}

echo 'demo: torchrun ... train.py on both hosts, without shift'
train alone
watch alone
echo 'demo: shift-run --kv start@b -- torchrun ... train.py on both hosts'
train shift "$top/build/cmd/shift-run/shift-run" --kv start@b --job training --
watch shift
compare
plot
echo "demo: step over time: $PWD/training.svg"
