# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that a test drives by lines on their standard input, and that end when it does. Each has a name; its output is
# in the file NAME.out of the current directory.
# shellcheck shell=bash

declare -gA IN=() PID=()

drive() { # NAME COMMAND...
	local fd f name=$1
	shift
	mkfifo "$name.in"
	(
		# It would hold the others' standard input open.
		for f in "${IN[@]}"; do exec {f}>&-; done
		exec "$@" <"$name.in" >>"$name.out" 3>&-
	) &
	PID[$name]=$!
	exec {fd}>"$name.in"
	IN[$name]=$fd
}

tell() { # NAME LINE
	local fd=${IN[$1]}
	shift
	echo "$*" >&"$fd"
}

hang_up() { # NAME: it ends by itself
	local fd=${IN[$1]}
	exec {fd}>&-
	unset "IN[$1]"
	wait "${PID[$1]}"
	unset "PID[$1]"
}

murder() { # NAME
	kill -9 "${PID[$1]}"
	wait "${PID[$1]}" || true
	unset "PID[$1]"
}
