# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Other traffic that fills the backup NIC, mlx5_1, from host a to host b. On top of survive.bash.
# shellcheck shell=bash disable=SC2016,SC2154  # for the guest; variables of survive.bash

filler=() # the commands at b and at a

fill_backup() {
	empty_backup
	fill b
	wait_until 30 on b grep -q ':4857 0*:0000 0A' /proc/net/tcp && fill a b && wait_until 30 backup_carries 500000
}

fill() { # HOST [SERVER]
	shift-testbed exec --name "$NAME" --timeout 1h "$1" -- ib_write_bw -F -d mlx5_1 -x 1 -p 18519 -s 65536 -D 900 \
		--rate_limit 4 --rate_units M --rate_limit_type SW --burst_size 1 "${@:2}" >"$out/filler.$1" 2>&1 3>&- &
	filler+=($!)
}

backup_carries() { # BYTES within a second
	on b sh -c 'cd /sys/class/net/eth2/statistics; n=$(cat rx_bytes); sleep 1; [ $(($(cat rx_bytes) - n)) -gt "$0" ]' "$1"
}

backup_is_filled() {
	running "${filler[0]}" && running "${filler[1]}" && backup_carries 500000
}

empty_backup() {
	local host
	for host in a b; do
		on "$host" pkill -KILL -x ib_write_bw || true
	done
	wait "${filler[@]}" 2>/dev/null || true
	filler=()
}
