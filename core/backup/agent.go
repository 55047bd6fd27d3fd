// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Snapshot is a snapshot from a server. The caller closes it.
type Snapshot struct {
	io.ReadCloser
	// Digest is "sha-256=BASE64" of the contents.
	Digest string
}

// Config says how an Agent works. All fields except Retain are required.
type Config struct {
	// Interval is the time between two snapshots.
	Interval time.Duration
	// Retain is the number of snapshots that stay in the store; 0 means all.
	Retain int
	// Prefix begins the name of every snapshot. Files with other names are never touched.
	Prefix string
	Store  Store
	// Take takes a snapshot, and Verify returns an error if the bytes are no whole one.
	Take   func(ctx context.Context) (*Snapshot, error)
	Verify func(r io.Reader) (index uint64, err error)
	Now    func() time.Time
	Logger hclog.Logger
}

// roundLimit is the longest time that one snapshot may take.
const roundLimit = 30 * time.Minute

// The first and the longest pause after failures. The interval limits the longest, too.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// Agent takes snapshots. Its methods are safe for concurrent use.
type Agent struct {
	cfg    Config
	mu     sync.Mutex
	status Status
}

// New returns an agent that has not begun yet.
func New(cfg Config) *Agent {
	return &Agent{cfg: cfg, status: Status{Store: cfg.Store.String(), Interval: cfg.Interval, Retain: cfg.Retain, Prefix: cfg.Prefix}}
}

// Run takes a snapshot whenever the newest stored one is older than the interval, until ctx
// ends. Failures are logged, and retried after pauses that grow.
func (a *Agent) Run(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		wait, err := a.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = min(max(2*pause, firstPause), longestPause, a.cfg.Interval)
			wait = pause
			a.failed(err, wait)
		} else {
			pause = 0
			wait += apart(a.cfg.Interval)
		}
		_ = sleep.For(ctx, wait)
	}
}

// apart returns a random delay, so that agents with one store do not start the same
// snapshot at the same instant.
func apart(interval time.Duration) time.Duration {
	return rand.N(min(interval/20, 30*time.Second) + 1)
}

// round takes a snapshot if one is due, and returns the time until the next one is.
func (a *Agent) round(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	all, err := a.stored(ctx)
	if err != nil {
		return 0, err
	}
	if wait := a.untilDue(all); wait > 0 {
		return wait, nil
	}
	if _, err := a.Once(ctx); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.untilDue(a.status.Snapshots), nil
}

// latest is the latest time of a stored snapshot that is believed. Clocks of agents that
// share a store may differ by less than an interval.
func (a *Agent) latest() time.Time { return a.cfg.Now().Add(a.cfg.Interval) }

// due returns when the next snapshot is due: zero if now. A snapshot from the future means
// that a clock was wrong: it delays the next by one interval at most.
func (a *Agent) due(all []Stored) time.Time {
	if len(all) == 0 || all[len(all)-1].Time.After(a.latest()) {
		return time.Time{}
	}
	return all[len(all)-1].Time.Add(a.cfg.Interval)
}

// untilDue returns the time until the next snapshot is due.
func (a *Agent) untilDue(all []Stored) time.Duration { return a.due(all).Sub(a.cfg.Now()) }

// stored returns this agent's snapshots in the store, the oldest first.
func (a *Agent) stored(ctx context.Context) ([]Stored, error) {
	objects, err := a.cfg.Store.List(ctx, a.cfg.Prefix+"-")
	if err != nil {
		return nil, fmt.Errorf("list the snapshots in %s: %w", a.cfg.Store, err)
	}
	all := own(a.cfg.Prefix, objects, a.latest())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Snapshots, a.status.Next = all, a.due(all)
	return all, nil
}

