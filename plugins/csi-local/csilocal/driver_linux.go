// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package csilocal is a CSI driver whose volumes are on the machine's own disk: each is a
// file with a file system of its own (ext4 or xfs) and so with a real limit, or a plain
// directory. Snapshots and clones share blocks where the disk's file system can. It owns a
// directory in which whatever has its place exists as a whole: things are made aside and
// renamed into their place, so that a killed driver leaves nothing half made. It is an
// ordinary CSI driver and knows nothing of Drover.
package csilocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Name and Version identify the driver to its clients.
const (
	Name    = "local.csi.drover"
	Version = "0.1.0"
)

// topologyKey is the name of a node's location.
const topologyKey = Name + "/node"

// Config configures a driver.
type Config struct {
	Dir        string // absolute path of the directory of the volumes
	NodeID     string
	MaxVolumes int64 // how many volumes this node may use at a time; 0 means no limit
}

// Driver implements the services of CSI on the volumes of one directory.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	cfg  Config
	lock *os.File
	busy busy

	mu        sync.Mutex
	volumes   map[string]*volumeMeta // by id
	snapshots map[string]*snapshotMeta
	names     map[string]string // of volumes, to their ids
	snapNames map[string]string
}

// Open opens a directory of volumes, and makes it if there is none. It ends what a killed
// driver was about to do. Only one driver can have a directory open.
func Open(cfg Config) (*Driver, error) {
	if !filepath.IsAbs(cfg.Dir) || cfg.NodeID == "" {
		return nil, errors.New("the directory of the volumes must be an absolute path, and the node must have an id")
	}
	d := &Driver{
		cfg: cfg, busy: busy{of: map[string]bool{}}, volumes: map[string]*volumeMeta{}, snapshots: map[string]*snapshotMeta{}, names: map[string]string{}, snapNames: map[string]string{},
	}
	for _, dir := range []string{d.volumesDir(), d.snapshotsDir(), d.asideDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of the volumes: %w", err)
		}
	}
	var err error
	if d.lock, err = lockDir(filepath.Join(cfg.Dir, "lock")); err != nil {
		return nil, err
	}
	if err := d.load(); err != nil {
		d.Close()
		return nil, err
	}
	d.thawAll()
	return d, nil
}

// Close lets another driver have the directory. Volumes stay where they are.
func (d *Driver) Close() { _ = d.lock.Close() } // it was only locked

func (d *Driver) volumesDir() string   { return filepath.Join(d.cfg.Dir, "volumes") }
func (d *Driver) snapshotsDir() string { return filepath.Join(d.cfg.Dir, "snapshots") }
func (d *Driver) asideDir() string     { return filepath.Join(d.cfg.Dir, "aside") }

// busy are the volumes, snapshots and names about which a call is in progress.
type busy struct {
	mu sync.Mutex
	of map[string]bool
}

// take begins a call about things; end ends it. Aborted: another call is in progress, as CSI
// wants it.
func (b *busy) take(things ...string) (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range things {
		if b.of[t] {
			return nil, status.Errorf(codes.Aborted, "another call about %q is in progress", t)
		}
	}
	for _, t := range things {
		b.of[t] = true
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range things {
			delete(b.of, t)
		}
	}, nil
}

// GetPluginInfo implements csi.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: Version}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

// Probe implements csi.IdentityServer: the directory must be there.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if _, err := os.Stat(d.volumesDir()); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the directory of the volumes is gone: %v", err)
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// failed makes the outcome of a call from an error that has no code yet.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	var st interface{ GRPCStatus() *status.Status }
	if errors.As(err, &st) {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, errNoSpace):
		code = codes.ResourceExhausted
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Errorf(code, "%s: %v", what, err)
}
