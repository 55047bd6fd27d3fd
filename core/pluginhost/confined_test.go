// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package pluginhost_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/confine"
)

// written is a log that can be read while it is written.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// descriptors are the targets of a process's descriptors, by number.
func descriptors(t *testing.T, pid string) map[string]string {
	t.Helper()
	dir := filepath.Join("/proc", pid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			out[e.Name()] = target
		}
	}
	return out
}

func TestAPluginHasNothingOfTheAgentButItsPipes(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "s3cret")
	secret, err := os.Create(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := config(t, "good")
	h := start(t, cfg)
	pid := strconv.Itoa(only(t, h).PID)

	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "PLUGIN_", "NOMAD_PLUGIN_MAGIC_COOKIE", "DROVER_PLUGIN_COOKIE", "DROVER_PLUGIN_STATE_DIR", "DROVER_AGENT_DIRS"}
	for v := range strings.SplitSeq(strings.TrimRight(string(env), "\x00"), "\x00") {
		known := false
		for _, a := range allowed {
			known = known || strings.HasPrefix(v, a)
		}
		if !known {
			t.Errorf("the plugin's environment has %q", v)
		}
	}

	mine := map[string]string{}
	for fd, target := range descriptors(t, "self") {
		mine[target] = fd
	}
	for fd, target := range descriptors(t, pid) {
		if n, _ := strconv.Atoi(fd); n <= 2 {
			continue
		}
		// Its own runtime opens files of the kernel, as ours does.
		if of, shared := mine[target]; shared && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/sys/") {
			t.Errorf("descriptor %s of the plugin, %s, is ours too (%s)", fd, target, of)
		}
		if strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/sys/") {
			t.Errorf("descriptor %s of the plugin is %s", fd, target)
		}
	}
	info, err := os.Stat(filepath.Join(cfg.StateDir, "sock"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the sockets: %v, %v", info, err)
	}
}

// groupOf is the cgroup of a process in the hierarchy of a controller: its
// directory, "" where there is none.
func groupOf(t *testing.T, pid int, controller string) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	unified := ""
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if parts[1] == controller {
			return filepath.Join("/sys/fs/cgroup", controller, parts[2])
		}
		if parts[1] == "" {
			unified = filepath.Join("/sys/fs/cgroup", parts[2])
		}
	}
	return unified
}

// needCgroups skips where no cgroup may be written.
func needCgroups(t *testing.T) {
	t.Helper()
	groups, err := confine.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := groups.Put("probe", os.Getpid(), confine.Limits{}); err != nil {
		t.Skip(err)
	}
	if syscall.Access("/sys/fs/cgroup/pids", 2) != nil && syscall.Access("/sys/fs/cgroup/cgroup.subtree_control", 2) != nil {
		t.Skip("no cgroup may be written here")
	}
}

func TestEachPluginHasACgroupOfItsOwnWithItsLimits(t *testing.T) {
	needCgroups(t)
	cfg := config(t, "good")
	cfg.ProcessLimits = map[string]confine.Limits{"*": {Pids: 321}}
	h := start(t, cfg)
	dir := groupOf(t, only(t, h).PID, "pids")
	if !strings.Contains(dir, "/drover-plugins/good.") {
		t.Fatalf("it is in %s", dir)
	}
	if limit, err := os.ReadFile(filepath.Join(dir, "pids.max")); err != nil || strings.TrimSpace(string(limit)) != "321" {
		t.Fatalf("limit %q, %v", limit, err)
	}
	if own := groupOf(t, os.Getpid(), "pids"); strings.Contains(own, "/drover-plugins/") {
		t.Fatalf("the agent itself is in %s", own)
	}
	h.Close(false)
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s outlives the plugin", dir)
	}
}

func TestAPluginThatTakesTooMuchMemoryEndsAloneAndSaysWhy(t *testing.T) {
	needCgroups(t)
	cfg := config(t, "glutton")
	flag := filepath.Join(t.TempDir(), "go")
	cfg.Env = []string{"TESTPLUGIN_FLAG=" + flag}
	cfg.ProcessLimits = map[string]confine.Limits{"glutton": {MemoryMB: 64}}
	h := start(t, cfg)
	if dir := groupOf(t, only(t, h).PID, "memory"); !strings.Contains(dir, "/drover-plugins/glutton.") {
		t.Fatalf("it is in %s", dir)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st := await(t, h, "its end", func(st pluginhost.PluginStatus) bool { return st.LastFailure != nil })
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if text := st.LastFailure.Error(); !strings.Contains(text, "signal: killed") || !strings.Contains(text, "more than its 64 MiB of memory") {
		t.Fatalf("it ended because: %s", text)
	}
	await(t, h, "it runs again", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning })
}

func TestAFloodOfLogLinesIsBoundedAndHugeLinesAreCut(t *testing.T) {
	var log written
	cfg := config(t, "flood")
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "plugins", Output: &log, Level: hclog.Debug})
	h := start(t, cfg)
	eventually(t, "the count of what was dropped", func() bool { return strings.Contains(log.String(), "log lines of the plugin were dropped") })
	shell(t, h) // it serves all the same
	h.Close(false)
	text := log.String()
	if n := strings.Count(text, "\n"); n > 5000 {
		t.Errorf("%d lines of 100,000 in the agent's log", n)
	}
	if !strings.Contains(text, "plugins.flood: xxx") || !strings.Contains(text, "(57344 bytes more)") {
		t.Errorf("the huge line is not cut under the plugin's name: %.200s", text)
	}
	for line := range strings.Lines(text) {
		if len(line) > 10<<10 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
}
