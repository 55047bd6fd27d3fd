// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/errdefs"
)

// withCollectors is a config of a host with a plugin of two collectors, which read
// the files of the returned directory.
func withCollectors(t *testing.T) (pluginhost.Config, string) {
	t.Helper()
	cfg := config(t, "collects")
	dir := needed(t, &cfg, "collects")
	cfg.StatsInterval = 10 * time.Millisecond
	return cfg, dir
}

// needed gives the collectors of a plugin a folder with something to collect, which it returns.
// Plugins with users of their own can read it.
func needed(t *testing.T, cfg *pluginhost.Config, plugin string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "collected")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "speed"), []byte("900"), 0o644)); err != nil {
		t.Fatal(err)
	}
	cfg.DriverConfig = map[string]map[string]any{plugin: {"dir": dir}}
	return dir
}

// reading returns the status of the host's only plugin once its process runs. A plugin of
// collectors that nobody reads is not kept running.
func reading(t *testing.T, h *pluginhost.Host) (st pluginhost.PluginStatus) {
	t.Helper()
	eventually(t, "a plugin that is read from runs", func() bool {
		h.HostStats(t.Context())
		st = only(t, h)
		return st.PID > 0
	})
	return st
}

func value(s *stats.Sample, series string) float64 {
	if s == nil {
		return -1
	}
	for _, v := range s.Values {
		if v.Series == series {
			return v.Value
		}
	}
	return -1
}

func TestWhatCollectorsMeasureIsToldByCollector(t *testing.T) {
	cfg, _ := withCollectors(t)
	h := start(t, cfg)
	if st := only(t, h); strings.Join(st.Collectors, " ") != "file other" {
		t.Fatalf("status %+v", st)
	}
	r := h.HostStats(t.Context())
	if len(r) != 2 || r[0].Collector != "file" || r[1].Collector != "other" || r[0].Plugin != "collects" || r[0].PluginVersion != "1.2.3" {
		t.Fatalf("readings %+v", r)
	}
	if r[0].Problem != nil || value(r[0].Now, "file.value") != 900 || time.Since(r[0].At) > time.Minute || len(r[0].Info.Series) != 4 {
		t.Fatalf("reading %+v", r[0])
	}
	eventually(t, "there is a sample before", func() bool {
		r := h.HostStats(t.Context())
		return r[0].Before != nil && value(r[0].Before, "reads") < value(r[0].Now, "reads")
	})
}

