# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What soft-RoCE does with shared receive queues, as doc/soft-roce.md says and as moving QPs with one will rely on. The
# measuring is tests/clients/srq_facts; here is what must hold, by kernel where kernels differ.
# bats file_tags=long
# shellcheck disable=SC2154  # before, output: set by bats and guests.bash

load guests

export NAME=check-srq-facts

setup_file() {
	guests_up --layout single --rails 1 --kernel "${KERNEL:-6.1}"
	# A GID of the other kind, for a QP that is connected to itself.
	shift-testbed exec --name "$NAME" a -- ip addr add 10.9.0.1/24 dev eth1
}

ask() { # QUESTION
	on a tests/clients/srq_facts mlx5_0 eth1 mlx5_1 eth2 "$1" >"$BATS_FILE_TMPDIR/$1" 3>&-
}

# For all lines of the answer that FILTER chooses, and there is one at least.
holds() { # QUESTION FILTER CONDITION
	jq -es "[.[] | select(.question and ($2))] | length > 0 and all($3)" "$BATS_FILE_TMPDIR/$1" >/dev/null || {
		echo "not for all of '$2': $3"
		jq -c "select(.question and ($2) and ($3 | not))" "$BATS_FILE_TMPDIR/$1"
		return 1
	}
}

asks_for() { # QUESTION WHAT
	grep -q "\"please\": \"$2\"" "$BATS_FILE_TMPDIR/$1"
}
