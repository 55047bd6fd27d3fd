// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (n *node) pid(task *driver.TaskConfig) string {
	n.t.Helper()
	s, err := n.d.InspectTask(n.t.Context(), task.ID)
	if err != nil || s.Attributes["pid"] == "" {
		n.t.Fatalf("inspect: %+v, %v", s, err)
	}
	return s.Attributes["pid"]
}

// openFiles returns the files that a VM's process has open.
func (n *node) openFiles(task *driver.TaskConfig) []string {
	n.t.Helper()
	links, err := filepath.Glob("/proc/" + n.pid(task) + "/fd/*")
	if err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			out = append(out, to)
		}
	}
	return out
}

func (n *node) status(task *driver.TaskConfig, field string) string {
	n.t.Helper()
	body, err := os.ReadFile("/proc/" + n.pid(task) + "/status")
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return ""
}

func (n *node) commandLine(task *driver.TaskConfig) []string {
	n.t.Helper()
	body, err := os.ReadFile("/proc/" + n.pid(task) + "/cmdline")
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(body), "\x00"), "\x00")
}

func TestAMachineIsWhatItsTaskSays(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img", "machine_type": "q35", "drive_interface": "virtio", "port_map": []any{map[string]any{"dns": 53}}})
	task.Resources.MemoryMB, task.Resources.Cores = 96, []int{0}
	port := freePort(t)
	task.Ports = []driver.Port{{Label: "dns", Value: port, HostIP: "127.0.0.1"}, {Label: "web", Value: freePort(t), To: 8080}, {Label: "other", Value: freePort(t)}}
	n.run(task)
	line := strings.Join(n.commandLine(task), " ")
	for _, want := range []string{
		"type=q35,accel=tcg", "-m size=96M", "-smp 1", "if=virtio", "-sandbox on", fmt.Sprintf("hostfwd=tcp:127.0.0.1:%d-:53", port),
		fmt.Sprintf("hostfwd=udp:127.0.0.1:%d-:53", port), fmt.Sprintf("hostfwd=tcp::%d-:8080", task.Ports[1].Value),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the machine lacks %q: %s", want, line)
		}
	}
	if strings.Contains(line, fmt.Sprint(task.Ports[2].Value)) || strings.Contains(line, n.dir+"/web/disk.img") {
		t.Errorf("a port that goes nowhere, or the name of the image: %s", line)
	}
	if got := n.status(task, "Seccomp"); got != "2" {
		t.Errorf("the emulator is not sandboxed: Seccomp %q", got)
	}
	if got := n.status(task, "Cpus_allowed_list"); got != "0" {
		t.Errorf("the emulator runs on the cores %q", got)
	}
	if s, err := n.d.InspectTask(t.Context(), task.ID); err != nil || s.Attributes["machine"] != "running" {
		t.Errorf("inspect: %+v, %v", s, err)
	}
	if files := n.openFiles(task); !slices.Contains(files, filepath.Join(n.dir, "web", "disk.img")) {
		t.Errorf("the image is not among its files: %v", files)
	}
}

func TestEveryDriveInterfaceOfThisMachineIsAttached(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 2<<20)
	for kind, size := range map[string]int64{"ide": 2 << 20, "virtio": 2 << 20, "scsi": 2 << 20, "cdrom": 2 << 20, "none": 2 << 20, "floppy": 1474560} {
		if err := os.Truncate(filepath.Join(n.dir, "web", "disk.img"), size); err != nil {
			t.Fatal(err)
		}
		n.attached(kind)
	}
	n.refusedByItsSchema(map[string]any{"image_path": "disk.img", "drive_interface": "usb"}, "config.drive_interface: must be one of ide, virtio")
}

func (n *node) attached(kind string) {
	n.t.Helper()
	task := n.task(map[string]any{"image_path": "disk.img", "drive_interface": kind})
	if _, _, err := n.d.StartTask(n.t.Context(), task); err != nil {
		n.t.Errorf("%s: %v", kind, err)
		return
	}
	n.destroy(task)
}

// open lets every user reach the task's directory, like the agent's data directory.
func (n *node) open() {
	n.t.Helper()
	for dir := n.dir; dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777|os.ModeSticky); dir != "/tmp" && err != nil {
			n.t.Fatal(err)
		}
		if filepath.Dir(dir) == os.TempDir() {
			break
		}
	}
}

