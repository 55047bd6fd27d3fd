// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestTheRulesOfAMachineNameTheAttribute(t *testing.T) {
	d := driverqemu.New(t.TempDir())
	if err := d.SetConfig(t.Context(), []byte(`{"emulators_allowlist": ["qemu-system-x86_64"]}`)); err != nil {
		t.Fatal(err)
	}
	type config = map[string]any
	const none = "config.emulator" // a test machine may lack QEMU
	for _, c := range []struct {
		task config
		want string
	}{
		{config{"image_path": "disk.img"}, ""},
		{config{"image_path": ""}, "config.image_path"},
		{config{"image_path": "disk.img", "machine_type": "pc,firmware=/etc/passwd", "drive_interface": "usb", "accelerator": "xen"}, "config.accelerator config.machine_type config.drive_interface"},
		{config{"image_path": "disk.img", "args": []any{"-monitor", "stdio"}}, "config.args"},
	} {
		body, err := json.Marshal(c.task)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: body})
		var paths []string
		for _, f := range found {
			if f.Path != none {
				paths = append(paths, f.Path)
			}
			if f.Severity != driver.SeverityError || f.Summary == "" || strings.HasPrefix(f.Summary, "config.") {
				t.Errorf("%v: %+v", c.task, f)
			}
		}
		if got := strings.Join(paths, " "); err != nil || got != c.want {
			t.Errorf("%v: %s, want %s, %v", c.task, got, c.want, err)
		}
	}
	found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: []byte(`{"image_path": "disk.img", "emulator": "qemu-system-sparc"}`)})
	if err != nil || len(found) != 1 || found[0].Path != none || !strings.Contains(found[0].Summary, "emulators_allowlist") {
		t.Errorf("an emulator that the operator does not allow: %+v, %v", found, err)
	}
}
