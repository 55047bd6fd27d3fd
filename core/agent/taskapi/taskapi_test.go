// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package taskapi_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/taskapi"
)

func newTask(t *testing.T, root, alloc, task string) allocdir.Dir {
	t.Helper()
	d := allocdir.New(root, alloc)
	if err := d.Build(); err != nil {
		t.Fatal(err)
	}
	if err := d.BuildTask(task); err != nil {
		t.Fatal(err)
	}
	return d
}

func listen(t *testing.T) *taskapi.Listener {
	t.Helper()
	l, err := taskapi.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial connects to a socket by its folder, since its path is too long.
func dial(t *testing.T, dir allocdir.Dir, task string) (net.Conn, error) {
	t.Helper()
	t.Chdir(dir.Secrets(task))
	return net.DialTimeout("unix", taskapi.SocketName, time.Minute)
}

func TestTheSocketsOfAllTasksAreOneListenerAndHaveNoGoroutines(t *testing.T) {
	l := listen(t)
	root := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var dirs []allocdir.Dir
	for _, name := range []string{"a", "b", "c"} {
		d := newTask(t, root, name, "t")
		for range 2 { // again is nothing new
			if err := l.Open(d, "t"); err != nil {
				t.Fatal(err)
			}
		}
		dirs = append(dirs, d)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines more", n-before)
	}
	for _, d := range dirs {
		out, err := dial(t, d, "t")
		if err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := in.RemoteAddr().String(), filepath.Base(d.Path)+"/t"; got != want {
			t.Errorf("the other end is %q, not %q", got, want)
		}
		if _, err := out.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := in.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_, _ = out.Close(), in.Close()
	}
	l.Shut(dirs[0], "t")
	if c, err := dial(t, dirs[0], "t"); err == nil {
		_ = c.Close()
		t.Error("a socket that was shut takes connections")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
	again := listen(t) // another agent
	if err := again.Open(dirs[1], "t"); err != nil {
		t.Fatal(err)
	}
	c, err := dial(t, dirs[1], "t")
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestASocketIsMadeNowhereElseAndOpensNothingElse(t *testing.T) {
	l := listen(t)
	root := t.TempDir()
	d := newTask(t, root, "a", "t")
	victim := filepath.Join(root, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(d.Secrets("t"), taskapi.SocketName)); err != nil {
		t.Fatal(err)
	}
	if err := l.Open(d, "t"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(filepath.Join(d.Secrets("t"), taskapi.SocketName)); err != nil || info.Mode().Type() != os.ModeSocket || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	other := newTask(t, root, "b", "t")
	if err := os.Remove(other.Secrets("t")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, other.Secrets("t")); err != nil {
		t.Fatal(err)
	}
	if err := l.Open(other, "t"); err == nil {
		t.Error("a link in place of the folder is followed")
	}
}
