#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# setup.sh BUILD: installs what is missing and builds in the directory BUILD. What ./demo and ./check
# begin with. Idempotent; prints what it installs.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${1:?usage: setup.sh BUILD}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

missing_packages() {
	sed 's/#.*//' "$top/build-aux/debian-packages" | while read -r package; do
		[ -z "$package" ] ||
			[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			echo "$package"
	done
}

install_missing() {
	command -v apt-get >/dev/null || {
		echo "setup: this is no Debian: install by hand what build-aux/debian-packages lists" >&2
		exit 1
	}
	missing=$(missing_packages | xargs)
	if [ -z "$missing" ]; then
		echo "setup: everything needed is installed"
	else
		echo "setup: installing $missing"
		as_root apt-get -qq update
		# shellcheck disable=SC2086  # a list of words
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
			--no-install-recommends $missing >"$build/apt.log" 2>&1 || {
			tail -n 5 "$build/apt.log" >&2
			exit 1
		}
	fi
	# The guests' kernels are looked up among apt's packages, which a bare machine has no list of.
	apt-cache pkgnames linux-image-6.12 | grep -q . || as_root apt-get -qq update
}

mkdir -p "$build"
install_missing
cd "$build"
echo "setup: building in $build"
if [ ! -x "$top/configure" ]; then
	(cd "$top" && autoreconf -fi) >autoreconf.log 2>&1 || { cat autoreconf.log >&2; exit 1; }
fi
[ -e Makefile ] || "$top/configure" -q --enable-werror >configure.log 2>&1 || {
	cat configure.log >&2
	exit 1
}
make -s -j"$(nproc)" >make.log 2>&1 || { cat make.log >&2; exit 1; }
