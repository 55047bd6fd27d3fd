// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

// dangerous are options that give access to the machine, each in another way.
// Without an allowlist none of them is allowed.
var dangerous = [][]string{
	{"-drive", "file=/etc/shadow"}, {"-drive", "file=/etc/shadow,format=raw,if=virtio"}, {"-drive", "driver=host_device,filename=/dev/sda"},
	{"-hda", "/etc/shadow"}, {"-cdrom", "/etc/shadow"}, {"--cdrom", "/etc/shadow"}, {"/etc/shadow"}, {"-nographic", "/etc/shadow"},
	{"-kernel", "/etc/shadow"}, {"-initrd", "/etc/shadow"}, {"-bios", "/etc/shadow"}, {"-dtb", "../../../../../../etc/shadow"},
	{"-chardev", "socket,id=x,path=/var/run/docker.sock"}, {"-chardev", "file,id=x,path=/etc/cron.d/x"}, {"-serial", "file:/etc/cron.d/x"},
	{"-serial", "tcp::4444,server"}, {"-monitor", "unix:/tmp/x,server"}, {"-monitor", "stdio"}, {"-qmp", "tcp::4444,server"}, {"-mon", "monitor"},
	{"-gdb", "tcp::1234"}, {"-s"}, {"-netdev", "user,id=x,hostfwd=tcp::22-:22"}, {"-netdev", "user,id=x,guestfwd=tcp:10.0.2.9:1-cmd:sh"},
	{"-netdev", "user,id=x,smb=/"}, {"-netdev", "user,id=x,tftp=/"}, {"-netdev", "tap,id=x,script=/tmp/x"}, {"-nic", "tap"}, {"-net", "user,hostfwd=tcp::1-:1"},
	{"-net", "socket,listen=:1"}, {"-fsdev", "local,id=x,path=/,security_model=none"}, {"-virtfs", "local,path=/,mount_tag=x,security_model=none"},
	{"-incoming", "exec:sh"}, {"-runas", "root"}, {"-daemonize"}, {"-pidfile", "/etc/x"}, {"-D", "/etc/x"}, {"-d", "exec"}, {"-trace", "file=/etc/x"},
	{"-readconfig", "/etc/x"}, {"-writeconfig", "/etc/x"}, {"-plugin", "/tmp/x.so"}, {"-L", "/tmp"}, {"-option-rom", "/etc/shadow"},
	{"-acpitable", "file=/etc/shadow"}, {"-smbios", "file=/etc/shadow"}, {"-smbios", "type=11,path=/etc/shadow"}, {"-fw_cfg", "name=opt/x,file=/etc/shadow"},
	{"-device", "vfio-pci,host=00:1f.0"}, {"-device", "usb-host,hostbus=1"}, {"-device", "loader,file=/etc/shadow"}, {"-device", "e1000,romfile=/etc/shadow"},
	{"-device", "driver=vfio-pci,host=00:1f.0"}, {"-device", "e1000,driver=vfio-pci"}, {"-device", `{"driver":"vfio-pci"}`}, {"-device", "vhost-vsock-pci,guest-cid=3"},
	{"-device", "ivshmem-plain,memdev=x"}, {"-device", "virtio-9p-pci,fsdev=x,mount_tag=x"}, {"-object", "memory-backend-file,id=x,mem-path=/etc/shadow,size=1M"},
	{"-object", "rng-random,id=x,filename=/etc/shadow"}, {"-object", "secret,id=x,file=/etc/shadow"}, {"-object", "input-linux,id=x,evdev=/dev/input/event0"},
	{"-object", "filter-dump,id=x,netdev=net0,file=/etc/x"}, {"-global", "virtio-net-pci.romfile=/etc/shadow"},
	{"-global", "driver=e1000,property=romfile,value=/etc/shadow"}, {"-vnc", ":1"}, {"-spice", "port=1"}, {"-display", "vnc=:1"}, {"-display", "egl-headless"},
	{"-boot", "splash=/etc/shadow"}, {"-tpmdev", "passthrough,id=x"}, {"-mem-path", "/etc"}, {"-set", "drive.disk0.file=/etc/shadow"}, {"-add-fd", "fd=3,set=1"},
	{"-machine", "dumpdtb=/etc/x"}, {"-M", "q35"}, {"-m", "64G"}, {"-sandbox", "off"}, {"-no-shutdown"}, {"-S"}, {"-usbdevice", "disk:/etc/shadow"},
	{"-icount", "shift=1,rr=record,rrfile=/etc/x"}, {"-blockdev", "driver=file,filename=/etc/shadow,node-name=x"}, {"-some-option-of-tomorrow", "/etc/shadow"},
	{"-drive", "file=json:{\"driver\":\"file\",,\"filename\":\"/etc/shadow\"}"}, {"-drive", "file=nbd://example.com/x"},
	{"-drive", "id=x,file.filename=/etc/shadow"}, {"-semihosting-config", "enable=on"},
}

