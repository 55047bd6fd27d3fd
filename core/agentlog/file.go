// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// defaultName is the name of the file if log_file names a directory.
	defaultName = "drover.log"
	// retryAfter is the pause after a rotation or an opening that has failed. Meanwhile
	// lines go to the old file, or only to standard error.
	retryAfter = time.Minute
)

// Rotation configures when the file is renamed and a new one begins.
type Rotation struct {
	Bytes int64         // size above which no line is added; 0 means no limit
	Every time.Duration // age; 0 means no limit
	Keep  int           // number of older files; 0 keeps all
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// File is a log file. Older files are called NAME-TIME.EXT, where TIME is the time of the
// rotation in nanoseconds, as the reference calls them.
type File struct {
	path     string
	rotation Rotation
	complain io.Writer

	mu     sync.Mutex
	f      *os.File // nil if it could not be opened, or after Close
	closed bool
	size   int64
	begun  time.Time
	retry  time.Time // when to retry a failed rotation
	lost   int       // lines that could not be written since the last one that could
	torn   bool      // the file ends with a part of a line
}

// OpenFile opens a file for appending. Failures of later rotations and writes are written
// to complain.
func OpenFile(path string, r Rotation, complain io.Writer) (*File, error) {
	if r.Now == nil {
		r.Now = time.Now
	}
	if info, err := os.Stat(path); strings.HasSuffix(path, string(filepath.Separator)) || err == nil && info.IsDir() {
		path = filepath.Join(path, defaultName)
	}
	f := &File{path: path, rotation: r, complain: complain}
	if err := f.open(); err != nil {
		return nil, err
	}
	f.begun = f.rotation.Now()
	if old := f.older(); len(old) > 0 && f.size > 0 {
		f.begun = old[len(old)-1].at // the file was begun by an earlier process
	}
	return f, nil
}

// continues takes over the age of f from the previously opened File, if both are the same
// file.
func (f *File) continues(before *File) {
	if before == nil || before.path != f.path || f.size == 0 {
		return
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	f.begun = before.begun
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // nothing was written
		return fmt.Errorf("open the log file: %w", err)
	}
	f.f, f.size = file, info.Size()
	return nil
}

// Write writes a line, after a rotation if that is due.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.rotation.Now()
	if f.due(int64(len(line)), now) && !now.Before(f.retry) {
		if err := f.rotate(now); err != nil {
			f.retry = now.Add(retryAfter)
			fmt.Fprintf(f.complain, "%s the log file %s could not be rotated: %v\n", now.UTC().Format(time.RFC3339), f.path, err)
		}
	}
	if f.f == nil {
		return 0, fs.ErrClosed
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.f.Write(line)
	f.size += int64(n)
	f.torn = n > 0 && n < len(line) || n == 0 && f.torn
	f.tell(now, err)
	return n, err
}

// tell says when lines begin to be lost, for example because the disk is full, and how many
// were when it ends.
func (f *File) tell(now time.Time, err error) {
	at := now.UTC().Format(time.RFC3339)
	if err != nil {
		if f.lost == 0 {
			fmt.Fprintf(f.complain, "%s the log file %s could not be written, and lines are lost until it can: %v\n", at, f.path, err)
		}
		f.lost++
		return
	}
	if f.lost > 0 {
		fmt.Fprintf(f.complain, "%s the log file %s can be written again; %d lines are missing in it\n", at, f.path, f.lost)
		f.lost = 0
	}
}

func (f *File) due(more int64, now time.Time) bool {
	if f.closed {
		return false
	}
	r := f.rotation
	return f.f == nil || f.size > 0 && (r.Bytes > 0 && f.size+more > r.Bytes || r.Every > 0 && !now.Before(f.begun.Add(r.Every)))
}

func (f *File) rotate(now time.Time) error {
	var away error
	if f.f != nil {
		to, at := f.name(now), now
		for exists(to) { // two rotations in one tick of the clock
			at = at.Add(1)
			to = f.name(at)
		}
		_ = f.f.Close() // every line was written at once, and Windows renames no open file
		f.f = nil
		if away = os.Rename(f.path, to); os.IsNotExist(away) {
			away = nil // somebody else has put it away
		}
	}
	if err := f.open(); err != nil {
		return errors.Join(away, err)
	}
	if away != nil {
		return away // the old file goes on
	}
	f.begun = now
	return f.prune()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (f *File) prune() error {
	old := f.older()
	if f.rotation.Keep <= 0 || len(old) <= f.rotation.Keep {
		return nil
	}
	for _, o := range old[:len(old)-f.rotation.Keep] {
		if err := os.Remove(o.path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// name returns the name of the file that is put away at a time.
func (f *File) name(at time.Time) string {
	ext := filepath.Ext(f.path)
	return strings.TrimSuffix(f.path, ext) + "-" + strconv.FormatInt(at.UnixNano(), 10) + ext
}

// older is a file that was put away.
type older struct {
	path string
	at   time.Time
}

// older returns the files that were put away, the oldest first.
func (f *File) older() (out []older) {
	ext := filepath.Ext(f.path)
	prefix := strings.TrimSuffix(filepath.Base(f.path), ext) + "-"
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return nil // there is nothing to count then
	}
	for _, e := range entries {
		text, ours := strings.CutPrefix(e.Name(), prefix)
		text, ext := strings.CutSuffix(text, ext)
		if at, err := strconv.ParseInt(text, 10, 64); ours && ext && err == nil && e.Type().IsRegular() {
			out = append(out, older{filepath.Join(filepath.Dir(f.path), e.Name()), time.Unix(0, at)})
		}
	}
	slices.SortFunc(out, func(a, b older) int { return a.at.Compare(b.at) })
	return out
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}
