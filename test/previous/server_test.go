// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package previous

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

// oldServer is a test of the previous release: its server writes the data directory in
// DIR, or reads what this release has written there.
const oldServer = `package previous

import (
	"os"
	"testing"

	"github.com/drover-project/drover/internal/testkit"
)

func TestWrites(t *testing.T) {
	c := testkit.StartIn(t, os.Getenv("DIR"))
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 2)}, nil)
	c.Must("PUT", "/v1/var/app/db", "{\"Items\":{\"password\":\"hunter2\"}}", nil)
	c.Must("GET", "/.well-known/jwks.json", nil, nil)
}

func TestReads(t *testing.T) {
	c := testkit.StartIn(t, os.Getenv("DIR"))
	if j := c.View().JobByID("default", "web"); j == nil || j.TaskGroups[0].Count != 2 {
		t.Errorf("the job is %+v", j)
	}
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("next", 1)}, nil)
}
`

// previousServer builds the test of the previous release and returns its program. It skips
// the test where the tree cannot be built, as where its modules are not to be had.
func previousServer(t *testing.T) string {
	t.Helper()
	old := checkout(t)
	dir := filepath.Join(old, "test", "previous")
	for _, file := range []string{"server_test.go", "previous_test.go"} {
		if err := os.RemoveAll(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old_test.go"), []byte(oldServer), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "previous.test")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-o", program, "./test/previous")
	build.Dir = old
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the previous release %s cannot be built here: %v\n%s", commit, err, out)
	}
	return program
}

// runPrevious runs a test of the previous release on a data directory.
func runPrevious(t *testing.T, program, name, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), "DIR="+dir)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the previous release, %s: %v\n%s", name, err, out)
	}
}

func TestADataDirectoryOfThePreviousReleaseIsReadAndOneWithoutNewerCommandsIsReadByIt(t *testing.T) {
	program := previousServer(t)

	dir := t.TempDir()
	runPrevious(t, program, "TestWrites", dir)
	for range 2 { // what the first start has changed is read by the second
		t.Run("this release reads it", func(t *testing.T) {
			c := testkit.StartIn(t, dir)
			if j := c.View().JobByID("default", "web"); j == nil || j.TaskGroups[0].Count != 2 {
				t.Errorf("the job is %+v", j)
			}
			var v struct{ Items map[string]string }
			c.Must("GET", "/v1/var/app/db", nil, &v)
			if v.Items["password"] != "hunter2" {
				t.Errorf("the variable holds %v", v.Items)
			}
			c.Must("PUT", "/v1/var/app/new", `{"Items":{"a":"b"}}`, nil)
		})
	}

	dir = t.TempDir()
	t.Run("this release writes one", func(t *testing.T) {
		c := testkit.StartWith(t, server.Config{DataDir: dir, Level: 1}) // as beside a server of the previous release
		c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 2)}, nil)
	})
	runPrevious(t, program, "TestReads", dir)
	t.Run("this release reads what the previous one has added", func(t *testing.T) {
		c := testkit.StartIn(t, dir)
		if c.View().JobByID("default", "next") == nil {
			t.Error("the job is not there")
		}
	})
}
