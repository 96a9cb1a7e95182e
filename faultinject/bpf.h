/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Packet programs: an assembler for the few instructions that they need, and how they are loaded.
 * It needs the kernel's headers only, and no compiler: what a program matches and does is known
 * only at run time.
 */
#ifndef SHIFT_INJECT_BPF_H
#define SHIFT_INJECT_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

enum { BPF_CODE_MAX = 256, BPF_LABELS = 32 };

struct bpf_code {
	struct bpf_insn insn[BPF_CODE_MAX];
	int count;
	int label_at[BPF_LABELS]; /* index of the instruction + 1 */
	struct {
		int at, label;
	} jump[BPF_CODE_MAX];
	int jumps, labels;
};

/* A label for bpf_jump*(); bpf_place() sets it to the present place. Jumps go forward only. */
int bpf_label(struct bpf_code *c);
void bpf_place(struct bpf_code *c, int label);
bool bpf_is_used(const struct bpf_code *c, int label);

/* op: BPF_ADD, BPF_MOV, ... on 64 bits. */
void bpf_op_imm(struct bpf_code *c, int op, int dst, int32_t imm);
void bpf_op(struct bpf_code *c, int op, int dst, int src);
/* From network order; bits: 16 or 32. */
void bpf_swap(struct bpf_code *c, int dst, int bits);
/* size: BPF_B, BPF_H, BPF_W, BPF_DW. */
void bpf_load(struct bpf_code *c, int size, int dst, int base, int offset);
void bpf_store(struct bpf_code *c, int size, int base, int offset, int src);
void bpf_store_imm(struct bpf_code *c, int size, int base, int offset, int32_t imm);
/* To a 64-bit number, as one step. */
void bpf_add_to(struct bpf_code *c, int base, int offset, int src);
void bpf_constant(struct bpf_code *c, int dst, uint64_t value);
/* dst becomes the address of the map's first value. */
void bpf_map_value(struct bpf_code *c, int dst, int map_fd);
/* op: BPF_JEQ, BPF_JGE, ...; the lower 32 bits of dst are compared. */
void bpf_jump_imm(struct bpf_code *c, int op, int dst, uint32_t imm, int label);
/* All 64. */
void bpf_jump_reg(struct bpf_code *c, int op, int dst, int src, int label);
void bpf_jump(struct bpf_code *c, int label);
void bpf_call(struct bpf_code *c, int helper);
void bpf_return(struct bpf_code *c, int32_t value);

/* A descriptor, or a negative errno. log (of size bytes) gets the verifier's output, which shows
 * what is wrong with a program. */
int bpf_load_program(struct bpf_code *c, const char *name, char *log, uint32_t size);

/* For tests: runs the program on one packet (from its MAC header on, with a few bytes of room),
 * which it may change. 0 and the verdict, or a negative errno. */
int bpf_try_program(int program, void *packet, uint32_t bytes, uint32_t *verdict);

/* An array of one value of that many bytes. */
int bpf_state_make(uint32_t bytes, const void *first);
int bpf_state_read(int fd, void *value);
/* Its number, by which another process opens it; 0: unknown. */
uint32_t bpf_state_id(int fd);
int bpf_state_open(uint32_t id);

#endif
