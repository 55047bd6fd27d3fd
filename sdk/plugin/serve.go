// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// setName is the one entry in go-plugin's plugin set: the kinds tell
// themselves apart by their gRPC services, not by sets.
const setName = "drover"

// MaxMessage bounds one message, on both sides; a task's config with its
// environment is far smaller.
const MaxMessage = 16 << 20

// window is how many bytes of a stream, and of all of them, one side sends before
// the other has taken them. It is fixed on both sides, since gRPC otherwise
// measures what a connection bears with a ping of its own at nearly each call.
const window = 1 << 20

// DialOptions are what a host connects to a plugin with. They bound what a plugin
// may send at once; go-plugin takes all that fits into memory.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	}
}

func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
	}
}

// Handshake is go-plugin's view of the handshake.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{MagicCookieKey: MagicCookieKey, MagicCookieValue: MagicCookieValue}
}

// ClientSet is the set by which a go-plugin client gets the connection, for our
// protocol version and for any foreign ones that the client speaks: what
// Connection returns is read from it.
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

// Logger returns the logger of a plugin: what it writes appears in the agent's
// log under the plugin's name, at the level at which it was written.
func Logger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Trace, Output: os.Stderr, JSONFormat: true})
}

// Serve serves until the host asks the process to end. It is the last call of a
// plugin's main. A process that was not started by a host gets an error that
// says so. Tasks must not depend on the process: the agent may end, crash or
// restart it at any time and then calls RecoverTask.
func Serve(info Info, services ...Service) error {
	if os.Getenv(MagicCookieKey) != MagicCookieValue {
		return fmt.Errorf("%s is a plugin of drover and does nothing by itself; put it into the agent's plugin_dir", info.Name)
	}
	if len(services) == 0 {
		return errors.New("serve the plugin: no service given")
	}
	economise()
	outliveAgent()
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  Handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {setName: &grpcPlugin{info: info, services: services}}},
		Logger:           hclog.New(&hclog.LoggerOptions{Name: info.Name, Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, serverOptions()...)...)
		},
	})
	return nil
}

// outliveAgent keeps the process alive when its agent or terminal is gone: a write
// to stderr, whose reader is gone too, then is an error instead of the end. The
// signals are caught and not ignored, since tasks would inherit that.
func outliveAgent() {
	signal.Notify(make(chan os.Signal, 1), agentGoneSignals()...)
}

// economise sets the runtime for a process that mostly waits: many run beside the
// tasks that the machine is for. One thread of Go code answers a call in 4/5 of the
// time of two, which wake each other for each step. The runtime's environment
// variables win, and so does a plugin that called runtime.GOMAXPROCS before.
func economise() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == runtime.NumCPU() {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
