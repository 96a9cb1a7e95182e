# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The library broken on purpose: README says how. A sanitizer would make each judge ten times slower.
MUTANT_TABLES = \
	tests/mutants/atomics.mutants tests/mutants/base.mutants tests/mutants/below.mutants tests/mutants/channel.mutants tests/mutants/conn.mutants tests/mutants/conn-self_qp.mutants tests/mutants/core-atomics.mutants tests/mutants/core-conn.mutants tests/mutants/core-conn_state.mutants \
	tests/mutants/core-cqe.mutants tests/mutants/core-failback.mutants tests/mutants/core-fast.mutants \
	tests/mutants/core-fence.mutants tests/mutants/core-giveup.mutants tests/mutants/core-headers.mutants \
	tests/mutants/core-hello.mutants tests/mutants/core-lives.mutants tests/mutants/core-msg.mutants \
	tests/mutants/core-progress.mutants \
	tests/mutants/core-psn.mutants tests/mutants/core-rails.mutants tests/mutants/core-replay.mutants \
	tests/mutants/core-siphash.mutants tests/mutants/core-srq.mutants tests/mutants/core-switch.mutants tests/mutants/core-view.mutants \
	tests/mutants/core-wrlog.mutants tests/mutants/nic.mutants tests/mutants/rdmacm.mutants tests/mutants/session.mutants tests/mutants/srq.mutants tests/mutants/stats.mutants tests/mutants/verbs.mutants \
	tests/mutants/wr.mutants
EXTRA_DIST += tests/mutants/README tests/mutants/run tests/mutants/judges tests/mutants/open tests/mutants/preloaded tests/mutants/protected \
	tests/mutants/mutants.test tests/mutants/run.bats $(MUTANT_TABLES)
TESTS += tests/mutants/run.bats
if !SANITIZED
TESTS += tests/mutants/mutants.test
endif

# What the judges are, and what their commands need besides.
MUTANT_JUDGES = tests/unit/test_bg tests/unit/test_assoc tests/unit/test_gate $(CORE_TESTS) $(CORE_BOUND_TESTS) $(ROOMS_TESTS) tests/unit/test_fast tests/unit/test_fence \
	tests/unit/test_nic_gid tests/unit/test_own_address tests/unit/test_nic_watch tests/unit/test_keys tests/unit/test_stats_srq \
	tests/unit/test_ctrl_link tests/unit/test_reset tests/unit/test_memlock tests/unit/test_async_events tests/unit/test_event_waker tests/unit/test_vsrq tests/unit/test_cm_ids tests/unit/test_cm_threads tests/unit/test_cm_races tests/unit/test_rdmacm tests/unit/test_rq_psn tests/sim/sim tests/glue/glue \
	tests/fuzz/fuzz_msg \
	lib/libshift.la tests/nullverbs/libibverbs.la tests/preload/odd_objects tests/preload/notes tests/preload/data_path tests/preload/events tests/preload/post_ex \
	tests/preload/post_ex_threads tests/preload/poll_ex

# All of them, an hour of two cores.
MUTANT_JOBS = 2
.PHONY: check-long-mutants
CHECK_LONG_TARGETS += check-long-mutants
check-long-mutants: $(MUTANT_JUDGES)
	$(srcdir)/tests/mutants/run --strict --jobs $(MUTANT_JOBS)
