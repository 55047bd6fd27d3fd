// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivertest

import (
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// asProcess launches the plugin as a host does; it dies by SIGKILL.
func asProcess(t *testing.T, opts Options) connected {
	t.Helper()
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: plugin.Handshake(), VersionedPlugins: plugin.ClientSet(),
		Cmd: opts.command(), SkipHostEnv: true, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout: 10 * time.Second, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		t.Fatalf("launch %s: %v", opts.Binary, err)
	}
	conn, err := plugin.Connection(protocol)
	if err != nil {
		t.Fatal(err)
	}
	drivers, err := driver.Connect(t.Context(), conn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for _, d := range drivers {
		if d.Info().Name == opts.Name || opts.Name == "" {
			return connected{Driver: d, die: func() {
				proc, err := os.FindProcess(client.ReattachConfig().Pid)
				if err == nil {
					err = proc.Kill()
				}
				if err != nil {
					t.Errorf("kill the plugin: %v", err)
				}
				client.Kill()
			}}
		}
	}
	t.Fatalf("plugin %s has no driver %q", opts.Binary, opts.Name)
	return connected{}
}
