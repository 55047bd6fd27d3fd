// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/plugins/device-nvidia/devicenvidia"
	"github.com/drover-project/drover/plugins/device-nvidia/nvml/nvmltest"
	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest"
)

func fresh(*testing.T) device.Device { return devicenvidia.New(hclog.NewNullLogger()) }

func TestThePluginKeepsTheContract(t *testing.T) {
	lib := nvmltest.Build(t)
	binary := filepath.Join(t.TempDir(), "device-nvidia")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	devicetest.Run(t, devicetest.Options{
		New: fresh, Binary: binary, Name: devicenvidia.Name,
		Config: map[string]any{"library": lib},
	})
	t.Run("with shares", func(t *testing.T) {
		devicetest.Run(t, devicetest.Options{New: fresh, Config: map[string]any{"library": lib, "shares": 3}})
	})
}

func TestWithoutADriverItSaysWhatIsMissing(t *testing.T) {
	devicetest.Run(t, devicetest.Options{
		New:    fresh,
		Config: map[string]any{"library": filepath.Join(t.TempDir(), "libnvidia-ml.so.1")}, MayBeAbsent: true,
	})
}
