// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// ForTask returns the isolation that the config of a task asks for: its directories, its
// mounts and devices, the network and the names of its group. The agent's directories are
// hidden, and so is stateDir, the plugin's own directory. Unless the caller sets Chroot
// (see System) and the capabilities (see Capabilities), the task sees no file of the
// machine and has no capability.
func ForTask(task *driver.TaskConfig, stateDir string) (*Config, error) {
	c := &Config{
		TaskDir: task.TaskDir, SharedDir: filepath.Join(task.AllocDir, "alloc"), Hide: hidden(task, stateDir), ResolvConf: ResolvConf(task.DNS),
	}
	if err := addHostPaths(c, task); err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if n := task.Network; n != nil {
		var err error
		c.NetworkNS, c.Hostname = n.Path, n.Hostname
		if c.Hosts, err = Hosts(n); err != nil {
			return nil, errdefs.New(errdefs.InvalidArgument, err)
		}
	}
	return c, nil
}

// System returns the directories of the machine's programs, libraries and settings, from
// which most commands run.
func System() []Bind {
	var out []Bind
	for _, dir := range []string{
		"/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr",
	} {
		out = append(out, Bind{Source: dir, Target: dir})
	}
	return out
}

// hidden returns the agent's directories that no task may see, wherever the operator
// has placed them.
func hidden(task *driver.TaskConfig, stateDir string) []string {
	out := append(plugin.AgentDirs(), filepath.Dir(filepath.Dir(task.TaskDir)), stateDir)
	if dir := filepath.Dir(filepath.Dir(stateDir)); filepath.Base(filepath.Dir(stateDir)) == "plugin-state" {
		out = append(out, dir) // the agent's data directory
	}
	return out
}

// addHostPaths adds the task's mounts and devices.
func addHostPaths(c *Config, task *driver.TaskConfig) error {
	for _, m := range task.Mounts {
		if !filepath.IsAbs(m.HostPath) || m.TaskPath == "" {
			return fmt.Errorf("mount of %q on %q: the first must be absolute, the second not empty", m.HostPath, m.TaskPath)
		}
		switch m.PropagationMode {
		case "", "private", "host-to-task", "bidirectional":
		default:
			return fmt.Errorf("mount of %q: propagation mode %q is none of private, host-to-task and bidirectional", m.HostPath, m.PropagationMode)
		}
		c.Mounts = append(c.Mounts, Bind{Source: m.HostPath, Target: m.TaskPath, ReadOnly: m.ReadOnly, Propagation: m.PropagationMode})
	}
	for _, d := range task.Devices {
		permissions := d.Permissions
		if permissions == "" {
			permissions = "rwm"
		}
		if !filepath.IsAbs(d.HostPath) || strings.Trim(permissions, "rwm") != "" {
			return fmt.Errorf("device %q with permissions %q: the path must be absolute and permissions of r, w and m", d.HostPath, d.Permissions)
		}
		c.Devices = append(c.Devices, Device{Source: d.HostPath, Target: d.TaskPath, Permissions: permissions})
	}
	return nil
}

// ResolvConf returns the content of /etc/resolv.conf of a task; "" means the machine's own
// file.
func ResolvConf(dns *driver.DNSConfig) string {
	if dns == nil || len(dns.Servers)+len(dns.Searches)+len(dns.Options) == 0 {
		return ""
	}
	var b strings.Builder
	if len(dns.Searches) > 0 {
		b.WriteString("search " + strings.Join(dns.Searches, " ") + "\n")
	}
	for _, s := range dns.Servers {
		b.WriteString("nameserver " + s + "\n")
	}
	if len(dns.Options) > 0 {
		b.WriteString("options " + strings.Join(dns.Options, " ") + "\n")
	}
	return b.String()
}

// Hosts returns the hosts file of a task whose group has an address of its own: its host
// name resolves to that address, because some programs bind to their own host name. It is
// "" for other tasks.
func Hosts(n *driver.NetworkIsolation) (string, error) {
	if n.Address == "" {
		return "", nil
	}
	if net.ParseIP(n.Address) == nil {
		return "", fmt.Errorf("the address of the group's network, %q, is not an IP address", n.Address)
	}
	name := n.Hostname
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("look up the name of the machine: %w", err)
		}
	}
	return fmt.Sprintf("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n", n.Address, name), nil
}
