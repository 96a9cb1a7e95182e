# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# An etcd of the test's own, on loopback.
# shellcheck shell=bash disable=SC2034  # variables for the caller

needs_etcd() {
	command -v etcd >/dev/null || skip "etcd is not installed (apt-get install etcd-server)"
}

free_port() {
	local p
	while p=$((20000 + RANDOM % 12000)); [ -n "$(ss -ltnH "sport = :$p")" ]; do :; done
	echo "$p"
}

# Its process is $ETCD, its URL $KV; the same ports every time. It may take a moment to answer.
launch_etcd() { # [DATA [OPTION...]]: of etcd; the last of a kind counts
	local peer data=${1:-data}
	shift $(($# > 0))
	: "${PORT:=$(free_port)}" "${PEER_PORT:=$(free_port)}"
	KV=http://127.0.0.1:$PORT
	peer=http://127.0.0.1:$PEER_PORT
	etcd --name t --data-dir "$PWD/$data" --listen-client-urls "$KV" \
		--advertise-client-urls "$KV" --listen-peer-urls "$peer" \
		--initial-advertise-peer-urls "$peer" --initial-cluster "t=$peer" \
		--heartbeat-interval 20 --election-timeout 200 --log-level error "$@" \
		>>etcd.log 2>&1 3>&- &
	ETCD=$!
}
