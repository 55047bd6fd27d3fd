// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// starting is a start in progress.
type starting struct {
	giveUp context.CancelFunc
	ended  chan struct{} // closed when the start has ended
}

// begin registers a start, so that of two concurrent starts one fails. StartTask uses
// the returned context and calls ended when it returns.
func (d *Driver) begin(ctx context.Context, id string) (start context.Context, ended func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[id] != nil || d.starting[id] != nil {
		return nil, nil, errdefs.AlreadyExistsf("task %q is known already; destroy it first", id)
	}
	s := &starting{ended: make(chan struct{})}
	start, s.giveUp = context.WithCancel(ctx)
	d.starting[id] = s
	return start, func() {
		s.giveUp()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.starting, id)
		close(s.ended)
	}, nil
}

// giveUp cancels a start in progress, if there is one, and waits until it has ended.
func (d *Driver) giveUp(ctx context.Context, id string, force bool) error {
	d.mu.Lock()
	s := d.starting[id]
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	if !force {
		return errdefs.FailedPreconditionf("task %q is being started; wait for it or use force", id)
	}
	s.giveUp()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The plugin may be killed at any moment of a start. Then the next process destroys
// what was begun, and must know whether the runner has started the task or still will.
// So the driver writes the runner's orders to a file with a name that is never used
// again, "start-...", before it starts the runner. Either the runner takes its orders:
// it renames the file to spec.json and starts the task. Or the driver removes the file,
// and the runner finds nothing to do.

// writeOrders fills a task's directory and returns the path of the runner's orders.
func writeOrders(dir string, s spec) (orders string, err error) {
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "alive"), 0o600); err != nil {
		return "", err
	}
	orders = filepath.Join(dir, "start-"+rand.Text())
	return orders, os.WriteFile(orders, body, 0o600)
}

// takeOrders returns what the runner is to run, and fails if the task was destroyed.
func takeOrders(orders string) (spec, error) {
	dir := filepath.Dir(orders)
	if err := os.Rename(orders, filepath.Join(dir, "spec.json")); err != nil {
		return spec{}, fmt.Errorf("the task was destroyed before it was started: %w", err)
	}
	return readSpec(dir)
}

// interrupted returns the task that an earlier process of this driver began. It is nil
// if none was started; then none will be.
func interrupted(ctx context.Context, ref driver.TaskRef) (*task, error) {
	if ref.AllocDir == "" {
		return nil, nil // an old host does not say where to look
	}
	dir := stateDir(ref.AllocDir, ref.ID)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errdefs.Unavailablef("look for what is left of task %q: %w", ref.ID, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "start-") {
			// The rename may have won: then spec.json exists.
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, errdefs.Unavailablef("keep task %q from starting: %w", ref.ID, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "spec.json")); err != nil {
		return nil, os.RemoveAll(dir)
	}
	return whenStarted(ctx, dir)
}

// whenStarted waits until the runner has started the task or has ended.
func whenStarted(ctx context.Context, dir string) (*task, error) {
	runner, err := adopt(handle{Dir: dir})
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ended := false; ; {
		var first started
		if body, err := os.ReadFile(filepath.Join(dir, "task.json")); err == nil {
			if err := json.Unmarshal(body, &first); err != nil {
				return nil, errdefs.Internalf("decode the record of the task: %w", err)
			}
			return adopt(first.handle(dir))
		}
		if ended {
			return runner, nil // it started no task
		}
		select {
		case <-runner.done:
			ended = true // look for the record once more
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
