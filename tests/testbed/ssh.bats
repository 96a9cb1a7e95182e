# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Two real machines: here twice this one, through an sshd of our own on loopback.

load ../helper

export NAME=check-ssh
PORT=20222

setup_file() {
	local d=$BATS_FILE_TMPDIR
	# sshd insists on directories that no other user can write to, all the way up.
	ssh-keygen -q -t ed25519 -N '' -f "$d/host_key"
	ssh-keygen -q -t ed25519 -N '' -f "$d/key"
	cp "$d/key.pub" "$d/authorized"
	mkdir -p /run/sshd 2>/dev/null || true # only root's sshd wants it
	cat >"$d/sshd_config" <<-END
		Port $PORT
		ListenAddress 127.0.0.1
		HostKey $d/host_key
		AuthorizedKeysFile $d/authorized
		StrictModes no
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		PidFile $d/sshd.pid
	END
	"$(command -v sshd || echo /usr/sbin/sshd)" -f "$d/sshd_config"
	wait_until 10 test -s "$d/sshd.pid"
	# The user's known hosts are not to be used, or changed.
	mkdir "$d/bin"
	printf '#!/bin/sh\nexec %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n' \
		"$(command -v ssh)" >"$d/bin/ssh"
	chmod +x "$d/bin/ssh"
	for host in left right; do
		cat <<-END
			[$host]
			address = 127.0.0.1
			port = $PORT
			identity = $d/key
			user = $(id -un)
			path = $d
			rails = nic_$host nic2_$host
			netdevs = lo lo
			gid_index = 3
			link_down = echo \$SHIFT_HOST \$SHIFT_NIC \$SHIFT_LINK >>$d/links
			link_up = echo \$SHIFT_HOST \$SHIFT_NIC \$SHIFT_LINK >>$d/links
		END
	done >"$d/testbed.conf"
	PATH=$d/bin:$PATH shift-testbed up --name "$NAME" --ssh left,right --config "$d/testbed.conf"
}

teardown_file() {
	shift-testbed down --name "$NAME"
	kill "$(cat "$BATS_FILE_TMPDIR/sshd.pid")"
}

@test "status shows the machines by their names" {
	run -0 shift-testbed status --name "$NAME" --json
	[ "$(jq -r '.testbeds[0] | .layout, .hosts[].name, .hosts[0].rails[1].nic' <<<"$output" | xargs)" = \
		"ssh left right nic2_left" ]
}

@test "exec: the same words, by name or by letter" {
	run -3 --separate-stderr shift-testbed exec --name "$NAME" left -- \
		sh -c 'echo "$SHIFT_HOST $SHIFT_HOST_RAILS $SHIFT_GID_INDEX $PWD"; echo err >&2; exit 3'
	[ "$output" = "left nic_left,nic2_left 3 $BATS_FILE_TMPDIR" ] && [ "$stderr" = err ]
	[ "$(echo hello | shift-testbed exec --name "$NAME" b -- sh -c 'cat; echo $SHIFT_HOST' | xargs)" = \
		"hello right" ]
	run shift-testbed exec --name "$NAME" --timeout 300ms a -- sleep 100
	expect_status 124
}

@test "signals reach the command, and it does not outlive the client" {
	shift-testbed exec --name "$NAME" a -- sleep 4323 &
	wait_until 10 pgrep -x -f 'sleep 4323'
	kill -KILL $!
	wait_until 10 sh -c '! pgrep -x -f "sleep 4323"'
}

@test "cp between the machines" {
	echo content >"$BATS_TEST_TMPDIR/file"
	shift-testbed cp --name "$NAME" "$BATS_TEST_TMPDIR/file" a:copy1
	shift-testbed cp --name "$NAME" a:copy1 b:copy2
	[ "$(cat "$BATS_FILE_TMPDIR/copy2")" = content ]
}

