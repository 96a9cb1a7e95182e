# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench --hosts: two machines that are reached by ssh. They are guests, and the connection to each one's sshd goes through shift-testbed exec.
# shellcheck disable=SC2154  # before: set by the test

load guests

export NAME=check-bench-ssh

machine() { # HOST: an sshd on it
	shift-testbed cp --name "$NAME" "$keys" "$1:/tmp/sshd"
	on "$1" sh -c 'mkdir -p /run/sshd && /usr/sbin/sshd -f /tmp/sshd/config </dev/null >/dev/null 2>&1'
}

# The program that shift-testbed takes for ssh: it goes to the guest that has the address.
own_ssh() {
	cat <<-END
		#!/bin/bash
		host=a
		case " \$* " in *10.0.255.2*) host=b ;; esac
		exec $(command -v ssh) -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ProxyCommand="$(command -v shift-testbed) exec \\
			--name $NAME \$host -- bash -c 'exec 3<>/dev/tcp/127.0.0.1/2222; cat <&3 & cat >&3; kill %%1'" "\$@"
	END
}

setup_file() {
	local keys=$BATS_FILE_TMPDIR/keys
	guests_up --layout pair --kernel 6.1
	mkdir -p "$keys" "$BATS_FILE_TMPDIR/bin"
	ssh-keygen -q -t ed25519 -N '' -f "$keys/host_key"
	ssh-keygen -q -t ed25519 -N '' -f "$keys/key"
	cp "$keys/key.pub" "$keys/authorized"
	printf '%s\n' 'Port 2222' 'ListenAddress 127.0.0.1' 'HostKey /tmp/sshd/host_key' 'AuthorizedKeysFile /tmp/sshd/authorized' 'StrictModes no' \
		'PermitRootLogin prohibit-password' 'PidFile /tmp/sshd/pid' >"$keys/config"
	own_ssh >"$BATS_FILE_TMPDIR/bin/ssh"
	chmod +x "$BATS_FILE_TMPDIR/bin/ssh"
	for host in a b; do
		machine $host
	done
	for host in left:1 right:2; do
		printf '%s\n' "[${host%:*}]" "address = 10.0.255.${host#*:}" 'port = 2222' "identity = $keys/key" 'user = root' "path = $BUILDDIR" \
			'rails = mlx5_0 mlx5_1' 'gid_index = 1'
	done >"$BATS_FILE_TMPDIR/machines"
}

@test "two machines with names of their own: both sides are measured, one of them protected" {
	PATH=$BATS_FILE_TMPDIR/bin:$PATH run shift-bench latency --hosts left,right --config "$BATS_FILE_TMPDIR/machines" --ops write --sizes 8 \
		--iterations 500 --repetitions 1 --warmup 0 --json "$BATS_TEST_TMPDIR/l.json"
	expect_status 0
	jq -e '[.cases[].samples[] | select(.values.p50 > 0)] | map(.side) | sort == ["baseline", "shift"]' "$BATS_TEST_TMPDIR/l.json"
	jq -e '.cases[].samples[] | select(.side == "shift").detail.protection | .a.protected == 1 and .b.protected == 1' "$BATS_TEST_TMPDIR/l.json"
	jq -e '.testbed.layout == "ssh"' "$BATS_TEST_TMPDIR/l.json"
}