func TestACollectorOfTasksKnowsWhichRun(t *testing.T) {
	cfg, dir := withCollectors(t)
	if err := os.WriteFile(filepath.Join(dir, "web"), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	run := []stats.Task{{ID: "a1/web", AllocID: "a1", Name: "web"}, {ID: "a0/db", AllocID: "a0", Name: "db"}}
	cfg.Tasks = func() []stats.Task {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(run)
	}
	h := start(t, cfg)
	tasks := func() (out []string) {
		r := h.HostStats(t.Context())[0]
		if r.Now == nil || r.Problem != nil {
			return nil
		}
		for _, v := range r.Now.Values {
			if v.Series == "task.value" {
				out = append(out, v.Task)
			}
		}
		return append(out, fmt.Sprint(len(r.Tasks)))
	}
	told := func(want ...string) func() bool {
		return func() bool { return slices.Equal(tasks(), want) }
	}
	eventually(t, "the task is measured", told("a1/web", "2"))
	mu.Lock()
	run = append(run, stats.Task{ID: "a2/web", AllocID: "a2", Name: "web"})
	mu.Unlock()
	eventually(t, "a task that has started is measured, too", told("a1/web", "a2/web", "3"))
	if err := kill(only(t, h).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	run = run[1:2]
	mu.Unlock()
	eventually(t, "the next process knows the tasks, of which some have ended", told("1"))
	mu.Lock()
	run = []stats.Task{{ID: "a3/web", AllocID: "a3", Name: "web"}}
	mu.Unlock()
	eventually(t, "the next process measures", told("a3/web", "1"))
}

func TestAPluginOfCollectorsRestsWhileNobodyAsks(t *testing.T) {
	cfg, dir := withCollectors(t)
	cfg.Pings.Interval = 20 * time.Millisecond
	h := start(t, cfg)
	await(t, h, "its rest", resting)
	for _, want := range []float64{900, 901} {
		if err := os.WriteFile(filepath.Join(dir, "speed"), fmt.Appendf(nil, "%g", want), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is measured again", func() bool {
			r := h.HostStats(t.Context())
			if len(r) != 2 || r[0].Problem != nil {
				t.Fatalf("whoever asks a resting plugin gets %+v", r)
			}
			return value(r[0].Now, "file.value") == want
		})
	}
	if st := only(t, h); st.State != pluginhost.StateRunning || st.PID == 0 || st.Restarts != 0 {
		t.Fatalf("while it is asked it is %+v", st)
	}
}

func TestAKilledCollectorLeavesItsLastValuesWithTheirTimeAndIsReadAgain(t *testing.T) {
	cfg, dir := withCollectors(t)
	cfg.BackoffMin, cfg.BackoffMax = time.Hour, time.Hour // it stays away until a new host
	h := start(t, cfg)
	first := h.HostStats(t.Context())[0]
	if first.Problem != nil || value(first.Now, "file.value") != 900 {
		t.Fatalf("reading %+v", first)
	}
	// The number is replaced in one step: the last value may not be that of an empty file.
	next := filepath.Join(t.TempDir(), "speed")
	err := os.WriteFile(next, []byte("901"), 0o600)
	if err == nil {
		err = os.Rename(next, filepath.Join(dir, "speed"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := kill(only(t, h).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin's end is noticed", func() bool { return only(t, h).LastError != nil })
	eventually(t, "the reading is known to be old", func() bool { return h.HostStats(t.Context())[0].Problem != nil })
	old := h.HostStats(t.Context())[0]
	if !errdefs.IsUnavailable(old.Problem) || !strings.Contains(old.Problem.Error(), `collector "file"`) || value(old.Now, "file.value") < 900 || time.Since(old.At) < 4*time.Second {
		t.Fatalf("while it is away: %+v", old)
	}
}

func TestAStreamCarriesOnInTheNextProcess(t *testing.T) {
	cfg, dir := withCollectors(t)
	h := start(t, cfg)
	h.HostStats(t.Context())
	pid := only(t, h).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "speed"), []byte("901"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process is read", func() bool {
		r := h.HostStats(t.Context())[0]
		return only(t, h).PID != pid && r.Problem == nil && value(r.Now, "file.value") == 901
	})
}

func TestACollectorThatIsConfiguredWronglySaysSo(t *testing.T) {
	cfg, _ := withCollectors(t)
	cfg.DriverConfig = nil
	r := start(t, cfg).HostStats(t.Context())
	if len(r) != 2 || r[0].Now != nil || !errdefs.IsInvalidArgument(r[0].Problem) || !strings.Contains(r[0].Problem.Error(), "dir") {
		t.Fatalf("readings %+v", r)
	}
}

// collecting installs a version of a plugin with one collector, or with none.
func collecting(t *testing.T, h *pluginhost.Host, version, fault string, collectors ...string) error {
	t.Helper()
	list := ""
	if len(collectors) > 0 {
		list = `"` + strings.Join(collectors, `","`) + `"`
	}
	return installVersioned(t, h, version, fmt.Sprintf(`"Fault":%q,"Drivers":["shell"],"Collectors":[%s]`, fault, list))
}

// installVersioned installs a version of the plugin versioned. what are fields of JSON that say
// what the version serves.
func installVersioned(t *testing.T, h *pluginhost.Host, version, what string) error {
	t.Helper()
	body := fmt.Appendf(append([]byte{}, versioned()...), "\n{\"Version\":%q,%s}", version, what)
	path := filepath.Join(t.TempDir(), "versioned-"+version)
	if err := os.WriteFile(path, body, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	_, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Version: version, Source: path, Digest: "sha256:" + hex.EncodeToString(sum[:])})
	return err
}

func TestACollectorIsUpgradedWithItsPluginAndStaysWhereTheNewVersionDoesNotMeasure(t *testing.T) {
	cfg, dir := quick(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "speed"), []byte("900"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DriverConfig = map[string]map[string]any{"file": {"dir": dir}}
	cfg.StatsInterval, cfg.UpgradeTimeout = 20*time.Millisecond, 10*time.Second // the version that stalls takes all of it
	h := start(t, cfg)
	measured := func(version string) func() bool {
		return func() bool {
			r := h.HostStats(t.Context())
			return len(r) == 1 && r[0].PluginVersion == version && r[0].Problem == nil && value(r[0].Now, "file.value") == 900
		}
	}
	if err := collecting(t, h, "1.0.0", "", "file"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first version measures", measured("1.0.0"))
	if err := collecting(t, h, "2.0.0", "stalls", "file"); err == nil || !strings.Contains(err.Error(), "measures nothing") {
		t.Fatalf("a version that measures nothing: %v", err)
	}
	eventually(t, "the first version goes on", measured("1.0.0"))
	if err := collecting(t, h, "3.0.0", "", "file"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new version measures", measured("3.0.0"))
	if err := collecting(t, h, "4.0.0", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is no collector any more", func() bool { return len(h.HostStats(t.Context())) == 0 })
}
