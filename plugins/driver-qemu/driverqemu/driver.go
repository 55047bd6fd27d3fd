// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-project/drover/plugins/internal/supervised"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Driver is the task driver qemu. supervised.Tasks implements the methods of the
// contract that are not here.
type Driver struct {
	*supervised.Tasks
	runDir string // has a subdirectory for each VM
	found  *emulators

	agent supervised.Config[agentConfig]

	mu sync.Mutex
	// launches maps the id of each known task to its launch.
	launches map[string]*launch
	guests   map[string]bool // by task with a guest agent: whether the agent answered the last ping
}

// New returns the driver. dir is the directory in which the node's plugins store
// what must survive them. VMs run under the same supervisor as the tasks of the exec
// driver.
func New(dir string) *Driver {
	return &Driver{
		Tasks: supervised.New("driver-qemu", filepath.Join(dir, "driver-exec")), runDir: filepath.Join(dir, "driver-qemu"),
		found: newEmulators(), launches: map[string]*launch{}, guests: map[string]bool{},
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
	d.agent.Set(c)
	return nil
}

func (d *Driver) learn(id string, l *launch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launches[id] = l
}

// running returns the launch of a running task. FailedPrecondition: it has ended; what names
// the act that needs a running task.
func (d *Driver) running(ctx context.Context, id, what string) (*launch, error) {
	l, err := d.launchOf(ctx, id)
	if err != nil {
		return nil, err
	}
	status, err := d.Tasks.InspectTask(ctx, id)
	if err != nil {
		return nil, err
	}
	if status.State != driver.TaskRunning {
		return nil, errdefs.FailedPreconditionf("%s task %q: it has ended", what, id)
	}
	return l, nil
}

// launchOf returns the launch of a task that this process knows. A task that was
// recovered a moment ago may be known without its launch: that is read from the
// supervisor, so that no call takes a VM for one with other settings.
func (d *Driver) launchOf(ctx context.Context, id string) (*launch, error) {
	d.mu.Lock()
	l := d.launches[id]
	d.mu.Unlock()
	if l != nil {
		return l, nil
	}
	c, err := d.Of(id)
	if err != nil {
		return nil, err
	}
	spec, _, err := c.Spec(ctx, id)
	if err != nil {
		return nil, err
	}
	l = new(launch)
	if len(spec.Args) != 3 || json.Unmarshal([]byte(spec.Args[2]), l) != nil {
		return nil, errdefs.InvalidArgumentf("task %q is not a virtual machine", id)
	}
	d.learn(id, l)
	return l, nil
}

// dirOf returns the directory of a task's VM. Its name is short and contains no
// characters of the task's id.
func (d *Driver) dirOf(id string) string {
	key := sha256.Sum256([]byte(id))
	return filepath.Join(d.runDir, hex.EncodeToString(key[:8]))
}

// RecoverTask implements driver.Driver.
func (d *Driver) RecoverTask(ctx context.Context, handle *driver.Handle) error {
	if err := d.Tasks.RecoverTask(ctx, handle); err != nil {
		return err
	}
	if _, err := d.launchOf(ctx, handle.TaskID); err != nil {
		return fmt.Errorf("recover task %q: %w", handle.TaskID, err)
	}
	return nil
}

// DestroyTask implements driver.Driver.
func (d *Driver) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	if err := d.Tasks.DestroyTask(ctx, ref, force); err != nil {
		return err
	}
	return d.forget(ref.ID)
}

// forget deletes the files of a VM that is gone.
func (d *Driver) forget(id string) error {
	d.mu.Lock()
	delete(d.launches, id)
	delete(d.guests, id)
	d.mu.Unlock()
	// This includes VMs that this process never knew, for example after a reboot.
	if err := os.RemoveAll(d.dirOf(id)); err != nil {
		return errdefs.Unavailablef("destroy task %q: remove the directory of its machine: %w", id, err)
	}
	return nil
}

// SignalTask fails: a VM has no signals.
func (d *Driver) SignalTask(context.Context, string, string) error {
	return errdefs.Unimplementedf("a virtual machine cannot receive signals; stop it, or reach its programs over the network")
}

// ExecTask fails: commands would have to run in the guest.
func (d *Driver) ExecTask(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unimplementedf("commands cannot be run in a virtual machine; use the network, for example ssh")
}
