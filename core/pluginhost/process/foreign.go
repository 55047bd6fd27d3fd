// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// The handshake of plugins built for Nomad. Every plugin is started with this cookie
// in addition to our own; the protocol version in its answer tells which one it uses.
const (
	nomadProtocol    = 2
	nomadCookieKey   = "NOMAD_PLUGIN_MAGIC_COOKIE"
	nomadCookieValue = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
	nomadAPIVersion  = "v0.1.0"
)

// askNomad returns the Info of a plugin that speaks Nomad's protocol.
func askNomad(ctx context.Context, conn grpc.ClientConnInterface) (plugin.Info, error) {
	resp, err := basepb.NewBasePluginClient(conn).PluginInfo(ctx, &basepb.PluginInfoRequest{})
	if err != nil {
		return plugin.Info{}, errdefs.FromGRPC(err)
	}
	info := plugin.Info{Name: resp.GetName(), Version: resp.GetPluginVersion()}
	switch resp.GetType() {
	case basepb.PluginType_DRIVER:
		info.Kinds = []plugin.Kind{driver.KindNomad}
	case basepb.PluginType_DEVICE:
		info.Kinds = []plugin.Kind{device.KindNomad}
	}
	if v := resp.GetPluginApiVersions(); !slices.Contains(v, nomadAPIVersion) {
		return info, errdefs.FailedPreconditionf("plugin %s: speaks versions %v of Nomad's plugin interface and this agent %s; install a version of the plugin that fits",
			info.Name, v, nomadAPIVersion)
	}
	return info, nil
}
