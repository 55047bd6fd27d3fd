// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stream copies one output of a task from its FIFO to its log files.
type stream struct {
	fifo    int // read end, non-blocking; -1 if logs are disabled or the task is gone
	dir     int // descriptor of the log directory, owned by the task
	file    int // the current log file, -1 if it could not be opened
	prefix  string
	index   int
	keep    int
	max     int64
	dropped uint64
	failure error // why output was last dropped
	grown   bool  // the pipe's buffer was enlarged
}

// openLogDir opens the log directory below root. It follows no links below root.
func openLogDir(l Logs) (int, error) {
	fd, err := unix.Open(l.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the directory %s: %w", l.Root, err)
	}
	for _, name := range strings.Split(filepath.Clean(l.Dir), "/") {
		if name == "." || name == "" {
			continue
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		closeFD(fd)
		if err != nil {
			return -1, fmt.Errorf("open the log directory %s in %s (part %q; links are not followed): %w", l.Dir, l.Root, name, err)
		}
		fd = next
	}
	return fd, nil
}

// newest returns the highest index of a stream's files, or -1 if there are none.
func newest(dir int, prefix string) int {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	d := os.NewFile(uintptr(fd), "logs")
	names, _ := d.Readdirnames(-1) // the names that could be read are used
	_ = d.Close()                  // the directory was only read
	high := -1
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > high && strconv.Itoa(n) == rest {
			high = n
		}
	}
	return high
}

// openStream opens the current log file: the newest existing one, or number 0.
func openStream(dir int, prefix string, l Logs) stream {
	s := stream{fifo: -1, dir: dir, file: -1, prefix: prefix, keep: max(l.MaxFiles, 1), max: l.MaxFileBytes}
	if s.max <= 0 {
		s.max = 10 << 20
	}
	s.index = max(newest(dir, prefix), 0)
	s.open()
	return s
}

func (s *stream) name(index int) string { return s.prefix + "." + strconv.Itoa(index) }

// open opens the file with the current index. If that fails, file stays -1, and
// output is dropped until a later attempt succeeds.
func (s *stream) open() {
	closeFD(s.file)
	s.file = -1
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(s.dir, s.name(s.index), flags, 0o644)
	if err == nil && ownFile(fd) {
		s.file = fd
		return
	}
	closeFD(fd)
	// A link, FIFO, device or hard link to another file is in the place of the log file.
	// Remove the name; what it leads to is not touched.
	_ = unix.Unlinkat(s.dir, s.name(s.index), 0) // the open reports an error
	fd, err = unix.Openat(s.dir, s.name(s.index), flags|unix.O_EXCL, 0o644)
	if err == nil {
		s.file = fd
		return
	}
	s.failure = err
}

func ownFile(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 1
}

// rotate moves on to the next file and removes the oldest one if there are too many.
func (s *stream) rotate() {
	s.index++
	s.open()
	for old := s.index - s.keep; old >= 0; old-- {
		if unix.Unlinkat(s.dir, s.name(old), 0) != nil {
			break // older files were removed in earlier rotations
		}
	}
}

// room returns the offset at which to write in the current file and the number of
// bytes that fit. It opens or rotates the file if necessary.
func (s *stream) room() (offset, room int64) {
	for range 2 {
		if s.file < 0 {
			s.open()
		}
		var st unix.Stat_t
		if s.file < 0 || unix.Fstat(s.file, &st) != nil {
			return 0, 0
		}
		if st.Nlink == 0 { // the file was deleted
			s.open()
			continue
		}
		if st.Size < s.max {
			return st.Size, s.max - st.Size
		}
		s.rotate()
	}
	return 0, 0
}

// chunk is the size of a pipe, and grownPipe the size of an enlarged one. One splice
// moves at most that much.
const (
	chunk     = 64 << 10
	grownPipe = 256 << 10
)

// pump moves the content of the FIFO to the log, at most n chunks. It returns true
// if there may be more.
func (s *stream) pump(n int, scratch []byte) bool {
	for range n {
		offset, room := s.room()
		if room == 0 {
			if !s.drop(scratch) {
				return false
			}
			continue
		}
		want := min(room, grownPipe)
		n, err := unix.Splice(s.fifo, nil, s.file, &offset, int(want), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch err {
		case nil:
			if n >= chunk && !s.grown {
				// The task writes fast: a larger pipe avoids most wake-ups on both sides. If the
				// user's limit for pipe buffers is reached, the pipe keeps its size.
				s.grown = true
				_, _ = unix.FcntlInt(uintptr(s.fifo), unix.F_SETPIPE_SZ, grownPipe)
			}
			if int64(n) < want && n < chunk {
				return false // the pipe is probably empty; checking would cost two system calls
			}
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		case unix.EINVAL, unix.ENOSYS: // the file system does not support splice
			if !s.copy(offset, scratch[:min(room, int64(len(scratch)))]) {
				return false
			}
		default: // full disk, quota or a broken file system: the task must not block, so the output is dropped
			s.failure = err
			if !s.drop(scratch) {
				return false
			}
		}
	}
	return true
}

// copy does with read and write what splice does, for file systems without splice.
func (s *stream) copy(offset int64, buf []byte) bool {
	n, err := unix.Read(s.fifo, buf)
	if err == unix.EINTR {
		return true
	}
	if n <= 0 {
		return false
	}
	for done := 0; done < n; {
		w, err := unix.Pwrite(s.file, buf[done:n], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil || w <= 0 {
			s.failure = err
			s.dropped += uint64(n - done)
			break
		}
		done += w
	}
	return true
}

// drop discards the content of the FIFO. It returns false once the FIFO is empty.
func (s *stream) drop(scratch []byte) bool {
	n, err := unix.Read(s.fifo, scratch)
	if err == unix.EINTR {
		return true
	}
	if n <= 0 {
		return false
	}
	s.dropped += uint64(n)
	return true
}

func (s *stream) close() {
	closeFD(s.fifo)
	closeFD(s.file)
	s.fifo, s.file = -1, -1
}
