// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
)

// await reads the plugins after each change until cond is true of the only one.
func await(t *testing.T, h *pluginhost.Host, what string, cond func(pluginhost.PluginStatus) bool) pluginhost.PluginStatus {
	t.Helper()
	deadline := time.After(15 * time.Second)
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
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, h, "the failure", func(st pluginhost.PluginStatus) bool { return st.Restarts == 1 })
	await(t, h, "another process", func(now pluginhost.PluginStatus) bool {
		return now.State == pluginhost.StateRunning && now.PID != st.PID && now.Digest == digest
	})
}
