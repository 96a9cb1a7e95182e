# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shellcheck shell=sh
#
# Finds the RDMA NICs of a real machine and prints a "rail" line for each, as guest.sh does. Changes
# nothing.
#
# In: TB_HOST a|b; from the configuration, empty where not set: TB_NICS, TB_NETDEVS (lists, one each),
# TB_GID_INDEX.

netdev_of() { # NIC: of its port 1
	sys=/sys/class/infiniband/$1
	if [ -r "$sys/parent" ]; then # soft-RoCE
		cat "$sys/parent"
	elif [ -d "$sys/device/net" ]; then
		for dev in "$sys"/device/net/*; do
			echo "${dev##*/}"
			break
		done
	else
		echo -
	fi
}

address_of() { # NETDEV
	address=$(ip -4 -o address show dev "$1" 2>/dev/null | awk 'NR == 1 {sub("/.*", "", $4); print $4}')
	echo "${address:--}"
}

# RoCE v2 with an IPv4 address is the one that crosses routers; else the first GID.
gid_index_of() { # NIC
	[ -z "$TB_GID_INDEX" ] || { echo "$TB_GID_INDEX"; return; }
	for type in /sys/class/infiniband/"$1"/ports/1/gid_attrs/types/*; do
		i=${type##*/}
		case $(cat "$type" 2>/dev/null) in
		"RoCE v2") ;;
		*) continue ;;
		esac
		case $(cat "/sys/class/infiniband/$1/ports/1/gids/$i") in
		0000:0000:0000:0000:0000:ffff:*) echo "$i"; return ;;
		esac
	done
	echo 0
}

if [ -z "$TB_NICS" ]; then
	for nic in /sys/class/infiniband/*; do
		[ ! -e "$nic" ] || TB_NICS="$TB_NICS ${nic##*/}"
	done
fi
r=0
# shellcheck disable=SC2086  # a list of words
set -- $TB_NETDEVS
for nic in $TB_NICS; do
	netdev=${1:-$(netdev_of "$nic")}
	[ $# -eq 0 ] || shift
	echo "rail $TB_HOST $r $nic $netdev $(address_of "$netdev") $(gid_index_of "$nic")"
	r=$((r + 1))
done
