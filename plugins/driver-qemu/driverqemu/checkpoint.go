// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Files of a checkpoint. The manifest is written last: without it there is no checkpoint.
const (
	stateFile    = "machine.state"
	manifestFile = "checkpoint.json"
)

const (
	manifestVersion = 1
	maxManifest     = 64 << 10
)

// manifest describes the machine that can continue from a checkpoint.
type manifest struct {
	Version  int    `json:"version"`
	Arch     string `json:"arch"`
	MemoryMB int64  `json:"memory_mb"`
	// Configured is the machine type of the task's config, such as pc, and Machine the
	// versioned type that it stood for, since pc stands for another machine in another
	// version of QEMU.
	Configured string `json:"configured"`
	Machine    string `json:"machine"`
	// Devices is the rest of the config that decides which devices the machine has. QEMU does
	// not notice all differences.
	Devices string `json:"devices"`
}

// CheckpointTask implements driver.Checkpointer: QEMU writes its migration stream into a
// file that this process passes to it, and the machine is paused when the stream is
// complete. If this process is killed meanwhile, QEMU completes the stream and the machine
// is paused.
func (d *Driver) CheckpointTask(ctx context.Context, id, dir string) error {
	l, err := d.running(ctx, id, "checkpoint")
	if err != nil {
		return err
	}
	if l.Snapshot {
		return errdefs.FailedPreconditionf("checkpoint of task %q: it has -snapshot among its args, so the contents of its disks are lost when it ends", id)
	}
	m, err := d.migratable(ctx, id, l)
	if err != nil {
		return err
	}
	state, err := os.OpenFile(filepath.Join(dir, stateFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errdefs.Unavailablef("checkpoint of task %q: %w", id, err)
	}
	defer state.Close() // synced before
	before, err := d.InspectTask(ctx, id)
	if err != nil {
		return err
	}
	if err = migrate(ctx, l, state); err == nil {
		if err = errors.Join(state.Sync(), m.write(dir)); err != nil {
			err = errdefs.Unavailablef("%w", err)
		}
	}
	if err == nil {
		return nil
	}
	if !before.Paused {
		err = errors.Join(err, d.ResumeTask(context.WithoutCancel(ctx), id))
	}
	return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("checkpoint of task %q: %w", id, err))
}

// migratable asks QEMU which machine this is.
func (d *Driver) migratable(ctx context.Context, id string, l *launch) (*manifest, error) {
	if l.Machine == nil {
		return nil, errdefs.FailedPreconditionf("checkpoint of task %q: it was started by an older version of this plugin, or its args have -machine or -m; restart it without them", id)
	}
	ctx, cancel := context.WithTimeout(ctx, monitorLimit)
	defer cancel()
	m, err := openQMP(ctx, l)
	if err != nil {
		return nil, errdefs.Unavailablef("checkpoint of task %q: %w", id, err)
	}
	defer m.close()
	var kind string
	if err := m.command("qom-get", map[string]any{"path": "/machine", "property": "type"}, &kind); err != nil {
		return nil, errdefs.FailedPreconditionf("checkpoint of task %q: %w", id, err)
	}
	out := *l.Machine
	out.Machine = strings.TrimSuffix(kind, "-machine")
	return &out, nil
}

