/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faultinject/bpf.h"

static void add_insn(struct bpf_code *c, int code, int dst, int src, int offset, int32_t imm)
{
	assert(c->count < BPF_CODE_MAX);
	c->insn[c->count++] = (struct bpf_insn){.code = (uint8_t)code,
						.dst_reg = (uint8_t)(dst & 15),
						.src_reg = (uint8_t)(src & 15),
						.off = (int16_t)offset,
						.imm = imm};
}

int bpf_label(struct bpf_code *c)
{
	assert(c->labels < BPF_LABELS);
	return c->labels++;
}

void bpf_place(struct bpf_code *c, int label)
{
	c->label_at[label] = c->count + 1;
}

bool bpf_is_used(const struct bpf_code *c, int label)
{
	for (int i = 0; i < c->jumps; i++)
		if (c->jump[i].label == label)
			return true;
	return false;
}

void bpf_op_imm(struct bpf_code *c, int op, int dst, int32_t imm)
{
	add_insn(c, BPF_ALU64 | op | BPF_K, dst, 0, 0, imm);
}

void bpf_op(struct bpf_code *c, int op, int dst, int src)
{
	add_insn(c, BPF_ALU64 | op | BPF_X, dst, src, 0, 0);
}

void bpf_swap(struct bpf_code *c, int dst, int bits)
{
	add_insn(c, BPF_ALU | BPF_END | BPF_TO_BE, dst, 0, 0, bits);
}

void bpf_load(struct bpf_code *c, int size, int dst, int base, int offset)
{
	add_insn(c, BPF_LDX | BPF_MEM | size, dst, base, offset, 0);
}

void bpf_store(struct bpf_code *c, int size, int base, int offset, int src)
{
	add_insn(c, BPF_STX | BPF_MEM | size, base, src, offset, 0);
}

void bpf_store_imm(struct bpf_code *c, int size, int base, int offset, int32_t imm)
{
	add_insn(c, BPF_ST | BPF_MEM | size, base, 0, offset, imm);
}

void bpf_add_to(struct bpf_code *c, int base, int offset, int src)
{
	add_insn(c, BPF_STX | BPF_ATOMIC | BPF_DW, base, src, offset, BPF_ADD);
}

static void add_wide(struct bpf_code *c, int dst, int src, uint32_t low, uint32_t high)
{
	add_insn(c, BPF_LD | BPF_IMM | BPF_DW, dst, src, 0, (int32_t)low);
	add_insn(c, 0, 0, 0, 0, (int32_t)high);
}

void bpf_constant(struct bpf_code *c, int dst, uint64_t value)
{
	add_wide(c, dst, 0, (uint32_t)value, (uint32_t)(value >> 32));
}

void bpf_map_value(struct bpf_code *c, int dst, int map_fd)
{
	add_wide(c, dst, BPF_PSEUDO_MAP_VALUE, (uint32_t)map_fd, 0);
}

static void add_jump(struct bpf_code *c, int code, int dst, int src, int32_t imm, int label)
{
	c->jump[c->jumps].at = c->count;
	c->jump[c->jumps++].label = label;
	add_insn(c, code, dst, src, 0, imm);
}

void bpf_jump_imm(struct bpf_code *c, int op, int dst, uint32_t imm, int label)
{
	add_jump(c, BPF_JMP32 | op | BPF_K, dst, 0, (int32_t)imm, label);
}

void bpf_jump_reg(struct bpf_code *c, int op, int dst, int src, int label)
{
	add_jump(c, BPF_JMP | op | BPF_X, dst, src, 0, label);
}

void bpf_jump(struct bpf_code *c, int label)
{
	add_jump(c, BPF_JMP | BPF_JA, 0, 0, 0, label);
}

void bpf_call(struct bpf_code *c, int helper)
{
	add_insn(c, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

void bpf_return(struct bpf_code *c, int32_t value)
{
	bpf_op_imm(c, BPF_MOV, BPF_REG_0, value);
	add_insn(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void resolve_jumps(struct bpf_code *c)
{
	for (int i = 0; i < c->jumps; i++) {
		int to = c->label_at[c->jump[i].label] - 1, at = c->jump[i].at;

		assert(to > at);
		c->insn[at].off = (int16_t)(to - at - 1);
	}
	c->jumps = 0;
}

/* --- into the kernel ------------------------------------------------------------------------- */

static int sys_bpf(int command, union bpf_attr *attr)
{
	long n = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return n < 0 ? -errno : (int)n;
}

/* Kernels before 5.11 count programs and maps as locked memory. */
static void allow_memory(void)
{
	static const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_MEMLOCK, &all);
}

int bpf_load_program(struct bpf_code *c, const char *name, char *log, uint32_t size)
{
	union bpf_attr attr = {0};

	resolve_jumps(c);
	attr.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	attr.insn_cnt = (uint32_t)c->count;
	attr.insns = (uintptr_t)c->insn;
	attr.license = (uintptr_t) "GPL";
	attr.log_buf = (uintptr_t)log;
	attr.log_size = log ? size : 0;
	attr.log_level = log ? 1 : 0;
	snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", name);
	allow_memory();
	return sys_bpf(BPF_PROG_LOAD, &attr);
}

int bpf_try_program(int program, void *packet, uint32_t bytes, uint32_t *verdict)
{
	union bpf_attr attr = {0};
	int err;

	attr.test.prog_fd = (uint32_t)program;
	attr.test.data_in = attr.test.data_out = (uintptr_t)packet;
	attr.test.data_size_in = attr.test.data_size_out = bytes;
	attr.test.repeat = 1;
	err = sys_bpf(BPF_PROG_TEST_RUN, &attr);
	*verdict = attr.test.retval;
	return err;
}

int bpf_state_make(uint32_t bytes, const void *first)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY,
			       .key_size = sizeof(uint32_t),
			       .value_size = bytes,
			       .max_entries = 1};
	uint32_t key = 0;
	int fd, err;

	allow_memory();
	fd = sys_bpf(BPF_MAP_CREATE, &attr);
	if (fd < 0)
		return fd;
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)first;
	err = sys_bpf(BPF_MAP_UPDATE_ELEM, &attr);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int bpf_state_read(int fd, void *value)
{
	uint32_t key = 0;
	union bpf_attr attr = {0};

	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)value;
	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

uint32_t bpf_state_id(int fd)
{
	struct bpf_map_info info = {0};
	union bpf_attr attr = {0};

	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	return sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) ? 0 : info.id;
}

int bpf_state_open(uint32_t id)
{
	union bpf_attr attr = {.map_id = id};

	return sys_bpf(BPF_MAP_GET_FD_BY_ID, &attr);
}
