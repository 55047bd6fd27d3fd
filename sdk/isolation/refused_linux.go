// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Refused explains why the kernel could not run a program. It inspects the program
// in the calling thread's root directory, because the kernel returns only an error
// number, and the same one for a missing file as for a script whose interpreter is
// missing.
func Refused(program string, args, env []string, err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%w: %s", err, tooLong(args, env))
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w: %s", err, noProgram(head(program)))
	case errors.Is(err, unix.ENOENT):
		if what := missing(head(program)); what != "" {
			return fmt.Errorf("%w: %s", err, what)
		}
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: the task's user may not run it, may not enter a directory on its way, or it is on a file system that is mounted noexec", err)
	}
	return err
}

// head returns the part of a file that the kernel examines.
func head(program string) []byte {
	const looks = 256
	file, err := os.OpenFile(program, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	buf := make([]byte, looks)
	n, _ := file.Read(buf) // an unreadable file is not explained
	return buf[:n]
}

var elf = []byte("\x7fELF")

func noProgram(head []byte) string {
	switch {
	case len(head) == 0:
		return "the file is empty"
	case bytes.HasPrefix(head, elf):
		return "it is a program for another kind of machine, or damaged"
	}
	return "it is neither a program nor a script; the first line of a script must name its interpreter, such as #!/bin/sh"
}

func missing(head []byte) string {
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		interpreter, _, _ := strings.Cut(strings.Trim(string(line), " \t"), " ")
		hint := ""
		if strings.HasSuffix(interpreter, "\r") {
			hint = "; its lines end as on Windows, with a carriage return too many"
		}
		return fmt.Sprintf("its interpreter %q is not there%s", interpreter, hint)
	}
	if bytes.HasPrefix(head, elf) {
		return "the dynamic loader that it was linked for is not there"
	}
	return ""
}

// tooLong says which limit of the kernel the arguments and the environment exceed: the
// limit of a single string, which is 32 pages, or the limit of all strings together.
func tooLong(args, env []string) string {
	one, sum, longest := 32*os.Getpagesize(), 0, ""
	for _, s := range args {
		if sum += len(s) + 1; len(s) >= one {
			longest = fmt.Sprintf("an argument of %d bytes", len(s))
		}
	}
	for _, kv := range env {
		if sum += len(kv) + 1; len(kv) >= one {
			name, _, _ := strings.Cut(kv, "=")
			longest = fmt.Sprintf("the variable %s of %d bytes", name, len(kv))
		}
	}
	const instead = "put it into a file, for example with a template"
	if longest != "" {
		return fmt.Sprintf("%s is more than the kernel's %d; %s", longest, one, instead)
	}
	return fmt.Sprintf("its arguments and environment are %d bytes, more than the kernel takes (a quarter of the limit of the stack); %s", sum, instead)
}
