// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sharedDir returns the directory that the tasks of an alloc share.
func sharedDir(task *driver.TaskConfig) string { return filepath.Join(task.AllocDir, "alloc") }

// mounts sets the mounts of the container: the task's own directories, the volumes
// of the group, and those in the task's config.
func mounts(in specInput, host *container.HostConfig) error {
	for _, own := range []struct{ dir, name string }{
		{in.task.AllocDir, "alloc"}, {in.task.TaskDir, "local"}, {in.task.TaskDir, "secrets"},
	} {
		from, err := in.source(own.dir, own.name, false)
		if err != nil {
			return ownFolder(own.name, err)
		}
		addBind(host, from, "/"+own.name, []string{in.agent.Volumes.SELinuxLabel})
	}
	for _, v := range in.config.Volumes {
		if err := volume(in, v, host); err != nil {
			return err
		}
	}
	if err := volumeDriver(in, host); err != nil {
		return err
	}
	for _, m := range in.task.Mounts {
		host.Mounts = append(host.Mounts, groupMount(m, host))
	}
	host.Mounts = slices.DeleteFunc(host.Mounts, func(m mount.Mount) bool { return m.Target == "" })
	for _, m := range append(slices.Clone(in.config.Mount), in.config.Mounts...) {
		out, err := configMount(in, m)
		if err != nil {
			return err
		}
		host.Mounts = append(host.Mounts, out)
	}
	return targets(in, host)
}

// targets checks that no two mounts of the config have the same place in the container.
func targets(in specInput, _ *container.HostConfig) error {
	taken := map[string]bool{"/alloc": true, "/local": true, "/secrets": true}
	take := func(name, target string) error {
		target = path.Clean(target)
		if taken[target] {
			return invalidf(name, "something else is mounted at %q already; choose another target", target)
		}
		taken[target] = true
		return nil
	}
	for _, v := range in.config.Volumes {
		if parts := strings.Split(v, ":"); len(parts) > 1 {
			if err := take("volumes", parts[1]); err != nil {
				return err
			}
		}
	}
	for _, m := range append(slices.Clone(in.config.Mount), in.config.Mounts...) {
		if m.Target != "" {
			if err := take("mount", m.Target); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownFolder returns the error for a directory that every task has but that cannot be
// mounted. A task that can write to its whole directory may have replaced it with a
// link.
func ownFolder(name string, err error) error {
	return errdefs.New(pathClass(err), fmt.Errorf("mount the directory %s of the task in its container: %w", name, err))
}

// pathClass returns the class of an error about a path: its own class if it has one,
// otherwise InvalidArgument.
func pathClass(err error) errdefs.Class {
	if class := errdefs.ClassOf(err); class != errdefs.Internal {
		return class
	}
	return errdefs.InvalidArgument
}

// volumeDriver checks volume_driver.
func volumeDriver(in specInput, _ *container.HostConfig) error {
	if in.config.VolumeDriver != "" && !in.agent.Volumes.Enabled {
		return noVolumes("volume_driver", "volume drivers", false)
	}
	return nil
}

// groupMount adds a mount that the node has prepared. An SELinux label requires a
// bind instead of a mount.
func groupMount(m driver.Mount, host *container.HostConfig) mount.Mount {
	propagation := propagations[m.PropagationMode]
	if m.SELinuxLabel != "" {
		options := []string{m.SELinuxLabel}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		if propagation != "" {
			options = append(options, string(propagation))
		}
		host.Binds = append(host.Binds, bind(m.HostPath, m.TaskPath, options...))
		return mount.Mount{}
	}
	out := mount.Mount{Type: mount.TypeBind, Source: m.HostPath, Target: m.TaskPath, ReadOnly: m.ReadOnly}
	if propagation != "" {
		out.BindOptions = &mount.BindOptions{Propagation: propagation}
	}
	return out
}

// propagations maps the names of propagation modes in job files to the names of the daemon.
var propagations = map[string]mount.Propagation{
	"private": mount.PropagationRPrivate, "host-to-task": mount.PropagationRSlave, "bidirectional": mount.PropagationRShared,
	"rprivate": mount.PropagationRPrivate, "rslave": mount.PropagationRSlave, "rshared": mount.PropagationRShared,
}

func bind(source, target string, options ...string) string {
	options = slices.DeleteFunc(options, func(s string) bool { return s == "" })
	out := source + ":" + target
	if len(options) > 0 {
		out += ":" + strings.Join(options, ",")
	}
	return out
}

// noVolumes returns the error for a setting that needs volumes.enabled.
func noVolumes(name, what string, unsure bool) error {
	err := fmt.Errorf("%s are not allowed on this node; the operator can allow them with volumes { enabled = true } in the agent's plugin \"docker\" config", what)
	return errdefs.New(errdefs.PermissionDenied, &attributeError{path: "config." + name, err: err, unsure: unsure})
}

// volume parses an entry of config.volumes.
func volume(in specInput, text string, host *container.HostConfig) error {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
		return invalidf("volumes", "%q is not SOURCE:TARGET[:OPTIONS] with an absolute target", text)
	}
	options := []string{in.agent.Volumes.SELinuxLabel}
	if len(parts) == 3 {
		options = append(options, parts[2])
	}
	source := parts[0]
	if in.config.VolumeDriver != "" && !strings.ContainsRune(source, '/') {
		host.Binds = append(host.Binds, bind(source, parts[1], options...)) // a volume of a volume driver
		return nil
	}
	source, inside, err := hostPath(in, "volumes", source, true)
	if err != nil {
		return err
	}
	if !inside {
		host.Binds = append(host.Binds, bind(source, parts[1], options...))
		return nil
	}
	addBind(host, source, parts[1], strings.Split(strings.Join(options, ","), ","))
	return nil
}

// hostPath returns the path on the machine for a path in a config. inside is true if
// it is in the task's or the shared directory; other paths are allowed only if the
// operator allows them.
func hostPath(in specInput, name, from string, create bool) (path string, inside bool, err error) {
	path = filepath.Clean(from)
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.task.TaskDir, path)
	}
	for _, dir := range []string{in.task.TaskDir, sharedDir(in.task)} {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		place, err := in.source(dir, rel, create)
		if err != nil {
			return "", true, errdefs.New(pathClass(err), fmt.Errorf("config.%s: %w", name, err))
		}
		return place, true, nil
	}
	if inside := insideTask(path); !in.agent.Volumes.Enabled && inside != "" {
		return "", false, forbiddenf(name, "%q is a path in the container, but sources are paths of the machine; write %q for a path in the task's directory", from, inside)
	}
	if !in.agent.Volumes.Enabled {
		return "", false, noVolumes(name, "paths outside of the alloc's directory, as "+from+",", filepath.IsAbs(from))
	}
	if !filepath.IsAbs(from) {
		return "", false, invalidf(name, "%q leads out of the task's directory; give an absolute path", from)
	}
	return path, false, nil
}

