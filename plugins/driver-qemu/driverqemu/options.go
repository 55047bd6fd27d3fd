// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// harmless are options without a value that give access to nothing.
var harmless = map[string]bool{
	"-nodefaults": true, "-no-user-config": true, "-nographic": true, "-snapshot": true, "-no-reboot": true, "-no-hpet": true,
	"-no-fd-bootchk": true, "-no-acpi": true, "-usb": true, "-mem-prealloc": true, "-full-screen": true, "-win2k-hack": true,
	"-singlestep": true, "-no-quit": true,
}

// instead says what to use instead of options that the driver itself sets.
var instead = map[string]string{
	"-m":           "the machine has the memory of resources.memory",
	"-machine":     "use machine_type",
	"-M":           "use machine_type",
	"-accel":       "use accelerator",
	"-enable-kvm":  "use accelerator = \"kvm\"",
	"-daemonize":   "the driver would lose sight of the machine",
	"-pidfile":     "the driver watches the machine itself",
	"-qmp":         "the driver has the machine's monitor",
	"-S":           "nothing would start the machine",
	"-no-shutdown": "the task would never end; leave it out",
	"-runas":       "use the task's user",
	"-sandbox":     "the driver has QEMU sandboxed",
}

// options are the options that the driver knows. Any other option is allowed only by
// args_allowlist, and takes the next argument as its value if that does not begin
// with a dash.
var options = func() map[string]option {
	anything := func(string) ([]piece, error) { return nil, nil }
	known := map[string]option{}
	for name := range harmless {
		known[name] = option{alone: true}
	}
	for _, name := range []string{
		"-daemonize", "-S", "-s", "-no-shutdown", "-enable-kvm", "-preconfig", "-xen-attach", "-xen-domid-restrict", "-h", "-help",
		"-version", "-audio-help", "-portrait", "-only-migratable", "-enable-sync-profile", "-async-teardown", "-nodefconfig",
	} {
		known[name] = option{alone: true}
	}
	for _, name := range []string{
		"-append", "-cpu", "-smp", "-numa", "-k", "-uuid", "-name", "-vga", "-g", "-rtc", "-watchdog", "-watchdog-action", "-seed",
		"-echr", "-msg", "-prom-env", "-action", "-compat",
	} {
		known[name] = option{check: anything}
	}
	for _, name := range []string{"-monitor", "-parallel"} {
		known[name] = option{check: only("none", "null")}
	}
	known["-serial"] = option{check: only("none", "null", "stdio", "mon:stdio")}
	known["-display"] = option{check: only("none")}
	known["-usbdevice"] = option{check: only("tablet", "mouse", "keyboard")}
	known["-boot"] = option{check: propertiesOf("", "order", "once", "menu", "splash-time", "reboot-timeout", "strict")}
	known["-smbios"] = option{check: without("file", "path")}
	known["-fw_cfg"] = option{check: propertiesOf("", "name", "string")}
	known["-icount"] = option{check: without("rr", "rrfile")}
	known["-global"] = option{check: checkGlobal}
	known["-device"] = option{check: checkDevice}
	known["-object"] = option{check: checkObject}
	known["-netdev"] = option{check: checkNetdev}
	known["-nic"] = option{check: checkNIC}
	known["-net"] = option{check: checkNIC}
	known["-drive"] = option{check: driveOption}
	for name, suffix := range map[string]string{
		"-hda": "if=ide,index=0", "-hdb": "if=ide,index=1", "-hdc": "if=ide,index=2", "-hdd": "if=ide,index=3", "-cdrom": "media=cdrom",
	} {
		known[name] = option{check: func(value string) ([]piece, error) {
			return []piece{{Text: "-drive"}, {File: &file{Path: value, Disk: true, ReadOnly: name == "-cdrom", Suffix: suffix}}}, nil
		}}
	}
	for _, name := range []string{"-kernel", "-initrd", "-dtb", "-bios"} {
		known[name] = option{check: func(value string) ([]piece, error) {
			return []piece{{Text: name}, {File: &file{Path: value, ReadOnly: true}}}, nil
		}}
	}
	for _, name := range []string{
		"-m", "-machine", "-M", "-accel", "-pidfile", "-qmp", "-qmp-pretty", "-runas", "-sandbox", "-chardev", "-mon", "-debugcon",
		"-gdb", "-d", "-D", "-dfilter", "-trace", "-plugin", "-L", "-readconfig", "-writeconfig", "-chroot", "-incoming", "-loadvm",
		"-fda", "-fdb", "-blockdev", "-mtdblock", "-sd", "-pflash", "-fsdev", "-virtfs", "-iscsi", "-spice", "-vnc", "-acpitable",
		"-option-rom", "-tpmdev", "-mem-path", "-add-fd", "-set", "-audio", "-audiodev", "-semihosting-config", "-dump-vmstate",
		"-xen-domid", "-rotate", "-tb-size", "-run-with", "-overcommit",
	} {
		known[name] = option{}
	}
	return known
}()

