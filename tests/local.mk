# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# make check: no root, no QEMU. make check-testbed: the guests. make check-long: campaigns.

TEST_EXTENSIONS = .bats .hosts
TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh --comments
LOG_DRIVER = $(TAP_DRIVER)
BATS_LOG_DRIVER = $(TAP_DRIVER)
# With the tests of the tag "long" ./check would take more than its 25 minutes; make check-long runs them.
BATS_TAGS = !long
ONCE_MORE = $(top_srcdir)/tests/once-more
LOG_COMPILER = $(ONCE_MORE)
BATS_LOG_COMPILER = $(ONCE_MORE) $(BATS) --tap --timing --filter-tags '$(BATS_TAGS)'
HOSTS_LOG_DRIVER = $(TAP_DRIVER)
HOSTS_LOG_COMPILER = $(ONCE_MORE) $(top_srcdir)/tests/testbed/run-hosts
AM_TESTS_ENVIRONMENT = CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	SRCDIR='$(abs_top_srcdir)'; BUILDDIR='$(abs_top_builddir)'; CC='$(CC)'; \
	export SRCDIR BUILDDIR CC;

# A sanitized simulator is ten times slower; the seeds are the same for everybody.
if SANITIZED
AM_TESTS_ENVIRONMENT += SEEDS='1..3000'; export SEEDS;
endif

TESTBED_TESTS = \
	tests/testbed/tool.bats tests/testbed/ssh.bats tests/testbed/integrity.bats \
	tests/testbed/links.bats tests/testbed/inject.bats tests/testbed/diag.bats tests/testbed/survive.bats tests/testbed/channels.bats tests/testbed/rdmacm.bats tests/testbed/srq.bats tests/testbed/mpi.bats tests/testbed/aegis.bats tests/testbed/nccl.bats tests/testbed/job.bats \
	tests/testbed/pause.bats tests/testbed/pair-6.1.hosts tests/testbed/single-6.12.hosts
# Above, each layout and each kernel once; here, all with all (without the tests of the tag "tool" in single-6.12).
LONG_TESTBED_TESTS = \
	tests/testbed/one_nic.bats tests/testbed/programs.bats tests/testbed/pyverbs.bats tests/testbed/bench.bats tests/testbed/bench_ssh.bats \
	tests/testbed/survive_long.bats tests/testbed/pair-6.12.hosts tests/testbed/single-6.1.hosts
# First what takes longest: else one core waits for it at the end.
include tests/model/local.mk
INJECT_TESTS = \
	tests/inject/link.bats tests/inject/scenario.bats tests/inject/packet.bats tests/inject/timing.bats \
	tests/inject/journal.bats tests/inject/process.bats tests/inject/remote.bats \
	tests/inject/command_line.bats tests/inject/pci.bats tests/inject/guard.bats tests/inject/reach.bats
DIAG_TESTS = tests/diag.bats tests/diag_export.bats tests/diag_ping.bats
DIAG_TESTS += tests/diag_pulse.bats tests/diag_path.bats tests/diag_aegis.bats tests/diag_live.bats tests/diag_foreign.bats tests/diag_analyze.bats
BATS_TESTS = tests/run.bats tests/collectives.bats tests/on_switch.bats tests/kvd.bats tests/kvd_bounds.bats tests/kvd_watches.bats tests/kvd_lost.bats tests/job_scale.bats tests/preload.bats tests/ctl.bats tests/rundir.bats $(DIAG_TESTS) $(INJECT_TESTS) \
	tests/style.bats tests/cli.bats tests/bench.bats tests/bench_verbs.bats tests/bench_html.bats tests/bench_hosts.bats tests/bench_training.bats tests/scale.bats tests/once_more.bats
