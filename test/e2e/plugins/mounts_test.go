// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/test/e2e/harness"
)

// values is a store that outlives the keepers of a test.
type values struct {
	mu sync.Mutex
	of map[string][]byte
}

func (s *values) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.of[key]; v != nil {
		return v, nil
	}
	return nil, errdefs.NotFoundf("no %s", key)
}

func (s *values) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = value
	return nil
}

// machine is a node's storage with real plugins, a real driver and real mounts.
type machine struct {
	t     *testing.T
	dir   string
	store *values
	host  *pluginhost.Host
	k     *storage.Keeper
	stop  func()

	mu   sync.Mutex
	gone map[string]bool // allocs that have ended
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), store: &values{of: map[string][]byte{}}, gone: map[string]bool{}}
	plugins := filepath.Join(m.dir, "plugins")
	if err := errors.Join(os.Mkdir(plugins, 0o755), os.Symlink(filepath.Join(harness.Bin(), "drover-plugins"), filepath.Join(plugins, storage.Adapter))); err != nil {
		t.Fatal(err)
	}
	m.boot()
	t.Cleanup(func() { m.stop() })
	return m
}

// boot starts what an agent has for storage.
func (m *machine) boot() {
	m.t.Helper()
	var err error
	if m.host, err = pluginhost.New(pluginhost.Config{Dir: filepath.Join(m.dir, "plugins"), StateDir: filepath.Join(m.dir, "state"), OnDemand: []string{storage.Adapter}}); err != nil {
		m.t.Fatal(err)
	}
	if err := m.host.Start(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	lives := func(id string) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.gone[id]
	}
	m.k, err = storage.Open(context.Background(), storage.Config{
		Dir: filepath.Join(m.dir, "csi"), Plugins: m.host, Store: m.store, Now: time.Now, Lives: lives, Uses: lives, Logger: hclog.NewNullLogger(),
		Claim: func(_ context.Context, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
			return rpc.VolumeGrant{ID: q.Volume, ExternalID: q.Volume, Plugin: "disk", Access: writer}, nil
		},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.k.Run(ctx) }()
	m.stop = func() { cancel(); <-done; m.k.Close(); m.host.Close(false) }
}

var writer = volume.Access{Mode: "single-node-writer", Attachment: "file-system"}

// driver runs the local driver as a task of an alloc.
func (m *machine) driver() (*exec.Cmd, storage.Driver) {
	m.t.Helper()
	d := storage.Driver{
		AllocID: "driver", Task: "t", Plugin: &model.TaskCSIPluginConfig{ID: "disk", Type: model.CSIPluginMonolith, HealthTimeout: time.Hour},
		Note: func(model.TaskEvent) {}, Fail: func(ev model.TaskEvent) { m.t.Errorf("the driver is ended: %s", ev.Message) },
	}
	if err := m.k.Prepare(d); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(harness.Bin(), "drover-plugins"), "drover-csi-local", "-data-dir", filepath.Join(m.dir, "data"), "-node-id", "n1")
	cmd.Env = append(os.Environ(), "CSI_ENDPOINT="+m.k.Endpoint(d))
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed
		_ = cmd.Wait()         // for the same reason
	})
	return cmd, d
}

// mounts counts the mounts below the node's directory of volumes.
func (m *machine) mounts() (n int) {
	m.t.Helper()
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.Contains(line, " "+filepath.Join(m.dir, "csi")+"/") {
			n++
		}
	}
	return n
}

// TestVolumesOfAllocsOutliveTheirNodesProcesses brings a volume of the local driver to two
// allocs, one after the other, while all processes of the node die in turn.
func TestVolumesOfAllocsOutliveTheirNodesProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skipf("mkfs.ext4 is not installed: %v", err)
	}
	m := newMachine(t)
	cmd, d := m.driver()
	m.k.Begin(d)
	var id string
	testkit.Eventually(t, "servers create a volume by the node", func() bool {
		got, err := m.k.Call(t.Context(), rpc.MethodCSICreate, rpc.StorageCall{Plugin: "disk", Name: "v", Access: []volume.Access{writer}, Capacity: volume.CapacityRange{RequiredBytes: 8 << 20}})
		if made, ok := got.(*volume.Description); err == nil && ok {
			id = made.ID
		}
		return id != ""
	})
	do := func(what string, v *storage.Mount, steps ...func(context.Context, *storage.Mount) error) {
		t.Helper()
		for _, step := range steps {
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			err := step(ctx, v)
			cancel()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	claim := func(alloc string) *storage.Mount {
		t.Helper()
		v, err := m.k.Claim(t.Context(), alloc, id, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	one := claim("a1")
	do("bring the volume to an alloc", one, m.k.Stage, m.k.Publish)
	if err := os.WriteFile(filepath.Join(one.Target, "file"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	two := claim("a2")
	// A second writer waits for the end of the first.
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	if err := m.k.Publish(soon, two); err == nil || !strings.Contains(err.Error(), "it has one writer, and is still published at "+one.Target) {
		t.Errorf("a second writer: %v", err)
	}
	cancel()
	do("give the second writer up", two, m.k.Unpublish, m.k.Unstage)

	m.stop() // the agent ends with its plugins, and the driver is killed
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.boot()
	m.k.Keep(one)
	if body, err := os.ReadFile(filepath.Join(one.Target, "file")); err != nil || string(body) != "kept" {
		t.Errorf("without any process of the node the volume has %q, %v", body, err)
	}
	_, d = m.driver()
	m.k.Begin(d)
	do("publish it again before a start of a task", one, m.k.Publish)
	if n := m.mounts(); n != 2 {
		t.Errorf("%d mounts, want one that is staged and one that is published", n)
	}
	// The first alloc ends without its volume being taken back, as if its record were lost.
	m.mu.Lock()
	m.gone["a1"] = true
	m.mu.Unlock()
	m.stop()
	m.boot()
	m.k.Begin(d)
	testkit.Eventually(t, "what belongs to no alloc is taken back", func() bool { return m.mounts() == 0 })
	do("bring the volume to the next alloc", two, m.k.Stage, m.k.Publish)
	if body, err := os.ReadFile(filepath.Join(two.Target, "file")); err != nil || string(body) != "kept" {
		t.Errorf("the next alloc finds %q, %v", body, err)
	}
	if _, err := m.k.Call(t.Context(), rpc.MethodCSIRelease, rpc.StorageCall{Plugin: "disk", ID: id}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("release of a volume in use: %v", err)
	}
	do("take it back", two, m.k.Unpublish, m.k.Unstage)
	if n := m.mounts(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	if _, err := m.k.Call(t.Context(), rpc.MethodCSIDelete, rpc.StorageCall{Plugin: "disk", ID: id}); err != nil {
		t.Error(err)
	}
}
