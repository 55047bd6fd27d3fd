// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package mounts

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Point is one mount of the machine.
type Point struct {
	Path   string // without links
	Shared bool   // other mount namespaces see what is mounted below it
}

// unescape undoes how the kernel writes a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Each calls f for every mount that this process sees, in the order in which they were made.
func Each(f func(Point)) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look at the mounts of the machine: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		head, _, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(head)
		if len(fields) < 6 {
			continue
		}
		p := Point{Path: unescape.Replace(fields[4])}
		for _, option := range fields[6:] {
			p.Shared = p.Shared || strings.HasPrefix(option, "shared:")
		}
		f(p)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("look at the mounts of the machine: %w", err)
	}
	return nil
}

// Private reports whether this process has a mount namespace that is not the machine's, as a
// service manager makes it that hides a part of the machine. Its mounts are gone for the next
// process, which gets a new one. It is false in a container that sees only its own processes.
func Private() bool {
	// Threads of the kernel are in the namespace of the machine.
	const first = "/proc/2/"
	if name, err := os.ReadFile(first + "comm"); err != nil || string(name) != "kthreadd\n" {
		return false
	}
	machine, err := os.Readlink(first + "ns/mnt")
	if err != nil {
		return false
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	return err == nil && own != machine
}
