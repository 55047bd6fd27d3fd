// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockVersion is the kernel's version of Landlock; 0 without it.
var landlockVersion = sync.OnceValue(func() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return max(v, 0)
})

// The rights over files by the version of Landlock that brought them.
const (
	readRights  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writeRights = readRights | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSTruncate
	deviceRights = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
	// fileRights are the rights that a rule about a file may have.
	fileRights = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// handledFiles are the rights over files that a version of Landlock knows.
func handledFiles(version int) uint64 {
	all := uint64(1)<<13 - 1
	for _, later := range []struct {
		version int
		right   uint64
	}{{2, ll.AccessFSRefer}, {3, ll.AccessFSTruncate}, {5, ll.AccessFSIoctlDev}} {
		if version >= later.version {
			all |= later.right
		}
	}
	return all
}

// ruleset is a set of Landlock rules that is being built.
type ruleset struct {
	fd      int
	handled uint64
}

// restrictFiles restricts the calling thread to the paths of the rights, and keeps it
// from signalling processes outside.
func (r *Rights) restrictFiles() error {
	version := landlockVersion()
	if version == 0 {
		return nil
	}
	attr := ll.RulesetAttr{HandledAccessFS: handledFiles(version)}
	if version >= 4 && !r.Network {
		attr.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if version >= 6 {
		attr.Scoped = ll.ScopeSignal
		if !r.Network {
			attr.Scoped |= ll.ScopeAbstractUnixSocket
		}
	}
	fd, err := ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	set := ruleset{fd: fd, handled: attr.HandledAccessFS}
	if err := r.addRules(&set); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	return ll.LandlockRestrictSelf(fd, 0)
}

func (r *Rights) addRules(set *ruleset) error {
	hidden := make([]string, 0, len(r.Hidden))
	for _, path := range r.Hidden {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			hidden = append(hidden, real)
		}
	}
	if err := set.allButHidden("/", hidden); err != nil {
		return err
	}
	for _, path := range r.Read {
		if err := set.allow(path, readRights, 0); err != nil {
			return err
		}
	}
	for _, path := range r.Write {
		if err := set.allow(path, writeRights, 0); err != nil {
			return err
		}
	}
	return set.allow("/dev", deviceRights, 0)
}

// allButHidden allows a directory to be read, or, if something in it is hidden, its other
// entries. Files that are created in such a directory later are not readable.
func (s *ruleset) allButHidden(dir string, hidden []string) error {
	if slices.Contains(hidden, dir) {
		return nil
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	if !slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, prefix) }) {
		return s.allow(dir, readRights, unix.O_NOFOLLOW)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // its target has a rule of its own, or is hidden
		}
		if err := s.allButHidden(prefix+e.Name(), hidden); err != nil {
			return err
		}
	}
	return nil
}

// allow adds a rule about a path and everything below it. It skips a path that does not
// exist.
func (s *ruleset) allow(path string, rights uint64, flags int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	if rights &= s.handled; rights == 0 {
		return nil
	}
	if err := ll.LandlockAddPathBeneathRule(s.fd, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0); err != nil {
		return &fs.PathError{Op: "allow", Path: path, Err: err}
	}
	return nil
}
