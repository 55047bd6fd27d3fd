// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/control/keys"
)

// What an operator sets must reach the part that acts on it; its own tests show that it
// acts.
func TestTheKeysOfAServerAndANodeReachTheirParts(t *testing.T) {
	cfg := config.DevDefaults()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Daemon{http: l}
	d.conf.Store(cfg)
	if got := d.startTimeout(); got != leaderTimeout {
		t.Errorf("without start_timeout: %s", got)
	}
	if d.nodeConfig(nil).Fingerprint.NoServices {
		t.Error("a node has no services without nomad_service_discovery = false")
	}
	no := false
	cfg.Server.StartTimeout, cfg.Server.RaftSnapshotInterval = "1m7s", "9s"
	cfg.Client.NetworkSpeed, cfg.Client.ServiceDiscovery = 40000, &no
	if got := d.startTimeout(); got != 67*time.Second {
		t.Errorf("start_timeout: %s", got)
	}
	cfg.Server.RootKeyRotation, cfg.Server.RootKeyGC, cfg.Server.RootKeyInterval = "1h", "2m", "3s"
	if got := d.serverConfig().RootKeys; got != (keys.Limits{Rotation: time.Hour, Removal: 2 * time.Minute, Interval: 3 * time.Second}) {
		t.Errorf("%+v", got)
	}
	if got := d.serverConfig().SnapshotInterval; got != 9*time.Second {
		t.Errorf("raft_snapshot_interval: %s", got)
	}
	cfg.Server.DataDir = "/srv/servers"
	if got := d.nodeConfig(nil).Hidden; !slices.Contains(got, cfg.Server.DataDir) || d.serverConfig().DataDir != cfg.Server.DataDir {
		t.Errorf("tasks see the keys of a server in %s: %v", cfg.Server.DataDir, got)
	}
	if got := d.nodeConfig(nil).Fingerprint; got.NetworkSpeed != 40000 || !got.NoServices {
		t.Errorf("%+v", got)
	}
}
