// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// serving makes a host's configuration with plugins that serve the drivers in their
// names.
func serving(t *testing.T, names ...string) pluginhost.Config {
	t.Helper()
	cfg := built(t, "kindsplugin", names[0])
	for _, name := range names[1:] {
		also(t, cfg, names[0], name)
	}
	return cfg
}

func also(t *testing.T, cfg pluginhost.Config, file, name string) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(cfg.Dir, file))
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.Dir, name), body, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantDrivers waits until a plugin runs and serves exactly these drivers.
func wantDrivers(t *testing.T, h *pluginhost.Host, plugin string, want ...string) pluginhost.PluginStatus {
	t.Helper()
	eventually(t, plugin+" serves "+strings.Join(want, " "), func() bool {
		st, err := h.Plugin(plugin)
		return err == nil && st.State == pluginhost.StateRunning && slices.Equal(st.Drivers, want)
	})
	st, err := h.Plugin(plugin)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestNamesAreClaimedOneByOneAndTheFirstFileNameWins(t *testing.T) {
	first, second := "serves-aslow-one-two", "serves-b-three-two"
	h := start(t, serving(t, first, second))
	if st := wantDrivers(t, h, first, "one", "two"); len(st.Warnings) > 0 {
		t.Errorf("the first has warnings: %q", st.Warnings)
	}
	st := wantDrivers(t, h, second, "three")
	if len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], `driver "two" is served by plugin "`+first+`" already`) || st.LastError != nil {
		t.Errorf("the second: warnings %q, error %v", st.Warnings, st.LastError)
	}
	if err := h.Disable(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if st := wantDrivers(t, h, second, "three", "two"); len(st.Warnings) > 0 {
		t.Errorf("after the first is disabled, the second has warnings: %q", st.Warnings)
	}
}

func TestAPluginThatGotNoNameTakesOneOverOnceItIsFree(t *testing.T) {
	first, second := "serves-a-one", "serves-b-one"
	cfg := serving(t, first, second)
	cfg.BackoffMin, cfg.BackoffMax = time.Hour, time.Hour // it is not started again because of its failure
	h := start(t, cfg)
	wantDrivers(t, h, first, "one")
	eventually(t, "the second fails", func() bool {
		st, err := h.Plugin(second)
		return err == nil && st.LastError != nil && strings.Contains(st.LastError.Error(), `driver "one" is served by plugin "`+first+`" already`)
	})
	if st, err := h.Plugin(second); err != nil || len(st.Warnings) > 0 {
		t.Errorf("beside its error it has the warnings %q, %v", st.Warnings, err)
	}
	if err := h.Disable(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wantDrivers(t, h, second, "one")
}

func TestTheOwnerOfTheLastRunKeepsItsNames(t *testing.T) {
	later := "serves-bslow-three-two"
	cfg := serving(t, later)
	h := start(t, cfg)
	wantDrivers(t, h, later, "three", "two")
	h.Close(false)

	earlier := "serves-a-one-two"
	also(t, cfg, later, earlier)
	h = start(t, cfg)
	if st := wantDrivers(t, h, earlier, "one"); len(st.Warnings) != 1 {
		t.Errorf("warnings of the newcomer: %q", st.Warnings)
	}
	wantDrivers(t, h, later, "three", "two")
}

func TestANameThatIsNotAllowedIsLeftOut(t *testing.T) {
	h := start(t, serving(t, "serves-x-one-escape"))
	st := wantDrivers(t, h, "serves-x-one-escape", "one")
	if len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "a name has 1 to 64 characters") || strings.ContainsRune(st.Warnings[0], 0x1b) {
		t.Errorf("warnings %q", st.Warnings)
	}
	h = start(t, serving(t, "serves-x-escape"))
	eventually(t, "the plugin without an allowed name fails and says why", func() bool {
		st := only(t, h)
		return st.LastError != nil && strings.Contains(st.LastError.Error(), "a name has 1 to 64 characters")
	})
}

func TestADriverSetsItsOwnAttributesOnlyAndItsTextsArePlain(t *testing.T) {
	h := start(t, serving(t, "serves-x-boaster"))
	st := wantDrivers(t, h, "serves-x-boaster", "boaster")
	var print pluginhost.DriverFingerprint
	eventually(t, "the driver is fingerprinted", func() bool {
		prints, _ := h.Fingerprints()
		print = prints[0]
		return print.Health == driver.HealthHealthy
	})
	if len(print.Attributes) != 2 || print.Attributes["driver.boaster"] != "1" || print.Attributes["driver.boaster.version"] != "2" {
		t.Errorf("attributes %v", print.Attributes)
	}
	st, err := h.Plugin(st.Name)
	if err != nil || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], `["driver.boasters" "driver.one" "kernel.name"]`) {
		t.Errorf("warnings %q, %v", st.Warnings, err)
	}
	if want := `all \x1b[31mred and \u202eback`; print.HealthDescription != want {
		t.Errorf("health description %q, want %q", print.HealthDescription, want)
	}
	d, err := h.Driver("boaster")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.InspectTask(t.Context(), "t"); err == nil || err.Error() != `no\x1b]0;title\x07 task` {
		t.Errorf("error %q", err)
	}
}
