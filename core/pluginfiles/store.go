// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pluginfiles owns the plugin files that were uploaded to a server, and copies of
// those that were uploaded to other servers. They are stored in one directory, named by their digest, which is verified before they are
// stored; they never change. It limits the size of each file and of all together, and
// removes files to which the registry no longer refers. It does not know the registry.
// core/server imports it and passes it to core/dispatch and core/endpoint.
package pluginfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a store.
const (
	DefaultMaxFile  = 1 << 30
	DefaultMaxTotal = 8 << 30
	// Grace is how long an unreferenced file is kept: between its upload and its
	// registration.
	Grace = time.Hour
)

// Store holds the files of one server.
type Store struct {
	dir      string
	maxFile  int64
	maxTotal int64

	copying chan struct{} // capacity 1: held while a file of another server is copied

	mu       sync.Mutex
	reserved int64 // bytes that running uploads may still write
}

// File is one file of the store.
type File struct {
	Digest string // "sha256:HEX"
	Size   int64
	Time   time.Time // time of the last upload
}

// Open opens the store in a directory, which it creates, and removes leftovers of
// interrupted uploads.
func Open(dir string, maxFile, maxTotal int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of plugin files: %w", err)
	}
	s := &Store{dir: dir, maxFile: maxFile, maxTotal: maxTotal, copying: make(chan struct{}, 1)}
	cut, err := filepath.Glob(filepath.Join(dir, "upload-*"))
	for _, path := range cut {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return nil, fmt.Errorf("clear the directory of plugin files: %w", err)
	}
	return s, nil
}

const algorithm = "sha256:"

func (s *Store) path(digest string) (string, error) {
	digits, ok := strings.CutPrefix(digest, algorithm)
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(digits) != digits {
		return "", errdefs.InvalidArgumentf("digest %.80q is not of the form sha256:HEX", digest)
	}
	return filepath.Join(s.dir, digits), nil
}

// Put stores the contents of r if they have the digest. If the file exists already, r is
// not read.
func (s *Store) Put(digest string, r io.Reader) (File, error) {
	path, err := s.path(digest)
	if err != nil {
		return File{}, err
	}
	if f, err := s.touch(path, digest); !errdefs.IsNotFound(err) {
		return f, err
	}
	room, err := s.reserve()
	if err != nil {
		return File{}, err
	}
	defer s.release(room)
	tmp, err := os.CreateTemp(s.dir, "upload-*")
	if err != nil {
		return File{}, fmt.Errorf("store a plugin file: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after a successful rename
	if err := errors.Join(write(tmp, r, digest, room), tmp.Close()); err != nil {
		return File{}, err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return File{}, fmt.Errorf("store a plugin file: %w", err)
	}
	return s.Stat(digest)
}

// touch restarts the grace period of an existing file. NotFound: it does not exist.
func (s *Store) touch(path, digest string) (File, error) {
	s.mu.Lock() // otherwise a sweep might remove it
	defer s.mu.Unlock()
	if f, err := s.Stat(digest); err != nil {
		return f, err
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return File{}, fmt.Errorf("keep the plugin file %s: %w", digest, err)
	}
	return s.Stat(digest)
}

// write copies at most limit bytes and verifies the digest.
func write(to *os.File, r io.Reader, digest string, limit int64) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("store a plugin file: %w", err)
	case n > limit:
		return errdefs.ResourceExhaustedf("the file is larger than the %d bytes that there is room for; deregister plugins that are not needed, or serve the file by HTTP and register its URL", limit)
	}
	if got := algorithm + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return errdefs.InvalidArgumentf("the file has digest %s, not %s: it was changed or cut on the way; upload it again", got, digest)
	}
	return to.Sync()
}

// reserve reserves space for one upload.
func (s *Store) reserve() (int64, error) {
	files, err := s.List()
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.maxTotal - s.reserved
	for _, f := range files {
		left -= f.Size
	}
	if left <= 0 {
		return 0, errdefs.ResourceExhaustedf("the plugin files of this server have %d bytes, which is all that they may have; deregister plugins that are not needed", s.maxTotal)
	}
	room := min(left, s.maxFile)
	s.reserved += room
	return room, nil
}

func (s *Store) release(room int64) {
	s.mu.Lock()
	s.reserved -= room
	s.mu.Unlock()
}

// Stat describes a file. NotFound: it does not exist.
func (s *Store) Stat(digest string) (File, error) {
	path, err := s.path(digest)
	if err != nil {
		return File{}, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, missing(digest)
	} else if err != nil {
		return File{}, fmt.Errorf("look at the plugin file %s: %w", digest, err)
	}
	return File{Digest: digest, Size: info.Size(), Time: info.ModTime()}, nil
}

func missing(digest string) error {
	return errdefs.NotFoundf("this server has no plugin file %s; upload it again", digest)
}

// Open opens a file for reading. NotFound: it does not exist.
func (s *Store) Open(digest string) (io.ReadCloser, error) {
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	return open(path, digest)
}

// List returns all files, sorted by digest.
func (s *Store) List() ([]File, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list the plugin files: %w", err)
	}
	var out []File
	for _, e := range entries {
		if f, err := s.Stat(algorithm + e.Name()); err == nil {
			out = append(out, f)
		}
	}
	return out, nil
}

// Sweep removes files that are older than Grace and for which keep returns false.
func (s *Store) Sweep(now time.Time, keep func(digest string) bool) error {
	files, err := s.List()
	if err != nil {
		return err
	}
	for _, f := range files {
		if keep(f.Digest) || now.Sub(f.Time) < Grace {
			continue
		}
		if removed := s.removeOld(f.Digest, now); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove the plugin file %s: %w", f.Digest, removed))
		}
	}
	return err
}

// removeOld removes a file unless it was uploaded again meanwhile.
func (s *Store) removeOld(digest string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if f, err := s.Stat(digest); err == nil && now.Sub(f.Time) < Grace {
		return nil
	}
	return os.Remove(path)
}
