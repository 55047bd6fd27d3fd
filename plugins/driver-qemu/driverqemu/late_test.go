// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

// lateEmulator is QEMU behind a script that first replaces the content of the
// checked image, like another task of the alloc that wins the race.
func (n *node) lateEmulator(from, onto string) string {
	n.t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		n.t.Fatal(err)
	}
	bin := n.t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in */proc/self/fd/*) cat %s > %s;; esac\nexec %s \"$@\"\n", from, onto, qemu)
	if err := os.WriteFile(filepath.Join(bin, "qemu-system-late"), []byte(script), 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return "qemu-system-late"
}

func TestAnImageThatIsRewrittenAfterTheCheckReachesNoOtherFile(t *testing.T) {
	n := newNode(t, nil)
	outside, evil := n.outside(), filepath.Join(t.TempDir(), "evil.qcow2")
	disk := filepath.Join(n.dir, "web", "local", "disk.qcow2")
	n.qemuImg("create", "-q", "-f", "qcow2", disk, "1M")

	n.qemuImg("create", "-q", "-f", "qcow2", "-o", "data_file="+outside+",data_file_raw=on", evil, "1M")
	emulator := n.lateEmulator(evil, disk)
	n.refused(n.task(map[string]any{"image_path": "local/disk.qcow2", "emulator": emulator}), errdefs.PermissionDenied, "data_file")

	// A backing file that is added after the check is not opened: the VM runs without
	// it.
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	n.qemuImg("create", "-q", "-f", "qcow2", disk, "1M")
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", outside, "-F", "raw", evil, "1M")
	task := n.task(map[string]any{"image_path": "local/disk.qcow2", "emulator": emulator})
	n.run(task)
	for _, file := range n.openFiles(task) {
		if file == outside {
			t.Errorf("the machine has %s open", file)
		}
	}
}
