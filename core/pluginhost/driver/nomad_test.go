// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-project/drover/core/pluginhost/driver"
	attrpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/attribute"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	specpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sparse is a driver built for Nomad that leaves out what it may leave out, and
// does what only a defective one does.
type sparse struct {
	basepb.UnimplementedBasePluginServer
	pb.UnimplementedDriverServer
	wait  *pb.WaitTaskResponse
	task  *pb.TaskConfig
	start *pb.StartTaskResponse
	caps  *pb.DriverCapabilities
}

func (s *sparse) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{}, nil
}

func (s *sparse) TaskConfigSchema(context.Context, *pb.TaskConfigSchemaRequest) (*pb.TaskConfigSchemaResponse, error) {
	return &pb.TaskConfigSchemaResponse{Spec: &specpb.Spec{Block: &specpb.Spec_Object{Object: &specpb.Object{}}}}, nil
}

func (s *sparse) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesResponse, error) {
	return &pb.CapabilitiesResponse{Capabilities: s.caps}, nil
}

func (s *sparse) StartTask(_ context.Context, r *pb.StartTaskRequest) (*pb.StartTaskResponse, error) {
	s.task = r.GetTask()
	return s.start, nil
}

func (s *sparse) WaitTask(context.Context, *pb.WaitTaskRequest) (*pb.WaitTaskResponse, error) {
	return s.wait, nil
}

func (s *sparse) InspectTask(context.Context, *pb.InspectTaskRequest) (*pb.InspectTaskResponse, error) {
	return &pb.InspectTaskResponse{Task: &pb.TaskStatus{Id: "t", State: pb.TaskState_RUNNING}}, nil
}

func (s *sparse) Fingerprint(_ *pb.FingerprintRequest, out grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	err := out.Send(&pb.FingerprintResponse{Health: 99, Attributes: map[string]*attrpb.Attribute{"driver.sparse": {}}})
	<-out.Context().Done()
	return err
}

func (s *sparse) TaskStats(_ *pb.TaskStatsRequest, out grpc.ServerStreamingServer[pb.TaskStatsResponse]) error {
	err := out.Send(&pb.TaskStatsResponse{Stats: &pb.TaskStats{AggResourceUsage: &pb.TaskResourceUsage{
		Memory: &pb.MemoryUsage{Rss: 7, MeasuredFields: []pb.MemoryUsage_Fields{pb.MemoryUsage_RSS, 99}},
	}}})
	<-out.Context().Done()
	return err
}

func (s *sparse) TaskEvents(_ *pb.TaskEventsRequest, out grpc.ServerStreamingServer[pb.DriverTaskEvent]) error {
	err := out.Send(&pb.DriverTaskEvent{TaskId: "t", Message: "news"})
	<-out.Context().Done()
	return err
}

func (s *sparse) ExecTask(_ context.Context, r *pb.ExecTaskRequest) (*pb.ExecTaskResponse, error) {
	return &pb.ExecTaskResponse{Stdout: []byte("out of " + r.GetCommand()[0]), Stderr: []byte("err"), Result: &pb.ExitResult{ExitCode: 5}}, nil
}