// only allows these values.
func only(values ...string) func(string) ([]piece, error) {
	return func(value string) ([]piece, error) {
		if !slices.Contains(values, value) {
			return nil, fmt.Errorf("only %s is allowed", strings.Join(values, ", "))
		}
		return nil, nil
	}
}

// propertiesOf allows these properties. first is the name of the property that may
// be given as the first one without its name.
func propertiesOf(first string, names ...string) func(string) ([]piece, error) {
	return func(value string) ([]piece, error) {
		for i, p := range properties(value) {
			if i == 0 && p.value == "" && (first == "" || p.name == first) {
				continue // the value of the first property without its name
			}
			if !slices.Contains(names, p.name) {
				return nil, fmt.Errorf("%q is not allowed; only %s are", p.name, strings.Join(names, ", "))
			}
		}
		return nil, nil
	}
}

// without allows all properties except these.
func without(names ...string) func(string) ([]piece, error) {
	return func(value string) ([]piece, error) {
		for _, p := range properties(value) {
			if slices.Contains(names, p.name) {
				return nil, fmt.Errorf("%q is not allowed", p.name)
			}
		}
		return nil, nil
	}
}

// devices are device models that are emulated entirely. Others may pass through a
// device of the machine (vfio-pci, usb-host), connect to another process (vhost-*,
// ivshmem) or load a file into memory (loader).
var devices = []string{
	"virtio-net*", "virtio-blk*", "virtio-scsi*", "virtio-rng*", "virtio-balloon*", "virtio-serial*", "virtserialport", "virtconsole",
	"virtio-gpu*", "virtio-vga*", "virtio-keyboard*", "virtio-mouse*", "virtio-tablet*", "virtio-iommu*", "e1000", "e1000e", "e1000-*",
	"rtl8139", "pcnet", "ne2k_pci", "vmxnet3", "igb", "usb-net", "ide-hd", "ide-cd", "scsi-hd", "scsi-cd", "nvme", "nvme-ns",
	"usb-storage", "usb-tablet", "usb-mouse", "usb-kbd", "usb-hub", "usb-ehci", "ich9-usb-*", "piix*-usb-uhci", "piix3-ide", "piix4-ide",
	"ich9-ahci", "ahci", "lsi*", "megasas*", "mptsas1068", "pvscsi", "qemu-xhci", "nec-usb-xhci", "pci-ohci", "VGA", "vmware-svga",
	"cirrus-vga", "bochs-display", "secondary-vga", "pvpanic*", "i6300esb", "ib700", "isa-debug-exit", "pcie-root-port",
	"pcie-pci-bridge", "pci-bridge", "pxb*", "ioh3420", "x3130-upstream", "xio3130-downstream", "intel-iommu", "vmgenid",
	"intel-hda", "hda-*", "AC97",
}

// fileProperties are device properties that name a file or an object of the machine.
var fileProperties = []string{"romfile", "file", "path", "filename", "memdev", "sysfsdev", "host", "hostaddr", "hostbus", "chardev", "fd", "vhost", "vhostfd", "vhostforce", "audiodev"}

