// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/core/pluginhost/hclspec"
	attrpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/attribute"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/device"
	specpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// KindNomad is a device plugin that speaks Nomad's protocol.
var KindNomad = plugin.Kind{Name: "nomad-device", Version: 2}

// nomadDevice is a device plugin behind Nomad's protocol.
type nomadDevice struct {
	base basepb.BasePluginClient
	rpc  pb.DevicePluginClient
	info Info
	spec *specpb.Spec
}

// ConnectNomad returns the device plugin of a process that speaks Nomad's protocol.
func ConnectNomad(ctx context.Context, conn grpc.ClientConnInterface, name string) ([]Backend, error) {
	d := &nomadDevice{base: basepb.NewBasePluginClient(conn), rpc: pb.NewDevicePluginClient(conn)}
	config, err := d.base.ConfigSchema(ctx, &basepb.ConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for the config's specification: %w", errdefs.FromGRPC(err))
	}
	d.spec = config.GetSpec()
	if d.spec.GetBlock() != nil {
		if err := hclspec.Check(d.spec); err != nil {
			return nil, err
		}
	}
	d.info = Info{Name: name, ConfigSchema: hclspec.Schema(d.spec)}
	return []Backend{d}, nil
}

func (d *nomadDevice) Info() Info { return d.info }

func (d *nomadDevice) SetConfig(ctx context.Context, config []byte) error {
	body, err := hclspec.EncodeJSON(d.spec, config)
	if err != nil {
		return err
	}
	_, err = d.base.SetConfig(ctx, &basepb.SetConfigRequest{MsgpackConfig: body, PluginApiVersion: "v0.1.0", NomadConfig: &basepb.NomadConfig{}})
	return errdefs.FromGRPC(err)
}

func (d *nomadDevice) Fingerprint(ctx context.Context) (<-chan Fingerprint, error) {
	s, err := d.rpc.Fingerprint(ctx, &pb.FingerprintRequest{})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return receive(ctx, s.Recv, fingerprint, func(err error) (Fingerprint, bool) {
		return Fingerprint{Problem: err.Error()}, true
	}), nil
}

// receive delivers the messages of a stream until it or ctx ends. If the plugin ends
// the stream with an error, last returns a final value to deliver: the protocol has no
// other way to report a problem.
func receive[M, T any](ctx context.Context, recv func() (M, error), convert func(M) T, last func(error) (T, bool)) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		for {
			m, err := recv()
			if err != nil && (ctx.Err() != nil || errors.Is(err, io.EOF)) {
				return
			}
			var v T
			ok := true
			if err != nil {
				v, ok = last(errdefs.FromGRPC(err))
			} else {
				v = convert(m)
			}
			if ok {
				select {
				case out <- v:
				case <-ctx.Done():
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

func fingerprint(m *pb.FingerprintResponse) Fingerprint {
	var out Fingerprint
	for _, g := range m.GetDeviceGroup() {
		group := Group{Vendor: g.GetVendor(), Type: g.GetDeviceType(), Name: g.GetDeviceName(), Attributes: map[string]Attribute{}}
		for _, i := range g.GetDevices() {
			group.Instances = append(group.Instances, Instance{
				ID: i.GetID(), Healthy: i.GetHealthy(), HealthDescription: i.GetHealthDescription(), PCIBusID: i.GetHwLocality().GetPciBusId(),
			})
		}
		for name, a := range g.GetAttributes() {
			group.Attributes[name] = attribute(a)
		}
		out.Groups = append(out.Groups, group)
	}
	if len(out.Groups) == 0 {
		out.Problem = "the plugin found no device"
	}
	return out
}

func attribute(a *attrpb.Attribute) Attribute {
	out := Attribute{Unit: a.GetUnit()}
	switch v := a.GetValue().(type) {
	case *attrpb.Attribute_IntVal:
		out.Int = &v.IntVal
	case *attrpb.Attribute_FloatVal:
		out.Float = &v.FloatVal
	case *attrpb.Attribute_StringVal:
		out.Text = &v.StringVal
	case *attrpb.Attribute_BoolVal:
		out.Bool = &v.BoolVal
	}
	return out
}

func (d *nomadDevice) Reserve(ctx context.Context, ids []string) (*Reservation, error) {
	resp, err := d.rpc.Reserve(ctx, &pb.ReserveRequest{DeviceIds: ids})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	r := resp.GetContainerRes()
	out := &Reservation{Env: r.GetEnvs()}
	for _, m := range r.GetMounts() {
		out.Mounts = append(out.Mounts, Mount{HostPath: m.GetHostPath(), TaskPath: m.GetTaskPath(), ReadOnly: m.GetReadOnly()})
	}
	for _, n := range r.GetDevices() {
		out.Nodes = append(out.Nodes, Node{HostPath: n.GetHostPath(), TaskPath: n.GetTaskPath(), Permissions: n.GetPermissions()})
	}
	return out, nil
}

func (d *nomadDevice) Stats(ctx context.Context, interval time.Duration) (<-chan []GroupStats, error) {
	s, err := d.rpc.Stats(ctx, &pb.StatsRequest{CollectionInterval: durationpb.New(interval)})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return receive(ctx, s.Recv, stats, func(error) ([]GroupStats, bool) { return nil, false }), nil
}

func stats(m *pb.StatsResponse) []GroupStats {
	out := make([]GroupStats, 0, len(m.GetGroups()))
	for _, g := range m.GetGroups() {
		group := GroupStats{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName(), Instances: map[string]Stats{}}
		for id, i := range g.GetInstanceStats() {
			s := Stats{Time: time.Now(), Values: map[string]Value{}}
			if at := i.GetTimestamp(); at != nil {
				s.Time = at.AsTime()
			}
			if sum := i.GetSummary(); sum.GetDesc() != "" {
				s.Summary = sum.GetDesc()
				s.Values[s.Summary] = value(sum)
			}
			flatten(s.Values, "", i.GetStats(), 0)
			group.Instances[id] = s
		}
		out = append(out, group)
	}
	return out
}

// maxNesting bounds how deep a plugin may nest its values.
const maxNesting = 8

// flatten names nested values like "a.b".
func flatten(into map[string]Value, prefix string, o *attrpb.StatObject, depth int) {
	if o == nil || depth > maxNesting {
		return
	}
	for name, v := range o.GetAttributes() {
		into[prefix+name] = value(v)
	}
	for name, nested := range o.GetNested() {
		flatten(into, prefix+name+".", nested, depth+1)
	}
}

func value(m *attrpb.StatValue) Value {
	out := Value{Unit: m.GetUnit(), Description: m.GetDesc()}
	switch {
	case m.GetIntNumeratorVal() != nil:
		out.Int = &m.GetIntNumeratorVal().Value
		if of := m.GetIntDenominatorVal(); of != nil {
			limit := float64(of.GetValue())
			out.Of = &limit
		}
	case m.GetFloatNumeratorVal() != nil:
		out.Float = &m.GetFloatNumeratorVal().Value
		if of := m.GetFloatDenominatorVal(); of != nil {
			out.Of = &of.Value
		}
	case m.GetStringVal() != nil:
		out.Text = &m.GetStringVal().Value
	case m.GetBoolVal() != nil:
		out.Bool = &m.GetBoolVal().Value
	}
	return out
}
