// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// versioned is the built versionplugin, without a version.
var versioned = sync.OnceValue(func() []byte {
	body, err := executable("versionplugin")()
	if err != nil {
		panic(err)
	}
	return body
})

// release writes a version of the plugin to a directory of its own and returns
// its path and digest.
func release(t *testing.T, version, fault string, drivers ...string) (path, digest string) {
	t.Helper()
	if len(drivers) == 0 {
		drivers = []string{"shell"}
	}
	body := fmt.Appendf(slices.Clone(versioned()), "\n{\"Version\":%q,\"Fault\":%q,\"Drivers\":[\"%s\"]}", version, fault, strings.Join(drivers, `","`))
	path = filepath.Join(t.TempDir(), "versioned-"+version)
	if err := os.WriteFile(path, body, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	return path, "sha256:" + hex.EncodeToString(sum[:])
}

// quick is a config whose host notices files soon.
func quick(t *testing.T) pluginhost.Config {
	cfg := config(t)
	cfg.SettleTime, cfg.RescanInterval = 50*time.Millisecond, time.Second
	cfg.UpgradeTimeout = patience
	return cfg
}

func install(t *testing.T, h *pluginhost.Host, version, fault string, drivers ...string) (pluginhost.PluginStatus, error) {
	t.Helper()
	path, digest := release(t, version, fault, drivers...)
	return h.Install(t.Context(), pluginhost.Release{Name: "versioned", Version: version, Source: path, Digest: digest})
}

// put replaces the plugin's file in plugin_dir as a package manager does.
func put(t *testing.T, cfg pluginhost.Config, name, version, fault string, drivers ...string) (digest string) {
	t.Helper()
	path, digest := release(t, version, fault, drivers...)
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(cfg.Dir, "."+name+".new")
	if err := os.WriteFile(temp, body, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(cfg.Dir, name)); err != nil {
		t.Fatal(err)
	}
	return digest
}

// versionIn returns the version of a plugin's file in plugin_dir; "" if it is none of
// release's, or is being replaced.
func versionIn(t *testing.T, cfg pluginhost.Config, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(cfg.Dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	tail := make([]byte, 200) // its executable has millions of bytes
	if _, err := f.Seek(-int64(len(tail)), io.SeekEnd); err != nil {
		return ""
	}
	n, err := io.ReadFull(f, tail)
	if err != nil {
		return ""
	}
	var says struct{ Version string }
	if json.Unmarshal(tail[bytes.LastIndexByte(tail[:n], '\n')+1:n], &says) != nil {
		return ""
	}
	return says.Version
}

func gone(pid int) func() bool {
	return func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
}

// holds starts n tasks and returns a check that none of them was restarted and
// that each is still waited for.
func holds(t *testing.T, d driver.Driver, n int) (check func()) {
	t.Helper()
	pids := map[string]string{}
	ended := make(chan error, n)
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		waits.Wait()
		var ends sync.WaitGroup
		for id := range pids {
			ends.Go(func() { _ = d.DestroyTask(context.Background(), driver.TaskRef{ID: id}, true) })
		}
		ends.Wait()
	})
	for i := range n {
		id := fmt.Sprintf("held-%d", i)
		_, _, err := d.StartTask(t.Context(), &driver.TaskConfig{
			ID: id, Name: "web", TaskDir: t.TempDir(), DriverConfig: []byte(`{"script":"sleep 1000"}`),
			Env: map[string]string{"PATH": os.Getenv("PATH")}, Logs: driver.LogConfig{Disabled: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		st, err := d.InspectTask(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		pids[id] = st.Attributes["pid"]
		waits.Go(func() {
			if _, err := d.WaitTask(ctx, id); ctx.Err() == nil {
				ended <- fmt.Errorf("the wait for %s ended: %w", id, err)
			}
		})
	}
	return func() {
		t.Helper()
		for id, pid := range pids {
			st, err := d.InspectTask(t.Context(), id)
			if err != nil || st.State != driver.TaskRunning || st.Attributes["pid"] != pid {
				t.Fatalf("task %s: %+v, %v; want it running as pid %s", id, st, err, pid)
			}
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
}

func TestAPluginIsInstalledIntoARunningHost(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	st, err := install(t, h, "1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	if st.State != pluginhost.StateRunning || st.Version != "1.0.0" || st.PID == 0 || strings.Join(st.Drivers, " ") != "shell" {
		t.Fatalf("status %+v", st)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "versioned")); err != nil {
		t.Fatal(err)
	}
	startTask(t, shell(t, h), "t1", "exit 4")
	if r, err := shell(t, h).WaitTask(t.Context(), "t1"); err != nil || r.ExitCode != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	again, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: "/nowhere", Digest: st.Digest})
	if err != nil || again.PID != st.PID {
		t.Fatalf("the same digest is not a no-op: %+v, %v", again, err)
	}
}

func TestAnUpgradeRestartsNoTaskAndEndsNoWaitOrStream(t *testing.T) {
	h := start(t, quick(t))
	first, err := install(t, h, "1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	d := shell(t, h)
	check := holds(t, d, 8)
	stats, err := d.TaskStats(t.Context(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int64
	go func() {
		for range stats {
			seen.Add(1)
		}
	}()
	second, err := install(t, h, "2.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	if second.Version != "2.0.0" || second.PID == first.PID || second.Restarts != 0 || second.Previous != first.Digest {
		t.Fatalf("status %+v", second)
	}
	check()
	eventually(t, "the old process has ended", gone(first.PID))
	check()
	before := seen.Load()
	eventually(t, "samples of the new process", func() bool { return seen.Load() > before })
	if _, err := h.Rollback(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	if st := only(t, h); st.Version != "1.0.0" || st.Digest != first.Digest {
		t.Fatalf("rolled back: %+v", st)
	}
	check()
}

func TestAVersionThatIsStillLookingForItsDriverIsGivenTime(t *testing.T) {
	t.Parallel()
	h := start(t, quick(t))
	first, err := install(t, h, "1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	check := holds(t, shell(t, h), 3)
	if st, err := install(t, h, "2.0.0", "looks"); err != nil || st.PID == first.PID {
		t.Fatalf("%+v, %v", st, err)
	}
	check()
	if p := printOf(h, "shell"); p.Health != driver.HealthHealthy {
		t.Errorf("fingerprint %+v", p)
	}
}

func TestAVersionThatDoesNotWorkLeavesTheOldOneAndItsTasksAlone(t *testing.T) {
	for fault, text := range map[string]string{
		"exits":     "ended with exit code 1 before the handshake",
		"hangs":     "no handshake within",
		"loses":     "3 of 3 tasks cannot be recovered",
		"stalls":    "3 of 3 tasks cannot be recovered",
		"unhealthy": "the version that runs is healthy and the new one is",
		"refuses":   "refuses its config",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cfg := quick(t)
			switch fault { // only these take all of their time
			case "hangs":
				cfg.StartTimeout = 20 * time.Second
			case "stalls":
				cfg.UpgradeTimeout = 10 * time.Second
			}
			h := start(t, cfg)
			first, err := install(t, h, "1.0.0", "")
			if err != nil {
				t.Fatal(err)
			}
			check := holds(t, shell(t, h), 3)
			if _, err = install(t, h, "2.0.0", fault); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("install: %v, want %q", err, text)
			}
			st := only(t, h)
			if st.PID != first.PID || st.State != pluginhost.StateRunning || st.UpgradeError == nil {
				t.Errorf("status %+v", st)
			}
			check()
			// The same by its file: the good one is put back.
			put(t, cfg, "versioned", "3.0.0", fault)
			eventually(t, "the file of the version that works is back", func() bool {
				return versionIn(t, cfg, "versioned") == "1.0.0"
			})
			check()
			if st := only(t, h); st.PID != first.PID || st.Restarts != 0 {
				t.Errorf("status %+v", st)
			}
		})
	}
}
