// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	attrpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/attribute"
	devicepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/device"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
)

// deviceBase answers what all plugins are asked; it has no configuration.
type deviceBase struct {
	basepb.UnimplementedBasePluginServer
}

// device offers two abaci.
type device struct {
	devicepb.UnimplementedDevicePluginServer
}

func registerDeviceBase(s *grpc.Server) { basepb.RegisterBasePluginServer(s, &deviceBase{}) }
func registerDevice(s *grpc.Server)     { devicepb.RegisterDevicePluginServer(s, &device{}) }

func (*deviceBase) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return &basepb.PluginInfoResponse{
		Type: basepb.PluginType_DEVICE, PluginApiVersions: []string{"v0.1.0"}, PluginVersion: "v0.0.1", Name: "abacus",
	}, nil
}

func (*deviceBase) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{}, nil
}

func (*deviceBase) SetConfig(context.Context, *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	return &basepb.SetConfigResponse{}, nil
}

func (*device) Fingerprint(_ *devicepb.FingerprintRequest, s grpc.ServerStreamingServer[devicepb.FingerprintResponse]) error {
	if strings.Contains(filepath.Base(os.Args[0]), "absent") {
		hclog.New(&hclog.LoggerOptions{JSONFormat: true}).Error("no abacus on this machine")
		err := s.Send(&devicepb.FingerprintResponse{})
		<-s.Context().Done()
		return err
	}
	err := s.Send(&devicepb.FingerprintResponse{DeviceGroup: []*devicepb.DeviceGroup{{
		Vendor: "acme", DeviceType: "abacus", DeviceName: "mk1",
		Devices:    []*devicepb.DetectedDevice{{ID: "a1", Healthy: true}, {ID: "a2", Healthy: true, HwLocality: &devicepb.DeviceLocality{PciBusId: "00:1"}}},
		Attributes: map[string]*attrpb.Attribute{"beads": {Value: &attrpb.Attribute_IntVal{IntVal: 91}}},
	}}})
	<-s.Context().Done()
	return err
}

func (*device) Reserve(_ context.Context, r *devicepb.ReserveRequest) (*devicepb.ReserveResponse, error) {
	if len(r.GetDeviceIds()) == 0 {
		return nil, fmt.Errorf("no ids")
	}
	return &devicepb.ReserveResponse{ContainerRes: &devicepb.ContainerReservation{
		Envs:    map[string]string{"ABACI": strings.Join(r.GetDeviceIds(), ",")},
		Devices: []*devicepb.DeviceSpec{{TaskPath: "/dev/abacus", HostPath: "/dev/null", Permissions: "rw"}},
	}}, nil
}

func (*device) Stats(_ *devicepb.StatsRequest, s grpc.ServerStreamingServer[devicepb.StatsResponse]) error {
	beads := &attrpb.StatValue{IntNumeratorVal: wrapperspb.Int64(40), IntDenominatorVal: wrapperspb.Int64(91), Desc: "beads"}
	err := s.Send(&devicepb.StatsResponse{Groups: []*devicepb.DeviceGroupStats{{
		Vendor: "acme", Type: "abacus", Name: "mk1", InstanceStats: map[string]*devicepb.DeviceStats{"a1": {
			Summary: beads, Timestamp: timestamppb.Now(),
			Stats: &attrpb.StatObject{Nested: map[string]*attrpb.StatObject{"rod": {Attributes: map[string]*attrpb.StatValue{"count": {FloatNumeratorVal: wrapperspb.Double(7)}}}}},
		}},
	}}})
	<-s.Context().Done()
	return err
}