TESTS += $(BATS_TESTS)
EXTRA_DIST += tests/data/path/README.md tests/data/path/ring_e1 tests/data/path/hd_e1
EXTRA_DIST += $(BATS_TESTS) tests/once-more tests/layout.py tests/helper.bash tests/page.bash tests/wait.bash tests/driven.bash tests/live.bash tests/etcd.bash tests/kvd.bash tests/inject/inject.bash tests/bench_hosts.bash tests/bench_hosts/inject tests/bench_hosts/perftest.py \
	tests/inject/strike.c tests/collectives/mpi_ranks.c tests/collectives/mpi_tool.c tests/collectives/mpi_odd.c tests/collectives/nccl_ranks.c tests/collectives/fake_nccl.c \
	$(TESTBED_TESTS) $(LONG_TESTBED_TESTS) tests/testbed/srq_facts.bats tests/testbed/torch.bats tests/testbed/one_nic_training.bats tests/testbed/torch.bash tests/testbed/busy.bash tests/testbed/mpi_pingpong.c tests/testbed/mpi_rounds.c tests/testbed/aegis.bash tests/testbed/aegis-matrix tests/testbed/mpi.bash tests/testbed/hosts.bats tests/testbed/run-hosts tests/testbed/guests.bash \
	tests/testbed/survive.bash tests/testbed/survive_file.bash tests/testbed/one_nic.bash tests/testbed/pause.bash tests/testbed/rdmacm.bash tests/testbed/cycles \
	tests/testbed/sanitized tests/testbed/survive-matrix tests/testbed/inject-undone tests/testbed/inject-long \
	tests/testbed/pyverbs-suite tests/testbed/training-cost \
	tests/data/straggler/README tests/data/straggler/LICENSE tests/data/straggler/timeline-AR.json \
	tests/data/straggler/timeline-ST.json

include tests/unit/local.mk
include tests/clients/local.mk
include tests/fuzz/local.mk
include tests/bench/local.mk
include tests/nullverbs/local.mk
include tests/preload/local.mk
include tests/sim/local.mk
include tests/collsim/local.mk
include tests/glue/local.mk
include tests/stats/local.mk
include tests/mutants/local.mk

# One testbed at a time: two of them on two cores time out each other.
.PHONY: check-testbed check-long check-long-testbed
check-testbed: all $(check_PROGRAMS)
	$(MAKE) -j1 check TESTS='$(TESTBED_TESTS)'

CHECK_LONG_TARGETS += check-long-kvd
.PHONY: check-long-kvd
check-long-kvd: all
	$(MAKE) -j1 check TESTS='tests/kvd_bounds.bats tests/kvd_lost.bats' BATS_TAGS=long

CHECK_LONG_TARGETS += check-long-testbed
check-long-testbed: all lib/libshift-hooks.la
	BUILDDIR='$(abs_top_builddir)' $(top_srcdir)/tests/testbed/cycles 50
	$(MAKE) -j1 check TESTS='$(LONG_TESTBED_TESTS)'
	$(MAKE) -j1 check TESTS='tests/testbed/aegis.bats tests/testbed/channels.bats tests/testbed/job.bats tests/testbed/mpi.bats tests/testbed/nccl.bats tests/testbed/one_nic.bats tests/testbed/pause.bats tests/testbed/rdmacm.bats tests/testbed/srq.bats tests/testbed/srq_facts.bats tests/testbed/survive.bats tests/testbed/tool.bats' BATS_TAGS=long
	KERNEL=6.12 SRCDIR='$(abs_top_srcdir)' BUILDDIR='$(abs_top_builddir)' $(BATS) \
		$(top_srcdir)/tests/testbed/channels.bats $(top_srcdir)/tests/testbed/diag.bats $(top_srcdir)/tests/testbed/rdmacm.bats $(top_srcdir)/tests/testbed/srq_facts.bats
	BUILDDIR='$(abs_top_builddir)' $(top_srcdir)/tests/testbed/survive-matrix all
	BUILDDIR='$(abs_top_builddir)' $(top_srcdir)/tests/testbed/survive-matrix one-nic
	for part in hang slow fail healthy; do BUILDDIR='$(abs_top_builddir)' $(top_srcdir)/tests/testbed/aegis-matrix $$part || exit; done
	for part in undone scenarios perftest unprotected soak; do \
		BUILDDIR='$(abs_top_builddir)' $(top_srcdir)/tests/testbed/inject-long $$part || exit; done

# With packages of its own.
CHECK_LONG_TARGETS += check-long-training
.PHONY: check-long-training
check-long-training: all
	$(top_srcdir)/build-aux/install-packages.sh . training-packages
	$(MAKE) -j1 check TESTS='tests/testbed/torch.bats tests/testbed/one_nic_training.bats' BATS_TAGS=long

# The integrity client through faults, under each sanitizer.
CHECK_LONG_TARGETS += check-long-sanitized
.PHONY: check-long-sanitized
check-long-sanitized: all
	for kind in asan tsan; do \
		mkdir -p sanitized-$$kind && (cd sanitized-$$kind && '$(abs_top_srcdir)/configure' -q --enable-$$kind && \
			$(MAKE) -s && '$(abs_top_srcdir)/tests/testbed/sanitized') || exit; \
	done

check-long:
	for target in $(CHECK_LONG_TARGETS); do $(MAKE) -j1 $$target || exit; done