func TestNoOptionThatReachesTheMachineIsAllowedUnlessTheOperatorSaysSo(t *testing.T) {
	n := newNode(t, nil)
	disk := n.disk("disk.img", 1<<20)
	for _, args := range dangerous {
		task := n.task(map[string]any{"image_path": disk, "args": list(args)})
		_, _, err := n.d.StartTask(t.Context(), task)
		if !errdefs.IsPermissionDenied(err) && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: class %s, %v", args, errdefs.ClassOf(err), err)
			n.destroy(task)
			continue
		}
		if errdefs.IsRetryable(err) {
			t.Errorf("%q: would be tried again", args)
		}
		if text := err.Error(); !strings.Contains(text, "config.args") && !strings.Contains(text, "image") {
			t.Errorf("%q: says not what: %v", args, err)
		}
	}
}

func TestAnOptionAndItsValueInOneEntryAreToldApart(t *testing.T) {
	n := newNode(t, nil)
	disk := n.disk("disk.img", 1<<20)
	n.refused(n.task(map[string]any{"image_path": disk, "args": []any{"-nic user"}}), errdefs.InvalidArgument, `write two entries, "-nic" and "user"`)
}

func TestOptionsThatReachNothingAreAllowed(t *testing.T) {
	n := newNode(t, nil)
	disk := n.disk("disk.img", 1<<20)
	n.disk("local/data.img", 1<<20)
	n.qemuImg("create", "-q", "-f", "qcow2", n.dir+"/web/local/more.qcow2", "1M")
	for _, args := range [][]string{
		{"-nodefaults"}, {"-smp", "2"}, {"-cpu", "max"}, {"-device", "virtio-rng-pci"}, {"-device", "e1000,netdev=extra", "-netdev", "user,id=extra,restrict=on"},
		{"-drive", "file=local/data.img,format=raw,if=virtio"}, {"-drive", "file=local/more.qcow2,if=virtio,cache=writeback,readonly=on"},
		{"-hdb", "local/data.img"}, {"-cdrom", "local/data.img"}, {"-snapshot"}, {"-nographic"}, {"-serial", "none"}, {"-vga", "none"},
		{"-append", "-v /etc/shadow", "-kernel", "local/data.img"}, {"-boot", "order=c,menu=off"}, {"-fw_cfg", "name=opt/x,string=a,,b"}, {"-nic", "none"},
		{"-object", "iothread,id=io", "-device", "virtio-blk-pci,drive=extra,iothread=io", "-drive", "id=extra,if=none,file=local/data.img,format=raw"},
		{"-drive", "if=none,id=empty,media=cdrom"},
	} {
		task := n.task(map[string]any{"image_path": disk, "args": list(args)})
		_, _, err := n.d.StartTask(t.Context(), task)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		n.destroy(task)
	}
}

func TestAListOfTheOperatorsAllowsThoseOptionsAndNoOther(t *testing.T) {
	n := newNode(t, map[string]any{"args_allowlist": []any{"-smp", "-device"}})
	disk := n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": disk, "args": list([]string{"--smp", "2", "-device", "vmcoreinfo"})})
	if _, _, err := n.d.StartTask(t.Context(), task); err != nil {
		t.Errorf("options of the list: %v", err)
	}
	n.destroy(task)
	task = n.task(map[string]any{"image_path": disk, "args": list([]string{"-nodefaults"})})
	if _, _, err := n.d.StartTask(t.Context(), task); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "-smp, -device") {
		t.Errorf("an option beside the list: class %s, %v", errdefs.ClassOf(err), err)
	}
	n.configure(map[string]any{"args_allowlist": []any{"*"}})
	task = n.task(map[string]any{"image_path": disk, "args": list([]string{"-msg", "timestamp=on", "-chardev", "null,id=x"})})
	if _, _, err := n.d.StartTask(t.Context(), task); err != nil {
		t.Errorf("any option: %v", err)
	}
	n.destroy(task)
}

func TestABadAgentConfigIsRefused(t *testing.T) {
	n := newNode(t, nil)
	for _, c := range []string{`{"image_paths": ["images"]}`, `{"args_allowlist": ["smp"]}`, `{"args_allowlist": ["-smp 2"]}`, `{"nonsense": 1}`} {
		if err := n.d.SetConfig(t.Context(), []byte(c)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: class %s, %v", c, errdefs.ClassOf(err), err)
		}
	}
}

func list(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
