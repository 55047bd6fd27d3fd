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

// stream is one output of a task on its way from its FIFO to its log files.
type stream struct {
	fifo    int // read end, non-blocking; -1 if logs are disabled or the task is gone
	dir     int // the log directory, owned by the task
	file    int // the current log file, -1 if it could not be opened
	prefix  string
	index   int
	keep    int
	max     int64
	dropped uint64
	failure error // why output was dropped last
	grown   bool  // the pipe has been made larger
}

// openLogDir opens the log directory beneath root without following a link in
// any component below root.
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

// newest returns the highest number that the files of a stream have, -1 for none.
func newest(dir int, prefix string) int {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	d := os.NewFile(uintptr(fd), "logs")
	names, _ := d.Readdirnames(-1) // what could be read counts
	_ = d.Close()                  // only read from
	high := -1
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > high && strconv.Itoa(n) == rest {
			high = n
		}
	}
	return high
}

// openStream opens the current log file: the newest one there is, or number 0.
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

// open opens the file of the current number; on failure file stays -1 and
// output is dropped until a later try succeeds.
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
	// A link, a pipe, a device or a second name of some other file lies where
	// the log belongs: take the name back, never what it leads to.
	_ = unix.Unlinkat(s.dir, s.name(s.index), 0) // the open tells
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

// rotate goes on to the next file and removes the one that is too many.
func (s *stream) rotate() {
	s.index++
	s.open()
	for old := s.index - s.keep; old >= 0; old-- {
		if unix.Unlinkat(s.dir, s.name(old), 0) != nil {
			break // the older ones went when their turn came
		}
	}
}

// room returns where in the current file to write and how much fits, and opens
// or rotates the file where that is needed.
func (s *stream) room() (offset, room int64) {
	for range 2 {
		if s.file < 0 {
			s.open()
		}
		var st unix.Stat_t
		if s.file < 0 || unix.Fstat(s.file, &st) != nil {
			return 0, 0
		}
		if st.Nlink == 0 { // somebody removed it
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

// chunk is the size of a pipe, grownPipe that of one that was full: what one
// splice moves at most.
const (
	chunk     = 64 << 10
	grownPipe = 256 << 10
)

// pump moves what waits in the FIFO into the log, at most n chunks. It returns
// true if there may be more.
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
				// A fast writer: a larger pipe spares both sides most wake-ups.
				// Where the user may have no more pipe memory it stays as it is.
				s.grown = true
				_, _ = unix.FcntlInt(uintptr(s.fifo), unix.F_SETPIPE_SZ, grownPipe)
			}
			if int64(n) < want && n < chunk {
				return false // that was all; asking again costs two calls
			}
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		case unix.EINVAL, unix.ENOSYS: // a file system without splice
			if !s.copy(offset, scratch[:min(room, int64(len(scratch)))]) {
				return false
			}
		default: // full disk, quota, broken file system: the task must not wait
			s.failure = err
			if !s.drop(scratch) {
				return false
			}
		}
	}
	return true
}

// copy does with read and write what splice cannot.
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

// drop throws away what waits in the FIFO. It returns false once it is empty.
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
