// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// The daemon gives a container that joins another's namespace the resolv.conf and the hosts
// file of the other container, and refuses DNS settings for it. So a task in the network of
// its group gets files of its own, with the same contents as from other drivers.

// names returns the content of files in /etc by their names: the files of a task in the
// network of its group, unless the task mounts its own.
func names(in specInput, host *container.HostConfig) (map[string]string, error) {
	if !joinsGroup(in.task) {
		return nil, nil
	}
	c := dns(in)
	hosts, err := isolation.Hosts(in.task.Network)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if len(in.config.ExtraHosts) > 0 && hosts == "" {
		hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	}
	for _, text := range in.config.ExtraHosts {
		name, addr, _ := strings.Cut(text, ":") // resolver has checked it
		if _, err := netip.ParseAddr(strings.Trim(addr, "[]")); err != nil {
			return nil, invalidf("extra_hosts", "%q names no IP address, which it must in the network of a group", text)
		}
		hosts += strings.Trim(addr, "[]") + " " + name + "\n"
	}
	out := map[string]string{}
	for name, content := range map[string]string{"resolv.conf": isolation.ResolvConf(&c), "hosts": hosts} {
		if content != "" && !occupied(host, "/etc/"+name) {
			out[name] = content
		}
	}
	return out, nil
}

// occupied reports whether something is mounted at the target.
func occupied(host *container.HostConfig, target string) bool {
	return slices.ContainsFunc(host.Mounts, func(m mount.Mount) bool { return filepath.Clean(m.Target) == target }) ||
		slices.ContainsFunc(host.Binds, func(b string) bool {
			parts := strings.Split(b, ":")
			return len(parts) > 1 && filepath.Clean(parts[1]) == target
		})
}

// writeNames writes the files and mounts them. They are removed with the group's network:
// the daemon needs them whenever it starts the container.
func (s *start) writeNames(in specInput, host *container.HostConfig) error {
	files, err := names(in, host)
	if err != nil || len(files) == 0 {
		return err
	}
	if !allocName.MatchString(s.task.AllocID) {
		return errdefs.InvalidArgumentf("%q is not the id of an alloc", s.task.AllocID)
	}
	dir := filepath.Join(s.networkDir(s.task.AllocID), "task-"+notInName.ReplaceAllString(s.task.Name, "_"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errdefs.FailedPreconditionf("make the directory of the task's hosts file: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := replaceFile(path, []byte(content)); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil { // all users of the container read it
			return errdefs.FailedPreconditionf("let the task read its %s: %w", name, err)
		}
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: "/etc/" + name})
	}
	return nil
}
