/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/reentry.h"

_Thread_local bool hooks_off;
