// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/process"
)

func TestWhatEachProcessOfAPluginSaysAgainIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info})
		next := process.NewSayings()
		look := func(plugin, line string) {
			p := next(plugin, log)
			p.With("plugin", plugin).Log(hclog.Warn, line, "timestamp", time.Now())
		}
		for range 20 {
			look("device-x", "no device")
			time.Sleep(50 * time.Second)
		}
		if n := strings.Count(out.String(), "no device"); n != 1 {
			t.Errorf("20 looks wrote it %d times", n)
		}
		look("device-x", "one device")
		look("device-y", "no device")
		if !strings.Contains(out.String(), "one device") || strings.Count(out.String(), "no device") != 2 {
			t.Errorf("news is missing: %s", out.String())
		}
		time.Sleep(time.Hour)
		look("device-x", "no device")
		if strings.Count(out.String(), "no device") != 3 {
			t.Error("an hour later it is no news")
		}
		long := next("device-z", log)
		for range 3 {
			long.Log(hclog.Error, "still broken")
		}
		if strings.Count(out.String(), "still broken") != 3 {
			t.Error("one process that repeats itself is cut short")
		}
	})
}

func TestWhatIsRememberedOfAPluginIsBounded(t *testing.T) {
	next := process.NewSayings()
	p := next("x", hclog.NewNullLogger())
	for i := range 10_000 {
		p.Log(hclog.Warn, "line", "n", i)
	}
	if n := process.Remembered(p); n > 256 {
		t.Errorf("%d lines", n)
	}
}
