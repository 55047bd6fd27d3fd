// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CommandError says why a command cannot be run; it never can with this config.
type CommandError struct{ Err error }

func (e *CommandError) Error() string { return e.Err.Error() }

func (e *CommandError) Unwrap() error { return e.Err }

func explain(s *StepError, cfg *Config, command string) error {
	switch s.What {
	case stepChdir:
		return &CommandError{fmt.Errorf("work_dir %q: %w; it must exist in the task's root file system, and its user may enter it", cfg.WorkDir, s.Err)}
	case stepExec:
		return &CommandError{fmt.Errorf("run %s: %w; the program must be made for this machine, what it needs (interpreter, libraries) must be in the task's root file system, and its user may run it", command, s.Err)}
	}
	return s
}

// lookUp finds a command in the thread's root directory.
func lookUp(command string, env []string) (string, error) {
	if strings.HasPrefix(command, "/") {
		if err := executable(command); err != nil {
			return "", &CommandError{fmt.Errorf("command %q: %w; it must be in the task's root file system: fetch it with an artifact, or have the operator add its directory to chroot_env", command, err)}
		}
		return command, nil
	}
	tries := []string{"/local/" + command, "/" + command}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	if command != "" && !strings.Contains(command, "/") {
		for dir := range strings.SplitSeq(path, ":") {
			if strings.HasPrefix(dir, "/") {
				tries = append(tries, filepath.Join(dir, command))
			}
		}
	}
	for _, try := range tries {
		if command != "" && executable(try) == nil {
			return try, nil
		}
	}
	return "", &CommandError{fmt.Errorf("there is no executable file %q in the task's directory or in its PATH %q; fetch it with an artifact, or give the path it has in the task's root file system", command, path)}
}

// present looks for files in the thread's root directory.
func present(files []string) error {
	for _, file := range files {
		var st unix.Stat_t
		err := unix.Stat(file, &st)
		if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = errors.New("it is not a file")
		}
		if err != nil {
			return &CommandError{fmt.Errorf("%s: %w; it must be in the task's root file system: fetch it with an artifact, or give the path that the task sees", file, err)}
		}
	}
	return nil
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return fmt.Errorf("there is no such program: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is not a file")
	}
	if st.Mode&0o111 == 0 {
		return errors.New("it is not executable; set its mode")
	}
	return nil
}
