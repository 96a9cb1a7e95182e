# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
EXTRA_DIST += tests/model/handshake.pml tests/model/lives.pml tests/model/planned.pml tests/model/run \
	tests/model/model.test
# There is no C of ours in it for a sanitizer to look at.
if !SANITIZED
TESTS += tests/model/model.test
endif

# Up to 20 minutes and 6 GB: every bound that the documentation states.
.PHONY: check-long-model
CHECK_LONG_TARGETS += check-long-model
check-long-model:
	CC='$(CC)' $(srcdir)/tests/model/run --full
