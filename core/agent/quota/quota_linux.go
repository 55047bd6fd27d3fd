// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Requests of ioctl and commands of quotactl, which the kernel's headers fix.
const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	inherit       = 0x200      // FS_XFLAG_PROJINHERIT

	projects = 2 // PRJQUOTA
	getQuota = 0x800007<<8 | projects
	setQuota = 0x800008<<8 | projects
	getState = 0x5808<<8 | projects // Q_XGETQSTATV

	validLimit  = 1      // QIF_BLIMITS
	enforced    = 1 << 5 // FS_QUOTA_PDQ_ENFD
	stateSize   = 256    // more than struct fs_quota_statv
	stateV1     = 1
	quotaBlocks = 1 << 10 // the unit of limits
)

// attributes is struct fsxattr.
type attributes struct {
	flags, extent, extents, project, cow uint32
	_                                    [8]byte
}

// account is struct if_dqblk.
type account struct {
	hardBlocks, softBlocks, bytes  uint64
	hardInodes, softInodes, inodes uint64
	graceForBlocks, graceForInodes uint64
	valid                          uint32
	_                              uint32
}

// This package gives ids between firstID and lastID, because other programs use small ones by
// custom.
const (
	firstID = 1 << 24
	lastID  = 1<<31 - 1
	tries   = 64 // ids that are tried before a directory is given up
)

// choosing is held while an id is chosen and taken.
var choosing sync.Mutex

// Supported returns nil if directories below dir can be limited, and otherwise why not.
func Supported(dir string) error {
	fd, err := open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return supported(fd, dir)
}

func supported(fd int, dir string) error {
	var a attributes
	if err := ioctl(fd, getAttributes, &a); err != nil {
		return unsupported(dir, "it has no project ids: %w", err)
	}
	state := make([]byte, stateSize)
	state[0] = stateV1
	switch err := quotactl(fd, getState, 0, unsafe.Pointer(&state[0])); {
	case errors.Is(err, unix.EPERM):
		return unsupported(dir, "the agent may not set limits; it needs root")
	case err != nil:
		return unsupported(dir, "it is not mounted with prjquota, has no project quotas, or the kernel is older than 5.14: %w", err)
	}
	if flags := *(*uint16)(unsafe.Pointer(&state[2])); flags&enforced == 0 {
		return unsupported(dir, "project quotas are not enforced; mount it with prjquota")
	}
	return nil
}

// Limit limits what a directory and all that is in it may take, and may be repeated, also
// with another limit. What is in the directory already counts. An error of class
// Unimplemented says that the file system limits no directories. On ext4 a process with
// CAP_SYS_RESOURCE may exceed the limit; xfs makes no exception.
func Limit(ctx context.Context, dir string, bytes int64) error {
	fd, err := open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := supported(fd, dir); err != nil {
		return err
	}
	choosing.Lock()
	defer choosing.Unlock()
	id, fresh, err := projectOf(fd, dir)
	if err != nil {
		return err
	}
	if err := setLimit(fd, id, max(bytes, minimum)); err != nil {
		return fmt.Errorf("limit %s: %w", dir, err)
	}
	if !fresh {
		return nil
	}
	if err := assign(ctx, dir, id); err != nil { // the directory itself comes last
		return fmt.Errorf("count what is in %s: %w", dir, err)
	}
	return nil
}

// projectOf returns the id of a directory, or a new one that nobody uses.
func projectOf(fd int, dir string) (id uint32, fresh bool, err error) {
	var a attributes
	if err := ioctl(fd, getAttributes, &a); err != nil {
		return 0, false, fmt.Errorf("read the project id of %s: %w", dir, err)
	}
	if ours(a.project) && a.flags&inherit != 0 {
		return a.project, false, nil
	}
	for try := range tries {
		h := fnv.New32a()
		_, _ = h.Write([]byte(filepath.Clean(dir) + "\x00" + strconv.Itoa(try)))
		id := firstID + h.Sum32()%(lastID-firstID)
		used, err := read(fd, id)
		if err != nil {
			return 0, false, fmt.Errorf("look for a project id for %s: %w", dir, err)
		}
		if used.bytes == 0 && used.inodes == 0 && used.hardBlocks == 0 {
			return id, true, nil
		}
	}
	return 0, false, errdefs.ResourceExhaustedf("no project id is free for %s", dir)
}

func ours(id uint32) bool { return id >= firstID && id <= lastID }

// Measure returns what a limited directory takes. ok is false for others.
func Measure(dir string) (u Usage, ok bool) {
	fd, err := open(dir)
	if err != nil {
		return u, false
	}
	defer unix.Close(fd)
	var a attributes
	if ioctl(fd, getAttributes, &a) != nil || !ours(a.project) {
		return u, false
	}
	used, err := read(fd, a.project)
	if err != nil || used.hardBlocks == 0 || supported(fd, dir) != nil {
		return u, false
	}
	return Usage{Bytes: int64(used.bytes), Limit: int64(used.hardBlocks) * quotaBlocks}, true
}

// Adopt makes a directory and what is in it count as part of the limited directory into, so
// that it can be renamed to a place there. It does nothing if into has no limit.
func Adopt(ctx context.Context, dir, into string) error {
	fd, err := open(into)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var a attributes
	if ioctl(fd, getAttributes, &a) != nil || a.flags&inherit == 0 {
		return nil
	}
	err = assign(ctx, dir, a.project)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EDQUOT), errors.Is(err, unix.ENOSPC):
		return errdefs.ResourceExhaustedf("%s is larger than the limit of %s: %w", dir, into, err)
	case err != nil:
		return fmt.Errorf("count %s as part of %s: %w", dir, into, err)
	}
	return nil
}

// Release forgets the limit of a directory that is about to be removed.
func Release(dir string) {
	fd, err := open(dir)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var a attributes
	if ioctl(fd, getAttributes, &a) == nil && ours(a.project) {
		_ = setLimit(fd, a.project, 0) // otherwise the id stays taken, of which there are 2 billion
	}
}

func open(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the directory %s: %w", dir, err)
	}
	return fd, nil
}

func setLimit(fd int, id uint32, bytes int64) error {
	blocks := uint64((bytes + quotaBlocks - 1) / quotaBlocks)
	a := account{hardBlocks: blocks, valid: validLimit}
	return quotactl(fd, setQuota, id, unsafe.Pointer(&a))
}

func read(fd int, id uint32) (account, error) {
	var a account
	err := quotactl(fd, getQuota, id, unsafe.Pointer(&a))
	if errors.Is(err, unix.ENOENT) {
		return account{}, nil // nobody has used it
	}
	return a, err
}

func ioctl(fd int, request uintptr, a *attributes) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}

// quotactl asks the file system of an open file, since Linux 5.14.
func quotactl(fd int, command uintptr, id uint32, at unsafe.Pointer) error {
	if _, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), command, uintptr(id), uintptr(at), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