func checkDevice(value string) ([]piece, error) {
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		return nil, errors.New("JSON is not allowed; write it as name,property=value")
	}
	for i, p := range properties(value) {
		name := p.value
		if i == 0 && p.value == "" {
			name = p.name
		}
		switch {
		case i == 0 && (p.value == "" || p.name == "driver") || p.name == "driver":
			if !slices.ContainsFunc(devices, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
				return nil, fmt.Errorf("the device %q is not allowed: it is not a known emulated device", name)
			}
		case i == 0:
			return nil, errors.New("its first part must be the name of a device")
		case slices.Contains(fileProperties, p.name) && p.value != "":
			return nil, fmt.Errorf("the property %q is not allowed: it refers to something on the machine", p.name)
		}
	}
	return nil, nil
}

func checkGlobal(value string) ([]piece, error) {
	for _, p := range properties(value) {
		name := p.name
		if i := strings.LastIndex(name, "."); i >= 0 {
			name = name[i+1:]
		}
		if p.name == "property" {
			name = p.value
		}
		if slices.Contains(fileProperties, name) {
			return nil, fmt.Errorf("the property %q is not allowed: it refers to something on the machine", name)
		}
	}
	return nil, nil
}

func checkObject(value string) ([]piece, error) {
	props := properties(value)
	if len(props) == 0 || props[0].value != "" || !slices.Contains([]string{"iothread", "throttle-group", "rng-builtin"}, props[0].name) {
		return nil, errors.New("only the objects iothread, throttle-group and rng-builtin are allowed")
	}
	return nil, nil
}

// userNetwork are the properties of a user-mode network that concern only the guest.
// Properties that forward a port or start a program (hostfwd, guestfwd, smb, tftp)
// are excluded; the scheduler assigns ports.
var userNetwork = []string{"id", "net", "host", "dhcpstart", "dns", "hostname", "restrict", "ipv4", "ipv6", "ipv6-net", "ipv6-host", "domainname", "dnssearch", "model", "mac", "macaddr", "name", "vectors", "addr"}

func checkNetdev(value string) ([]piece, error) { return checkNetwork(value, "user") }

func checkNIC(value string) ([]piece, error) { return checkNetwork(value, "user", "none", "nic") }

func checkNetwork(value string, kinds ...string) ([]piece, error) {
	props := properties(value)
	if len(props) == 0 || props[0].value != "" || !slices.Contains(kinds, props[0].name) {
		return nil, fmt.Errorf("only the network %s is allowed", strings.Join(kinds, " or "))
	}
	for _, p := range props[1:] {
		if !slices.Contains(userNetwork, p.name) {
			return nil, fmt.Errorf("the property %q is not allowed; forward ports by port_map", p.name)
		}
	}
	return nil, nil
}

// driveProperties are the properties of a drive other than file and format.
var driveProperties = []string{"if", "media", "index", "bus", "unit", "id", "cache", "snapshot", "discard", "detect-zeroes", "werror", "rerror", "serial", "aio", "copy-on-read", "l2-cache-size",
	"throttling.bps-total", "throttling.iops-total", "bps", "iops"}

// driveOption parses a drive option. Its file is opened in the same way as
// image_path.
func driveOption(value string) ([]piece, error) {
	f := &file{Disk: true}
	var rest []property
	for _, p := range properties(value) {
		switch {
		case p.name == "file":
			f.Path = p.value
		case p.name == "format":
			f.Format = p.value
		case p.name == "readonly" || p.name == "read-only":
			f.ReadOnly = p.value == "on" || p.value == ""
		case slices.Contains(driveProperties, p.name):
			f.ReadOnly = f.ReadOnly || p == property{"media", "cdrom"}
			rest = append(rest, p)
		default:
			return nil, fmt.Errorf("the property %q is not allowed", p.name)
		}
	}
	f.Suffix = join(rest)
	if f.Path == "" {
		return text("-drive", f.Suffix), nil // an empty CD-ROM drive
	}
	return []piece{{Text: "-drive"}, {File: f}}, nil
}
