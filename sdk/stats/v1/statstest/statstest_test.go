// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
)

func TestTheExampleKeepsTheContract(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "stats-file")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/stats-file").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1", "b": "2.5\n", "c": "none", "check": "7"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	statstest.Run(t, statstest.Options{
		New:    func(*testing.T) stats.Collector { return filestats.New("file") },
		Binary: binary, Name: "file", Config: map[string]any{"dir": dir},
	})
}

func TestACollectorWithNothingToMeasureSaysSo(t *testing.T) {
	statstest.Run(t, statstest.Options{
		New:    func(*testing.T) stats.Collector { return filestats.New("file") },
		Config: map[string]any{"dir": t.TempDir()},
	})
}
