// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	hclspec "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
)

// base answers what all plugins are asked.
type base struct {
	basepb.UnimplementedBasePluginServer
	driver *driver
}

func (b *base) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return &basepb.PluginInfoResponse{
		Type: basepb.PluginType_DRIVER, PluginApiVersions: []string{"v0.1.0"}, PluginVersion: "v7.7.7", Name: "hello",
	}, nil
}

func attr(name, typ string, required bool) *hclspec.Spec {
	return &hclspec.Spec{Block: &hclspec.Spec_Attr{Attr: &hclspec.Attr{Name: name, Type: typ, Required: required}}}
}

func orElse(s *hclspec.Spec, literal string) *hclspec.Spec {
	return &hclspec.Spec{Block: &hclspec.Spec_Default{Default: &hclspec.Default{
		Primary: s, Default: &hclspec.Spec{Block: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: literal}}},
	}}}
}

func object(fields map[string]*hclspec.Spec) *hclspec.Spec {
	return &hclspec.Spec{Block: &hclspec.Spec_Object{Object: &hclspec.Object{Attributes: fields}}}
}

func (b *base) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{Spec: object(map[string]*hclspec.Spec{"shell": orElse(attr("shell", "string", false), `"/bin/sh"`)})}, nil
}

func (b *base) SetConfig(_ context.Context, r *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	var config struct {
		Shell string `codec:"shell"`
	}
	if r.GetPluginApiVersion() != "v0.1.0" || r.GetNomadConfig() == nil {
		return nil, errors.New("no API version or no client config")
	}
	if err := decode(r.GetMsgpackConfig(), &config); err != nil {
		return nil, err
	}
	b.driver.configure(config.Shell, len(r.GetNomadConfig().GetDriver().GetTopology().GetCores()))
	return &basepb.SetConfigResponse{}, nil
}

func decode(body []byte, into any) error {
	h := &codec.MsgpackHandle{}
	h.RawToString, h.MapType = true, reflect.TypeFor[map[string]any]()
	return codec.NewDecoderBytes(body, h).Decode(into)
}
