// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Send writes the data of an ended alloc as a stream: the folders of Movable that it has.
// It never reads outside of them, whatever links a task has left there. Links are sent as
// links; devices, sockets, FIFOs and what has a path of more than maxPath bytes are not sent.
func (d Dir) Send(w io.Writer, tasks []string, owner Owner) error {
	folders, closeAll, err := d.openMovable(Movable(tasks))
	if err != nil {
		return err
	}
	defer closeAll()
	s := sender{out: tar.NewWriter(w), linked: map[inode]string{}}
	used := int64(0)
	about := Manifest{Version: streamVersion, Owner: owner, Used: &used}
	for _, f := range folders {
		err := f.walk(func(_ string, info fs.FileInfo) error {
			if sendable(info) {
				about.Entries++
				about.Bytes += sizeOf(info)
				if info.Mode().IsRegular() {
					used += withoutHoles(info)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if about.Entries > MostMoved {
		return errdefs.InvalidArgumentf("the alloc's data has %d files and folders; at most %d are moved", about.Entries, MostMoved)
	}
	if err := s.note(manifestName, about); err != nil {
		return err
	}
	for _, f := range folders {
		if err := f.walk(func(name string, info fs.FileInfo) error { return s.entry(f, name, info) }); err != nil {
			return err
		}
	}
	if err := s.note(summaryName, s.sent); err != nil {
		return err
	}
	if err := s.out.Close(); err != nil {
		return fmt.Errorf("send the alloc's data: %w", err)
	}
	return nil
}

// folder is an open folder of an alloc, beneath which everything stays.
type folder struct {
	name string // relative to the alloc's directory
	root *os.Root
}

// openMovable opens the folders that exist. A folder that a task has replaced by a link is
// not.
func (d Dir) openMovable(names []string) (folders []folder, closeAll func(), err error) {
	closeAll = func() {
		for _, f := range folders {
			_ = f.root.Close() // it was only read
		}
	}
	top, err := os.OpenRoot(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, closeAll, errdefs.NotFoundf("the alloc's directory was removed from its node")
	}
	if err != nil {
		return nil, closeAll, fmt.Errorf("open the alloc directory: %w", err)
	}
	defer top.Close()
	for _, name := range names {
		before, err := top.Lstat(name)
		if err != nil || !before.IsDir() {
			continue
		}
		root, err := top.OpenRoot(name)
		if err != nil {
			continue
		}
		folders = append(folders, folder{name, root})
		if now, err := root.Stat("."); err != nil || !os.SameFile(before, now) {
			closeAll()
			return nil, func() {}, errdefs.Unavailablef("the folder %q of the alloc changes while it is read", name)
		}
	}
	return folders, closeAll, nil
}

// walk calls do for the folder and all that is in it, a folder before its content. What has
// too long a path is not looked into, and do gets no info about it: a task that makes folders
// in folders without end must neither keep the rest from being sent nor the node busy.
func (f folder) walk(do func(name string, info fs.FileInfo) error) error {
	if err := f.walkAt(".", do); err != nil {
		return fmt.Errorf("read %q of the alloc: %w", f.name, err)
	}
	return nil
}

func (f folder) walkAt(name string, do func(name string, info fs.FileInfo) error) error {
	if len(f.name)+1+len(name) > maxPath {
		return do(name, nil)
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	if err := do(name, info); err != nil || !info.IsDir() {
		return err
	}
	dir, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := f.walkAt(path.Join(name, n), do); err != nil {
			return err
		}
	}
	return nil
}

func sendable(info fs.FileInfo) bool {
	if info == nil {
		return false
	}
	m := info.Mode()
	return m.IsRegular() || m.IsDir() || m.Type() == fs.ModeSymlink
}

func sizeOf(info fs.FileInfo) int64 {
	if info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

// inode identifies a file of several names.
type inode struct{ device, number uint64 }

type sender struct {
	out    *tar.Writer
	linked map[inode]string // the first name of a file of several
	sent   Summary
}

// note writes an entry about the stream.
func (s *sender) note(name string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errdefs.Internalf("encode %s: %w", name, err)
	}
	err = s.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(body)), Mode: 0o600, Format: tar.FormatPAX})
	if err == nil {
		_, err = s.out.Write(body)
	}
	if err != nil {
		return fmt.Errorf("send the alloc's data: %w", err)
	}
	return nil
}

func (s *sender) entry(f folder, name string, info fs.FileInfo) error {
	if !sendable(info) {
		s.sent.Skipped++
		return nil
	}
	s.sent.Entries++
	h := &tar.Header{Name: f.name, Mode: tarMode(info.Mode()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	if name != "." {
		h.Name += "/" + name
	}
	var id inode
	var links uint64
	h.Uid, h.Gid, id, links = ownerAndNode(info)
	switch {
	case info.IsDir():
		h.Typeflag = tar.TypeDir
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := f.root.Readlink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case links > 1 && s.linked[id] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, s.linked[id]
	default:
		if links > 1 {
			s.linked[id] = h.Name
		}
		return s.file(f, name, h, info)
	}
	return s.out.WriteHeader(h)
}

// file sends a regular file. It is opened without waiting, because a FIFO may have come
// in its place.
func (s *sender) file(f folder, name string, h *tar.Header, info fs.FileInfo) error {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	now, err := file.Stat()
	if err != nil {
		return err
	}
	if !now.Mode().IsRegular() || !os.SameFile(info, now) {
		return errdefs.Unavailablef("%q changes while it is read", h.Name)
	}
	h.Typeflag, h.Size = tar.TypeReg, now.Size()
	if err := s.out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(s.out, io.LimitReader(file, h.Size))
	s.sent.Bytes += n
	if err == nil && n != h.Size {
		return errdefs.Unavailablef("%q changes while it is read", h.Name)
	}
	return err
}

// tarMode returns the permissions of a file in the numbers of tar, which differ for setuid,
// setgid and sticky.
func tarMode(m fs.FileMode) int64 {
	out := int64(m.Perm())
	for bit, tarBit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			out |= tarBit
		}
	}
	return out
}
