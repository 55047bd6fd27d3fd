// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/sdk/errdefs"
)

// networking installs a version of a plugin with one network plugin.
func networking(t *testing.T, h *pluginhost.Host, version string) {
	t.Helper()
	if err := installVersioned(t, h, version, `"Drivers":["shell"],"Networks":["net"]`); err != nil {
		t.Fatal(err)
	}
}

func TestNetworksStayOverTheDeathAndTheUpgradeOfTheirPlugin(t *testing.T) {
	h := start(t, quick(t))
	r := network.Request{AllocID: "a1", Network: "file", Ports: []network.Port{{Label: "http", HostPort: 20000, Port: 80}}}
	if _, err := h.CreateNetwork(t.Context(), r); !errdefs.IsNotFound(err) {
		t.Fatalf("without a plugin: %v, want NotFound", err)
	}
	if err := h.DestroyNetwork(t.Context(), "file", "a1"); !errdefs.IsUnavailable(err) {
		t.Fatalf("without a plugin: %v, want Unavailable", err)
	}
	networking(t, h, "1.0.0")
	if st := only(t, h); !slices.Equal(st.Networks, []string{"net"}) {
		t.Fatalf("the status says that it serves the networks %q", st.Networks)
	}
	prints, _ := h.Networks()
	if len(prints) != 1 || prints[0].Plugin != "versioned" || !slices.Equal(prints[0].Networks, []string{"file"}) {
		t.Fatalf("fingerprints %+v", prints)
	}
	made, err := h.CreateNetwork(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	same := func(when string) {
		t.Helper()
		eventually(t, "the network is the same "+when, func() bool {
			again, err := h.CreateNetwork(t.Context(), r)
			return err == nil && reflect.DeepEqual(made, again)
		})
	}
	if err := kill(only(t, h).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	same("after its plugin was killed")
	networking(t, h, "2.0.0")
	same("after its plugin was upgraded")
	left, err := h.ListNetworks(t.Context())
	if err != nil || !slices.Equal(left["net"], []string{"a1"}) {
		t.Fatalf("%v, %v", left, err)
	}
	if err := h.DestroyNetwork(t.Context(), "file", "a1"); err != nil {
		t.Fatal(err)
	}
	if left, err = h.ListNetworks(t.Context()); err != nil || len(left["net"]) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
}

func TestANetworkIsNotDeniedBeforeItsPluginHasSaidWhatItOffers(t *testing.T) {
	cfg := quick(t)
	body := fmt.Appendf(slices.Clone(versioned()), "\n{\"Version\":\"1.0.0\",\"Drivers\":[\"shell\"],\"Networks\":[\"net\"],\"Fault\":\"mute\"}")
	if err := os.WriteFile(filepath.Join(cfg.Dir, "versioned"), body, 0o755); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	ask := func(name string) error {
		_, err := h.CreateNetwork(t.Context(), network.Request{AllocID: "a1", Network: name})
		return err
	}
	if err := ask("file"); !errdefs.IsUnavailable(err) {
		t.Fatalf("while it starts: %v, want Unavailable", err)
	}
	eventually(t, "it runs", func() bool { return only(t, h).PID != 0 })
	for range 20 { // also when it runs
		if err := ask("file"); !errdefs.IsUnavailable(err) {
			t.Fatalf("%v, want Unavailable", err)
		}
	}
	networking(t, h, "2.0.0")
	eventually(t, "it is made when the plugin has said that it offers it", func() bool { return ask("file") == nil })
	if err := ask("other"); !errdefs.IsNotFound(err) {
		t.Errorf("%v, want NotFound", err)
	}
	if err := h.DestroyNetwork(t.Context(), "file", "a1"); err != nil {
		t.Fatal(err)
	}
}
