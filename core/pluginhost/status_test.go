// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// await reads the plugins after each change until cond is true of the only one.
func await(t *testing.T, h *pluginhost.Host, what string, cond func(pluginhost.PluginStatus) bool) pluginhost.PluginStatus {
	t.Helper()
	deadline := time.After(patience)
	for {
		plugins, changed := h.Plugins()
		if len(plugins) == 1 && cond(plugins[0]) {
			return plugins[0]
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("never happened: %s; the plugins are %+v", what, plugins)
		}
	}
}

func TestEveryChangeOfAPluginIsTold(t *testing.T) {
	h := start(t, config(t, "good"))
	body, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(body))
	st := await(t, h, "runs with its digest", func(st pluginhost.PluginStatus) bool {
		return st.State == pluginhost.StateRunning && st.Digest != ""
	})
	if st.Digest != digest || st.Restarts != 0 || !slices.Equal(st.Drivers, []string{"shell", "shell2"}) {
		t.Fatalf("status %+v, want digest %s", st, digest)
	}
	if err := kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, h, "the failure", func(st pluginhost.PluginStatus) bool { return st.Restarts == 1 })
	await(t, h, "another process", func(now pluginhost.PluginStatus) bool {
		return now.State == pluginhost.StateRunning && now.PID != st.PID && now.Digest == digest
	})
}

func TestAPluginThatKeepsFailingIsInACrashLoopUntilItRunsSteadily(t *testing.T) {
	cfg := config(t, "flag")
	flag := filepath.Join(t.TempDir(), "run")
	cfg.Env = []string{"TESTPLUGIN_FLAG=" + flag}
	cfg.CrashLoopFailures, cfg.Steady = 3, 300*time.Millisecond
	h := start(t, cfg)
	st := await(t, h, "the crash loop", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateCrashLoop })
	if st.Restarts < 3 || !st.CrashLoop || !errdefs.IsUnavailable(st.LastError) || !strings.Contains(st.LastError.Error(), "not now") {
		t.Fatalf("status %+v", st)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st = await(t, h, "it runs", func(st pluginhost.PluginStatus) bool { return st.State == pluginhost.StateRunning })
	if !st.CrashLoop || st.LastError != nil || st.LastFailure == nil {
		t.Fatalf("a process that has just begun is no end of the loop: %+v", st)
	}
	await(t, h, "the end of the loop", func(st pluginhost.PluginStatus) bool {
		return st.State == pluginhost.StateRunning && !st.CrashLoop
	})
}