@test "link runs the user's own command for the switch" {
	shift-testbed link --name "$NAME" left 1 down
	shift-testbed link --name "$NAME" all 0 up
	[ "$(xargs <"$BATS_FILE_TMPDIR/links")" = \
		"left nic2_left down a nic_left up b nic_right up" ]
}

@test "what a real machine cannot do is refused" {
	run shift-testbed console --name "$NAME" left
	expect_status 2
	expect_line 'left is a real machine: its console is not reached by ssh'
	run shift-testbed link --name "$NAME" left 7 down
	expect_status 2
}

@test "a machine that cannot be reached is reported with ssh's own words" {
	sed 's/^port = .*/port = 1/' "$BATS_FILE_TMPDIR/testbed.conf" >"$BATS_TEST_TMPDIR/bad.conf"
	run shift-testbed up --name check-bad --ssh left,right --config "$BATS_TEST_TMPDIR/bad.conf"
	expect_status 1
	expect_match 'host (left|right): ssh ended \(status 255\); last it said: .*Connection refused'
	run shift-testbed status --name check-bad
	expect_status 3
}

@test "down ends the agents and their commands, and leaves no copy of them" {
	shift-testbed exec --name "$NAME" a -- sleep 4324 &
	wait_until 10 pgrep -x -f 'sleep 4324'
	PATH=$BATS_FILE_TMPDIR/bin:$PATH
	shift-testbed down --name "$NAME"
	wait_until 10 sh -c '! pgrep -x -f "sleep 4324"'
	wait_until 10 sh -c '! pgrep -f "^/tmp/shift-testbed-agent"'
	! ls /tmp/shift-testbed-agent.* 2>/dev/null
	shift-testbed up --name "$NAME" --ssh left,right --config "$BATS_FILE_TMPDIR/testbed.conf"
}

on_hosts() { # COMMAND...: examples/ssh, on this machine twice
	mkdir -p "$BATS_FILE_TMPDIR/direct"
	printf '#!/bin/sh\nexec %s/bin/ssh -p %s -i %s/key -l %s "$@"\n' "$BATS_FILE_TMPDIR" "$PORT" "$BATS_FILE_TMPDIR" "$(id -un)" \
		>"$BATS_FILE_TMPDIR/direct/ssh"
	chmod +x "$BATS_FILE_TMPDIR/direct/ssh"
	${directly:+exec} env PATH="$BATS_FILE_TMPDIR/direct:$PATH" SHIFT_RUN="$BUILDDIR/cmd/shift-run/shift-run" SHIFT_KV=start@127.0.0.1:23790 \
		"$SRCDIR/examples/ssh/shift-on-hosts" 127.0.0.1 localhost -- "$@"
}

@test "examples/ssh: one job on all hosts, which share a key" {
	run -0 --separate-stderr on_hosts sh -c 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR, $SHIFT_JOB ${SHIFT_JOB_KEY-no key} ${LD_PRELOAD##*/}"'
	[ "$(sort <<<"$output" | sed 's/ssh-[0-9-]*/JOB/')" = "127.0.0.1: 0 of 2 at 127.0.0.1, JOB no key libshift.so
localhost: 1 of 2 at 127.0.0.1, JOB no key libshift.so" ]
	[ "$(grep -o 'ssh-[0-9-]*' <<<"$output" | sort -u | wc -l)" -eq 1 ]
}

@test "examples/ssh: a host that fails ends it on all, with its status; so does the end of the script" {
	run -7 on_hosts sh -c '[ "$RANK" = 0 ] || exit 7; exec sleep 4325'
	wait_until 10 sh -c '! pgrep -x -f "sleep 4325"'
	directly=1 on_hosts sleep 4326 3>&- &
	wait_until 20 sh -c '[ "$(pgrep -c -x -f "sleep 4326")" -eq 2 ]'
	kill $!
	wait_until 10 sh -c '! pgrep -x -f "sleep 4326"'
	run -2 "$SRCDIR/examples/ssh/shift-on-hosts" host
	run -2 "$SRCDIR/examples/ssh/shift-on-hosts" -- true
}
