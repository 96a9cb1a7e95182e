# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
EXTRA_DIST += tests/model/handshake.pml tests/model/run tests/model/model.test
# There is no C of ours in it for a sanitizer to look at.
if !SANITIZED
TESTS += tests/model/model.test
endif

# A few minutes and up to 6 GB: every bound that the documentation states.
.PHONY: check-long-model
CHECK_LONG_TARGETS += check-long-model
check-long-model:
	CC='$(CC)' $(srcdir)/tests/model/run --full
