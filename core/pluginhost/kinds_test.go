// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// built returns a configuration with one plugin of testdata, under a name.
func built(t *testing.T, source, name string) pluginhost.Config {
	t.Helper()
	cfg := config(t)
	body, err := sources[source]()
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.Dir, name), body, 0o755)
	}
	if err != nil {
		t.Fatalf("build %s: %v", source, err)
	}
	return cfg
}

// sources are plugins of testdata, each of which is built once.
var sources = map[string]func() ([]byte, error){"kindsplugin": executable("kindsplugin"), "oldplugin": executable("oldplugin")}

// executable returns a function that builds a plugin of testdata when it is first called.
func executable(source string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		path := filepath.Join(filepath.Dir(binary), source)
		if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/"+source).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		return os.ReadFile(path)
	})
}

func TestOneProcessServesSeveralKindsAndNames(t *testing.T) {
	cfg := built(t, "kindsplugin", "many")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DriverConfig = map[string]map[string]any{"files": {"dir": dir}, "numbers": {"dir": dir}, "one": {"greeting": "first"}, "two": {"greeting": "second"}}
	h := start(t, cfg)
	st := only(t, h)
	if got := strings.Join(st.Drivers, " ") + "; " + strings.Join(st.Devices, " ") + "; " + strings.Join(st.Collectors, " "); got != "one two; files; numbers" {
		t.Fatalf("the process serves %s", got)
	}
	// A task of each driver lives through the death of the process that serves both.
	tasks := map[string]driver.Driver{}
	for _, name := range []string{"one", "two"} {
		d, err := h.Driver(name)
		if err != nil {
			t.Fatal(err)
		}
		startTask(t, d, "task-of-"+name, "sleep 600")
		tasks[name] = d
	}
	if err := kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process runs", func() bool {
		now := only(t, h)
		return now.State == pluginhost.StateRunning && now.PID != st.PID
	})
	for name, d := range tasks {
		if s, err := d.InspectTask(t.Context(), "task-of-"+name); err != nil || s.State != driver.TaskRunning {
			t.Errorf("the task of driver %s: %+v, %v", name, s, err)
		}
	}
	eventually(t, "devices and stats are there again", func() bool {
		devices, _ := h.Devices()
		readings := h.HostStats(t.Context())
		return len(devices) == 1 && len(devices[0].Groups) == 1 && len(readings) == 1 && readings[0].Now != nil
	})
}

// TestAPluginBuiltLongAgoWorks has a process that speaks a frozen, early form of
// the contract: fewer methods, fewer fields, and none of today's code.
func TestAPluginBuiltLongAgoWorks(t *testing.T) {
	h := start(t, built(t, "oldplugin", "old"))
	d, err := h.Driver("old")
	if err != nil {
		t.Fatal(err)
	}
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Health != driver.HealthHealthy || prints[0].Attributes["driver.old"] != "1" {
		t.Errorf("fingerprints %+v", prints)
	}
	startTask(t, d, "t1", "sleep 600")
	// What it never heard of is refused as such, and nothing else is disturbed.
	if _, err := d.TaskStats(t.Context(), time.Second); !errdefs.IsUnimplemented(err) {
		t.Errorf("stats: %v, want Unimplemented", err)
	}
	if err := d.SignalTask(t.Context(), "t1", "SIGHUP"); !errdefs.IsUnimplemented(err) {
		t.Errorf("a signal: %v, want Unimplemented", err)
	}
	pid := only(t, h).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its task is recovered in another process", func() bool {
		s, err := d.InspectTask(t.Context(), "t1")
		return err == nil && s.State == driver.TaskRunning && only(t, h).PID != pid
	})
	if err := d.StopTask(t.Context(), "t1", time.Second, ""); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := d.WaitTask(t.Context(), "t1"); err != nil {
		t.Errorf("wait: %v", err)
	}
}

func TestOfSeveralVersionsTheNewestThatBothKnowIsUsed(t *testing.T) {
	h := start(t, built(t, "kindsplugin", "both"))
	if st := only(t, h); st.State != pluginhost.StateRunning || strings.Join(st.Drivers, " ") != "one two" {
		t.Errorf("a plugin with driver v1 and v2: %+v", st)
	}
	h = start(t, built(t, "kindsplugin", "newest-and-device"))
	if st := only(t, h); st.State != pluginhost.StateRunning || len(st.Drivers) != 0 || strings.Join(st.Devices, " ") != "files" {
		t.Errorf("a plugin of which only the devices fit: %+v", st)
	}
}

func TestAPluginForNewerAgentsOnlySaysBothVersionsAndTheCure(t *testing.T) {
	for name, says := range map[string][]string{
		"next":     {"serves [driver v2]", "this agent knows [driver v1", "upgrade this agent, or install a version of the plugin with driver v1"},
		"protocol": {"which speaks plugin protocol 1", "Plugin version: 7", "install a version of the plugin that does"},
	} {
		h := start(t, built(t, "kindsplugin", name))
		st := only(t, h)
		if st.State == pluginhost.StateRunning || !errdefs.IsFailedPrecondition(st.LastError) {
			t.Errorf("%s: state %s, class %s", name, st.State, errdefs.ClassOf(st.LastError))
			continue
		}
		for _, want := range says {
			if !strings.Contains(st.LastError.Error(), want) {
				t.Errorf("%s: %v\ndoes not say %q", name, st.LastError, want)
			}
		}
	}
}
