/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/reentry.h"

#include "lib/base/uncancelled.h"

_Thread_local bool hooks_off;
_Thread_local struct uncancelled uncancelled_mine;