// write makes a checkpoint complete.
func (m *manifest) write(dir string) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, manifestFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(body, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// migrateEvery is the interval between questions how far a checkpoint is.
const migrateEvery = 50 * time.Millisecond

// migrate makes QEMU write the state of a machine into a file. It waits until the migration
// has succeeded, failed or been canceled; it cancels it when ctx ends.
func migrate(ctx context.Context, l *launch, state *os.File) error {
	if err := beginMigration(ctx, l, state); err != nil {
		return err
	}
	canceled := false
	for {
		status, why, err := migration(l)
		switch {
		case err != nil:
			// QEMU is busy, or has ended: then its socket refuses.
			if ctx.Err() != nil {
				return errdefs.Unavailablef("the machine's monitor does not answer: %w (%w)", err, ctx.Err())
			}
		case status == "completed" && !canceled:
			return nil
		case status == "failed":
			return errdefs.FailedPreconditionf("QEMU cannot write the state of the machine: %s", why)
		case status == "cancelled" || status == "completed":
			return ctx.Err()
		}
		if ctx.Err() != nil && !canceled {
			canceled = tell(context.WithoutCancel(ctx), l, "migrate_cancel") == nil
		}
		<-time.After(migrateEvery)
	}
}

// beginMigration passes the file to QEMU and begins the migration. The machine is stopped
// at once and everything is written once: to write while it runs would write changed memory
// again.
func beginMigration(ctx context.Context, l *launch, state *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, monitorLimit)
	defer cancel()
	m, err := openQMP(ctx, l)
	if err != nil {
		return errdefs.Unavailablef("%w", err)
	}
	defer m.close()
	const name, unlimited, longest = "checkpoint", 1 << 50, 2_000_000 // bytes per second, ms
	err = m.command("migrate-set-parameters", map[string]any{"max-bandwidth": int64(unlimited), "downtime-limit": longest}, nil)
	if err == nil {
		err = m.hand(state, name)
	}
	if err == nil {
		err = m.command("migrate", map[string]any{"uri": "fd:" + name}, nil)
	}
	if err != nil {
		return errdefs.FailedPreconditionf("QEMU does not write the state of the machine: %w", err)
	}
	return nil
}

// migration asks how far a checkpoint is.
func migration(l *launch) (status, why string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), monitorLimit)
	defer cancel()
	m, err := openQMP(ctx, l)
	if err != nil {
		return "", "", err
	}
	defer m.close()
	var answer struct {
		Status string `json:"status"`
		Why    string `json:"error-desc"`
	}
	err = m.command("query-migrate", nil, &answer)
	return answer.Status, answer.Why, err
}

// RestoreTask implements driver.Checkpointer.
func (d *Driver) RestoreTask(ctx context.Context, task *driver.TaskConfig, dir string) (*driver.Handle, *driver.NetworkOverride, error) {
	from, err := readManifest(dir)
	if err != nil {
		return nil, nil, errdefs.InvalidArgumentf("restore task %q: %w", task.Name, err)
	}
	return d.begin(ctx, task, &checkpoint{manifest: from, state: filepath.Join(dir, stateFile)})
}

// checkpoint is a stored state from which a machine can continue.
type checkpoint struct {
	manifest manifest
	state    string // path
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	path := filepath.Join(dir, manifestFile)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, fmt.Errorf("%s has no checkpoint of a virtual machine, or one that was not completed", dir)
	case err != nil:
		return m, err
	case !st.Mode().IsRegular() || st.Size() > maxManifest:
		return m, fmt.Errorf("%s is not a manifest", path)
	}
	body, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", path, err)
	}
	if m.Version != manifestVersion {
		return m, fmt.Errorf("%s is of version %d; this plugin reads version %d", path, m.Version, manifestVersion)
	}
	if !machineName.MatchString(m.Machine) {
		return m, fmt.Errorf("%s names no machine type", path)
	}
	return m, nil
}

// fits rejects a task whose machine is not the one of the checkpoint.
func (c *checkpoint) fits(want manifest) error {
	for _, x := range []struct {
		what      string
		was, want any
	}{
		{"emulator", c.manifest.Arch, want.Arch}, {"machine_type", c.manifest.Configured, want.Configured}, {"memory in MiB", c.manifest.MemoryMB, want.MemoryMB},
		{"set of devices", c.manifest.Devices, want.Devices},
	} {
		if x.was != x.want {
			return fmt.Errorf("the checkpoint is of a machine with another %s: %v, and this task has %v", x.what, x.was, x.want)
		}
	}
	return nil
}
