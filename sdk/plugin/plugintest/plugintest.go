// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugintest connects tests to plugins as a host does: over gRPC in one process, or
// to a real plugin process that can be killed. It owns no checks of contracts: the packages
// KINDtest (drivertest and so on) run them. Only tests import it.
package plugintest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/plugin"
)

// Serve serves the services in this process and returns a connection to them. die
// closes both, as the death of a process would; the end of the test does too.
func Serve(t *testing.T, services ...plugin.Service) (conn *grpc.ClientConn, die func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	plugin.Register(server, plugin.Info{Name: "test", Version: "0"}, services...)
	go func() { _ = server.Serve(listener) }() // returns after Stop
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	die = func() {
		_ = conn.Close() // the only possible error is a second close
		server.Stop()
	}
	t.Cleanup(die)
	introduce(t, conn)
	return conn, die
}

// Launch starts a plugin's process as a host does and returns a connection to it. die
// kills it with SIGKILL; the end of the test does too.
func Launch(t testing.TB, cmd *exec.Cmd) (conn *grpc.ClientConn, die func()) {
	t.Helper()
	if race, ok := os.LookupEnv("GORACE"); ok && cmd.Env != nil { // for a test binary that is its own plugin
		cmd.Env = append(cmd.Env, "GORACE="+race)
	}
	var addr net.Addr // set before a connection is made
	direct := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, addr.Network(), addr.String())
		if err != nil {
			return nil, err
		}
		return plugin.Direct(conn), nil
	})
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: plugin.Handshake(), VersionedPlugins: plugin.ClientSet(),
		Cmd: cmd, SkipHostEnv: true, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout: 10 * time.Second, Logger: hclog.NewNullLogger(), GRPCDialOptions: append(plugin.DialOptions(), direct),
	})
	t.Cleanup(client.Kill)
	var err error
	if addr, err = client.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	protocol, err := client.Client()
	if err != nil {
		t.Fatalf("launch %s: %v", cmd.Path, err)
	}
	if conn, err = plugin.Connection(protocol); err != nil {
		t.Fatal(err)
	}
	introduce(t, conn)
	return conn, func() {
		proc, err := os.FindProcess(client.ReattachConfig().Pid)
		if err == nil {
			err = proc.Kill()
		}
		if err != nil {
			t.Errorf("kill the plugin: %v", err)
		}
		client.Kill()
	}
}

// host is how tests introduce themselves to plugins.
var host = plugin.Host{Version: "0.0.0-test", NodeID: "6f1f3f6e-0000-0000-0000-000000000000", Region: "global"}

// introduce does what a host does first on each connection.
func introduce(t testing.TB, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := plugin.Introduce(ctx, conn, host); err != nil {
		t.Fatalf("ask the plugin what it is: %v", err)
	}
}

// Report reports the result of a check as the result of the test.
func Report(t testing.TB, r conformance.Result) {
	t.Helper()
	for _, p := range r.Problems {
		t.Errorf("%s: %s", r.Rule, p)
	}
	if r.Outcome == conformance.Skipped {
		t.Skipf("%s: %s", r.Rule, r.Reason)
	}
}
