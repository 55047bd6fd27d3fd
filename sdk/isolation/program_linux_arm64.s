// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

#include "textflag.h"

// See program_linux_amd64.s.
TEXT ·programCode(SB),NOSPLIT|NOFRAME,$0
	MOVD	$0x400400, R19
loop:
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	40(R19), R4
	MOVD	48(R19), R5
	SVC
	MOVD	56(R19), R9
	CMP	$2, R9
	BEQ	loop
	CMP	$1, R9
	BEQ	next
	CMN	$4095, R0
	BCS	fail
	CMP	$3, R9
	BNE	next
	CBZ	R0, fail
next:
	ADD	$64, R19, R19
	B	loop
fail:
	NEG	R0, R0
	SUB	$16, RSP, RSP
	MOVD	R0, 0(RSP)
	MOVD	R19, 8(RSP)
	MOVD	RSP, R1
	MOVD	$3, R0
	MOVD	$16, R2
	MOVD	$64, R8
	SVC
	MOVD	$127, R0
	MOVD	$94, R8
	SVC
	WORD	$0x564f5244
	WORD	$0x4e455245

// func programText() uintptr
TEXT ·programText(SB),NOSPLIT,$0-8
	MOVD	$·programCode(SB), R0
	MOVD	R0, ret+0(FP)
	RET
