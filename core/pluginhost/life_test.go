// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// status returns a plugin, if the host knows it.
func status(h *pluginhost.Host, name string) pluginhost.PluginStatus {
	st, err := h.Plugin(name)
	if err != nil {
		return pluginhost.PluginStatus{}
	}
	return st
}

func runs(h *pluginhost.Host, name, version string) func() bool {
	return func() bool {
		st := status(h, name)
		_, err := h.Driver("shell") // it is let through after its tasks were recovered
		return st.State == pluginhost.StateRunning && st.Version == version && err == nil
	}
}

func TestTheDirectoryIsFollowedWhileTheHostRuns(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	put(t, cfg, "versioned", "1.0.0", "")
	eventually(t, "a new file is launched", runs(h, "versioned", "1.0.0"))
	check := holds(t, shell(t, h), 3)
	digest := put(t, cfg, "versioned", "2.0.0", "")
	eventually(t, "a replaced file is upgraded to", runs(h, "versioned", "2.0.0"))
	check()
	if st := status(h, "versioned"); st.Restarts != 0 || st.Digest != digest || st.UpgradeError != nil {
		t.Fatalf("status %+v", st)
	}
	pid := status(h, "versioned").PID
	if err := os.Remove(filepath.Join(cfg.Dir, "versioned")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a removed file's plugin goes on for its tasks", func() bool {
		st := status(h, "versioned")
		return st.State == pluginhost.StateRemoved && st.PID == pid && st.Tasks == 3
	})
	check()
	if _, _, err := shell(t, h).StartTask(t.Context(), &driver.TaskConfig{ID: "late"}); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("a new task on a removed plugin: %v", err)
	}
	put(t, cfg, "versioned", "2.0.0", "")
	eventually(t, "the file is back, and with it the plugin", func() bool { return runs(h, "versioned", "2.0.0")() && status(h, "versioned").PID == pid })
	check()
}

