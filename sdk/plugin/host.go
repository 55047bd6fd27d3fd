// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	pluginv1 "github.com/drover-project/drover/sdk/internal/pb/plugin/v1"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Host is the agent that runs a plugin's process, as it introduces itself. A field is
// empty if the host does not know it.
type Host struct {
	// Version is the version of Drover, such as "0.4.0".
	Version string
	// Features are the optional abilities on which the host acts, as "KIND.FEATURE",
	// such as "driver.list_tasks".
	Features []string
	NodeID   string
	Region   string
}

// HostAware is implemented by plugins of any kind that want to know which host runs them.
// SetHost is called before SetConfig, and again when a restarted agent takes over the
// process. It stores what it needs and returns at once. A host of the first release does
// not introduce itself, so SetHost may never be called.
type HostAware interface {
	SetHost(Host)
}

// guests are the services of a process that are HostAware.
type guests struct {
	mu  sync.Mutex // one introduction at a time
	all []HostAware
}

// Guests returns the plugins of a contract that are HostAware, for Service.Guests.
func Guests[P any](plugins []P) []HostAware {
	var out []HostAware
	for _, p := range plugins {
		if g, ok := any(p).(HostAware); ok {
			out = append(out, g)
		}
	}
	return out
}

func (g *guests) introduce(h *pluginv1.Host) {
	if h == nil { // the host only wants to know whether the process answers
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.all {
		one.SetHost(Host{Version: h.GetVersion(), Features: h.GetFeatures(), NodeID: h.GetNodeId(), Region: h.GetRegion()})
	}
}

// Introduce does what Ask does and also tells the plugin who the host is. A host calls it
// once per connection, before anything else.
func Introduce(ctx context.Context, conn grpc.ClientConnInterface, h Host) (Info, error) {
	return ask(ctx, conn, &pluginv1.InfoRequest{Host: &pluginv1.Host{Version: h.Version, Features: h.Features, NodeId: h.NodeID, Region: h.Region}})
}

// Ask returns the Info of the plugin at the other end of conn. The plugin does no work
// for the answer, so hosts also use it as a liveness check.
func Ask(ctx context.Context, conn grpc.ClientConnInterface) (Info, error) {
	return ask(ctx, conn, &pluginv1.InfoRequest{})
}

func ask(ctx context.Context, conn grpc.ClientConnInterface, req *pluginv1.InfoRequest) (Info, error) {
	resp, err := pluginv1.NewPluginClient(conn).Info(ctx, req)
	if err != nil {
		return Info{}, errdefs.FromGRPC(err)
	}
	info := Info{Name: resp.GetName(), Version: resp.GetVersion()}
	for _, k := range resp.GetKinds() {
		info.Kinds = append(info.Kinds, Kind{Name: k.GetName(), Version: int(k.GetVersion())})
	}
	return info, nil
}
