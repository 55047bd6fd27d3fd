// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package artifact

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// nobody is the user id of children of an agent that runs as root.
const nobody = 65534

// identity is the user of a child.
type identity struct {
	drop bool // as nobody, where the agent is root
}

// childIdentity returns the user nobody if the agent is root and nobody can access the
// directory and the binary, otherwise the agent's own user (whose capabilities the
// child drops).
func (f *Fetcher) childIdentity(alloc, binary string) identity {
	if os.Geteuid() != 0 {
		return identity{}
	}
	for _, path := range []string{alloc, binary} {
		if at := closedTo(path); at != "" {
			f.warnOnce("artifacts are fetched as root without its capabilities, not as nobody, since nobody cannot reach a folder; give it mode 0711", "folder", at)
			return identity{}
		}
	}
	return identity{drop: true}
}

// closedTo returns the first directory on a path, including the path itself, that
// other users cannot enter.
func closedTo(path string) string {
	for {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return ""
		}
		path = parent
	}
}

func (id identity) own(path string) error {
	if !id.drop {
		return nil
	}
	return os.Lchown(path, nobody, nobody)
}

// disown makes the agent the owner of a file or directory, and closes directories to
// others until their permissions are set.
func (id identity) disown(root *os.Root, name string) error {
	if !id.drop {
		return nil
	}
	return root.Lchown(name, os.Geteuid(), os.Getegid())
}

func (id identity) disownLink(root *os.Root, name string) error { return id.disown(root, name) }

// apply makes a command run in a process group of its own as the identity.
func (id identity) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if id.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

// killGroup ends a process and all that it has started.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// inode identifies a file independently of its path.
type inode struct{ dev, ino uint64 }

// inodeOf returns a file's inode and its number of hard links.
func inodeOf(info os.FileInfo) (inode, int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, 1
	}
	return inode{dev: uint64(st.Dev), ino: st.Ino}, int(st.Nlink)
}

func acrossDevices(err error) bool { return errors.Is(err, syscall.EXDEV) }
