// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/plugin"
)

func TestTheHostSeesWhichOptionalAbilitiesAreAnnounced(t *testing.T) {
	cfg := config(t, "devices")
	h := start(t, cfg)
	o, err := h.Open(t.Context(), filepath.Join(cfg.Dir, "devices"))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, f := range o.Drivers[0].Info().Features {
		if !driver.Has(o.Drivers[0], f) {
			t.Errorf("the driver announces %q and does not have it", f)
		}
	}
	if driver.Has(o.Drivers[0], "teleport") || device.Has(o.Devices[0], "teleport") {
		t.Error("the plugin has what it does not announce")
	}
}

func TestAPluginLearnsWhichHostItHas(t *testing.T) {
	cfg := config(t, "hosted")
	cfg.Host = plugin.Host{Version: "0.4.0", NodeID: "a-node", Region: "mars"}
	h := start(t, cfg)
	eventually(t, "the fingerprint says which host the driver has", func() bool {
		prints, _ := h.Fingerprints()
		return len(prints) == 1 && prints[0].Attributes["driver.hosted.node"] != ""
	})
	prints, _ := h.Fingerprints()
	got := prints[0].Attributes
	if got["driver.hosted.version"] != "0.4.0" || got["driver.hosted.node"] != "a-node" || got["driver.hosted.region"] != "mars" {
		t.Errorf("the driver has the host %q", got)
	}
	if features := strings.Fields(got["driver.hosted.features"]); !slices.Contains(features, "driver.list_tasks") {
		t.Errorf("the host acts on %q", features)
	}
}