// Once takes a snapshot, stores it, and removes the oldest ones. The snapshot is stored
// even if an old one could not be removed, which is only logged: the next round tries again.
func (a *Agent) Once(ctx context.Context) (Stored, error) {
	file, index, sum, err := a.take(ctx)
	if err != nil {
		return Stored{}, err
	}
	defer os.Remove(file) // fails if the store took the file, which is fine
	info, err := os.Stat(file)
	if err != nil {
		return Stored{}, fmt.Errorf("read the snapshot that was taken: %w", err)
	}
	now := a.cfg.Now()
	kept := Stored{Name: nameAt(a.cfg.Prefix, now), Time: now, Size: info.Size()}
	if err := a.cfg.Store.Put(ctx, file, kept.Name, sum); err != nil {
		return Stored{}, fmt.Errorf("store the snapshot in %s: %w", a.cfg.Store, err)
	}
	a.succeeded(kept, index)
	if err := a.prune(ctx); err != nil {
		a.notPruned(err)
		a.cfg.Logger.Warn("old snapshots could not be removed; the next round tries again", "store", a.cfg.Store.String(), "error", err)
	}
	return kept, nil
}

// take writes a snapshot to a file in the store's folder for unfinished files and verifies
// it. It returns the file and its SHA-256 in hex.
func (a *Agent) take(ctx context.Context) (file string, index uint64, sum string, err error) {
	dir := a.cfg.Store.Scratch()
	a.sweep(dir)
	snap, err := a.cfg.Take(ctx)
	if err != nil {
		return "", 0, "", fmt.Errorf("take a snapshot: %w", err)
	}
	defer snap.Close()
	f, err := os.CreateTemp(dir, unfinished(a.cfg.Prefix))
	if err != nil {
		return "", 0, "", fmt.Errorf("make the file of the snapshot: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, hash), snap); err != nil {
		return "", 0, "", fmt.Errorf("receive the snapshot: %w", err)
	}
	if err := f.Sync(); err != nil {
		return "", 0, "", fmt.Errorf("write the snapshot: %w", err)
	}
	if got := "sha-256=" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != snap.Digest {
		return "", 0, "", errdefs.Internalf("the snapshot that arrived has the digest %s, and the server sent one with %s", got, snap.Digest)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", 0, "", fmt.Errorf("read the snapshot again: %w", err)
	}
	if index, err = a.cfg.Verify(f); err != nil {
		return "", 0, "", fmt.Errorf("verify the snapshot: %w", err)
	}
	return f.Name(), index, hex.EncodeToString(hash.Sum(nil)), nil
}

// prune removes the oldest snapshots above the number to retain. It is called after one was
// stored and verified, so a good one is always left.
func (a *Agent) prune(ctx context.Context) error {
	all, err := a.stored(ctx)
	if err != nil {
		return err
	}
	for a.cfg.Retain > 0 && len(all) > a.cfg.Retain {
		if err := a.cfg.Store.Delete(ctx, all[0].Name); err != nil {
			return fmt.Errorf("remove %s: %w", all[0].Name, err)
		}
		a.cfg.Logger.Debug("an old snapshot is removed", "name", all[0].Name)
		all = all[1:]
		a.mu.Lock()
		a.status.Snapshots, a.status.Removed = all, a.status.Removed+1
		a.mu.Unlock()
	}
	return nil
}

func (a *Agent) succeeded(kept Stored, index uint64) {
	a.mu.Lock()
	a.status.Taken++
	a.status.Failures, a.status.LastError = 0, ""
	a.status.LastIndex, a.status.Next = index, kept.Time.Add(a.cfg.Interval)
	a.status.Snapshots = append(a.status.Snapshots, kept)
	a.mu.Unlock()
	a.cfg.Logger.Info("a snapshot is stored and verified", "store", a.cfg.Store.String(), "name", kept.Name, "index", index, "bytes", kept.Size)
}

// notPruned notes that old snapshots stay, although the new one is stored.
func (a *Agent) notPruned(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.LastError, a.status.LastFailure = "old snapshots could not be removed: "+err.Error(), a.cfg.Now()
}

// failed notes a failed round.
func (a *Agent) failed(err error, again time.Duration) {
	a.mu.Lock()
	a.status.Failed++
	a.status.Failures++
	n := a.status.Failures
	now := a.cfg.Now()
	a.status.LastError, a.status.LastFailure, a.status.Next = err.Error(), now, now.Add(again)
	a.mu.Unlock()
	a.cfg.Logger.Error("no snapshot was stored; it is tried again", "failures", n, "in", again, "error", err)
}
