#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# install-packages.sh BUILD LIST: installs what is missing of the packages in build-aux/LIST, one a line. A line
# PACKAGE:FILE is no package to be installed: that one file of it is put into the directory BUILD.
# Idempotent; prints what it installs.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${1:?usage: install-packages.sh BUILD LIST}
list=$top/build-aux/${2:?usage: install-packages.sh BUILD LIST}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

listed() {
	sed 's/#.*//; /^$/d' "$list"
}

missing_packages() {
	listed | grep -v : | while read -r package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
	done
}

missing_files() {
	listed | grep : | while read -r line; do
		[ -e "$build/${line##*/}" ] || echo "$line"
	done
}

take_file() { # PACKAGE:FILE
	dir=$(mktemp -d)
	(cd "$dir" && apt-get -qq download "${1%%:*}" && dpkg-deb --fsys-tarfile ./*.deb | tar -xO ".${1#*:}" >file) \
		>"$build/apt.log" 2>&1 || { tail -n 5 "$build/apt.log" >&2; rm -rf "$dir"; exit 1; }
	mv "$dir/file" "$build/${1##*/}"
	rm -rf "$dir"
}

mkdir -p "$build"
command -v apt-get >/dev/null || {
	echo "setup: this is no Debian: install by hand what build-aux/$2 lists" >&2
	exit 1
}
missing=$(missing_packages | xargs)
files=$(missing_files | xargs)
if [ -z "$missing$files" ]; then
	echo "setup: everything in $2 is installed"
	exit
fi
echo "setup: installing $missing $files"
as_root apt-get -qq update
# shellcheck disable=SC2086  # a list of words
[ -z "$missing" ] || as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
	--no-install-recommends $missing >"$build/apt.log" 2>&1 || {
	tail -n 5 "$build/apt.log" >&2
	exit 1
}
for file in $files; do take_file "$file"; done
