# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The shift-* commands, one file each.

bin_PROGRAMS += cmd/shift-ctl/shift-ctl
cmd_shift_ctl_shift_ctl_SOURCES = \
	cmd/shift-ctl/shift-ctl.c cmd/shift-ctl/ctl.h cmd/shift-ctl/common.c \
	cmd/shift-ctl/ask-all.c cmd/shift-ctl/cmd-status.c cmd/shift-ctl/cmd-events.c \
	cmd/shift-ctl/cmd-migrate.c cmd/shift-ctl/cmd-failback.c
cmd_shift_ctl_shift_ctl_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
cmd_shift_ctl_shift_ctl_LDADD = $(REPORT_LIBS)
