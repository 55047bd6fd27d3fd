// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sockets are those of a host's plugins, each in a folder of its process.
func sockets(t *testing.T, h *pluginhost.Host) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.SocketDir(), "*", "plugin*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAProcessThatIsKilledLeavesNoSocket(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Fatal(err)
	}
	before := len(sockets(t, h))
	if before != 1 {
		t.Fatalf("%d sockets of one plugin", before)
	}
	for range 3 {
		pid := only(t, h).PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another process serves", func() bool {
			st := only(t, h)
			return st.PID != pid && st.PID != 0 && st.State == pluginhost.StateRunning
		})
	}
	eventually(t, "one socket is left", func() bool { return len(sockets(t, h)) == 1 })
}

func TestWhatAKilledAgentLeftIsRemovedAtTheNextStart(t *testing.T) {
	cfg := quick(t)
	versions := filepath.Join(cfg.StateDir, "versions")
	dead := filepath.Join(cfg.StateDir, "sock", "plugin1")
	for _, dir := range []string{filepath.Join(versions, "forgotten", strings.Repeat("a", 64)), filepath.Dir(dead)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(versions, ".fetch-1"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"}); err != nil {
		t.Logf("no socket of a process that is dead: %v", err) // too long a path
	} else {
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	start(t, cfg)
	if left, err := os.ReadDir(versions); err != nil || len(left) > 0 {
		t.Errorf("left in versions: %v, %v", left, err)
	}
	if _, err := os.Lstat(dead); err == nil {
		t.Errorf("the socket that nobody listens on is left")
	}
}

func TestASourceThatWouldBeWaitedForIsRefused(t *testing.T) {
	h := start(t, quick(t))
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{pipe, t.TempDir(), "/dev/zero"} {
		if _, err := h.Install(t.Context(), pluginhost.Release{Name: "versioned", Source: source}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestAProgramThatNobodyMayExecuteIsToldOf(t *testing.T) {
	cfg := quick(t)
	path := filepath.Join(cfg.Dir, "forgot")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "README"), []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	found := h.Listed()
	if len(found) != 1 || found[0].Name != "forgot" || found[0].State != pluginhost.StateUnusable || !strings.Contains(found[0].LastError.Error(), "chmod +x") {
		t.Fatalf("unusable %+v", found)
	}
	link := filepath.Join(cfg.Dir, "astray")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the link to nothing is told of, too", func() bool { return len(h.Listed()) == 2 })
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is run once it may be", func() bool { return len(h.Listed()) == 1 && status(h, "forgot").Name != "" })
}

func TestAVersionIsNotToBlameForWhatWasAskedForWithIt(t *testing.T) {
	h := start(t, quick(t))
	if _, err := install(t, h, "1.0.0", ""); err != nil {
		t.Fatal(err)
	}
	source, digest := release(t, "2.0.0", "")
	for why, r := range map[string]pluginhost.Release{
		"another version is wanted":      {Version: "3.0.0"},
		"its config is wrong":            {Config: map[string]any{"no_such_key": 1}},
		"its config is wrong, as blocks": {Config: map[string]any{"shell": []any{map[string]any{"no_such_key": 1}}}},
	} {
		r.Name, r.Source, r.Digest = "versioned", source, digest
		_, err := h.Install(t.Context(), r)
		if err == nil {
			t.Fatalf("%s: it was installed", why)
		}
		if r.Config != nil && !strings.Contains(err.Error(), "config.no_such_key") {
			t.Errorf("%s: %v", why, err)
		}
		if st := only(t, h); st.Version != "1.0.0" || len(st.Bad) != 0 || st.UpgradeError == nil {
			t.Errorf("%s: status %+v", why, st)
		}
	}
}

// open counts what this process has open.
func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("open files cannot be counted: %v", err)
	}
	return len(entries)
}

func TestManyUpgradesLeaveNothingBehind(t *testing.T) {
	cfg := quick(t)
	h := start(t, cfg)
	var releases [3]pluginhost.Release
	for i := range releases {
		version := string(rune('1' + i))
		source, digest := release(t, version+".0.0", "")
		releases[i] = pluginhost.Release{Name: "versioned", Source: source, Digest: digest}
	}
	change := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := h.Install(t.Context(), releases[i%len(releases)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(len(releases))
	if len(sockets(t, h)) == 0 {
		t.Fatal("no socket, by which processes are told")
	}
	check := holds(t, shell(t, h), 2)
	settled := func() bool { return len(pluginProcesses(t, cfg.StateDir)) == 1 }
	eventually(t, "one process is left", settled)
	files, routines := open(t), runtime.NumGoroutine()
	change(5 * len(releases))
	check()
	eventually(t, "one process is left again", settled)
	eventually(t, "nothing more is open, and nothing more runs", func() bool {
		return open(t) <= files+1 && runtime.NumGoroutine() <= routines+2 // what has nothing to do with upgrades comes and goes
	})
	kept, err := os.ReadDir(filepath.Join(cfg.StateDir, "versions", "versioned"))
	if err != nil || len(kept) != 2 || len(sockets(t, h)) > 1 {
		t.Errorf("kept versions %v, %v; sockets %v", kept, err, sockets(t, h))
	}
}