func TestARemovedFilesPluginEndsWithItsLastTask(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	put(t, cfg, "versioned", "1.0.0", "")
	eventually(t, "it runs", runs(h, "versioned", "1.0.0"))
	d := shell(t, h)
	startTask(t, d, "t1", "exit 0")
	if _, err := d.WaitTask(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	pid := status(h, "versioned").PID
	if err := os.Remove(filepath.Join(cfg.Dir, "versioned")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is withdrawn", func() bool { return status(h, "versioned").State == pluginhost.StateRemoved })
	if err := d.DestroyTask(t.Context(), driver.TaskRef{ID: "t1"}, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is forgotten", func() bool { return len(h.Status()) == 0 })
	eventually(t, "its process has ended", gone(pid))
	if _, err := h.Driver("shell"); !errdefs.IsNotFound(err) {
		t.Errorf("its driver: %v", err)
	}
}

func TestAHalfWrittenFileIsNotLaunched(t *testing.T) {
	cfg := quick(t)
	cfg.SettleTime = time.Second // longer than a machine with much to do stands still
	h := start(t, cfg)
	source, _ := release(t, "1.0.0", "")
	body, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(cfg.Dir, "versioned"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	// Slower than a file takes to settle, but never still for so long.
	for chunk := range bytesIn(body, 8) {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
		<-time.After(cfg.SettleTime / 4)
		if st := status(h, "versioned"); st.LastError != nil {
			t.Fatalf("it was launched: %v", st.LastError)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the whole file is launched", runs(h, "versioned", "1.0.0"))
}

// bytesIn yields a slice in n pieces.
func bytesIn(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		size := len(b)/n + 1
		for ; len(b) > 0; b = b[min(size, len(b)):] {
			if !yield(b[:min(size, len(b))]) {
				return
			}
		}
	}
}

func TestAFileThatIsWrittenInPlaceAndStallsIsLaunchedWhenItIsWhole(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	source, _ := release(t, "1.0.0", "")
	body, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(cfg.Dir, "versioned"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(body[:len(body)/2]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is tried and cannot be executed", func() bool { return status(h, "versioned").LastError != nil })
	if _, err := f.Write(body[len(body)/2:]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the whole file runs", runs(h, "versioned", "1.0.0"))
}

func TestAVersionThatCrashesSoonIsRolledBackAndNotTriedAgain(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	first, err := install(t, h, "1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	check := holds(t, shell(t, h), 3)
	if _, err := install(t, h, "2.0.0", "crashes"); err != nil {
		t.Fatal(err)
	}
	back := func() bool { return runs(h, "versioned", "1.0.0")() && status(h, "versioned").UpgradeError != nil }
	eventually(t, "the version before is back", back)
	st := status(h, "versioned")
	if st.Digest != first.Digest || len(st.Bad) != 1 || !strings.Contains(st.UpgradeError.Error(), "crashed 3 times within") {
		t.Fatalf("status %+v", st)
	}
	check()
	put(t, cfg, "versioned", "2.0.0", "crashes")
	eventually(t, "the bad file is replaced at once", func() bool {
		return versionIn(t, cfg, "versioned") == "1.0.0"
	})
	if now := status(h, "versioned"); now.PID != st.PID || now.Restarts != st.Restarts {
		t.Errorf("it was tried again: %+v, before %+v", now, st)
	}
	check()
}

func TestADisabledPluginKeepsItsTasksTakesNoneAndStaysDisabled(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Fatal(err)
	}
	d := shell(t, h)
	check := holds(t, d, 2)
	if err := h.Disable(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	check()
	if _, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "late"}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a new task: %v", err)
	}
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Health != driver.HealthUnhealthy || !strings.Contains(prints[0].HealthDescription, "disabled") {
		t.Errorf("fingerprints %+v", prints)
	}
	for _, id := range []string{"held-0", "held-1"} {
		if err := d.DestroyTask(t.Context(), driver.TaskRef{ID: id}, true); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it ends with its tasks", func() bool {
		st := status(h, "versioned")
		return st.State == pluginhost.StateDisabled && st.PID == 0
	})
	h.Close(false)
	again := start(t, cfg)
	if st := only(t, again); st.State != pluginhost.StateDisabled || st.PID != 0 {
		t.Fatalf("after a restart: %+v", st)
	}
	if err := again.Enable(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	startTask(t, shell(t, again), "t1", "exit 0")
}

func TestAPluginWithTasksIsRemovedByForceOnly(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Fatal(err)
	}
	d := shell(t, h)
	check := holds(t, d, 1)
	if err := h.Remove(t.Context(), "versioned", false); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "1 tasks") {
		t.Fatalf("remove: %v", err)
	}
	check()
	if err := h.Remove(t.Context(), "versioned", true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "versioned")); !os.IsNotExist(err) || len(h.Status()) != 0 {
		t.Fatalf("left: %v, %+v", err, h.Status())
	}
	if _, err := install(t, h, "2.0.0", ""); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestTwoInstallsOfOneNameDoNotMeet(t *testing.T) {
	h := start(t, quick(t))
	a, digestA := release(t, "1.0.0", "")
	b, digestB := release(t, "2.0.0", "")
	var both sync.WaitGroup
	var failed atomic.Pointer[error]
	for source, digest := range map[string]string{a: digestA, b: digestB} {
		for range 3 {
			both.Go(func() {
				if _, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: source, Digest: digest}); err != nil {
					failed.Store(&err)
				}
			})
		}
	}
	both.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	if st := only(t, h); st.State != pluginhost.StateRunning || (st.Digest != digestA && st.Digest != digestB) {
		t.Fatalf("status %+v", st)
	}
}

func TestADriverMovesFromOnePluginToAnother(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	put(t, cfg, "old", "1.0.0", "")
	eventually(t, "the old one runs", runs(h, "old", "1.0.0"))
	check := holds(t, shell(t, h), 2)
	put(t, cfg, "new", "5.0.0", "")
	eventually(t, "the new one is refused", func() bool { return errdefs.IsAlreadyExists(status(h, "new").LastError) })
	check()
	if err := h.Remove(t.Context(), "old", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new one has the driver", runs(h, "new", "5.0.0"))
	check()
	prints, _ := h.Fingerprints()
	if len(prints) != 1 || prints[0].Plugin != "new" || prints[0].PluginVersion != "5.0.0" {
		t.Errorf("fingerprints %+v", prints)
	}
}

func TestAVersionThatDropsADriverWithTasksIsRefused(t *testing.T) {
	h := start(t, quick(t))
	if _, err := install(t, h, "1.0.0", "", "shell", "shell2"); err != nil {
		t.Fatal(err)
	}
	check := holds(t, shell(t, h), 1)
	if _, err := install(t, h, "2.0.0", "", "shell2", "shell3"); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "1 tasks run with drivers that the version before served") {
		t.Fatalf("install: %v", err)
	}
	check()
	if _, err := h.Driver("shell3"); !errdefs.IsNotFound(err) {
		t.Errorf("a driver of the refused version: %v", err)
	}
	if _, err := install(t, h, "3.0.0", "", "shell", "shell3"); err != nil {
		t.Fatal(err)
	}
	check()
	if _, err := h.Driver("shell2"); !errdefs.IsNotFound(err) {
		t.Errorf("a driver that no version serves any more: %v", err)
	}
	if _, err := h.Driver("shell3"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsFetchedIsChecked(t *testing.T) {
	cfg := quick(t)
	cfg.MaxSize = 64 << 20
	h := start(t, cfg)
	source, digest := release(t, "1.0.0", "")
	body, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write(body)
		case "/forged":
			_, _ = w.Write(append(bytes.Clone(body), ' '))
		case "/short":
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:1000])
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	other := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		r    pluginhost.Release
		is   func(error) bool
		text string
	}{
		"no digest over plain http": {pluginhost.Release{Name: "versioned", Source: web.URL + "/good"}, errdefs.IsInvalidArgument, "plain http"},
		"another file":              {pluginhost.Release{Name: "versioned", Source: web.URL + "/forged", Digest: digest}, errdefs.IsFailedPrecondition, "is forged"},
		"another digest":            {pluginhost.Release{Name: "versioned", Source: source, Digest: other}, errdefs.IsFailedPrecondition, "nothing was changed"},
		"cut short":                 {pluginhost.Release{Name: "versioned", Source: web.URL + "/short", Digest: digest}, errdefs.IsUnavailable, "unexpected EOF"},
		"too large":                 {pluginhost.Release{Name: "versioned", Source: web.URL + "/endless", Digest: digest}, errdefs.IsResourceExhausted, "the most that this node takes"},
		"not there":                 {pluginhost.Release{Name: "versioned", Source: web.URL + "/none", Digest: digest}, errdefs.IsUnavailable, "404"},
		"no file here":              {pluginhost.Release{Name: "versioned", Source: "/nowhere/x"}, errdefs.IsNotFound, "/nowhere/x"},
		"a relative path":           {pluginhost.Release{Name: "versioned", Source: "x/y"}, errdefs.IsInvalidArgument, "absolute path"},
		"a path as a name":          {pluginhost.Release{Name: "../versioned", Source: source}, errdefs.IsInvalidArgument, "file name"},
		"no digest at all":          {pluginhost.Release{Name: "versioned", Source: source, Digest: "abc"}, errdefs.IsInvalidArgument, "sha256:"},
		"another version":           {pluginhost.Release{Name: "versioned", Source: source, Version: "9"}, errdefs.IsFailedPrecondition, `says that it is version "1.0.0"`},
	} {
		if _, err := h.Install(t.Context(), c.r); !c.is(err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := h.Status(); len(all) != 0 {
		t.Fatalf("something was installed: %+v", all)
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.StateDir, "versions", ".fetch-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: web.URL + "/good", Digest: digest, Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.InstallFrom(t.Context(), pluginhost.Release{Name: "sent"}, bytes.NewReader(body)); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a sent file without a digest: %v", err)
	}
}

func TestWhoSendsAFileAndStallsDoesNotKeepThePluginLocked(t *testing.T) {
	cfg := quick(t)
	cfg.FetchTimeout = 100 * time.Millisecond
	h := start(t, cfg)
	_, digest := release(t, "1.0.0", "")
	stalled, sender := io.Pipe()
	defer sender.Close()
	if _, err := h.InstallFrom(t.Context(), pluginhost.Release{Name: "versioned", Digest: digest}, stalled); !errdefs.IsDeadlineExceeded(err) {
		t.Fatalf("a sender that sends nothing: %v", err)
	}
	broken := iotest.ErrReader(errdefs.NotFoundf("no such file"))
	if _, err := h.InstallFrom(t.Context(), pluginhost.Release{Name: "versioned", Digest: digest}, broken); !errdefs.IsNotFound(err) {
		t.Errorf("a sender that says why it ends: %v", err)
	}
	if err := h.Remove(t.Context(), "versioned", false); err != nil {
		t.Errorf("the install that failed cannot be taken off the list: %v", err)
	}
	if err := h.Remove(t.Context(), "versioned", false); !errdefs.IsNotFound(err) {
		t.Errorf("what else is done to it: %v", err)
	}
}

func TestTheConfigOfAReleaseIsInPlaceOfTheAgents(t *testing.T) {
	cfg := quick(t)
	cfg.DriverConfig = map[string]map[string]any{"versioned": {"greeting": "hello"}}
	h := start(t, cfg)
	source, digest := release(t, "1.0.0", "")
	r := pluginhost.Release{Name: "versioned", Source: source, Digest: digest, Config: map[string]any{"greetin": "x"}}
	if _, err := h.Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), `did you mean "greeting"?`) {
		t.Fatalf("a wrong config: %v", err)
	}
	r.Config = map[string]any{"shell": map[string]any{"greeting": "ho"}}
	first, err := h.Install(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	h.Close(false)
	again := start(t, cfg)
	r.Source = "/nowhere"
	st, err := again.Install(t.Context(), r)
	if err != nil || st.Digest != first.Digest {
		t.Fatalf("the release is not remembered: %+v, %v", st, err)
	}
}

func TestReloadStartsAnewWithoutLosingTasks(t *testing.T) {
	h := start(t, quick(t))
	first, err := install(t, h, "1.0.0", "")
	if err != nil {
		t.Fatal(err)
	}
	check := holds(t, shell(t, h), 2)
	if err := h.Reload(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	if st := only(t, h); st.PID == first.PID || st.Version != "1.0.0" || st.Previous != "" {
		t.Fatalf("status %+v", st)
	}
	check()
	if err := h.Reload(context.Background(), "nobody"); !errdefs.IsNotFound(err) {
		t.Errorf("reload of nobody: %v", err)
	}
}

func TestAskingForPluginsThatThereAreNotKeepsNothing(t *testing.T) {
	h := start(t, config(t))
	for i := range 100 {
		if err := h.Disable(t.Context(), fmt.Sprintf("none-%d", i)); !errdefs.IsNotFound(err) {
			t.Fatalf("a plugin that there is not was disabled: %v", err)
		}
	}
	if n := h.Locked(); n != 0 {
		t.Errorf("%d names are kept of 100 that nobody has", n)
	}
}
