# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What this host is reached by is not hurt: routes that are a default route in parts, and the NIC under a VPN.

load inject

refused() { # NIC TEXT: with that reason, and with consent not
	status=0
	shift-inject down --nic $1 --dry-run >said 2>&1 || status=$?
	[ $status -eq 4 ] || { echo "status $status, not 4: $2"; cat said; ip route show table all; exit 1; }
	grep -q -- "$2" said || { cat said; exit 1; }
	grep -q -- '--yes-i-mean-it' said
	shift-inject down --nic $1 --dry-run --yes-i-mean-it
}

allowed() { # NIC
	shift-inject down --nic $1 --dry-run || { ip route show table all; exit 1; }
}

@test "a default route in parts, of any table, counts as one" {
	parts() {
		ip addr add 192.0.2.1/24 dev v0
		ip -6 addr add 2001:db8::1/64 dev v0 nodad
		try() { # TEXT ROUTE...
			local text=$1 prefix
			shift
			for prefix in "$@"; do ip route add $prefix via ${via-192.0.2.2}; done
			refused v0 "$text"
			allowed v1
			for prefix in "$@"; do ip route del $prefix via ${via-192.0.2.2}; done
			allowed v0
		}
		try 'v0 carries 100 % of all addresses (0.0.0.0/1)' 0.0.0.0/1 128.0.0.0/1
		try 'v0 carries 50 % of all addresses (128.0.0.0/1)' 128.0.0.0/1
		try 'v0 carries 50 %' 0.0.0.0/2 64.0.0.0/2
		try 'v0 carries 50 %' 0.0.0.0/3 32.0.0.0/3 64.0.0.0/3 96.0.0.0/3
		try 'v0 carries 50 %' '0.0.0.0/1 table 51820'
		try "v0 carries this host's default route" 'default table 51820'
		via=2001:db8::2
		try 'v0 carries 100 %.*(::/1)' ::/1 8000::/1
		try 'v0 carries 100 %.*(2000::/3)' 2000::/3
		try 'v0 carries 100 %' 2000::/4 3000::/4
		# Wide, but no way out of this host.
		ip route add 10.0.0.0/8 via 192.0.2.2
		ip route add 224.0.0.0/4 dev v0
		ip route add fc00::/7 via 2001:db8::2
		ip route add unreachable default
		allowed v0
		# Each hop of several.
		ip route add 0.0.0.0/1 nexthop via 192.0.2.2 nexthop via 192.0.2.3
		refused v0 'v0 carries'
	}
	run in_netns parts
	expect_status 0
}

# A tunnel, up, with an address.
tunnel() { # NAME WORDS...
	local name=$1
	shift
	ip link add $name $* 2>/dev/null || return 1
	ip link set $name up
	ip addr add 10.8.0.2/24 dev $name 2>/dev/null || true
}

@test "the NIC under a tunnel that has the default route, by the tunnel's other end" {
	under() {
		ip addr add 192.0.2.1/24 dev v0
		ip addr add 198.51.100.1/24 dev v1
		ip -6 addr add 2001:db8::1/64 dev v0 nodad
		tried=0
		while read -r words; do
			tunnel t0 $words || { echo "not here: $words"; continue; }
			tried=$((tried + 1))
			allowed v0
			ip route add default dev t0
			refused v0 "v0 carries .*this host's default route"
			allowed v1
			ip route del default
			ip route add 0.0.0.0/1 dev t0
			ip route add 128.0.0.0/1 dev t0
			refused v0 'v0 carries '
			ip link del t0
		done <<-END
			type vxlan id 5 dstport 4789 remote 192.0.2.9
			type vxlan id 5 dstport 4789 remote 2001:db8::9
			type vxlan id 5 dstport 4789 group 239.1.1.1 dev v0
			type gre remote 192.0.2.9 local 192.0.2.1
			type gretap remote 192.0.2.9
			type ipip remote 192.0.2.9 local 192.0.2.1
			type sit remote 192.0.2.9 local 192.0.2.1
			type geneve id 5 remote 192.0.2.9
			type vti remote 192.0.2.9 local 192.0.2.1 key 5
			type ip6gre remote 2001:db8::9 local 2001:db8::1
			type ip6tnl remote 2001:db8::9 local 2001:db8::1
		END
		[ $tried -gt 0 ] || exit 77
		# A tunnel in a tunnel, in a bridge.
		tunnel t0 type vxlan id 5 dstport 4789 remote 192.0.2.9
		tunnel t1 type vxlan id 6 dstport 4790 remote 10.8.0.9
		ip addr flush dev t1
		ip link add b0 type bridge
		ip link set t1 master b0
		ip link set b0 up
		ip route add default dev b0
		refused v0 "v0 carries the packets of b0, which has this host's default route"
		allowed v1
		ip route del default
		# The session's way.
		ip addr add 203.0.113.1/24 dev b0
		export SSH_CONNECTION='203.0.113.9 40000 203.0.113.1 22'
		refused v0 'v0 carries the packets of b0, which has this ssh session'
		allowed v1
	}
	run in_netns under
	[ "$status" -ne 77 ] || skip "this kernel has no tunnels"
	expect_status 0
}

@test "the NIC under a VPN that does not say where its other end is" {
	vpn() {
		ip tuntap add mode tun dev t0 2>/dev/null || exit 77
		ip link set t0 up
		ip addr add 10.8.0.2/24 dev t0
		ip addr add 192.0.2.1/24 dev v0
		ip addr add 198.51.100.1/24 dev v1
		allowed v0
		ip route add 0.0.0.0/1 dev t0
		ip route add 128.0.0.0/1 dev t0
		# Nothing tells which NIC it is.
		refused v0 'v0 may carry the packets of t0, which has this host.s default route and does not say'
		refused v1 'v1 may carry'
		# The client's route to its server.
		ip route add 203.0.113.7/32 via 192.0.2.2
		refused v0 'v0 carries the packets of t0 (a route to 203.0.113.7 alone, as to its other end)'
		allowed v1
		ip route del 203.0.113.7/32
		# As wg-quick does it: the default routes of two tables, and rules.
		ip route flush dev t0
		ip rule add not fwmark 51820 table 51820
		ip route add default dev t0 table 51820
		ip route add default via 192.0.2.2 dev v0
		refused v0 'v0 carries this host.s default route'
		allowed v1
	}
	run in_netns vpn
	[ "$status" -ne 77 ] || skip "no /dev/net/tun"
	expect_status 0
}
