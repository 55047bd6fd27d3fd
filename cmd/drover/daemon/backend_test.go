// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/config"
)

// What an operator sets must reach the listener; the listener's own tests show that it
// acts there.
func TestTheLimitsOfTheHTTPPortAreThoseOfTheConfiguration(t *testing.T) {
	cfg := &config.Config{}
	d := &Daemon{}
	d.conf.Store(cfg)
	if got := d.apiConfig(nil); got.Handshake != api.DefaultHandshake {
		t.Errorf("without https_handshake_timeout: %s", got.Handshake)
	}
	conns := 7
	cfg.Limits.HTTPSHandshakeTimeout, cfg.Limits.HTTPMaxConnsPerClient = "1m7s", &conns
	got := d.apiConfig(nil)
	if got.Handshake != 67*time.Second {
		t.Errorf("https_handshake_timeout = 1m7s: %s", got.Handshake)
	}
	if got.ConnsPerClient != 7 {
		t.Errorf("http_max_conns_per_client = 7: %d", got.ConnsPerClient)
	}
}
