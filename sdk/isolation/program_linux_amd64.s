// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

#include "textflag.h"

// The code of every program: it executes a table of system calls, each of eight
// words (number, six arguments, mode), at the fixed address tableAt.
// Mode 0: on error, (errno, address of the entry) is written to descriptor 3, and
// the process exits with 127. Mode 1: errors are ignored. Mode 2: the call is
// repeated forever. Mode 3: like mode 0, but a result of 0 is also an error, with
// errno 0. The code uses the stack only for that message. It is copied from this
// binary to another executable, so it must be position independent. It ends with
// the mark "DROVEREN".
TEXT ·programCode(SB),NOSPLIT|NOFRAME,$0
	MOVQ	$0x400400, BX
loop:
	MOVQ	0(BX), AX
	MOVQ	8(BX), DI
	MOVQ	16(BX), SI
	MOVQ	24(BX), DX
	MOVQ	32(BX), R10
	MOVQ	40(BX), R8
	MOVQ	48(BX), R9
	SYSCALL
	MOVQ	56(BX), R12
	CMPQ	R12, $2
	JEQ	loop
	CMPQ	R12, $1
	JEQ	next
	CMPQ	AX, $0xfffffffffffff001
	JCC	fail
	CMPQ	R12, $3
	JNE	next
	TESTQ	AX, AX
	JEQ	fail
next:
	ADDQ	$64, BX
	JMP	loop
fail:
	SUBQ	$16, SP
	NEGQ	AX
	MOVQ	AX, 0(SP)
	MOVQ	BX, 8(SP)
	MOVQ	$3, DI
	MOVQ	SP, SI
	MOVQ	$16, DX
	MOVQ	$1, AX
	SYSCALL
	MOVQ	$127, DI
	MOVQ	$231, AX
	SYSCALL
	BYTE $'D'; BYTE $'R'; BYTE $'O'; BYTE $'V'; BYTE $'E'; BYTE $'R'; BYTE $'E'; BYTE $'N'

// func programText() uintptr
TEXT ·programText(SB),NOSPLIT,$0-8
	LEAQ	·programCode(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
