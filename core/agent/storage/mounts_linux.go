// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// umountNoFollow is a flag of umount2(2): a link at the path is not followed.
const umountNoFollow = 0x8

// mountPoint is one mount of the machine.
type mountPoint struct {
	path   string
	shared bool
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// eachMount calls f for every mount that this process sees, in the order in which they were
// made.
func eachMount(f func(mountPoint)) error {
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
		m := mountPoint{path: unescape.Replace(fields[4])}
		for _, option := range fields[6:] {
			m.shared = m.shared || strings.HasPrefix(option, "shared:")
		}
		f(m)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("look at the mounts of the machine: %w", err)
	}
	return nil
}

// mounted reports whether something is mounted at a path.
func mounted(path string) (there bool, err error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // as the kernel names it
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the path of a volume: %w", err)
	}
	path = filepath.Join(dir, filepath.Base(path))
	err = eachMount(func(m mountPoint) { there = there || m.path == path })
	return there, err
}

// unmountAll unmounts everything at a path that nobody uses.
func unmountAll(path string) error {
	for {
		err := syscall.Unmount(path, umountNoFollow)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // nothing is mounted there
			return nil
		case err != nil:
			return fmt.Errorf("unmount: %w", err)
		}
	}
}

// share makes a directory one whose mounts other mount namespaces see, if it is not one
// already. On most machines all directories are.
func share(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the directory: %w", err)
	}
	var at mountPoint
	err = eachMount(func(m mountPoint) {
		if inside := m.path == "/" || real == m.path || strings.HasPrefix(real, m.path+"/"); inside && len(m.path) >= len(at.path) {
			at = m
		}
	})
	if err != nil || at.shared {
		return err
	}
	if at.path != real {
		if err := syscall.Mount(real, real, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on itself, since %s is not shared: %w", real, at.path, err)
		}
	}
	if err := syscall.Mount("", real, "", syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts below %s: %w", real, err)
	}
	return nil
}
