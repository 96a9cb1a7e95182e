# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The library around lib/core, simulated: its own object files, with threads, NICs and clock of the test.
GLUE_WRAPS = \
	-Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_wait,--wrap=pthread_cond_timedwait,--wrap=pthread_cond_signal \
	-Wl,--wrap=pthread_cond_broadcast,--wrap=pthread_setspecific \
	-Wl,--wrap=nanosleep,--wrap=sched_yield,--wrap=clock_gettime,--wrap=getrandom \
	-Wl,--wrap=epoll_wait,--wrap=write,--wrap=thread_start,--wrap=thread_init,--wrap=gate_forget,--wrap=worker_submit \
	-Wl,--wrap=ctrl_link_send,--wrap=ctrl_link_flush_unless_bg,--wrap=tombstone_answer \
	-Wl,--wrap=short_lock_wait,--wrap=ibv_query_gid,--wrap=gate_forget_key \
	-Wl,--wrap=nic_get,--wrap=nic_gid_find,--wrap=nic_at,--wrap=log_at,--wrap=stats_conn_change

check_PROGRAMS += tests/glue/glue
tests_glue_glue_SOURCES = \
	tests/glue/fault.c tests/glue/glue.h tests/glue/main.c tests/glue/nic.c tests/glue/nic_srq.c tests/glue/oracle.c tests/glue/pool.c \
	tests/glue/prog.c tests/glue/prog.h tests/glue/sched.c tests/glue/session.c tests/glue/verbs.c \
	tests/glue/stray.c tests/glue/wire.c
tests_glue_glue_CFLAGS = $(AM_CFLAGS) -pthread $(IBVERBS_CFLAGS)
tests_glue_glue_LDFLAGS = $(AM_LDFLAGS) $(GLUE_WRAPS)
tests_glue_glue_LDADD = lib/libshiftrooms.la lib/libshiftnic.la lib/libshiftstats.la \
	kv/libkvclient.la lib/libshiftcore-checked.la lib/libshiftbase.la $(IBVERBS_LIBS)

GLUE_TESTS = tests/glue/glue.test
TESTS += $(GLUE_TESTS)
EXTRA_DIST += $(GLUE_TESTS)

# Some minutes of one core.
.PHONY: check-long-glue
CHECK_LONG_TARGETS += check-long-glue
check-long-glue: tests/glue/glue
	tests/glue/glue --seeds 1..200000
	tests/glue/glue --seeds 1..20000 --srq
	tests/glue/glue --seeds 1..20000 --srq --only HANG --only QPERR
	tests/glue/glue --seeds 1..20000 --only BROKEN
	tests/glue/glue --seeds 1..20000 --only HANG --only QPERR
	setarch -R $(VALGRIND_OF_GLUE) tests/glue/glue --seeds 1..300 -q
# valgrind over failovers. (In a guest it is too slow for a fault in mid-run.) Without setarch, glue starts itself anew.
VALGRIND_OF_GLUE = valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