func TestAMachineRunsAsItsTasksUserWhoMustBeAllowedTheImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	n.open()
	task := n.task(map[string]any{"image_path": "disk.img"})
	task.User = "nobody"
	n.refused(task, errdefs.FailedPrecondition, "cannot be written")
	if err := os.Chown(filepath.Join(n.dir, "web", "disk.img"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	task = n.task(map[string]any{"image_path": "disk.img"})
	task.User = "nobody"
	n.run(task)
	if uid, gid := n.status(task, "Uid"), n.status(task, "Gid"); uid != "65534 65534 65534 65534" || gid != "65534 65534 65534 65534" {
		t.Errorf("uids %q, gids %q", uid, gid)
	}
	if caps := n.status(task, "CapEff"); strings.Trim(caps, "0") != "" {
		t.Errorf("capabilities %s", caps)
	}
}

func TestQEMUsOwnWordsComeBackWhenItRefusesAMachine(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	n.refused(n.task(map[string]any{"image_path": "disk.img", "machine_type": "toaster"}), errdefs.FailedPrecondition, "unsupported machine type")
	n.refused(n.task(map[string]any{"image_path": "disk.img", "args": []any{"-cpu", "abacus"}}), errdefs.FailedPrecondition, "unable to find CPU model 'abacus'")
	if left, err := filepath.Glob(filepath.Join(n.state, "driver-qemu", "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	n.refused(n.task(map[string]any{"image_path": "disk.img", "machine_type": "pc,dumpdtb=/etc/x"}), errdefs.InvalidArgument, "machine_type")
	n.refusedByItsSchema(map[string]any{"image_path": "disk.img", "accelerator": "xen"}, "config.accelerator: must be one of tcg, kvm")
	n.refused(n.task(map[string]any{"image_path": "disk.img", "port_map": []any{map[string]any{"nobody": 80}}}), errdefs.InvalidArgument, "nobody")
}

func TestAPortThatIsTakenIsSaidSo(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	task := n.task(map[string]any{"image_path": "disk.img", "args": []any{"-nic", "none"}})
	task.Ports = []driver.Port{{Label: "http", Value: l.Addr().(*net.TCPAddr).Port, To: 80, HostIP: "127.0.0.1"}}
	n.refused(task, errdefs.FailedPrecondition, "host forwarding rule")
	task.Ports[0].HostIP = "::1"
	n.refused(task, errdefs.InvalidArgument, "IPv4")
	task.Network = &driver.NetworkIsolation{Path: "/nowhere/net"}
	n.refused(task, errdefs.FailedPrecondition, "/nowhere/net")
}

func TestOnlyEmulatorsThatAreThereAndAllowedAreRun(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	with := func(emulator string) *driver.TaskConfig {
		return n.task(map[string]any{"image_path": "disk.img", "emulator": emulator})
	}
	n.refused(with("qemu-system-pdp11"), errdefs.InvalidArgument, "qemu-system-pdp11")
	n.refused(with("/bin/sh"), errdefs.PermissionDenied, "emulators_allowlist")
	n.refused(with("../../bin/sh"), errdefs.PermissionDenied, "emulators_allowlist")
	task := with("x86_64")
	n.run(task)
	n.destroy(task)
	n.configure(map[string]any{"emulators_allowlist": []any{"qemu-system-i386", "/usr/bin/qemu-system-x86_64", "/nowhere/qemu"}})
	n.refused(with("qemu-system-x86_64"), errdefs.PermissionDenied, "qemu-system-i386")
	n.refused(with("/nowhere/qemu"), errdefs.InvalidArgument, "install it")
	n.run(with("/usr/bin/qemu-system-x86_64"))
}

func TestTheFingerprintSaysWhichEmulatorsThereAre(t *testing.T) {
	n := newNode(t, nil)
	prints, err := n.d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := <-prints
	if f.Health != driver.HealthHealthy || f.Attributes["driver.qemu"] != "1" || !strings.Contains(f.Attributes["driver.qemu.version"], ".") ||
		!slices.Contains(strings.Split(f.Attributes["driver.qemu.emulators"], ","), "x86_64") {
		t.Errorf("fingerprint %+v", f)
	}
	n.configure(map[string]any{"emulators_allowlist": []any{"qemu-system-pdp11"}})
	if f = <-prints; f.Health != driver.HealthUndetected || len(f.Attributes) != 0 {
		t.Errorf("without an emulator: %+v", f)
	}
	t.Setenv("PATH", t.TempDir())
	n.configure(nil)
	prints, err = n.d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f = <-prints; f.Health != driver.HealthUndetected || !strings.Contains(f.HealthDescription, "install QEMU") {
		t.Errorf("without QEMU: %+v", f)
	}
	n.refused(n.task(map[string]any{"image_path": "disk.img"}), errdefs.InvalidArgument, "install QEMU")
}

func TestAMachineWithoutGracefulShutdownIsCutOffAtOnce(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img"})
	n.run(task)
	if err := n.d.StopTask(t.Context(), task.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if r, err := n.d.WaitTask(t.Context(), task.ID); err != nil || !r.Successful() {
		t.Errorf("result %+v, %v; QEMU closes its disks and ends with 0", r, err)
	}
}

func TestAMachineIsAskedToShutDownByAPluginThatIsStillRecoveringIt(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20) // there is no guest, so that a stop that asks takes its whole time
	task := n.task(map[string]any{"image_path": "disk.img", "graceful_shutdown": true})
	handle := n.run(task)
	next := driverqemu.New(n.state)
	if err := next.RecoverHalf(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	const timeout = 2 * time.Second
	if err := next.StopTask(t.Context(), task.ID, timeout, ""); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < timeout*8/10 {
		t.Errorf("it was cut off after %s of %s", took, timeout)
	}
}

func TestAMachineIsPausedByItsMonitorAndStaysSoForThePluginAfter(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img"})
	handle := n.run(task)
	is := func(d *driverqemu.Driver, want bool) {
		t.Helper()
		s, err := d.InspectTask(t.Context(), task.ID)
		if err != nil || s.State != driver.TaskRunning || s.Paused != want {
			t.Errorf("%+v, %v; want Paused = %t", s, err, want)
		}
	}
	is(n.d, false)
	for range 2 {
		if err := n.d.PauseTask(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	next := driverqemu.New(n.state)
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := next.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	is(next, true)
	for range 2 {
		if err := next.ResumeTask(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	is(next, false)
	if err := next.PauseTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if err := next.StopTask(t.Context(), task.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if err := next.PauseTask(t.Context(), task.ID); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a machine that has ended: %v", err)
	}
}
