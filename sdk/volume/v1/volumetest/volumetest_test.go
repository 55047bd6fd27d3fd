// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumetest_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest/filevolume"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestTheExampleKeepsTheContract(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "volume-file")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/volume-file").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	volumetest.Run(t, volumetest.Options{
		New:    func(*testing.T) volume.Volume { return filevolume.New("file", filepath.Join(dir, "in-process")) },
		Binary: binary, Env: []string{plugin.StateDirEnv + "=" + dir},
	})
}
