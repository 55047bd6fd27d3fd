// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command hostpath is the local driver as the hostpath driver of the Kubernetes project behaves
// towards those who call it: with its flags, its name, volumes that are directories of any size,
// and parameters that nobody knows in the context of a volume. The records of compatibility were
// made with that driver.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/plugins/csi-local/csilocal"
)

type driver struct {
	*csilocal.Driver
	name string
}

func (d driver) GetPluginInfo(ctx context.Context, r *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	out, err := d.Driver.GetPluginInfo(ctx, r)
	if err == nil {
		out.Name = d.name
	}
	return out, err
}

func (d driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	given := r.Parameters
	r.Parameters = map[string]string{"kind": "directory"}
	without(r.VolumeCapabilities...)
	out, err := d.Driver.CreateVolume(ctx, r)
	if err == nil {
		out.Volume.VolumeContext = given
	}
	return out, err
}

func (d driver) ValidateVolumeCapabilities(ctx context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	given := r.Parameters
	r.Parameters = nil
	without(r.VolumeCapabilities...)
	out, err := d.Driver.ValidateVolumeCapabilities(ctx, r)
	if status.Code(err) == codes.NotFound {
		return nil, status.Errorf(codes.NotFound, "volume id %s does not exist in the volumes list", r.VolumeId)
	}
	if err == nil && out.Confirmed != nil {
		out.Confirmed.Parameters, out.Confirmed.VolumeContext = given, r.VolumeContext
	}
	return out, err
}

// ListVolumes names the node of each volume, also of one that is nowhere: that has the name "".
func (d driver) ListVolumes(ctx context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	out, err := d.Driver.ListVolumes(ctx, r)
	for _, e := range out.GetEntries() {
		if e.Status == nil {
			e.Status = &csi.ListVolumesResponse_VolumeStatus{}
		}
		if len(e.Status.PublishedNodeIds) == 0 {
			e.Status.PublishedNodeIds = []string{""}
		}
	}
	return out, err
}

func (d driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	without(r.VolumeCapability)
	return d.Driver.NodeStageVolume(ctx, r)
}

func (d driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	without(r.VolumeCapability)
	return d.Driver.NodePublishVolume(ctx, r)
}

// without removes what does not apply to directories: the type of a file system and its mount
// options.
func without(capabilities ...*csi.VolumeCapability) {
	for _, c := range capabilities {
		if m := c.GetMount(); m != nil {
			m.FsType, m.MountFlags = "", nil
		}
	}
}

func main() {
	endpoint, node, dir, name := flag.String("endpoint", "", ""), flag.String("nodeid", "", ""), flag.String("statedir", "", ""), flag.String("drivername", "", "")
	flag.Bool("enable-attach", false, "")
	flag.Parse()
	d, err := csilocal.Open(csilocal.Config{Dir: *dir, NodeID: *node})
	if err != nil {
		log.Fatal(err)
	}
	path := strings.TrimPrefix(*endpoint, "unix://")
	_ = os.Remove(path) // of an earlier process
	l, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	all := driver{d, *name}
	csi.RegisterIdentityServer(s, all)
	csi.RegisterControllerServer(s, all)
	csi.RegisterNodeServer(s, all)
	log.Fatal(s.Serve(l))
}