// backend connects to the driver as the host does.
func (s *sparse) backend(t *testing.T) driver.Backend {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	basepb.RegisterBasePluginServer(server, s)
	pb.RegisterDriverServer(server, s)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	found, err := driver.ConnectNomad(t.Context(), conn, "sparse", driver.NomadHost{})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestWhatAPluginBuiltForNomadLeavesOutIsNotTakenForSomethingElse(t *testing.T) {
	s := &sparse{start: &pb.StartTaskResponse{Handle: &pb.TaskHandle{Version: 3}}, caps: &pb.DriverCapabilities{
		FsIsolation: pb.DriverCapabilities_UNVEIL, NetworkIsolationModes: []pb.NetworkIsolationSpec_NetworkIsolationMode{pb.NetworkIsolationSpec_GROUP, 99},
	}}
	d := s.backend(t)
	if c := d.Info().Capabilities; c.FSIsolation != "none" || !c.MountConfigs || len(c.NetworkModes) != 1 || c.NetworkModes[0] != driver.NetworkMode("group") {
		t.Errorf("capabilities %+v", c)
	}
	handle, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t", Name: "web"})
	if err != nil || handle.Version != 3 || s.task.GetStdoutPath() != "/dev/null" {
		t.Fatalf("handle %+v, %v; output to %q", handle, err, s.task.GetStdoutPath())
	}
	s.wait = &pb.WaitTaskResponse{}
	if r, err := d.WaitTask(t.Context(), "t"); !errdefs.IsUnavailable(err) {
		t.Errorf("a wait without a result counts as the end %+v, %v; want Unavailable", r, err)
	}
	s.wait = &pb.WaitTaskResponse{Result: &pb.ExitResult{}}
	if r, err := d.WaitTask(t.Context(), "t"); err != nil || !r.Successful() {
		t.Errorf("a wait with an empty result: %+v, %v; want success", r, err)
	}
	if st, err := d.InspectTask(t.Context(), "t"); err != nil || !st.StartedAt.IsZero() || st.State != driver.TaskRunning {
		t.Errorf("status %+v, %v; want no time of start", st, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if events, err := d.TaskEvents(ctx); err != nil {
		t.Error(err)
	} else if e := <-events; e.Message != "news" || time.Since(e.Time).Abs() > time.Minute {
		t.Errorf("event %+v, want it of now", e)
	}
	if stats, err := d.TaskStats(ctx, 10*time.Millisecond); err != nil {
		t.Error(err)
	} else if got := <-stats; len(got) != 1 || time.Since(got[0].Time).Abs() > time.Minute || got[0].Memory.RSS != 7 || len(got[0].Memory.Measured) != 1 || got[0].CPU.Measured != nil {
		t.Errorf("stats %+v, want them of now, and only what is known", got)
	}
	if prints, err := d.Fingerprint(ctx); err != nil {
		t.Error(err)
	} else if f := <-prints; f.Health != driver.HealthUndetected || f.Attributes["driver.sparse"] != "" {
		t.Errorf("fingerprint %+v", f)
	}
}

func TestADriverThatKnowsOnlyTheOlderExecRunsCommandsByIt(t *testing.T) {
	d := (&sparse{caps: &pb.DriverCapabilities{Exec: true}}).backend(t)
	var stdout, stderr bytes.Buffer
	r, err := d.ExecTask(t.Context(), "t", driver.ExecOptions{Command: []string{"ls"}}, driver.ExecStream{Stdout: &stdout, Stderr: &stderr})
	if err != nil || r.ExitCode != 5 || stdout.String() != "out of ls" || stderr.String() != "err" {
		t.Errorf("result %+v, %v; %q, %q", r, err, stdout.String(), stderr.String())
	}
	if _, err := d.ExecTask(t.Context(), "t", driver.ExecOptions{Command: []string{"ls"}, TTY: true}, driver.ExecStream{}); !errdefs.IsUnimplemented(err) {
		t.Errorf("with a terminal: %v, want Unimplemented", err)
	}
}

func TestAStartOfAPluginBuiltForNomadThatFailsSaysWhetherToTryAgain(t *testing.T) {
	for result, retry := range map[pb.StartTaskResponse_Result]bool{pb.StartTaskResponse_RETRY: true, pb.StartTaskResponse_FATAL: false} {
		d := (&sparse{start: &pb.StartTaskResponse{Result: result, DriverErrorMsg: "no image"}}).backend(t)
		_, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
		if err == nil || errdefs.IsRetryable(err) != retry {
			t.Errorf("%s: %v, retryable %t", result, err, errdefs.IsRetryable(err))
		}
	}
	d := (&sparse{start: &pb.StartTaskResponse{}}).backend(t)
	if _, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); errdefs.ClassOf(err) != errdefs.Internal {
		t.Errorf("a start without a handle: %v", err)
	}
}
