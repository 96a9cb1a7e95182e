# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What the shift-* commands share. Never in libshift.so.
noinst_LTLIBRARIES += common/libcli.la
common_libcli_la_SOURCES = common/cli.c common/cli.h common/printable.c common/printable.h \
	common/shell_command.c common/shell_command.h \
	common/own_files.c common/own_files.h \
	common/html.c common/html.h common/page.c common/page.h

# What programs add that use lib/nic without the rooms above it.
NIC_ALONE = common/standin.c common/standin.h lib/base/fork.c lib/base/fork.h lib/base/reentry.c lib/base/reentry.h
