// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/sdk/errdefs"
)

// withDevices is a config of a host with a plugin that serves a driver and, from
// the files of the returned directory, devices.
func withDevices(t *testing.T) (pluginhost.Config, string) {
	t.Helper()
	cfg, dir := config(t, "devices"), t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("four"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.DriverConfig = map[string]map[string]any{"file": {"dir": dir}}
	return cfg, dir
}

func TestAPluginIsToldWhoUsesItsDevicesAndWhenThatEnds(t *testing.T) {
	cfg, _ := withDevices(t)
	h := start(t, cfg)
	set := device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"b"}}
	holder := device.Holder{AllocID: "a1", Task: "web"}
	r, err := h.ReserveDevices(t.Context(), holder, set, map[string]any{"label": "mine"})
	if err != nil || r.Env["FILE_LABEL"] != "mine" {
		t.Fatalf("reserved %+v, %v", r, err)
	}
	_, err = h.ReserveDevices(t.Context(), holder, set, map[string]any{"colour": "red"})
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "colour") {
		t.Errorf("a config that does not fit: %v", err)
	}
	for range 2 {
		if err := h.ReleaseDevices(t.Context(), holder, set); err != nil {
			t.Error(err)
		}
	}
	set.Name = "other"
	if err := h.ReleaseDevices(t.Context(), holder, set); !errdefs.IsNotFound(err) {
		t.Errorf("devices of nobody: %v", err)
	}
}

func TestWhatIsOfOneDeviceReachesTheNode(t *testing.T) {
	cfg, dir := withDevices(t)
	for name, text := range map[string]string{"b.link": "fast\n", "b.numa": "1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := start(t, cfg)
	bus := func(string) (int, bool) {
		t.Error("the bus is asked though the plugin knows, or has no address")
		return 0, false
	}
	eventually(t, "the attribute and the NUMA node are there", func() bool {
		prints, _ := h.Devices()
		for _, p := range prints {
			for _, g := range pluginhost.DeviceGroups(p, bus) {
				for _, i := range g.Instances {
					if node, ok := i.NUMANode(); i.ID == "b" && ok && node == 1 && i.Attributes["link"].String() == "fast" {
						return len(g.Alike()) == 2 && g.Alike()[1].Attributes["size"] != nil
					}
				}
			}
		}
		return false
	})
}

func TestOnlyTheBusKnowsWhereSomeDevicesAre(t *testing.T) {
	two := 2
	print := pluginhost.DeviceFingerprint{Groups: []device.Group{{Vendor: "acme", Type: "gpu", Name: "x1", Instances: []device.Instance{
		{ID: "bus", PCIBusID: "0000:3b:00.0"}, {ID: "own", PCIBusID: "0000:3b:00.0", NUMANode: &two}, {ID: "unknown", PCIBusID: "0000:04:00.0"}, {ID: "none"},
	}}}}
	bus := func(pci string) (int, bool) { return 1, pci == "0000:3b:00.0" }
	got := map[string]int{}
	for _, i := range pluginhost.DeviceGroups(print, bus)[0].Instances {
		if node, ok := i.NUMANode(); ok {
			got[i.ID] = node
		}
	}
	if len(got) != 2 || got["bus"] != 1 || got["own"] != 2 {
		t.Errorf("NUMA nodes %v", got)
	}
}

func TestOnePluginServesDriversAndDevices(t *testing.T) {
	cfg, dir := withDevices(t)
	h := start(t, cfg)
	if st := only(t, h); strings.Join(st.Drivers, " ") != "shell" || strings.Join(st.Devices, " ") != "file" {
		t.Fatalf("status %+v", st)
	}
	prints, changed := h.Devices()
	if len(prints) != 1 || len(prints[0].Groups) != 1 || len(prints[0].Groups[0].Instances) != 2 || *prints[0].Groups[0].Attributes["size"].Int != 4 {
		t.Fatalf("fingerprints %+v", prints)
	}
	r, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"b"}}, nil)
	if err != nil || r.Env["FILE_DEVICES"] != "b" || len(r.Mounts) != 1 || r.Mounts[0].HostPath != filepath.Join(dir, "b") {
		t.Fatalf("reserved %+v, %v", r, err)
	}
	if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"x"}}, nil); !errdefs.IsNotFound(err) {
		t.Fatalf("an unknown device: %v", err)
	}
	if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "acme", Type: "tpu", Name: "x", IDs: []string{"x"}}, nil); !errdefs.IsNotFound(err) {
		t.Fatalf("an unknown group: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-changed
	eventually(t, "the broken device is reported", func() bool {
		prints, _ := h.Devices()
		return len(prints[0].Groups) == 1 && !prints[0].Groups[0].Instances[1].Healthy
	})
}

func TestDevicesComeBackWithTheirPlugin(t *testing.T) {
	cfg, _ := withDevices(t)
	h := start(t, cfg)
	if s := h.DeviceStats(t.Context()); len(s) != 1 || len(s[0].Instances) != 2 {
		t.Fatalf("sample %+v", s)
	}
	pid := only(t, h).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process offers them", func() bool {
		prints, _ := h.Devices()
		return only(t, h).PID != pid && len(prints) == 1 && len(prints[0].Groups) == 1
	})
	if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"a"}}, nil); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	eventually(t, "the new process measures", func() bool {
		s := h.DeviceStats(t.Context())
		return len(s) == 1 && s[0].Instances["a"].Time.After(restarted)
	})
}

