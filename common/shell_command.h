/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SHIFT_COMMON_SHELL_COMMAND_H
#define SHIFT_COMMON_SHELL_COMMAND_H

/* Can a shell run that? NULL, or why not, a static text. Nothing of it is run. Not for a process
 * with threads. */
const char *shell_command_problem(const char *command);

#endif
