// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// mayMount reports whether the tasks of raw_exec can have mounts: the agent is root.
func mayMount() bool { return os.Geteuid() == 0 }

// rawMounts returns the mounts of a task of raw_exec, which it gets in a mount namespace of
// its own, and makes the places for them that are in the task's own directories.
func rawMounts(task *driver.TaskConfig) (out []isolation.Bind, err error) {
	if len(task.Mounts)+len(task.Devices) == 0 {
		return nil, nil
	}
	asked, err := isolation.ForTask(task, "")
	if err != nil {
		return nil, err
	}
	for _, m := range asked.Mounts {
		if m.Propagation == "bidirectional" {
			return nil, errdefs.InvalidArgumentf("mount on %q: a task of raw_exec has mounts of its own, which cannot be bidirectional; use the driver exec or docker", m.Target)
		}
		out = append(out, m)
	}
	for _, d := range asked.Devices {
		if d.Source == d.Target {
			continue // the task sees it as the machine does
		}
		if !strings.Contains(d.Permissions, "w") { // a mount that is read-only keeps nobody from writing to a device
			return nil, errdefs.InvalidArgumentf("device on %q: a task of raw_exec cannot have a device that it only reads; use the driver exec or docker", d.Target)
		}
		out = append(out, isolation.Bind{Source: d.Source, Target: d.Target})
	}
	if len(out) > 0 && !mayMount() {
		return nil, errdefs.FailedPreconditionf("the agent does not run as root, so tasks of raw_exec cannot have mounts; run it as root, or let the task use the path of the machine")
	}
	for i := range out {
		if out[i].Target, err = mountPoint(task, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mountPoint returns the path on the machine at which a mount is made. A relative path is in
// the task's directory. One in the task's or the shared directory is made; others must exist,
// because the task sees the machine's file system.
func mountPoint(task *driver.TaskConfig, m isolation.Bind) (string, error) {
	target := filepath.Clean(m.Target)
	if !filepath.IsAbs(target) {
		target = filepath.Join(task.TaskDir, target)
	}
	source, err := os.Stat(m.Source)
	if err != nil {
		return "", errdefs.Unavailablef("mount on %q: %w", m.Target, err)
	}
	for _, own := range []string{task.TaskDir, filepath.Join(task.AllocDir, "alloc")} {
		rel, err := filepath.Rel(own, target)
		if err != nil || rel == "." || !filepath.IsLocal(rel) {
			continue
		}
		if err := makePlace(own, rel, source.IsDir()); err != nil {
			return "", errdefs.InvalidArgumentf("make the place %q for a mount: %w", m.Target, err)
		}
		return target, nil
	}
	if !filepath.IsAbs(m.Target) {
		return "", errdefs.InvalidArgumentf("the mount on %q would be outside the task's directory", m.Target)
	}
	there, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errdefs.InvalidArgumentf("there is no %s on this machine to mount on, and a task of raw_exec has no file system of its own in which one could be made: make it, or use a destination in the task's directory, such as local%s", target, target)
	case err != nil:
		return "", errdefs.InvalidArgumentf("mount on %q: %w", m.Target, err)
	case there.IsDir() != source.IsDir():
		return "", errdefs.InvalidArgumentf("a directory can be mounted on a directory only, and a file or a device on a file: %s is neither as %s is", target, m.Source)
	}
	return target, nil
}

// makePlace makes a directory or an empty file below a directory of the task. No link leads it
// outside.
func makePlace(dir, name string, isDir bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the task's directory: %w", err)
	}
	defer root.Close()
	if isDir {
		return root.MkdirAll(name, 0o755)
	}
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
