// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
)

func files(t *testing.T, sizes map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range sizes {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// told adds to the directory what is told of single devices.
func told(t *testing.T, dir string, about map[string]string) string {
	t.Helper()
	for name, text := range about {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheExampleKeepsTheContract(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "device-file")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/device-file").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	devicetest.Run(t, devicetest.Options{
		New:    func(*testing.T) device.Device { return filedevice.New("file") },
		Binary: binary, Name: "file",
		Config: map[string]any{"dir": told(t, files(t, map[string]int{"a": 10, "b": 10, "c": 20, "c.broken": 0}), map[string]string{"a.link": "fast", "b.numa": "1"})},
	})
}

func TestAnAbsentDeviceIsNamed(t *testing.T) {
	devicetest.Run(t, devicetest.Options{
		New:    func(*testing.T) device.Device { return filedevice.New("file") },
		Config: map[string]any{"dir": t.TempDir()}, MayBeAbsent: true,
	})
}
