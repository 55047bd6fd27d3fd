// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registrytest_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/internal/leak"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest/fileregistry"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestTheExampleKeepsTheContract(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "registry-file")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/registry-file").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	registrytest.Run(t, registrytest.Options{
		New: func(*testing.T) registry.Registry {
			return fileregistry.New("file", filepath.Join(dir, "in-process.json"))
		},
		Binary: binary, Dir: dir,
	})
}