func TestADevicePluginThatIsConfiguredWronglySaysSo(t *testing.T) {
	cfg, _ := withDevices(t)
	cfg.DriverConfig = nil
	prints, _ := start(t, cfg).Devices()
	if len(prints) != 1 || !strings.Contains(prints[0].Problem, "dir") || len(prints[0].Groups) != 0 {
		t.Fatalf("fingerprints %+v", prints)
	}
}

func TestADevicePluginBuiltForNomadServesItsDevices(t *testing.T) {
	cfg := config(t)
	if err := os.Symlink(nomadBinary, filepath.Join(cfg.Dir, "nomad-device-abacus")); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	prints, _ := h.Devices()
	if len(prints) != 1 || prints[0].Name != "abacus" || prints[0].PluginVersion != "v0.0.1" || len(prints[0].Groups) != 1 {
		t.Fatalf("fingerprints %+v", prints)
	}
	g := prints[0].Groups[0]
	if g.Vendor != "acme" || g.Type != "abacus" || g.Name != "mk1" || *g.Attributes["beads"].Int != 91 || g.Instances[1].PCIBusID != "00:1" {
		t.Fatalf("group %+v", g)
	}
	abacus := device.Set{Vendor: "acme", Type: "abacus", Name: "mk1", IDs: []string{"a1", "a2"}}
	if _, err := h.ReserveDevices(t.Context(), device.Holder{}, abacus, map[string]any{"beads": 3}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "takes no config block") {
		t.Errorf("a config for a plugin built for Nomad: %v", err)
	}
	if err := h.ReleaseDevices(t.Context(), device.Holder{}, abacus); err != nil {
		t.Errorf("a release of devices of a plugin that does not want to know: %v", err)
	}
	r, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "acme", Type: "abacus", Name: "mk1", IDs: []string{"a1", "a2"}}, nil)
	if err != nil || r.Env["ABACI"] != "a1,a2" || len(r.Nodes) != 1 || r.Nodes[0].Permissions != "rw" {
		t.Fatalf("reserved %+v, %v", r, err)
	}
	s := h.DeviceStats(t.Context())
	stats := s[0].Instances["a1"]
	if *stats.Values[stats.Summary].Int != 40 || *stats.Values[stats.Summary].Of != 91 || *stats.Values["rod.count"].Float != 7 {
		t.Fatalf("stats %+v", stats)
	}
}

func TestReservationsOfAPluginThatDoesNotAnswerFailAtOnce(t *testing.T) {
	cfg, _ := withDevices(t)
	if err := os.Rename(filepath.Join(cfg.Dir, "devices"), filepath.Join(cfg.Dir, "away-devices")); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	for range 5 {
		if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"a"}}, nil); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "its daemon is away") {
			t.Fatal(err)
		}
	}
	if _, err := h.ReserveDevices(t.Context(), device.Holder{}, device.Set{Vendor: "drover", Type: "file", Name: "file-4", IDs: []string{"a"}}, nil); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), `device plugin "file" has not answered since`) {
		t.Fatal(err)
	}
	if st := only(t, h); st.State != pluginhost.StateNotAnswering || st.LastError == nil {
		t.Fatalf("status %+v", st)
	}
}

func TestADevicePluginThatFindsNoDeviceIsNotKeptRunning(t *testing.T) {
	cfg, dir := withDevices(t)
	if err := os.Rename(filepath.Join(cfg.Dir, "devices"), filepath.Join(cfg.Dir, "away-devices")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.AbsentInterval = 200 * time.Millisecond
	h := start(t, cfg)
	await(t, h, "its rest", undetected)
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the device is found by a later look", func() bool {
		prints, _ := h.Devices()
		return len(prints) == 1 && len(prints[0].Groups) == 1 && only(t, h).PID != 0
	})
}
