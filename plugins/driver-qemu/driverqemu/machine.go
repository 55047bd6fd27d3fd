// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// launch is all that makes one machine: what the process that becomes its emulator
// is told. The supervisor's journal keeps it, so that a later plugin knows it too.
type launch struct {
	Emulator string  `json:"emulator"`
	Args     []piece `json:"args"`
	// TaskDir is where relative names begin, Roots where files may be.
	TaskDir string   `json:"task_dir"`
	Roots   []string `json:"roots"`
	// Snapshot: no disk is written, so none need be writable.
	Snapshot bool `json:"snapshot,omitempty"`
	// Paused: it is not to run before somebody says so at a monitor of the task's own.
	Paused bool `json:"paused,omitempty"`
	// RunDir is the machine's own directory, with the socket of its monitor.
	RunDir     string `json:"run_dir"`
	GuestAgent bool   `json:"guest_agent,omitempty"`
	Graceful   bool   `json:"graceful,omitempty"`
	// NetworkNS is the file of the network namespace to be in.
	NetworkNS string           `json:"network_ns,omitempty"`
	User      *supervisor.User `json:"user,omitempty"`
}

// file is a file that QEMU is given. A disk becomes the file= of a drive, with Suffix
// as its other properties.
type file struct {
	Path     string `json:"path"`
	Disk     bool   `json:"disk,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Format   string `json:"format,omitempty"` // "" to be found out
	Suffix   string `json:"suffix,omitempty"`
}

// Sockets, by name, and where they are.
const (
	monitorSocket    = "qmp.sock" // in RunDir
	guestAgentSocket = "qa.sock"  // in TaskDir, as the reference has it
)

// Names of what the driver adds to a machine, which a task's args may refer to.
const (
	netdevID = "net0"
	driveID  = "disk0"
)

// sandboxArgs have QEMU give up system calls that it does not need: a guest that
// breaks out of its machine starts no program and becomes nobody else.
const sandboxArgs = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// features are what an emulator was built with.
type features struct{ Sandbox bool }

// arguments puts a machine together. The driver's own options come first, so that
// those of the task may refer to them.
func arguments(c *taskConfig, task *driver.TaskConfig, extra userArgs, has features) ([]piece, error) {
	var out []piece
	add := func(s ...string) { out = append(out, text(s...)...) }
	machine := "accel=" + c.Accelerator
	if c.MachineType != "" {
		machine = "type=" + c.MachineType + "," + machine
	}
	if !extra.has("-machine", "-M", "-accel") {
		add("-machine", machine)
	}
	if has.Sandbox && !extra.has("-sandbox", "-runas") {
		add("-sandbox", sandboxArgs)
	}
	if !extra.has("-name") {
		add("-name", escape(task.AllocName+"."+task.Name))
	}
	if !extra.has("-m") {
		add("-m", fmt.Sprintf("size=%dM", task.Resources.MemoryMB))
	}
	if c.Accelerator == acceleratorKVM && !extra.has("-cpu") {
		add("-cpu", "host")
	}
	if n := len(task.Resources.Cores); n > 0 && !extra.has("-smp") {
		add("-smp", strconv.Itoa(n))
	}
	add("-S") // until its images are seen to be those that were checked, see release
	// The guest's console is the task's output; nobody types into it.
	add("-display", "none")
	if !extra.has("-monitor") {
		add("-monitor", "none")
	}
	if !extra.has("-serial") {
		add("-serial", "stdio")
	}
	out = append(out, drive(c)...)
	forwards, err := forwards(c, task)
	if err != nil {
		return nil, err
	}
	if !extra.has("-netdev", "-nic", "-net") || forwards != "" {
		add("-netdev", "user,id="+netdevID+forwards, "-device", c.bus("virtio-net", ",romfile=")+",netdev="+netdevID)
	}
	if c.GuestAgent {
		add("-device", c.bus("virtio-serial", ""), "-device", "virtserialport,chardev=guest-agent,name=org.qemu.guest_agent.0")
	}
	return append(out, extra.pieces...), nil
}

// bus names a virtio device for the bus that the machine has.
func (c *taskConfig) bus(device, onlyPCI string) string {
	if c.hasPCI() {
		return device + "-pci" + onlyPCI
	}
	return device + "-device"
}

// drive attaches the image.
func drive(c *taskConfig) []piece {
	f := &file{Path: c.ImagePath, Disk: true}
	out := []piece{{Text: "-drive"}, {File: f}}
	switch {
	case c.DriveInterface == "cdrom":
		f.ReadOnly, f.Suffix = true, "media=cdrom"
	case c.DriveInterface == "scsi":
		f.Suffix = "if=none,id=" + driveID
		out = append(out, text("-device", c.bus("virtio-scsi", ""), "-device", "scsi-hd,drive="+driveID)...)
	case c.DriveInterface == "virtio" && !c.hasPCI():
		f.Suffix = "if=none,id=" + driveID
		out = append(out, text("-device", "virtio-blk-device,drive="+driveID)...)
	case c.DriveInterface == "none":
		f.Suffix = "if=none,id=" + driveID
	default:
		f.Suffix = "if=" + c.DriveInterface
	}
	return out
}

// forwards are the ports of the machine's user-mode network, for tcp and udp. With a
// network of the group's own the outside port is the one inside that network.
func forwards(c *taskConfig, task *driver.TaskConfig) (string, error) {
	inside := map[string]int{}
	for _, m := range c.PortMap {
		for label, port := range m {
			if port < 1 || port > 65535 {
				return "", fmt.Errorf("config.port_map: %s = %d is no port", label, port)
			}
			inside[label] = port
		}
	}
	var b strings.Builder
	for _, p := range task.Ports {
		to, ok := inside[p.Label]
		delete(inside, p.Label)
		if !ok && p.To <= 0 {
			continue // nothing says where it goes
		}
		if !ok {
			to = p.To
		}
		outside, host := p.Value, p.HostIP
		if task.Network != nil && task.Network.Path != "" {
			if host = ""; p.To > 0 {
				outside = p.To
			}
		}
		if strings.Contains(host, ":") {
			return "", fmt.Errorf("port %q is at %s: QEMU forwards ports of IPv4 addresses only; give the port a host_network that has one", p.Label, host)
		}
		for _, protocol := range []string{"tcp", "udp"} {
			fmt.Fprintf(&b, ",hostfwd=%s:%s:%d-:%d", protocol, host, outside, to)
		}
	}
	for label := range inside {
		return "", fmt.Errorf("config.port_map: the group has no port %q; name it in the group's network block", label)
	}
	return b.String(), nil
}
