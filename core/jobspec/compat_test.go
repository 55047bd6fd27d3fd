// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/jobspec"
)

// compatDir returns the folder of recorded facts, or skips the test.
func compatDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DROVER_COMPAT")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "compat")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded facts: %v", err)
	}
	return dir
}

func decodeAny(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestJobFilesParseAsTheReferenceDoes reads every recorded job file.
func TestJobFilesParseAsTheReferenceDoes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(compatDir(t), "jobspec", "*.nomad.hcl"))
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d job files, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".nomad.hcl"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(file, ".nomad.hcl") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			draft, err := jobspec.ParseHCL(src, jobspec.Options{Filename: filepath.Base(file), AllowFS: true, BaseDir: filepath.Dir(file)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(map[string]any{"Job": draft})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decodeAny(t, want), decodeAny(t, got)); diff != "" {
				t.Errorf("differs (-reference +ours):\n%s", diff)
			}
			again, err := jobspec.ParseJSON(want)
			if err != nil {
				t.Fatalf("reading the reference's JSON: %v", err)
			}
			back, err := json.Marshal(map[string]any{"Job": again})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decodeAny(t, want), decodeAny(t, back)); diff != "" {
				t.Errorf("JSON does not survive reading (-reference +ours):\n%s", diff)
			}
		})
	}
}
