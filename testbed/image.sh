#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# image.sh SERIES CACHE: make a stock Debian kernel of SERIES (6.1, 6.12) bootable from CACHE.
#
# The package is downloaded and unpacked, never installed. What comes out, in CACHE/SERIES:
#   version       the kernel release
#   vmlinux       the uncompressed kernel (under TCG, decompressing in the guest costs 3-4 s)
#   modules.cpio  what the guest needs to boot and to have RDMA, with the order of loading
#   lib/modules   the whole module tree, for modprobe in the guest
# Nothing is done if they are there. Exit: 0 done, 5 a package or tool is missing, 6 no space.
set -eu

# In the order in which they are needed; each brings its own dependencies. crc32_* first: rxe asks
# for crypto-crc32 by alias, which nothing can load before the root file system is there.
BOOT_MODULES="virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay crc32_generic
crc32_pclmul rdma_rxe veth bridge"

# The package, what is in it, and the uncompressed kernel.
NEEDED_MIB=700

die() { # STATUS MESSAGE
	status=$1
	shift
	echo "shift-testbed: $*" >&2
	exit "$status"
}

newest_package() { # SERIES: the newest stock kernel image that apt knows
	apt-cache pkgnames "linux-image-$1" |
		grep -E "^linux-image-$(echo "$1" | sed 's/\./\\./g')\.[0-9][^ ]*-amd64\$" |
		grep -vE -- '-(cloud|rt)-amd64$' | sort -V | tail -n 1
}

need_room() {
	free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1024)}')
	[ "$free" -ge $NEEDED_MIB ] ||
		die 6 "no room for a kernel in ${PWD%/*}: $free MiB free, $NEEDED_MIB needed"
}

unpack() { # PACKAGE: into the current directory
	# A download runs as user _apt, which may not write here: fetch as root's own or not at all.
	apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$1" >apt.log 2>&1 ||
		die 5 "cannot download $1: $(tail -n 1 apt.log); try: apt-get update"
	dpkg-deb --fsys-tarfile "$1"_*.deb | tar -xf - ./boot ./lib/modules ||
		die 6 "cannot unpack $1 in $PWD"
	rm -f "$1"_*.deb apt.log
}

# The compressed kernel inside a bzImage, at the place its header names (Documentation/arch/x86/boot).
payload() { # BZIMAGE
	setup=$(od -An -tu1 -j 497 -N 1 "$1")
	offset=$(od -An -tu4 -j 584 -N 4 "$1")
	length=$(od -An -tu4 -j 588 -N 4 "$1")
	tail -c +$(((setup + 1) * 512 + offset + 1)) "$1" | head -c "$length"
}

extract_vmlinux() { # BZIMAGE OUT
	# The payload ends with the size of what is in it: "trailing garbage" for every tool.
	case $(payload "$1" | od -An -tx1 -N 4 | tr -d ' ') in
	fd377a58) payload "$1" | head -c -4 | xz -dc >"$2" ;;
	28b52ffd) payload "$1" | head -c -4 | zstd -dcq >"$2" ;;
	1f8b*) payload "$1" | head -c -4 | gzip -dc >"$2" ;;
	*) die 5 "$1: a kernel compressed in a way unknown here" ;;
	esac
}

boot_modules() { # VERSION OUT.cpio
	mkdir -p stage/modules
	for module in $BOOT_MODULES; do
		modprobe -d "$PWD" -S "$1" --show-depends "$module" 2>/dev/null || true
	done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r path; do
		name=$(basename "$path" | sed 's/\.xz$//; s/\.zst$//')
		case $path in
		*.xz) xz -dc "$path" ;;
		*.zst) zstd -dcq "$path" ;;
		*) cat "$path" ;;
		esac >"stage/modules/$name"
		echo "$name"
	done >order
	mv order stage/modules/order
	grep -q '^rdma_rxe.ko' stage/modules/order || die 5 "kernel $1 has no rdma_rxe"
	(cd stage && find . | cpio -o -H newc --quiet) >"$2"
	rm -rf stage
}

build() { # SERIES
	package=$(newest_package "$1")
	[ -n "$package" ] ||
		die 5 "no stock kernel $1 among apt's packages; try: apt-get update (6.12 on Debian 12 needs bookworm-security)"
	need_room
	echo "shift-testbed: fetching $package (once)" >&2
	unpack "$package"
	version=${package#linux-image-}
	depmod -b "$PWD" "$version"
	extract_vmlinux "boot/vmlinuz-$version" vmlinux
	boot_modules "$version" modules.cpio
	rm -rf boot
	echo "$version" >version
}

series=$1 cache=$2
[ -s "$cache/$series/version" ] && exit 0
PATH=$PATH:/usr/sbin:/sbin
for tool in apt-get dpkg-deb depmod modprobe cpio xz zstd tar; do
	command -v "$tool" >/dev/null ||
		die 5 "$tool is missing; try: apt-get install kmod cpio xz-utils zstd"
done
mkdir -p "$cache" || die 6 "cannot write $cache"
work=$(mktemp -d "$cache/.$series.XXXXXX") || die 6 "cannot write $cache"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$work"
(cd "$work" && build "$series") || exit
# Whoever comes second with the same kernel finds the name taken and throws its own away.
mv -T "$work" "$cache/$series" 2>/dev/null || [ -s "$cache/$series/version" ]
