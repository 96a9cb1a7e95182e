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

mkdir -p "$build"
"$top/build-aux/install-packages.sh" "$build" debian-packages
# The guests' kernels are looked up among apt's packages, which a bare machine has no list of.
apt-cache pkgnames linux-image-6.12 | grep -q . || as_root apt-get -qq update
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
