# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Two hosts for shift-bench that are no hosts: this machine, twice. shift-bench looks for its own programs beside
# itself first, so a copy of it stands among stand-ins. Nothing here is RDMA.
# shellcheck shell=bash

# For setup(). STANDIN: the directory; $STANDIN/bin/shift-bench is the one to call, with --testbed standin.
standin_hosts() {
	export STANDIN=$BATS_TEST_TMPDIR/standin
	export STANDIN_PROTECTED=1000 # connections that shift-ctl shows
	local bin=$STANDIN/bin version
	mkdir -p "$bin"
	cp "$BUILDDIR/cmd/shift-bench/shift-bench" "$bin"
	PATH=$bin:$PATH
	version=$(shift-bench --version)
	jq -n 'def rail(n): {nic: "mlx5_\(n)", gid_index: 1};
		{testbeds: [{name: "standin", layout: "pair", hosts: ["a", "b"] | map({name: ., rails: [rail(0), rail(1)]})}]}' \
		>"$STANDIN/status.json"

	standin shift-testbed <<-'END'
		case $1 in
		status) exec cat "$STANDIN/status.json" ;;
		down) exit ;;
		esac
		while [ "$1" != -- ]; do
			case $1 in
			a | b) SHIFT_HOST=$1 ;;
			esac
			shift
		done
		shift
		export SHIFT_HOST SHIFT_PEER_ADDR=127.0.0.1
		exec "$@"
	END
	standin shift-run <<-END
		[ "\$1" != --version ] || exec echo "shift-run ${version#* }"
	END
	cat >>"$bin/shift-run" <<-'END'
		while [ "$1" != -- ]; do
			if [ "$1" = --report ]; then
				echo "$2" >"$STANDIN/report-$SHIFT_HOST"
				echo '{"totals": {"connections": 1, "protected": 1}, "processes": []}' >"$2"
			fi
			shift
		done
		shift
		[ "$1 ${2%%_*}" != "env SHIFT" ] || exit 125 # the real one takes no such command either
		export PROTECTED=1
		exec "$@"
	END
	standin shift-ctl <<-'END'
		exec jq -n --argjson n "$STANDIN_PROTECTED" '{processes: [{life: "running",
			connections: [range($n) | {protected: true, setup_us: 1000}]}]}'
	END
	standin shift-inject <"$SRCDIR/tests/bench_hosts/inject"
	standin integrity <<<'exit 1'
	standin perftest <<-'END'
		exec python3 "$SRCDIR/tests/bench_hosts/perftest.py" "${0##*/}" "$@"
	END
	for program in ib_write_lat ib_send_lat ib_read_lat ib_write_bw; do
		ln -s perftest "$bin/$program"
	done
	standin idle-qps <<-'END'
		echo "$*" >"$STANDIN/idle-$SHIFT_HOST${PROTECTED:+-protected}"
		exec python3 "$SRCDIR/tests/bench_hosts/perftest.py" idle-qps -p "$6" "${@:9}"
	END
	standin train-steps <<-'END'
		echo $$ >"$STANDIN/job-$SHIFT_HOST${PROTECTED:+-protected}"
		exec "$BUILDDIR/tests/clients/train-steps" --tcp "$@"
	END
}

standin() { # PROGRAM: what it does comes by standard input
	{
		echo '#!/usr/bin/env bash'
		cat
	} >"$STANDIN/bin/$1"
	chmod +x "$STANDIN/bin/$1"
}

# Processes of stand-ins, which all carry the directory in their environment.
standins_left() {
	local environ words
	for environ in /proc/[0-9]*/environ; do
		grep -qsazF "STANDIN=$STANDIN" "$environ" || continue
		words=$({ tr '\0' ' ' <"${environ%environ}cmdline"; } 2>/dev/null) || continue
		grep -E 'shift-bench|train-steps|sleep 86400|perftest|shift-inject' <<<"$words" || true
	done
}
