// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// beside starts a bad plugin beside a good one with a task, and checks at the end
// that the task went on.
func beside(t *testing.T, cfg pluginhost.Config) *pluginhost.Host {
	t.Helper()
	if err := os.Symlink(binary, filepath.Join(cfg.Dir, "good")); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	d := shell(t, h)
	startTask(t, d, "elsewhere", "sleep 1000")
	t.Cleanup(func() {
		if s, err := d.InspectTask(context.Background(), "elsewhere"); err != nil || s.State != driver.TaskRunning {
			t.Errorf("a task of another plugin: %+v, %v", s, err)
		}
	})
	return h
}

func pluginOf(t *testing.T, h *pluginhost.Host, name string) pluginhost.PluginStatus {
	t.Helper()
	st, err := h.Plugin(name)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func printOf(h *pluginhost.Host, name string) pluginhost.DriverFingerprint {
	prints, _ := h.Fingerprints()
	for _, p := range prints {
		if p.Name == name {
			return p
		}
	}
	return pluginhost.DriverFingerprint{}
}

func TestWhatIsNoPluginOrLiesIsRefusedWithATypedError(t *testing.T) {
	for name, want := range map[string]struct {
		class errdefs.Class
		text  string
	}{
		"wrong-cookie":      {errdefs.Unavailable, "ended with exit code 1 before the handshake"},
		"garbage-handshake": {errdefs.FailedPrecondition, "its handshake does not fit this agent"},
		"garbage-socket":    {errdefs.Unavailable, "does not answer Info"},
		"moon":              {errdefs.FailedPrecondition, `isolates file systems in the way "moon"`},
		"contradicts":       {errdefs.FailedPrecondition, "UnknownUser"},
		"unsound-schema":    {errdefs.FailedPrecondition, `unknown type "quaternion"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, name)
			h := beside(t, cfg)
			var st pluginhost.PluginStatus
			eventually(t, "its error", func() bool { st = pluginOf(t, h, name); return st.LastFailure != nil })
			if errdefs.ClassOf(st.LastFailure) != want.class || !strings.Contains(st.LastFailure.Error(), want.text) {
				t.Errorf("class %s: %v", errdefs.ClassOf(st.LastFailure), st.LastFailure)
			}
			if len(st.Drivers) != 0 || printOf(h, name).Name != "" {
				t.Errorf("it serves %v", st.Drivers)
			}
		})
	}
}

func TestADriverThatMisbehavesHarmsNobodyElse(t *testing.T) {
	inspect := func(t *testing.T, h *pluginhost.Host, name string) (*driver.TaskStatus, error) {
		t.Helper()
		d, err := h.Driver(name)
		if err != nil {
			t.Fatal(err)
		}
		return d.InspectTask(t.Context(), "t")
	}
	for name, check := range map[string]func(*testing.T, *pluginhost.Host, flags){
		"huge": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if _, err := inspect(t, h, "huge"); !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "for InspectTask is larger than 16 MiB") {
				t.Errorf("class %s: %v", errdefs.ClassOf(err), err)
			}
			if st := pluginOf(t, h, "huge"); st.State != pluginhost.StateRunning {
				t.Errorf("status %+v", st)
			}
		},
		"unknown-words": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if p := printOf(h, "unknown-words"); p.Health != driver.HealthUnhealthy || !strings.Contains(p.HealthDescription, `"fabulous"`) {
				t.Errorf("fingerprint %+v", p)
			}
			if s, err := inspect(t, h, "unknown-words"); err != nil || s.State != driver.TaskUnknown {
				t.Errorf("a task that levitates: %+v, %v", s, err)
			}
		},
		"refuses-config": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if p := printOf(h, "refuses-config"); p.Health != driver.HealthUnhealthy || !strings.Contains(p.HealthDescription, "whatever the schema says") {
				t.Errorf("fingerprint %+v", p)
			}
		},
		"garbage-stdout": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if _, err := inspect(t, h, "garbage-stdout"); !errdefs.IsNotFound(err) {
				t.Errorf("its answer: %v", err)
			}
		},
		"never-ends": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if _, err := inspect(t, h, "never-ends"); !errdefs.IsDeadlineExceeded(err) {
				t.Errorf("class %s: %v", errdefs.ClassOf(err), err)
			}
		},
		"stuck": func(t *testing.T, h *pluginhost.Host, _ flags) {
			for range 5 {
				if _, err := inspect(t, h, "stuck"); !errdefs.IsDeadlineExceeded(err) {
					t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
				}
			}
			if _, err := inspect(t, h, "stuck"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "has not answered since") {
				t.Errorf("class %s: %v", errdefs.ClassOf(err), err)
			}
			if st := pluginOf(t, h, "stuck"); st.State != pluginhost.StateNotAnswering || st.LastError == nil {
				t.Errorf("status %+v", st)
			}
		},
		"panics": func(t *testing.T, h *pluginhost.Host, _ flags) {
			if _, err := inspect(t, h, "panics"); !errdefs.IsUnavailable(err) {
				t.Errorf("class %s: %v", errdefs.ClassOf(err), err)
			}
			var st pluginhost.PluginStatus
			eventually(t, "its end", func() bool { st = pluginOf(t, h, "panics"); return st.LastFailure != nil })
			if !strings.Contains(st.LastFailure.Error(), "ended with exit status 2; it wrote: panic: a bug ") {
				t.Errorf("it ended because: %v", st.LastFailure)
			}
			d, err := h.Driver("panics")
			if err != nil {
				t.Fatal(err)
			}
			config := &driver.TaskConfig{ID: "t"}
			if _, _, err := d.StartTask(t.Context(), config); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "it wrote: panic: a bug in the start ") {
				t.Errorf("the start in which it panicked: class %s: %v", errdefs.ClassOf(err), err)
			}
		},
		"closes-streams": func(t *testing.T, h *pluginhost.Host, f flags) {
			d, err := h.Driver("closes-streams")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			events, err := d.TaskEvents(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, stream := range []string{"events", "fingerprint"} {
				eventually(t, "it is opened again", func() bool { return f.count(stream) >= 2 })
				if n, took := f.count(stream), time.Since(began); n > 3+int(took/time.Second) {
					t.Errorf("its %s were opened %d times in %s", stream, n, took)
				}
			}
			cancel()
			for range events {
			}
		},
		"floods": func(t *testing.T, h *pluginhost.Host, _ flags) {
			d, err := h.Driver("floods")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			events, err := d.TaskEvents(ctx)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range events {
				n++
			}
			if n > 5000 {
				t.Errorf("%d events in 2 s", n)
			}
			changes := 0
			for deadline := time.After(time.Second); ; {
				_, changed := h.Fingerprints()
				select {
				case <-changed:
					changes++
					continue
				case <-deadline:
				}
				break
			}
			if changes > 40 {
				t.Errorf("%d changes of fingerprints in 1 s", changes)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, name)
			if name == "never-ends" || name == "stuck" { // the others answer
				cfg.Limits = driver.DefaultLimits()
				cfg.Limits.Call = time.Second
			}
			f := withFlags(t, &cfg)
			check(t, beside(t, cfg), f)
		})
	}
}

func TestAPluginThatTakesAnothersDriverNameAfterARestartIsRefused(t *testing.T) {
	cfg := config(t, "usurps")
	f := withFlags(t, &cfg)
	h := beside(t, cfg)
	f.raise(t)
	if err := kill(pluginOf(t, h, "usurps").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is refused", func() bool {
		why := pluginOf(t, h, "usurps").LastError
		return errdefs.IsAlreadyExists(why) && strings.Contains(why.Error(), `driver "shell" is served by plugin "good" already`)
	})
	if p := printOf(h, "shell"); p.Plugin != "good" || p.Health != driver.HealthHealthy {
		t.Errorf("the name is now %+v", p)
	}
}

func TestADriverThatIsCalledAnotherNameAfterARestartLeavesTheOldOneUnhealthy(t *testing.T) {
	cfg := config(t, "renames")
	f := withFlags(t, &cfg)
	h := beside(t, cfg)
	f.raise(t)
	if err := kill(pluginOf(t, h, "renames").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it serves the new name", func() bool {
		return strings.Join(pluginOf(t, h, "renames").Drivers, " ") == "renamed" && printOf(h, "renamed").Health == driver.HealthHealthy
	})
	if p := printOf(h, "renames"); p.Health == driver.HealthHealthy {
		t.Errorf("the name that nobody serves any more is %+v", p)
	}
	d, err := h.Driver("renames")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.InspectTask(ctx, "t"); err == nil {
		t.Error("a call of it is answered")
	}
}

func TestAKillDuringACallIsUnavailableAndTheNextCallWorks(t *testing.T) {
	cfg := config(t, "slow")
	f := withFlags(t, &cfg)
	h := start(t, cfg)
	d, err := h.Driver("slow")
	if err != nil {
		t.Fatal(err)
	}
	startTask(t, d, "t", "sleep 1000")
	for name, call := range map[string]func(context.Context) error{
		"start": func(ctx context.Context) error {
			_, _, err := d.StartTask(ctx, &driver.TaskConfig{ID: "t2", TaskDir: t.TempDir(), DriverConfig: []byte(`{"script":"true"}`), Logs: driver.LogConfig{Disabled: true}})
			return err
		},
		"recover": func(ctx context.Context) error { return d.RecoverTask(ctx, &driver.Handle{TaskID: "elsewhere"}) },
		"inspect": func(ctx context.Context) error { _, err := d.InspectTask(ctx, "t"); return err },
		"signal":  func(ctx context.Context) error { return d.SignalTask(ctx, "t", "SIGCONT") },
		"stop":    func(ctx context.Context) error { return d.StopTask(ctx, "t", time.Minute, "SIGTERM") },
		"destroy": func(ctx context.Context) error { return d.DestroyTask(ctx, driver.TaskRef{ID: "t"}, true) },
		"exec": func(ctx context.Context) error {
			_, err := d.ExecTask(ctx, "t", driver.ExecOptions{Command: []string{"true"}}, driver.ExecStream{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.count("call")
			f.raise(t)
			result := make(chan error, 1)
			go func() { result <- call(t.Context()) }()
			eventually(t, "the call is under way", func() bool { return f.count("call") > before })
			pid := only(t, h).PID
			f.lower(t)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := <-result; !errdefs.IsUnavailable(err) {
				t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
			}
			eventually(t, "another process", func() bool { st := only(t, h); return st.PID != pid && st.State == pluginhost.StateRunning })
			if s, err := d.InspectTask(t.Context(), "t"); err != nil || s.State != driver.TaskRunning {
				t.Fatalf("the task: %+v, %v", s, err)
			}
		})
	}
}

func TestAPluginWhoseSocketWasDeletedGoesOnAndTheNextAgentReplacesIt(t *testing.T) {
	cfg := config(t, "good")
	first := start(t, cfg)
	d := shell(t, first)
	handle := startTask(t, d, "t", "sleep 1000")
	pid := only(t, first).PID
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(env), "PLUGIN_UNIX_SOCKET_DIR=")
	dir, _, _ := strings.Cut(rest, "\x00")
	sockets, err := filepath.Glob(filepath.Join(dir, "plugin*"))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	for _, s := range sockets {
		if err := os.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := d.InspectTask(t.Context(), "t"); err != nil || s.State != driver.TaskRunning {
		t.Fatalf("the connection that there is: %+v, %v", s, err)
	}
	first.Close(true)
	second := start(t, cfg)
	if st := only(t, second); st.PID == pid || st.State != pluginhost.StateRunning || st.Reattached {
		t.Fatalf("status %+v", st)
	}
	eventually(t, "the process that nobody can reach is ended", func() bool { return syscall.Kill(pid, 0) != nil })
	again := shell(t, second)
	if err := again.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if s, err := again.InspectTask(t.Context(), "t"); err != nil || s.State != driver.TaskRunning {
		t.Fatalf("the task: %+v, %v", s, err)
	}
}

func TestAProcessWhoseFileWentAwayWhileNoAgentRanIsEnded(t *testing.T) {
	cfg := config(t, "good", "other")
	if err := os.Remove(filepath.Join(cfg.Dir, "other")); err != nil {
		t.Fatal(err)
	}
	first := start(t, cfg)
	st := await(t, first, "its digest is known", func(st pluginhost.PluginStatus) bool { return st.Digest != "" })
	eventually(t, "the version is noted", func() bool {
		kept, _ := filepath.Glob(filepath.Join(cfg.StateDir, "versions", "good", "*"))
		return len(kept) > 0
	})
	first.Close(true)
	if err := os.Remove(filepath.Join(cfg.Dir, "good")); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	eventually(t, "it is ended", func() bool { return syscall.Kill(st.PID, 0) != nil })
}
