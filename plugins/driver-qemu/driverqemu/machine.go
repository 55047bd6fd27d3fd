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

// launch contains everything that the process needs to become the emulator of a VM.
// The supervisor stores it in its journal, so that later plugin processes know it
// too.
type launch struct {
	Emulator string  `json:"emulator"`
	Args     []piece `json:"args"`
	// TaskDir is the directory for relative file names. Roots are the directories in
	// which files are allowed.
	TaskDir string   `json:"task_dir"`
	Roots   []string `json:"roots"`
	// Snapshot means that no disk is written, so the disks need not be writable.
	Snapshot bool `json:"snapshot,omitempty"`
	// Paused means that the VM does not run until a client of the task's own monitor
	// starts it.
	Paused bool `json:"paused,omitempty"`
	// RunDir is the VM's own directory, with the monitor's socket.
	RunDir     string `json:"run_dir"`
	GuestAgent bool   `json:"guest_agent,omitempty"`
	Graceful   bool   `json:"graceful,omitempty"`
	// NetworkNS is the path of the network namespace to enter.
	NetworkNS string           `json:"network_ns,omitempty"`
	User      *supervisor.User `json:"user,omitempty"`
	// Machine is the VM's description in a checkpoint. It is nil if the task's args decide
	// about the machine. Incoming is the path of the state from which the VM continues.
	Machine  *manifest `json:"machine,omitempty"`
	Incoming string    `json:"incoming,omitempty"`
}

// file is a file that is passed to QEMU. A disk becomes the file= property of a
// drive, with Suffix as its other properties.
type file struct {
	Path     string `json:"path"`
	Disk     bool   `json:"disk,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Format   string `json:"format,omitempty"` // "" means that it is read from the file
	Suffix   string `json:"suffix,omitempty"`
}

// Names of the sockets and the directories they are in.
const (
	monitorSocket    = "qmp.sock" // in RunDir
	guestAgentSocket = "qa.sock"  // in TaskDir, as with the reference
)

// Ids of the devices that the driver adds to a VM. A task's args may refer to them.
const (
	netdevID = "net0"
	driveID  = "disk0"
)

// sandboxArgs make QEMU drop system calls that it does not need: a guest that breaks
// out of its VM cannot start programs or change its user.
const sandboxArgs = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// features are the optional features an emulator was built with.
type features struct{ Sandbox bool }

// arguments builds the arguments of a VM. The driver's own options come first, so
// that the task's options may refer to them.
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
	add("-S") // the VM starts paused until its images are verified, see release
	// The guest's console is the task's output. It has no input.
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

// bus returns the name of a virtio device for the VM's bus.
func (c *taskConfig) bus(device, onlyPCI string) string {
	if c.hasPCI() {
		return device + "-pci" + onlyPCI
	}
	return device + "-device"
}

// drive attaches the task's image.
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

// forwards returns the port forwarding of the VM's user-mode network, for TCP and
// UDP. If the group has a network of its own, the host port is the one inside that
// network.
func forwards(c *taskConfig, task *driver.TaskConfig) (string, error) {
	inside := map[string]int{}
	for _, m := range c.PortMap {
		for label, port := range m {
			if port < 1 || port > 65535 {
				return "", fmt.Errorf("config.port_map: %s = %d is not a port", label, port)
			}
			inside[label] = port
		}
	}
	var b strings.Builder
	for _, p := range task.Ports {
		to, ok := inside[p.Label]
		delete(inside, p.Label)
		if !ok && p.To <= 0 {
			continue // the guest's port is unknown
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
