// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
)

func merged(t *testing.T, text string) *config.Config {
	t.Helper()
	c := config.DevDefaults()
	if err := c.Merge("a.hcl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Fatalf("warnings %v", c.Warnings)
	}
	return c
}

func TestSetsOfCoresAreRead(t *testing.T) {
	c := merged(t, `client {
  reserved { cores = "0, 2-3,2" }
  reservable_cores = "1-4"
}`)
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	if got := c.Client.ReservedCores(); !slices.Equal(got, []uint16{0, 2, 3}) {
		t.Errorf("reserved are %v", got)
	}
	if got := c.Client.CoresForTasks(); !slices.Equal(got, []uint16{1, 2, 3, 4}) {
		t.Errorf("reservable are %v", got)
	}
	if got := config.DevDefaults().Client.CoresForTasks(); got != nil {
		t.Errorf("unset, reservable are %v", got)
	}
}

func TestCapacitiesAndLeasesThatMakeNoSenseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"client {\nreserved { cores = \"3-1\" }\n}":                                          "client.reserved.cores",
		`client { reservable_cores = "a" }`:                                                  "client.reservable_cores",
		"client {\nreserved { cores = \"0-70000\" }\n}":                                      "client.reserved.cores",
		"client {\nhost_network \"a\" { cidr = \"10.0.0.300/8\" }\n}":                        `client.host_network "a": cidr "10.0.0.300/8"`,
		"client {\nhost_network \"a\" { reserved_ports = \"22\" }\n}":                        `client.host_network "a" needs a cidr`,
		"client {\nhost_network \"a\" {\ninterface = \"lo\"\nreserved_ports = \"ssh\"\n}\n}": `client.host_network "a": reserved_ports "ssh"`,
		"client {\nreserved { reserved_ports = \"80-70\" }\n}":                               `client.reserved.reserved_ports "80-70"`,
		`client { disk_free_mb = -1 }`:                                                       "client.disk_free_mb",
		"client {\nreserved { memory = -1 }\n}":                                              "client.reserved.memory",
		`limits { rpc_handshake_timeout = "0s" }`:                                            "limits.rpc_handshake_timeout",
		`limits { rpc_handshake_timeout = "soon" }`:                                          "limits.rpc_handshake_timeout",
		`limits { https_handshake_timeout = "0s" }`:                                          "limits.https_handshake_timeout",
		`limits { https_handshake_timeout = "-5s" }`:                                         "limits.https_handshake_timeout",
		`server { heartbeat_grace = "-1s" }`:                                                 "server.heartbeat_grace",
		`server { min_heartbeat_ttl = "10ms" }`:                                              "server.min_heartbeat_ttl",
		`server { min_heartbeat_ttl = "often" }`:                                             "server.min_heartbeat_ttl",
	} {
		if err := merged(t, text).Finish(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNodesThatRefusePlansAreCountedOnlyIfThatIsEnabled(t *testing.T) {
	for text, want := range map[string]struct {
		threshold int
		window    time.Duration
	}{
		"server {\n plan_rejection_tracker {\n node_threshold = 3\n }\n}":                                         {},
		"server {\n plan_rejection_tracker {\n enabled = true\n }\n}":                                             {100, 5 * time.Minute},
		"server {\n plan_rejection_tracker {\n enabled = true\n node_threshold = 3\n node_window = \"1m\"\n }\n}": {3, time.Minute},
	} {
		c := merged(t, text)
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
		if n, window := c.Server.PlanRejections.Limits(); n != want.threshold || window != want.window {
			t.Errorf("%s: %d within %s", text, n, window)
		}
	}
	for text, want := range map[string]string{
		"node_threshold = -1":     "server.plan_rejection_tracker.node_threshold -1 must be between 1 and 10000",
		"node_threshold = 100000": "node_threshold 100000 must be",
		`node_window = "0s"`:      `node_window "0s" must be longer than 0`,
		`node_window = "soon"`:    "server.plan_rejection_tracker.node_window",
	} {
		err := merged(t, "server {\n plan_rejection_tracker {\n"+text+"\n }\n}").Finish()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
