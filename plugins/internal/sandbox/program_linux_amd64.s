// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

#include "textflag.h"

// The code of every program: it carries out a table of system calls, each of
// eight words (number, six arguments, mode), at the fixed address of tableAt.
// Mode 0: an error is written to descriptor 3 as (errno, address of the entry)
// and ends the process with 127. Mode 1: errors are ignored. Mode 2: the call is
// repeated for good. Mode 3: as mode 0, and a result of 0 is an error too, of number
// 0. It uses no stack but for that error and is copied out of
// this binary into an executable of its own, so it must not depend on where it
// lies. It ends with the mark "DROVEREN".
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
