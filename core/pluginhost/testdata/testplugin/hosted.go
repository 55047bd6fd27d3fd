// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// hosted is a driver whose fingerprint names its host.
type hosted struct {
	driver.Driver
	host plugin.Host
}

// SetHost implements plugin.HostAware. The host calls it before anything else.
func (h *hosted) SetHost(host plugin.Host) { h.host = host }

func (h *hosted) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint, 1)
	out <- driver.Fingerprint{Health: driver.HealthHealthy, Attributes: map[string]string{
		"driver.hosted.version": h.host.Version, "driver.hosted.node": h.host.NodeID, "driver.hosted.region": h.host.Region,
		"driver.hosted.features": strings.Join(h.host.Features, " "),
	}}
	go func() { <-ctx.Done(); close(out) }()
	return out, nil
}
