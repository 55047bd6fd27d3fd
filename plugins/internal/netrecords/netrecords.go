// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package netrecords owns the files in which a network plugin writes down what each alloc
// has or is about to have: one file for each alloc, which is durable before anything is made
// and removed last. Processes of several versions of a plugin share them, and take turns by
// locks. It owns the paths of the allocs' namespaces as well, and the checks that all requests of
// networks have in common. Network plugins import it.
package netrecords

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// Store keeps records of the type R in a directory.
type Store[R any] struct {
	// Dir is the directory, an absolute path.
	Dir string
	// Damaged returns the record of an alloc whose file cannot be read as one, so that what
	// is left of its network can be destroyed.
	Damaged func(allocID string) *R
	// Owner returns the alloc that a record names.
	Owner func(*R) string
}

// allocIDs are names of files without any meaning for a path. Their length is checked apart:
// a counted repetition of 127 costs each process that links this package 110 KB.
var allocIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

const maxAllocID = 128

// CheckID refuses what is not the id of an alloc.
func CheckID(id string) error {
	if len(id) > maxAllocID || !allocIDs.MatchString(id) {
		return errdefs.InvalidArgumentf("%q is not the id of an alloc", id)
	}
	return nil
}

// CheckPorts refuses ports that no machine can map.
func CheckPorts(ports []network.Port) error {
	for _, p := range ports {
		if p.HostPort < 1 || p.HostPort > 65535 || p.Port < 1 || p.Port > 65535 {
			return errdefs.InvalidArgumentf("port %q leads from %d to %d, which are not both ports", p.Label, p.HostPort, p.Port)
		}
		if _, err := netip.ParseAddr(p.HostIP); p.HostIP != "" && err != nil {
			return errdefs.InvalidArgumentf("port %q: the address %q of the machine is not an IP address", p.Label, p.HostIP)
		}
	}
	return nil
}

func (s *Store[R]) records() string       { return filepath.Join(s.Dir, "networks") }
func (s *Store[R]) namespaces() string    { return filepath.Join(s.Dir, "netns") }
func (s *Store[R]) file(id string) string { return filepath.Join(s.records(), id+".json") }

// Namespace returns the path of the namespace that the plugin makes for an alloc.
func (s *Store[R]) Namespace(id string) string { return filepath.Join(s.namespaces(), id) }

// lockEvery is the pause between two tries to get a lock that another process has.
const lockEvery = 5 * time.Millisecond

// Locked calls f while nobody else has the lock of this name. It gives up when ctx ends.
func (s *Store[R]) Locked(ctx context.Context, name string, f func() error) error {
	for _, dir := range []string{s.records(), s.namespaces()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("keep the networks of allocs: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(s.Dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("keep the networks of allocs: %w", err)
	}
	defer lock.Close()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		switch taken, err := tryLock(lock); {
		case err != nil:
			return fmt.Errorf("lock the networks of allocs: %w", err)
		case ctx.Err() != nil:
			// A call that was given up makes nothing: its caller may destroy the network
			// while this one waits for its turn.
			return errdefs.Canceledf("wait for another call about networks: %w", ctx.Err())
		case taken:
			return f()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// IDs returns the allocs that have a record, in order.
func (s *Store[R]) IDs() ([]string, error) {
	entries, err := os.ReadDir(s.records())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the networks of allocs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Get returns the record of an alloc; nil if it has none.
func (s *Store[R]) Get(id string) (*R, error) {
	body, err := os.ReadFile(s.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the network of alloc %s: %w", id, err)
	}
	r := new(R)
	if err := json.Unmarshal(body, r); err != nil || s.Owner(r) != id {
		return s.Damaged(id), nil
	}
	return r, nil
}

// All returns all records by alloc.
func (s *Store[R]) All() (map[string]*R, error) { return (&Reader[R]{Store: s}).All() }

// Reader reads all records again and again: those whose files have not changed since the
// last time are not read. Records that it returned must not be changed.
type Reader[R any] struct {
	Store *Store[R]

	seen map[string]seen[R]
}

type seen[R any] struct {
	file   os.FileInfo
	record *R
}

// All returns all records by alloc. Its caller has a lock.
func (r *Reader[R]) All() (map[string]*R, error) {
	ids, err := r.Store.IDs()
	if err != nil {
		return nil, err
	}
	out, now := make(map[string]*R, len(ids)), make(map[string]seen[R], len(ids))
	for _, id := range ids {
		file, err := os.Lstat(r.Store.file(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the network of alloc %s: %w", id, err)
		}
		s := r.seen[id]
		// Each write makes another file.
		if s.record == nil || !os.SameFile(s.file, file) || !s.file.ModTime().Equal(file.ModTime()) || s.file.Size() != file.Size() {
			if s.record, err = r.Store.Get(id); err != nil {
				return nil, err
			}
			s.file = file
		}
		if s.record != nil {
			out[id], now[id] = s.record, s
		}
	}
	r.seen = now
	return out, nil
}

// Put stores a record durably.
func (s *Store[R]) Put(r *R) error { return s.write(r, (*os.File).Sync) }

// Announce stores a record, so that every process finds it from now on; it outlives a loss of
// power only after Sync. Allocs that share a lock need not wait for each other's disk so.
func (s *Store[R]) Announce(r *R) error {
	return s.write(r, func(*os.File) error { return nil })
}

// Sync makes the record of an alloc durable.
func (s *Store[R]) Sync(id string) error {
	f, err := os.OpenFile(s.file(id), os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("keep the network of alloc %s: %w", id, err)
	}
	return nil
}

func (s *Store[R]) write(r *R, sync func(*os.File) error) error {
	id := s.Owner(r)
	body, err := json.Marshal(r)
	if err != nil {
		return errdefs.Internalf("encode the network of alloc %s: %w", id, err)
	}
	tmp := s.file(id) + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the network of alloc %s: %w", id, err)
	}
	_, err = f.Write(body)
	if err = errors.Join(err, sync(f), f.Close()); err == nil {
		err = os.Rename(tmp, s.file(id))
	}
	if err != nil {
		return fmt.Errorf("keep the network of alloc %s: %w", id, err)
	}
	return nil
}

// Remove forgets an alloc.
func (s *Store[R]) Remove(id string) error {
	if err := os.Remove(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the network of alloc %s: %w", id, err)
	}
	return nil
}
