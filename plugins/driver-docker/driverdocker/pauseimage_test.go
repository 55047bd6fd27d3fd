// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

func TestThePauseProgramIsAnExecutableOfItsMachine(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		body, err := pauseProgram(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if p := f.Progs; f.Machine != machine || f.Type != elf.ET_EXEC || len(p) != 1 || p[0].Filesz != uint64(len(body)) ||
			f.Entry != p[0].Vaddr+uint64(len(body)-len(pauses[arch].code)) {
			t.Errorf("%s: %+v", arch, f)
		}
	}
	if _, err := newPauseImage("mips"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a machine without a program: %v", err)
	}
}
