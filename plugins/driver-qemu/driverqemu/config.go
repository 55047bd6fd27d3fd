// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"path/filepath"
	"regexp"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// agentConfig is the block plugin "qemu" { config { } }.
type agentConfig struct {
	ImagePaths         []string `json:"image_paths"`
	ArgsAllowlist      []string `json:"args_allowlist"`
	EmulatorsAllowlist []string `json:"emulators_allowlist"`
}

// taskConfig is the config block of a task.
type taskConfig struct {
	ImagePath        string           `json:"image_path"`
	DriveInterface   string           `json:"drive_interface"`
	Accelerator      string           `json:"accelerator"`
	Emulator         string           `json:"emulator"`
	MachineType      string           `json:"machine_type"`
	Args             []string         `json:"args"`
	GracefulShutdown bool             `json:"graceful_shutdown"`
	GuestAgent       bool             `json:"guest_agent"`
	PortMap          []map[string]int `json:"port_map"`
}

const (
	acceleratorTCG = "tcg"
	acceleratorKVM = "kvm"
)

// driveInterfaces are the values of -drive if=, and cdrom, which stands for an ide
// drive with media=cdrom.
var driveInterfaces = []string{"ide", "virtio", "scsi", "cdrom", "sd", "floppy", "mtd", "pflash", "none"}

func info() driver.Info {
	return driver.Info{
		Name: "qemu",
		Capabilities: driver.Capabilities{
			OnDemand:     true,
			SecretEnv:    true,
			FSIsolation:  driver.FSIsolationNone,
			NetworkModes: []driver.NetworkMode{driver.NetworkHost, driver.NetworkGroup},
			Ignores:      []string{driver.IgnoresMemoryMax, driver.IgnoresDevices, driver.IgnoresDNS},
		},
		ConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "image_paths", Type: schema.ListString, Description: "directories and files of the machine that images may be in; an alloc's own directory always may"},
			{Name: "args_allowlist", Type: schema.ListString, Description: "options of QEMU, as -smp, that a task's args may have, with any value; \"*\" for all. If empty, those that reach nothing of the machine"},
			{Name: "emulators_allowlist", Type: schema.ListString, Description: "emulators that tasks may use, such as qemu-system-x86_64 or an absolute path; if empty, every qemu-system-* in PATH"},
		}},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
			{Name: "image_path", Type: schema.String, Required: true, Description: "disk image: relative to the task's directory, or absolute"},
			{Name: "drive_interface", Type: schema.String, OneOf: driveInterfaces, Description: "how the image is attached; ide if empty"},
			{Name: "accelerator", Type: schema.String, OneOf: []string{acceleratorTCG, acceleratorKVM}, Description: "tcg, or kvm where the node has it; tcg if empty"},
			{Name: "emulator", Type: schema.String, Description: "program to run; " + defaultEmulator + " if empty"},
			{Name: "machine_type", Type: schema.String, Description: "machine to emulate; pc if empty"},
			{Name: "args", Type: schema.ListString, Description: "further options of QEMU that the agent's config allows"},
			{Name: "graceful_shutdown", Type: schema.Bool, Default: false, Description: "press the machine's power button first when the task is stopped"},
			{Name: "guest_agent", Type: schema.Bool, Default: false, Description: "give the machine a port for the QEMU guest agent; it is qa.sock in the task's directory"},
			{Name: "port_map", Type: schema.ListMapNumber, Description: "label of a port of the group = port in the machine"},
		}},
	}
}

// check rejects invalid agent configs.
func (c *agentConfig) check() error {
	for _, p := range c.ImagePaths {
		if !filepath.IsAbs(p) {
			return errdefs.InvalidArgumentf("image_paths: %q is not absolute", p)
		}
	}
	for _, a := range c.ArgsAllowlist {
		if a != anyOption && (!strings.HasPrefix(a, "-") || strings.ContainsAny(a, " =")) {
			return errdefs.InvalidArgumentf("args_allowlist: %q is not the name of an option; write it as -smp", a)
		}
	}
	return nil
}

// machineName matches a machine type without properties: properties have config
// fields of their own, and some of them name files.
var machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// complete sets the defaults of a task's config.
func (c *taskConfig) complete() {
	if c.Emulator == "" {
		c.Emulator = defaultEmulator
	}
	if c.Accelerator == "" {
		c.Accelerator = acceleratorTCG
	}
	if c.MachineType == "" {
		c.MachineType = usualMachine(c.Emulator)
	}
	if c.DriveInterface == "" {
		if c.DriveInterface = "ide"; !c.isPC() {
			c.DriveInterface = "virtio"
		}
	}
}

// isPC reports whether the machine type is a PC, which has for example an IDE
// controller.
func (c *taskConfig) isPC() bool {
	return strings.HasPrefix(c.MachineType, "pc") || strings.HasPrefix(c.MachineType, "q35")
}

// hasPCI reports whether the machine type has a PCI bus.
func (c *taskConfig) hasPCI() bool { return !strings.HasPrefix(c.MachineType, "microvm") }

// usualMachine returns the default machine type.
func usualMachine(emulator string) string {
	switch arch := archOf(emulator); {
	case strings.HasSuffix(arch, "-microvm"):
		return "microvm"
	case arch == "x86_64" || arch == "i386":
		return "pc"
	case arch == "aarch64" || arch == "arm" || strings.HasPrefix(arch, "riscv") || strings.HasPrefix(arch, "loongarch"):
		return "virt"
	}
	return "" // QEMU's default
}
