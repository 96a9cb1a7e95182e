# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs for tests/preload.bats.
check_PROGRAMS += tests/preload/lookup tests/preload/compat
tests_preload_lookup_SOURCES = tests/preload/lookup.c
tests_preload_lookup_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)

tests_preload_compat_SOURCES = tests/preload/compat.c
tests_preload_compat_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_compat_LDADD = $(IBVERBS_LIBS)

# libshift.so with other hooks, which say what they are called for.
check_LTLIBRARIES += tests/preload/libtrace.la
tests_preload_libtrace_la_SOURCES = tests/preload/hooks_trace.c \
	lib/preload/exports.c lib/preload/direct_verbs.c lib/preload/direct_verbs.h \
	lib/preload/rdmacm.c lib/base/real_rdmacm.c lib/base/find_symbol.c \
	lib/base/real_verbs.c lib/base/dlopen.c lib/base/dlopen.S lib/base/reentry.c \
	lib/base/env.c lib/base/log.c common/printable.c lib/base/rail_list.c lib/base/sysfs.c
tests_preload_libtrace_la_CFLAGS = $(lib_libshift_la_CFLAGS)
tests_preload_libtrace_la_LDFLAGS = $(lib_libshift_la_LDFLAGS) -rpath /nowhere
tests_preload_libtrace_la_LIBADD = $(IBVERBS_LIBS)
tests_preload_libtrace_la_DEPENDENCIES = lib/preload/libshift.map

check_PROGRAMS += tests/preload/memlock
tests_preload_memlock_SOURCES = tests/preload/memlock.c
tests_preload_memlock_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_memlock_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/odd_objects
tests_preload_odd_objects_SOURCES = tests/preload/odd_objects.c tests/preload/rc.c tests/preload/rc.h
tests_preload_odd_objects_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_odd_objects_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/srq
tests_preload_srq_SOURCES = tests/preload/srq.c tests/preload/rc.c tests/preload/rc.h
tests_preload_srq_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_srq_LDADD = $(IBVERBS_LIBS)

# Events of QPs on SRQs that have moved.
check_PROGRAMS += tests/preload/srq_events
tests_preload_srq_events_SOURCES = tests/preload/srq_events.c tests/bench/ends.h
tests_preload_srq_events_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_srq_events_LDADD = common/libcli.la $(REPORT_LIBS) $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/traced
tests_preload_traced_SOURCES = tests/preload/traced.c tests/preload/ex.c tests/preload/ex.h tests/preload/rc.c tests/preload/rc.h
tests_preload_traced_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_traced_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/notes
tests_preload_notes_SOURCES = tests/preload/notes.c tests/preload/rc.c tests/preload/rc.h
tests_preload_notes_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_notes_LDADD = $(REPORT_LIBS) $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/data_path
tests_preload_data_path_SOURCES = tests/preload/data_path.c tests/preload/rc.c tests/preload/rc.h
tests_preload_data_path_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_data_path_LDADD = $(IBVERBS_LIBS)

# Posting by ibv_wr_*, polling by ibv_start_poll().
EX_SOURCES = tests/preload/ex.c tests/preload/ex.h tests/preload/rc.c tests/preload/rc.h
check_PROGRAMS += tests/preload/post_ex tests/preload/post_ex_threads tests/preload/poll_ex
tests_preload_post_ex_SOURCES = tests/preload/post_ex.c $(EX_SOURCES) tests/nullverbs/nullverbs.h
tests_preload_post_ex_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_post_ex_LDADD = $(IBVERBS_LIBS)
tests_preload_post_ex_threads_SOURCES = tests/preload/post_ex_threads.c $(EX_SOURCES)
tests_preload_post_ex_threads_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_post_ex_threads_LDADD = $(IBVERBS_LIBS)
tests_preload_poll_ex_SOURCES = tests/preload/poll_ex.c $(EX_SOURCES)
tests_preload_poll_ex_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_poll_ex_LDADD = $(IBVERBS_LIBS)

# Both, while NICs fail.
check_PROGRAMS += tests/preload/moves_ex
tests_preload_moves_ex_SOURCES = tests/preload/moves_ex.c tests/bench/ends.h
tests_preload_moves_ex_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_moves_ex_LDADD = common/libcli.la $(REPORT_LIBS) $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/events
tests_preload_events_SOURCES = tests/preload/events.c tests/preload/rc.c tests/preload/rc.h tests/cancelled.h
tests_preload_events_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_events_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/slow_memory
tests_preload_slow_memory_SOURCES = tests/preload/slow_memory.c tests/preload/rc.c tests/preload/rc.h
tests_preload_slow_memory_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_slow_memory_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/ending
tests_preload_ending_SOURCES = tests/preload/ending.c tests/preload/rc.c tests/preload/rc.h
tests_preload_ending_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_ending_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/self_reads
tests_preload_self_reads_SOURCES = tests/preload/self_reads.c tests/preload/rc.c tests/preload/rc.h
tests_preload_self_reads_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_self_reads_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/hang
tests_preload_hang_SOURCES = tests/preload/hang.c tests/preload/rc.c tests/preload/rc.h
tests_preload_hang_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread
tests_preload_hang_LDADD = $(IBVERBS_LIBS)

check_PROGRAMS += tests/preload/every_verb
tests_preload_every_verb_SOURCES = tests/preload/every_verb.c
tests_preload_every_verb_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_every_verb_LDADD = $(IBVERBS_LIBS)

# Linked with the libmlx5 of nullverbs; through libtool it would become a script.
if HAVE_MLX5
check_PROGRAMS += tests/preload/direct_verbs
tests_preload_direct_verbs_SOURCES = tests/preload/direct_verbs.c tests/preload/rc.c tests/preload/rc.h
tests_preload_direct_verbs_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS)
tests_preload_direct_verbs_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed,tests/nullverbs/.libs/libmlx5.so
tests_preload_direct_verbs_LDADD = $(IBVERBS_LIBS)
tests_preload_direct_verbs_DEPENDENCIES = tests/nullverbs/libmlx5.la
endif
