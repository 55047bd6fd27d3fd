// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

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
	stats func(attempt int) error // fails the stream of a task
	host  driver.NomadHost

	network   *pb.NetworkIsolationSpec // what it makes
	hostname  string                   // for which it was made
	destroyed *pb.DestroyNetworkRequest

	health pb.FingerprintResponse_HealthState // 0: one that nobody knows

	mu       sync.Mutex
	attempts []time.Time // to open the stream of a task
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
	health := s.health
	if health == 0 {
		health = 99
	}
	err := out.Send(&pb.FingerprintResponse{Health: health, Attributes: map[string]*attrpb.Attribute{"driver.sparse": {}}})
	<-out.Context().Done()
	return err
}

func (s *sparse) TaskStats(_ *pb.TaskStatsRequest, out grpc.ServerStreamingServer[pb.TaskStatsResponse]) error {
	s.mu.Lock()
	s.attempts = append(s.attempts, time.Now())
	n := len(s.attempts)
	s.mu.Unlock()
	if s.stats != nil {
		return s.stats(n)
	}
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
	found, err := driver.ConnectNomad(t.Context(), conn, "sparse", s.host)
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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

func TestWhatAPluginBuiltForNomadDemandsIsMetOrRefusedWithCauseAndCure(t *testing.T) {
	remote := &pb.DriverCapabilities{}
	remote.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1))
	for name, c := range map[string]struct {
		caps    *pb.DriverCapabilities
		refused string // a part of the reason
		then    string // what to do
	}{
		"none":         {caps: &pb.DriverCapabilities{}},
		"image":        {caps: &pb.DriverCapabilities{FsIsolation: pb.DriverCapabilities_IMAGE}},
		"unveil":       {caps: &pb.DriverCapabilities{FsIsolation: pb.DriverCapabilities_UNVEIL}},
		"network":      {caps: &pb.DriverCapabilities{MustCreateNetwork: true}}, // host and none need none
		"users":        {caps: &pb.DriverCapabilities{DynamicWorkloadUsers: true}},
		"no mounts":    {caps: &pb.DriverCapabilities{MountConfigs: pb.DriverCapabilities_NO_MOUNTS}},
		"no logs":      {caps: &pb.DriverCapabilities{DisableLogCollection: true}},
		"chroot":       {caps: &pb.DriverCapabilities{FsIsolation: pb.DriverCapabilities_CHROOT}, refused: "chroot", then: "drover agent"},
		"newer":        {caps: &pb.DriverCapabilities{FsIsolation: 9}, refused: "fs_isolation is 9", then: "install"},
		"remote tasks": {caps: remote, refused: "remote_tasks", then: "use a driver"},
	} {
		s := &sparse{caps: c.caps, health: pb.FingerprintResponse_HEALTHY, start: &pb.StartTaskResponse{Handle: &pb.TaskHandle{}}}
		d := s.backend(t)
		if d.Info().Capabilities.DynamicUsers {
			t.Errorf("%s: it is said to run tasks as users that it is not told", name)
		}
		prints, err := d.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := <-prints
		_, _, err = d.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
		if c.refused == "" {
			if f.Health != driver.HealthHealthy || err != nil {
				t.Errorf("%s: %+v, %v; want it served", name, f, err)
			}
			continue
		}
		if f.Health != driver.HealthUnhealthy || !strings.Contains(f.HealthDescription, c.refused) || !strings.Contains(f.HealthDescription, c.then) {
			t.Errorf("%s: %+v; want it refused for %q with what to do, %q", name, f, c.refused, c.then)
		}
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: a start gets %v", name, err)
		}
	}
}

func TestAPluginBuiltForNomadThatCollectsNoLogsIsGivenNoPipes(t *testing.T) {
	logs := &countedLogs{}
	s := &sparse{caps: &pb.DriverCapabilities{DisableLogCollection: true}, start: &pb.StartTaskResponse{Handle: &pb.TaskHandle{}}, host: driver.NomadHost{Logs: logs}}
	d := s.backend(t)
	handle, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RecoverTask(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if logs.attached != 0 || s.task.GetStdoutPath() != "/dev/null" {
		t.Errorf("%d pipes, output to %q", logs.attached, s.task.GetStdoutPath())
	}
}

// countedLogs counts what is attached.
type countedLogs struct{ attached int }

func (l *countedLogs) Attach(context.Context, driver.LogConfig) (stdout, stderr string, err error) {
	l.attached++
	return "/out", "/err", nil
}

func (l *countedLogs) Detach(context.Context, driver.LogConfig) error { return nil }

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

func TestAPluginBuiltForNomadIsToldTheCgroupOfItsTask(t *testing.T) {
	s := &sparse{start: &pb.StartTaskResponse{Handle: &pb.TaskHandle{}}}
	d := s.backend(t)
	if c := d.Info().Capabilities.HostCgroup; c != driver.HostCgroupBare {
		t.Errorf("it wants the cgroup %q", c)
	}
	if _, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t", Cgroup: &driver.Cgroup{Version: 1, Dirs: map[string]string{"cpuset": "/cg/share"}}}); err != nil {
		t.Fatal(err)
	}
	if got := s.task.GetResources().GetLinuxResources().GetCpusetCgroup(); got != "/cg/share" {
		t.Errorf("it was told %q", got)
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

// tried is how often the stream of the task was opened.
func (s *sparse) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts)
}

// sampled has the statistics of a task collected for some ticks.
func (s *sparse) sampled(t *testing.T) (stop context.CancelFunc) {
	t.Helper()
	s.start = &pb.StartTaskResponse{Handle: &pb.TaskHandle{}}
	d := s.backend(t)
	if _, _, err := d.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if _, err := d.TaskStats(ctx, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	return cancel
}

func TestAStatsStreamThatFailsForGoodIsNotOpenedAgain(t *testing.T) {
	for name, err := range map[string]error{
		"not served": status.Error(codes.Unimplemented, "no stats"), "task gone": status.Error(codes.Unknown, "task not found for given id"),
	} {
		s := &sparse{stats: func(int) error { return err }}
		other := &sparse{stats: func(int) error { return status.Error(codes.Unknown, "the daemon is away") }}
		s.sampled(t)
		other.sampled(t)
		eventually(t, func() bool { return other.tried() >= 5 }) // as many ticks have passed for both
		if n := s.tried(); n != 1 {
			t.Errorf("%s: it was opened %d times", name, n)
		}
	}
}

func TestAStatsStreamThatKeepsFailingIsOpenedLessAndLess(t *testing.T) {
	s := &sparse{stats: func(int) error { return status.Error(codes.Unknown, "the daemon is away") }}
	stop := s.sampled(t)
	eventually(t, func() bool { return s.tried() >= 9 })
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A slow machine makes pauses longer, never shorter: 0.5 ms after the first failure,
	// and 128 times that after the eighth.
	if pause := s.attempts[8].Sub(s.attempts[7]); pause < 60*time.Millisecond {
		t.Errorf("after 8 failures it was opened again after %s", pause)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happened")
		}
	}
}
