// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volumetest checks in tests that a storage plugin keeps the contract of
// sdk/volume/v1. It runs the checks of volumecheck in three ways: in process, over gRPC,
// and against a real plugin process that is killed. It owns no checks and no plugin. Only
// tests import it:
//
//	func TestContract(t *testing.T) {
//		volumetest.Run(t, volumetest.Options{New: func(t *testing.T) volume.Volume { return pool.New(dir) }})
//	}
package volumetest

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumecheck"
)

// Options selects the plugin to check and the ways in which it is checked.
type Options struct {
	// New returns a plugin in the state of a freshly started process. All that it returns
	// in one test share their state, as processes of one plugin do. If New is nil, the
	// checks in process and over gRPC are left out.
	New func(t *testing.T) volume.Volume
	// Binary is the path of a built plugin, Env its environment, Dir its working
	// directory, and Name the storage plugin in it. If Binary is empty, the checks against
	// a real process are left out.
	Binary string
	Env    []string
	Dir    string
	Name   string
	// Subject says what to check with. Its Connect is set here, and its Dir is a directory
	// of the test if it is empty.
	Subject volumecheck.Subject
}

// Run runs all checks in every way that opts selects.
func Run(t *testing.T, opts Options) {
	t.Helper()
	plugintest.Subject[volume.Volume]{
		New: opts.New, Binary: opts.Binary, Env: opts.Env, Dir: opts.Dir, Name: opts.Name,
		Service: func(p volume.Volume) plugin.Service { return volume.Service(p) }, Connect: connect, NameOf: func(p volume.Volume) string { return p.Info().Name },
	}.Ways(t, func(t *testing.T, way plugintest.Way[volume.Volume]) {
		for _, c := range volumecheck.Checks() {
			t.Run(c.Name, func(t *testing.T) {
				s := opts.Subject
				s.Connect = func(*conformance.T) (volume.Volume, func()) { return way.Connect(t) }
				if s.Dir == "" {
					s.Dir = t.TempDir()
				}
				plugintest.Report(t, c.Run(t.Context(), s))
			})
		}
	})
}

func connect(ctx context.Context, conn grpc.ClientConnInterface) (out []volume.Volume, err error) {
	all, err := volume.Connect(ctx, conn)
	for _, v := range all {
		out = append(out, v)
	}
	return out, err
}
