// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// pauseImage is an image with a program that only sleeps. The driver contains it, since a
// node may reach no registry.
type pauseImage struct {
	name    string // with a digest, so that other versions have other names
	archive []byte // in the format of docker save
}

var ownPauseImage = sync.OnceValues(func() (pauseImage, error) { return newPauseImage(runtime.GOARCH) })

// pauses is the machine code of a program that waits for signals for ever. As process 1 of
// its container it ignores all but SIGKILL.
var pauses = map[string]struct {
	machine elf.Machine
	code    []byte
}{
	"amd64": {elf.EM_X86_64, []byte{
		0xb8, 34, 0, 0, 0, // mov eax, 34 (pause)
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the start
	}},
	"arm64": {elf.EM_AARCH64, words(
		0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, // mov x0, #0 to x3: no files, no time limit, no signal mask
		0xd2800928, // mov x8, #73 (ppoll)
		0xd4000001, // svc #0
		0x17fffffa, // b to the start
	)},
}

func words(list ...uint32) (out []byte) {
	for _, w := range list {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}

// pauseProgram returns the program as a static executable for Linux.
func pauseProgram(arch string) ([]byte, error) {
	p, ok := pauses[arch]
	if !ok {
		return nil, errdefs.FailedPreconditionf("the docker driver has no pause image for %s; set infra_image in the agent's plugin \"docker\" config to an image that only sleeps", arch)
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(p.code))
	head := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(p.machine), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x10000,
	}
	var out bytes.Buffer
	for _, part := range []any{head, segment, p.code} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			return nil, errdefs.Internalf("make the pause program: %w", err)
		}
	}
	return out.Bytes(), nil
}

func newPauseImage(arch string) (pauseImage, error) {
	program, err := pauseProgram(arch)
	if err != nil {
		return pauseImage{}, err
	}
	layer, err := archive(file{"pause", 0o755, program})
	if err != nil {
		return pauseImage{}, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return pauseImage{}, errdefs.Internalf("make the pause image: %w", err)
	}
	out := pauseImage{name: "drover/pause:" + hex.EncodeToString(sum[:6])}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{out.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return pauseImage{}, errdefs.Internalf("make the pause image: %w", err)
	}
	out.archive, err = archive(file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer}, file{"manifest.json", 0o644, manifest})
	return out, err
}

type file struct {
	name string
	mode int64
	body []byte
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body))})
		if err == nil {
			_, err = w.Write(f.body)
		}
		if err != nil {
			return nil, errdefs.Internalf("make the pause image: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, errdefs.Internalf("make the pause image: %w", err)
	}
	return out.Bytes(), nil
}
