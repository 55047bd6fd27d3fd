// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost"
)

func TestAPluginsProcessGetsTheArgsOfItsBlock(t *testing.T) {
	cfg := config(t, "argued")
	told := filepath.Join(t.TempDir(), "told")
	cfg.Args = map[string][]string{"argued": {told, "-level", "high"}, "nobody": {"x"}}
	var log bytes.Buffer
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	first := start(t, cfg)
	text, err := os.ReadFile(told)
	if err != nil || string(text) != told+" -level high" {
		t.Fatalf("it was told %q, %v", text, err)
	}
	pid := only(t, first).PID
	first.Close(true) // as if the agent had been killed
	if !strings.Contains(log.String(), "plugin=nobody") || strings.Contains(log.String(), "plugin=argued plugin_dir") {
		t.Errorf("the log says %s", log.String())
	}

	again := start(t, cfg)
	if st := only(t, again); st.PID != pid || !st.Reattached {
		t.Fatalf("with the same args another process was started: %+v", st)
	}
	again.Close(true)
	cfg.Args = map[string][]string{"argued": {told, "-level", "low"}}
	third := start(t, cfg)
	eventually(t, "other args take another process", func() bool {
		st := only(t, third)
		return st.State == pluginhost.StateRunning && st.PID != pid && !st.Reattached
	})
	if text, err := os.ReadFile(told); err != nil || string(text) != told+" -level low" {
		t.Errorf("it was told %q, %v", text, err)
	}
}

func TestABlockThatIsForNoPluginIsToldAtTheStart(t *testing.T) {
	log := func(blocks map[string]map[string]any, plugins ...string) string {
		cfg := config(t, plugins...)
		cfg.DriverConfig = blocks
		var log bytes.Buffer
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		h := start(t, cfg)
		defer h.Close(false)
		return log.String()
	}
	served := log(map[string]map[string]any{"panics": {}, "panisc": {}}, "panics")
	if !strings.Contains(served, "a plugin block has no effect: no plugin, driver or device has its name: block=panisc") || strings.Contains(served, "block=panics") {
		t.Errorf("the log says %s", served)
	}
	if none := log(nil); !strings.Contains(none, "there is no plugin, so this node has no drivers") {
		t.Errorf("without plugins the log says %s", none)
	}
}
