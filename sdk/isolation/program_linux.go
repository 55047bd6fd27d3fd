// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// program is a list of system calls that a process without any runtime executes, see
// the assembly. It is built as an executable in a memory file:
//
//	0x000  ELF header, one segment, readable and executable
//	0x100  the code, the same for all programs
//	0x400  the table of calls
//	0x2000 what their arguments point to
//
// It is loaded at a fixed address, so that arguments can be pointers.
type program struct {
	steps []step
	data  []byte
}

type step struct {
	what string // for error messages
	mode uint64
	nr   uintptr
	args [6]uintptr
}

const (
	imageBase = 0x400000
	codeAt    = 0x100
	tableAt   = 0x400
	dataAt    = 0x2000
	maxSteps  = (dataAt - tableAt) / 64

	modeMust   = 0
	modeTry    = 1 // errors are ignored
	modeRepeat = 2
	modeSome   = 3 // a result of 0, such as at the end of a pipe, counts as an error
)

// reportFD is the descriptor to which a program reports. Its process must have it.
const reportFD = 3

func (p *program) add(what string, nr uintptr, args ...uintptr) { p.append(modeMust, what, nr, args) }

func (p *program) try(what string, nr uintptr, args ...uintptr) { p.append(modeTry, what, nr, args) }

func (p *program) append(mode uint64, what string, nr uintptr, args []uintptr) {
	s := step{what: what, mode: mode, nr: nr}
	copy(s.args[:], args)
	p.steps = append(p.steps, s)
}

// bytes stores b in the program and returns its address.
func (p *program) bytes(b []byte) uintptr {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	at := imageBase + dataAt + uintptr(len(p.data))
	p.data = append(p.data, b...)
	return at
}

func (p *program) string(s string) uintptr { return p.bytes(append([]byte(s), 0)) }

func (p *program) words(w ...uint64) uintptr {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return p.bytes(b)
}

func (p *program) halfWords(w ...uint32) uintptr {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return p.bytes(b)
}

// strings stores a list of strings in the form that execve expects.
func (p *program) strings(list []string) uintptr {
	at := make([]uint64, 0, len(list)+1)
	for _, s := range list {
		at = append(at, uint64(p.string(s)))
	}
	return p.words(append(at, 0)...)
}

// ErrNoPrograms means that this machine cannot run programs from memory files.
var ErrNoPrograms = errors.New("programs in memory files are not available")

// file writes the program to a memory file. Only its owner may read it; otherwise
// the user as which the program runs could ptrace it.
func (p *program) file(name string) (int, error) {
	fd, err := memoryFile(name)
	if err != nil {
		return -1, err
	}
	if err := p.write(fd); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

func memoryFile(name string) (int, error) {
	const mfdExec = 0x10 // since Linux 6.3
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|mfdExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, fmt.Errorf("%w: make an executable memory file: %w; vm.memfd_noexec must be below 2", ErrNoPrograms, err)
	}
	defer closeFD(fd)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return -1, fmt.Errorf("make an executable memory file: %w", err)
	}
	return high, nil
}

// firstFree is above the descriptors that a new process gets. It executes its program by
// the number of the descriptor, which must not have become another file by then.
const firstFree = 16

// write writes the program to an empty memory file.
func (p *program) write(fd int) error {
	image, err := p.image()
	if err != nil {
		return err
	}
	for done := 0; done < len(image) && err == nil; {
		var n int
		n, err = unix.Write(fd, image[done:])
		done += max(n, 0)
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o511)
	}
	if err != nil {
		return fmt.Errorf("write an executable memory file: %w", err)
	}
	return nil
}

func (p *program) image() ([]byte, error) {
	code := loader()
	if code == nil {
		return nil, fmt.Errorf("%w: not on %s", ErrNoPrograms, runtime.GOARCH)
	}
	if len(p.steps) > maxSteps || len(code) > tableAt-codeAt {
		return nil, fmt.Errorf("a program of %d calls and %d bytes of code does not fit", len(p.steps), len(code))
	}
	image := make([]byte, dataAt+len(p.data))
	copy(image, elfHeader(len(image)))
	copy(image[codeAt:], code)
	for i, s := range p.steps {
		entry := image[tableAt+64*i:]
		binary.LittleEndian.PutUint64(entry, uint64(s.nr))
		for j, a := range s.args {
			binary.LittleEndian.PutUint64(entry[8+8*j:], uint64(a))
		}
		binary.LittleEndian.PutUint64(entry[56:], s.mode)
	}
	copy(image[dataAt:], p.data)
	return image, nil
}

// elfMachines are the machine numbers of the architectures in an ELF header.
var elfMachines = map[string]uint16{"amd64": 62, "arm64": 183}

// elfHeader returns the header of a static executable with one segment.
func elfHeader(size int) []byte {
	le := binary.LittleEndian
	h := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	h = le.AppendUint16(h, 2) // e_type ET_EXEC
	h = le.AppendUint16(h, elfMachines[runtime.GOARCH])
	h = le.AppendUint32(h, 1)
	h = le.AppendUint64(h, imageBase+codeAt) // e_entry
	h = le.AppendUint64(h, 64)               // e_phoff
	h = le.AppendUint64(h, 0)                // e_shoff: no sections
	h = le.AppendUint32(h, 0)
	for _, v := range []uint16{64, 56, 2, 64, 0, 0} {
		h = le.AppendUint16(h, v)
	}
	const ptLoad, ptStack, execute, write, read = 1, 0x6474e551, 1, 2, 4
	h = le.AppendUint32(h, ptLoad)
	h = le.AppendUint32(h, read|execute)
	for _, v := range []uint64{0, imageBase, imageBase, uint64(size), uint64(size), 0x10000} {
		h = le.AppendUint64(h, v)
	}
	h = le.AppendUint32(h, ptStack) // makes the stack non-executable
	h = le.AppendUint32(h, read|write)
	for range 6 {
		h = le.AppendUint64(h, 0)
	}
	return h
}

// StepError is the error of a system call of a program.
type StepError struct {
	What string
	Err  error
}

func (e *StepError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *StepError) Unwrap() error { return e.Err }

// await reads the report of the program's process. It returns nil once the process
// has closed its end of the pipe, because it has become another program or has
// ended.
func (p *program) await(report int, timeoutMS int) error {
	fds := []unix.PollFd{{Fd: int32(report), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, timeoutMS)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = unix.ETIMEDOUT
		}
		if err != nil {
			return fmt.Errorf("wait for the new process: %w", err)
		}
		break
	}
	var raw [16]byte
	n, err := unix.Read(report, raw[:])
	if err != nil {
		return fmt.Errorf("read the report of the new process: %w", err)
	}
	if n < len(raw) {
		return nil
	}
	return p.failure(raw)
}

// failure decodes the report of a failed call.
func (p *program) failure(raw [16]byte) error {
	i := int(binary.LittleEndian.Uint64(raw[8:])-imageBase-tableAt) / 64
	what := "an unknown step"
	if i >= 0 && i < len(p.steps) {
		what = p.steps[i].what
	}
	return &StepError{What: what, Err: unix.Errno(binary.LittleEndian.Uint64(raw[:]))}
}

// closeFD closes a descriptor, which may be -1. Its error does not matter, since the
// descriptor is closed in any case.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
