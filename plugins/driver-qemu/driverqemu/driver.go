// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-project/drover/plugins/internal/supervised"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Driver is the driver qemu. What is not here of the contract is supervised.Tasks'.
type Driver struct {
	*supervised.Tasks
	runDir string // holds a directory for each machine
	found  *emulators

	mu      sync.Mutex
	config  agentConfig
	changed chan struct{} // closed and replaced when the config changes
	// launches has that of each known task.
	launches map[string]*launch
	guests   map[string]bool // of tasks with a guest agent: whether it answered last
}

// New returns the driver. dir is where this node's plugins keep what outlives them;
// its machines are under the supervisor of the exec-like drivers.
func New(dir string) *Driver {
	return &Driver{
		Tasks: supervised.New("driver-qemu", filepath.Join(dir, "driver-exec")), runDir: filepath.Join(dir, "driver-qemu"),
		found: newEmulators(), changed: make(chan struct{}), launches: map[string]*launch{}, guests: map[string]bool{},
	}
}

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info { return info() }

// SetConfig implements driver.Driver.
func (d *Driver) SetConfig(_ context.Context, config []byte) error {
	var c agentConfig
	if err := schema.Unmarshal(config, &c); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

func (d *Driver) current() (agentConfig, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config, d.changed
}

func (d *Driver) learn(id string, l *launch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launches[id] = l
}

// launchOf returns how a task was started; nil if this process does not know it.
func (d *Driver) launchOf(id string) *launch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launches[id]
}

// dirOf is the directory of a task's machine: short and with no characters of the id.
func (d *Driver) dirOf(id string) string {
	key := sha256.Sum256([]byte(id))
	return filepath.Join(d.runDir, hex.EncodeToString(key[:8]))
}

// RecoverTask implements driver.Driver.
func (d *Driver) RecoverTask(ctx context.Context, handle *driver.Handle) error {
	if err := d.Tasks.RecoverTask(ctx, handle); err != nil {
		return err
	}
	if d.launchOf(handle.TaskID) != nil {
		return nil
	}
	c, err := d.Of(handle.TaskID)
	if err != nil {
		return err
	}
	spec, _, err := c.Spec(ctx, handle.TaskID)
	if err != nil {
		return err
	}
	var l launch
	if len(spec.Args) != 3 || json.Unmarshal([]byte(spec.Args[2]), &l) != nil {
		return errdefs.InvalidArgumentf("recover task %q: it is no virtual machine", handle.TaskID)
	}
	d.learn(handle.TaskID, &l)
	return nil
}

// DestroyTask implements driver.Driver.
func (d *Driver) DestroyTask(ctx context.Context, id string, force bool) error {
	if err := d.Tasks.DestroyTask(ctx, id, force); err != nil {
		return err
	}
	return d.forget(id)
}

// forget removes what is left of a machine that is gone.
func (d *Driver) forget(id string) error {
	d.mu.Lock()
	delete(d.launches, id)
	delete(d.guests, id)
	d.mu.Unlock()
	// Also that of a machine which this process never knew, as after a reboot.
	if err := os.RemoveAll(d.dirOf(id)); err != nil {
		return errdefs.Unavailablef("destroy task %q: remove the directory of its machine: %w", id, err)
	}
	return nil
}

// SignalTask implements driver.Driver: a machine has no signals.
func (d *Driver) SignalTask(context.Context, string, string) error {
	return errdefs.Unimplementedf("a virtual machine takes no signals; stop it, or use the network to reach what runs in it")
}

// ExecTask implements driver.Driver: commands would have to run in the guest.
func (d *Driver) ExecTask(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("commands cannot be run in a virtual machine; use the network, as ssh does")
}
