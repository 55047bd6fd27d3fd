// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package previous

import (
	"context"
	"fmt"
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
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
)

func TestWrites(t *testing.T) {
	c := testkit.StartIn(t, os.Getenv("DIR"))
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 2)}, nil)
	c.Must("PUT", "/v1/var/app/db", "{\"Items\":{\"password\":\"hunter2\"}}", nil)
	c.Must("GET", "/.well-known/jwks.json", nil, nil)
}

func TestServes(t *testing.T) {
	c := testkit.Start(t)
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 2)}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(c.Server.Sessions(), nil, hclog.NewNullLogger())
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	if err := os.WriteFile(os.Getenv("DIR")+"/address", []byte(l.Addr().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Eventually("two allocs run on a node of the newer release", func() bool {
		n := 0
		for _, a := range c.View().AllocsByJob("default", "web") {
			if a.ClientStatus == "running" {
				n++
			}
		}
		return n == 2
	})
}

// TestJoins is a node of the previous release. It ends when DIR/done is there.
func TestJoins(t *testing.T) {
	address, err := os.ReadFile(os.Getenv("DIR") + "/address")
	if err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial(string(address), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := rpc.Identity{NodeID: "10000000-0000-4000-8000-000000000001", SecretID: "10000000-0000-4000-8000-000000000002", Instance: "i"}
	if _, err := c.Register(t.Context(), &model.Node{ID: id.NodeID, SecretID: id.SecretID, Instance: id.Instance, Name: "old", Datacenter: "dc1", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1"}, Drivers: map[string]*model.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 4000, TotalCpuCores: 4}, Memory: model.NodeMemoryResources{MemoryMB: 8192}, Disk: model.NodeDiskResources{DiskMB: 100 << 10}},
		ReservedResources: &model.NodeReservedResources{}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = c.Attach(ctx, id, nil, func(x *rpc.Assignments) error {
			var ids []string
			for _, y := range x.Set {
				ids = append(ids, y.AllocID)
			}
			allocs, err := c.FetchAllocs(ctx, id, ids)
			var reports []*model.AllocReport
			for _, a := range allocs {
				a.ClientStatus = "running"
				reports = append(reports, a.ReportSince(nil))
			}
			if err == nil {
				_, err = c.UpdateAllocs(ctx, id, reports)
			}
			return err
		})
	}()
	for {
		if _, err := c.Beat(ctx, id); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(os.Getenv("DIR") + "/done"); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
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
	if err := <-startPrevious(t, program, name, dir); err != nil {
		t.Fatal(err)
	}
}

// startPrevious is runPrevious without waiting for the end of the test.
func startPrevious(t *testing.T, program, name, dir string) <-chan error {
	ended, work := make(chan error, 1), t.TempDir()
	go func() { ended <- previousTest(t.Context(), work, program, name, dir) }()
	return ended
}

func previousTest(ctx context.Context, work, program, name, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), "DIR="+dir)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the previous release, %s: %w\n%s", name, err, out)
	}
	return nil
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

// waitRunning waits until both allocs of the job run.
func waitRunning(c *testkit.Cluster) {
	c.Eventually("two allocs run on a node of the previous release", func() bool {
		n := 0
		for _, a := range c.View().AllocsByJob("default", "web") {
			if a.ClientStatus == "running" {
				n++
			}
		}
		return n == 2
	})
}

// Heartbeats over the session, answers with a pause and reports by short ids are newer than
// the previous release.
func TestNodesAndServersOfTwoReleasesHoldSessionsWithEachOther(t *testing.T) {
	program := previousServer(t)
	t.Run("a node of the previous release with servers of this one", func(t *testing.T) {
		dir := t.TempDir()
		c := testkit.Start(t)
		c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 2)}, nil)
		if err := os.WriteFile(filepath.Join(dir, "address"), []byte(c.Sessions()), 0o600); err != nil {
			t.Fatal(err)
		}
		ended := startPrevious(t, program, "TestJoins", dir)
		waitRunning(c)
		if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("a node of this release with servers of the previous one", func(t *testing.T) {
		dir := t.TempDir()
		ended := startPrevious(t, program, "TestServes", dir)
		address := filepath.Join(dir, "address")
		testkit.Eventually(t, "the previous release serves", func() bool {
			text, err := os.ReadFile(address)
			return err == nil && len(text) > 0
		})
		text, err := os.ReadFile(address)
		if err != nil {
			t.Fatal(err)
		}
		testkit.NodeOf(t, string(text))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
