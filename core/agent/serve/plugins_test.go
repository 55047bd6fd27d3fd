// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"errors"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
)

// offers is a host of plugins whose networks, storage plugins and registries have problems.
type offers struct{ Plugins }

func (offers) Devices() ([]pluginhost.DeviceFingerprint, <-chan struct{}) { return nil, nil }

func (offers) Networks() ([]pluginhost.NetworkFingerprint, <-chan struct{}) {
	return []pluginhost.NetworkFingerprint{{Plugin: "network-cni", Problem: "no program of cni/lan"}, {Plugin: "network-bridge"}}, nil
}

func (offers) Volumes() (out []pluginhost.VolumeFingerprint, _ <-chan struct{}) {
	out = make([]pluginhost.VolumeFingerprint, 1)
	out[0].Plugin, out[0].Problem = "csi", "the disk is full"
	return out, nil
}

func (offers) Registries() ([]pluginhost.RegistryFingerprint, <-chan struct{}) {
	return []pluginhost.RegistryFingerprint{{Plugin: "consul", Problem: "it is away"}}, nil
}

func TestTheStatusOfAPluginSaysWhatItCannotOffer(t *testing.T) {
	for name, c := range map[string]struct {
		status pluginhost.PluginStatus
		want   []string
	}{
		"network-cni":    {pluginhost.PluginStatus{Warnings: []string{"another has the name"}}, []string{"another has the name", "no program of cni/lan"}},
		"network-bridge": {pluginhost.PluginStatus{}, nil},
		"csi":            {pluginhost.PluginStatus{}, []string{"the disk is full"}},
		"consul":         {pluginhost.PluginStatus{LastError: errors.New("it is away")}, nil}, // it is said already
	} {
		c.status.Name = name
		if got := agentPlugin(offers{}, c.status); !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%s: %q, want %q", name, got.Warnings, c.want)
		}
	}
}
