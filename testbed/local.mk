# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-testbed, the agent that runs in its hosts, and the scripts that both need.

bin_PROGRAMS += testbed/shift-testbed
testbed_shift_testbed_SOURCES = \
	testbed/shift-testbed.c testbed/testbed.h testbed/util.c testbed/state.c testbed/panic_log.c \
	testbed/config.c testbed/kvm.c \
	testbed/chan.c testbed/chan.h testbed/wire.h testbed/client.c \
	testbed/machine.c testbed/machine.h testbed/qemu.c testbed/ssh.c \
	testbed/supervisor.c testbed/supervisor.h testbed/requests.c \
	testbed/cmd_up.c testbed/cmd_exec.c testbed/cmd_cp.c testbed/cmd_link.c \
	testbed/cmd_console.c testbed/cmd_status.c testbed/cmd_down.c
testbed_shift_testbed_CPPFLAGS = $(AM_CPPFLAGS) -DPKGLIBEXECDIR='"$(pkglibexecdir)"'
testbed_shift_testbed_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(INIH_CFLAGS)
testbed_shift_testbed_LDADD = common/libcli.la $(CJSON_LIBS) $(INIH_LIBS)

# Static, and never with a sanitizer: it is PID 1 on a bare kernel.
pkglibexec_PROGRAMS += testbed/shift-testbed-agent
testbed_shift_testbed_agent_SOURCES = \
	testbed/agent.c testbed/agent.h testbed/boot.c testbed/jobs.c testbed/chan.c testbed/chan.h \
	testbed/wire.h
testbed_shift_testbed_agent_CFLAGS = $(SHIFT_CFLAGS)
testbed_shift_testbed_agent_LDFLAGS = -all-static
# without AM_LDFLAGS: see above
testbed_shift_testbed_agent_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC --mode=link $(CC) \
	$(testbed_shift_testbed_agent_CFLAGS) $(CFLAGS) $(testbed_shift_testbed_agent_LDFLAGS) \
	$(LDFLAGS) -o $@

# Beside the program in the build tree too, also when that is not the source tree.
testbed_scripts = testbed/shift-testbed-image testbed/shift-testbed-guest \
	testbed/shift-testbed-ssh
pkglibexec_SCRIPTS = $(testbed_scripts)
EXTRA_DIST += testbed/image.sh testbed/guest.sh testbed/ssh.sh
CLEANFILES += $(testbed_scripts)

testbed/shift-testbed-image: testbed/image.sh
testbed/shift-testbed-guest: testbed/guest.sh
testbed/shift-testbed-ssh: testbed/ssh.sh
$(testbed_scripts):
	$(AM_V_GEN)$(MKDIR_P) testbed && cp $? $@.tmp && chmod 755 $@.tmp && mv $@.tmp $@