// insideTask returns the path on the machine if path names a directory of the task
// as its container sees it, such as ${NOMAD_TASK_DIR}. Otherwise it returns "".
func insideTask(path string) string {
	for seen, relative := range map[string]string{"/local": "local", "/secrets": "secrets", "/alloc": "../alloc"} {
		if rest, ok := strings.CutPrefix(path, seen); ok && (rest == "" || rest[0] == '/') {
			return relative + rest
		}
	}
	return ""
}

// configMount parses a mount block.
func configMount(in specInput, m mountBlock) (mount.Mount, error) {
	out := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.Readonly}
	if m.Target == "" {
		return out, invalidf("mount", "one of type %q has no target", m.Type)
	}
	if !path.IsAbs(m.Target) && !filepath.IsAbs(m.Target) {
		return out, invalidf("mount", "target %q is not absolute", m.Target)
	}
	switch out.Type {
	case mount.TypeBind:
		from, _, err := hostPath(in, "mount", m.Source, false)
		if err != nil {
			return out, err
		}
		out.Source = from
		if m.BindOptions != nil && m.BindOptions.Propagation != "" {
			if !slices.Contains(mount.Propagations, mount.Propagation(m.BindOptions.Propagation)) {
				return out, invalidf("mount", "propagation %q of %q is none of %v", m.BindOptions.Propagation, m.Target, mount.Propagations)
			}
			out.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(m.BindOptions.Propagation)}
		}
	case mount.TypeTmpfs:
		if m.Source != "" {
			return out, invalidf("mount", "%q is of type tmpfs, which has no source; remove it", m.Target)
		}
		if o := m.TmpfsOptions; o != nil {
			out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: o.Size, Mode: fs.FileMode(o.Mode)}
		}
	case mount.TypeVolume:
		return volumeMount(in, m, out)
	default:
		return out, invalidf("mount", "type %q of %q is none of bind, tmpfs and volume", m.Type, m.Target)
	}
	return out, nil
}

func volumeMount(in specInput, m mountBlock, out mount.Mount) (mount.Mount, error) {
	if strings.ContainsRune(m.Source, '/') {
		return out, invalidf("mount", "%q is not a volume name; use type \"bind\" for a path", m.Source)
	}
	o := m.VolumeOptions
	if o == nil {
		return out, nil
	}
	out.VolumeOptions = &mount.VolumeOptions{NoCopy: o.NoCopy, Labels: nonEmpty(merged(o.Labels))}
	if d := o.DriverConfig; d != nil {
		// The options of a volume driver may contain any path of the machine.
		if !in.agent.Volumes.Enabled {
			return out, noVolumes("mount", "volume drivers", false)
		}
		out.VolumeOptions.DriverConfig = &mount.Driver{Name: d.Name, Options: nonEmpty(merged(d.Options))}
	}
	return out, nil
}
