// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CommandError says why a command cannot be run. It is permanent: the command can
// never run with this config.
type CommandError struct{ Err error }

func (e *CommandError) Error() string { return e.Err.Error() }

func (e *CommandError) Unwrap() error { return e.Err }

// ErrNoCommand matches the CommandError of a missing command.
var ErrNoCommand = errors.New("there is no such command")

// noCommand wraps an error so that ErrNoCommand matches it.
type noCommand struct{ error }

func (noCommand) Is(target error) bool { return target == ErrNoCommand }

func (e noCommand) Unwrap() error { return e.error }

// explain adds the reason to the error of a failed start. err may be nil.
func explain(err error, cfg *Config, command string, p Process) error {
	var s *StepError
	if !errors.As(err, &s) {
		return err
	}
	switch s.What {
	case stepChdir:
		return &CommandError{fmt.Errorf("work_dir %q: %w; it must exist in the task's root file system, and the task's user must be allowed to enter it", cfg.WorkDir, s.Err)}
	case stepExec:
		return &CommandError{fmt.Errorf("run %s: %w; the program must be built for this machine, its interpreter and libraries must be in the task's root file system, and the task's user must be allowed to run it", command, Refused(command, p.Args, p.Env, s.Err))}
	}
	return err
}

// noZeros rejects strings that contain a zero byte, since the kernel would truncate
// them there.
func noZeros(lists ...[]string) error {
	for _, list := range lists {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("%w: %q contains a zero byte, which is not allowed in arguments and variables", unix.EINVAL, s)
			}
		}
	}
	return nil
}

// lookUp finds a command in the calling thread's root directory.
func lookUp(command string, env []string) (string, error) {
	if command == "" {
		return "", &CommandError{errors.New("the command is empty; name the program to run")}
	}
	if strings.HasPrefix(command, "/") {
		if err := executable(command); err != nil && !errors.Is(err, unix.ENOENT) {
			return "", &CommandError{fmt.Errorf("command %q: %w", command, err)}
		} else if err != nil {
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
	if !strings.Contains(command, "/") {
		for dir := range strings.SplitSeq(path, ":") {
			if strings.HasPrefix(dir, "/") {
				tries = append(tries, filepath.Join(dir, command))
			}
		}
	}
	for _, try := range tries {
		if executable(try) == nil {
			return try, nil
		}
	}
	for _, try := range tries {
		if err := executable(try); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return "", &CommandError{fmt.Errorf("command %q is %s: %w", command, try, err)}
		}
	}
	return "", &CommandError{noCommand{fmt.Errorf("there is no executable file %q in the task's directory or in its PATH %q; fetch it with an artifact, or give the path it has in the task's root file system", command, path)}}
}

// present checks that files exist in the calling thread's root directory.
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
		return noCommand{fmt.Errorf("there is no such program: %w", err)}
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return errors.New("it is a directory; name a program in it")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a file")
	case st.Mode&0o111 == 0:
		return errors.New("it is not executable; set its mode, for example with perms = \"755\" in its template")
	}
	return nil
}
