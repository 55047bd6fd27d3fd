// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/idle"
)

// setName is the only entry in go-plugin's plugin set: kinds are distinguished by
// their gRPC services, not by sets.
const setName = "drover"

// MaxMessage is the largest message in bytes, in both directions. The config of a task
// with its environment is far smaller.
const MaxMessage = 16 << 20

// window is the flow-control window in bytes, for one stream and for the connection.
// It is fixed on both sides, because gRPC otherwise estimates the bandwidth with an
// additional ping at nearly every call.
const window = 1 << 20

// DialOptions are the options with which a host connects to a plugin. They limit what
// a plugin may send at once; go-plugin's default has no limit.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	}
}

// serverOptions sets no limit for what a plugin sends: the host has one, and its error says what
// to do.
func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
	}
}

// Handshake returns the handshake configuration for go-plugin.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{MagicCookieKey: MagicCookieKey, MagicCookieValue: MagicCookieValue}
}

// ClientSet returns the plugin sets for a go-plugin client, for our protocol version
// and any foreign versions that the client supports. Connection obtains its connection
// through it.
func ClientSet(foreign ...int) map[int]goplugin.PluginSet {
	sets := map[int]goplugin.PluginSet{}
	for _, version := range append(foreign, ProtocolVersion) {
		sets[version] = goplugin.PluginSet{setName: &grpcPlugin{}}
	}
	return sets
}

// Connection returns the gRPC connection of a started go-plugin client.
func Connection(client goplugin.ClientProtocol) (*grpc.ClientConn, error) {
	raw, err := client.Dispense(setName)
	if err != nil {
		return nil, fmt.Errorf("take the connection of the plugin: %w", err)
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return nil, fmt.Errorf("take the connection of the plugin: unexpected type %T", raw)
	}
	return conn, nil
}

type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	info     Info
	services []Service
}

func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	Register(s, p.info, p.services...)
	return nil
}

func (p *grpcPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// Logger returns a logger whose lines appear in the agent's log, under the plugin's
// name and with their level.
func Logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Trace, Output: os.Stderr, JSONFormat: true})
}

// Serve serves the services until the host asks the process to end. It is the last
// call of a plugin's main function. It returns an error if the process was not started
// by a host. Tasks must not depend on the process: the agent may end, kill or restart
// it at any time, and then calls RecoverTask.
func Serve(info Info, services ...Service) error {
	if os.Getenv(MagicCookieKey) != MagicCookieValue {
		return fmt.Errorf("%s is a plugin of drover and does nothing by itself; put it into the agent's plugin_dir", info.Name)
	}
	if len(services) == 0 {
		return errors.New("serve the plugin: no service given")
	}
	economise()
	outliveAgent()
	secure, err := secured()
	if err != nil {
		return err
	}
	serve := &goplugin.ServeConfig{
		HandshakeConfig:  Handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {setName: &grpcPlugin{info: info, services: services}}},
		Logger:           hclog.New(&hclog.LoggerOptions{Name: info.Name, Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(append(opts, serverOptions()...), grpc.Creds(credentialsOf(secure)))...)
		},
	}
	if secure != nil {
		serve.TLSProvider = func() (*tls.Config, error) { return secure, nil }
		if err := announce(secure); err != nil {
			return err
		}
	}
	goplugin.Serve(serve)
	return nil
}

// outliveAgent keeps the process alive when its agent or terminal is gone: a write to
// stderr without a reader then returns an error instead of ending the process. The signals
// are caught and not ignored, because tasks would inherit an ignored signal.
func outliveAgent() {
	signal.Notify(make(chan os.Signal, 1), agentGoneSignals()...)
}

// economise configures the Go runtime for a process that mostly waits, since many such
// processes run beside the tasks. With one thread of Go code a call takes 4/5 of the
// time that it takes with two, which wake each other at each step. The environment
// variables of the runtime take precedence, and so does an earlier call of
// runtime.GOMAXPROCS.
func economise() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == runtime.NumCPU() {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
		// Most of what the start allocates is garbage, which fills less than the smallest heap
		// that the runtime collects: it would stay for the life of the process.
		time.AfterFunc(startedAfter, idle.Release)
	}
}

// startedAfter is the time after which a process has as a rule been configured and
// fingerprinted.
const startedAfter = time.Second
