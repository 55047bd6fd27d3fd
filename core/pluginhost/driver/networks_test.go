// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/drover-project/drover/core/pluginhost/driver"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	v1 "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (m *metered) CreateNetwork(_ context.Context, r driver.NetworkRequest) (*driver.NetworkIsolation, error) {
	m.asked++
	return &driver.NetworkIsolation{Path: "/run/netns/" + r.AllocID}, nil
}

func (m *metered) DestroyNetwork(context.Context, string, *driver.NetworkIsolation) error {
	m.asked++
	return nil
}

func (m *metered) PauseTask(context.Context, string) error {
	m.asked++
	return nil
}

func (m *metered) ResumeTask(context.Context, string) error {
	m.asked++
	return nil
}

func TestTasksArePausedOnlyByADriverThatAnnouncesIt(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{v1.FeatureUpdateResources}, 0}, {[]v1.Feature{v1.FeaturePause}, 2}} {
		m := &metered{features: c.features}
		p := driver.NewProxy(m.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), m)
		paused, resumed := p.PauseTask(t.Context(), "task"), p.ResumeTask(t.Context(), "task")
		if m.asked != c.want || errdefs.IsUnimplemented(paused) != (c.want == 0) || errdefs.IsUnimplemented(resumed) != (c.want == 0) {
			t.Errorf("a driver with the features %q was asked %d times: %v, %v", c.features, m.asked, paused, resumed)
		}
		p.Close()
	}
}

func TestNetworksAreAskedForOnlyOfADriverThatAnnouncesIt(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{v1.FeatureUpdateResources}, 0}, {[]v1.Feature{v1.FeatureNetworks}, 2}} {
		m := &metered{features: c.features}
		p := driver.NewProxy(m.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute, Start: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), m)
		made, err := p.CreateNetwork(t.Context(), driver.NetworkRequest{AllocID: "a"})
		gone := p.DestroyNetwork(t.Context(), "a", made)
		if m.asked != c.want || errdefs.IsUnimplemented(err) != (c.want == 0) || errdefs.IsUnimplemented(gone) != (c.want == 0) {
			t.Errorf("a driver with the features %q was asked %d times: %v, %v", c.features, m.asked, err, gone)
		}
		if c.want > 0 && (made == nil || made.Path != "/run/netns/a") {
			t.Errorf("it made %+v", made)
		}
		p.Close()
	}
}

func (s *sparse) CreateNetwork(_ context.Context, r *pb.CreateNetworkRequest) (*pb.CreateNetworkResponse, error) {
	if s.network == nil {
		return &pb.CreateNetworkResponse{}, nil
	}
	if r.GetAllocId() != "alloc" {
		return nil, status.Error(codes.Unknown, "no network for "+r.GetAllocId())
	}
	s.hostname = r.GetHostname()
	return &pb.CreateNetworkResponse{IsolationSpec: s.network, Created: true}, nil
}

func (s *sparse) DestroyNetwork(_ context.Context, r *pb.DestroyNetworkRequest) (*pb.DestroyNetworkResponse, error) {
	s.destroyed = r
	return &pb.DestroyNetworkResponse{}, nil
}

func TestAPluginBuiltForNomadMakesTheNetworkThatItMustMake(t *testing.T) {
	spec := &pb.NetworkIsolationSpec{
		Mode: pb.NetworkIsolationSpec_GROUP, Path: "/proc/7/ns/net", Labels: map[string]string{"pause": "c1"},
		HostsConfig: &pb.HostsConfig{Hostname: "web", Address: "172.26.64.3"},
	}
	s := &sparse{caps: &pb.DriverCapabilities{MustCreateNetwork: true}, network: spec, start: &pb.StartTaskResponse{Handle: &pb.TaskHandle{}}}
	d := s.backend(t)
	if got := d.Info().Features; !slices.Equal(got, []driver.Feature{driver.FeatureNetworks}) || !driver.Has(d, driver.FeatureNetworks) || driver.Has(d, driver.FeatureUpdateResources) {
		t.Fatalf("it announces %q", got)
	}
	n := d.(driver.Networker)
	made, err := n.CreateNetwork(t.Context(), driver.NetworkRequest{AllocID: "alloc", Hostname: "web"})
	want := driver.NetworkIsolation{Mode: "group", Path: "/proc/7/ns/net", Labels: map[string]string{"pause": "c1"}, Hostname: "web", Address: "172.26.64.3"}
	if err != nil || !reflect.DeepEqual(*made, want) || s.hostname != "web" {
		t.Fatalf("it made %+v for host %q, %v; want %+v", made, s.hostname, err, want)
	}
	if _, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t", Network: made}); err != nil || !proto.Equal(s.task.GetNetworkIsolationSpec(), spec) {
		t.Errorf("its task joins %v, %v; want what it made", s.task.GetNetworkIsolationSpec(), err)
	}
	for what, known := range map[string]*driver.NetworkIsolation{"what it said": made, "nothing, since the answer was missed": nil} {
		s.destroyed = nil
		if err := n.DestroyNetwork(t.Context(), "alloc", known); err != nil || s.destroyed.GetAllocId() != "alloc" || !proto.Equal(s.destroyed.GetIsolationSpec(), spec) {
			t.Errorf("told %s: %v, %v; want that it destroys what it made", what, s.destroyed, err)
		}
	}
	s.network = nil
	if _, err := n.CreateNetwork(t.Context(), driver.NetworkRequest{AllocID: "alloc"}); errdefs.ClassOf(err) != errdefs.Internal {
		t.Errorf("a network that is nowhere: %v", err)
	}
	if got := (&sparse{caps: &pb.DriverCapabilities{}}).backend(t); driver.Has(got, driver.FeatureNetworks) {
		t.Error("a driver that need not make networks is said to make them")
	}
}
