/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * void *dlopen(const char *file, int mode), with no symbol version: any caller's.
 *
 * The real dlopen looks at its return address to know its caller: $ORIGIN, RUNPATH and the namespace
 * are the caller's. So it must be jumped to, not called, and no compiler promises that.
 * dlopen_choose() (dlopen.c) decides what to do. It returns two pointers in registers: a handle, and
 * the function to go on with, with the original arguments, if the handle is NULL.
 */
#if defined(__x86_64__) && defined(__LP64__)

	.text
	.globl	dlopen
	.type	dlopen, @function
	.hidden	dlopen_choose
	.p2align 4
dlopen:
	.cfi_startproc
	endbr64
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rdi, 8(%rsp)
	movl	%esi, 4(%rsp)
	call	dlopen_choose
	movq	8(%rsp), %rdi
	movl	4(%rsp), %esi
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	testq	%rax, %rax
	jz	1f
	ret
1:	jmp	*%rdx
	.cfi_endproc
	.size	dlopen, . - dlopen

#elif defined(__aarch64__) && defined(__LP64__)

	.text
	.globl	dlopen
	.type	dlopen, %function
	.hidden	dlopen_choose
	.p2align 4
dlopen:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	dlopen_choose
	mov	x9, x0
	mov	x16, x1			/* x16: a jump that bti c at its target lets pass */
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	cbz	x9, 1f
	mov	x0, x9
	ret
1:	br	x16
	.cfi_endproc
	.size	dlopen, . - dlopen

#endif

	.section .note.GNU-stack, "", %progbits
