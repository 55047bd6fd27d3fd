// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/hclspec"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	specpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// nomadAPIVersion is the version of the plugin interface that we speak.
const nomadAPIVersion = "v0.1.0"

// On systems without unix sockets, helpers of foreign drivers listen on ports; these
// are the reference's defaults.
const (
	clientMinPort = 14000
	clientMaxPort = 14512
)

// KindNomad is a driver that speaks Nomad's protocol.
var KindNomad = plugin.Kind{Name: "nomad-driver", Version: 2}

// Logs reads the output of tasks. Foreign drivers write it to FIFOs, which must have a
// reader even while no agent runs.
type Logs interface {
	// Attach creates the FIFOs of a task and starts reading them into its log files,
	// unless that was already done.
	Attach(ctx context.Context, logs LogConfig) (stdout, stderr string, err error)
	// Detach stops reading.
	Detach(ctx context.Context, logs LogConfig) error
}

// Roots makes the folders of tasks root file systems, which foreign drivers whose isolation
// is "chroot" expect.
type Roots interface {
	// Unable says why Build would fail for every task, and what to do; "" if it would not.
	Unable() string
	// Build makes a task's folder a root file system; an earlier one is replaced.
	Build(ctx context.Context, taskDir string) error
	// Remove undoes Build. It does nothing for other folders.
	Remove(taskDir string) error
}

// NomadHost has the services of the host that drivers built for Nomad need.
type NomadHost struct {
	Logs Logs
	// Roots may be nil: then the host cannot make root file systems.
	Roots Roots
	// Topology returns the topology of the machine's cores; it may be nil, and may
	// block until the topology is known.
	Topology func() *model.Topology
}

// nomadDriver is a driver behind Nomad's protocol.
type nomadDriver struct {
	host NomadHost
	base basepb.BasePluginClient
	rpc  pb.DriverClient
	info Info
	// refused is why this agent cannot serve the driver; "" if it can.
	refused string

	configSpec, taskSpec *specpb.Spec

	mu    sync.Mutex
	tasks map[string]LogConfig // by id: those that this process runs
	roots roots
}

// ConnectNomad returns the driver of a plugin that speaks Nomad's protocol.
func ConnectNomad(ctx context.Context, conn grpc.ClientConnInterface, name string, host NomadHost) ([]Backend, error) {
	d := &nomadDriver{base: basepb.NewBasePluginClient(conn), rpc: pb.NewDriverClient(conn), host: host, tasks: map[string]LogConfig{}}
	d.roots.host = host.Roots
	config, err := d.base.ConfigSchema(ctx, &basepb.ConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for the config's specification: %w", errdefs.FromGRPC(err))
	}
	task, err := d.rpc.TaskConfigSchema(ctx, &pb.TaskConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for the specification of a task's config: %w", errdefs.FromGRPC(err))
	}
	caps, err := d.rpc.Capabilities(ctx, &pb.CapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask for the capabilities: %w", errdefs.FromGRPC(err))
	}
	d.refused = nomadDemands(caps.GetCapabilities(), host.Roots)
	d.roots.wanted = d.refused == "" && caps.GetCapabilities().GetFsIsolation() == pb.DriverCapabilities_CHROOT
	d.configSpec, d.taskSpec = config.GetSpec(), task.GetSpec()
	for _, s := range []*specpb.Spec{d.configSpec, d.taskSpec} {
		if s.GetBlock() == nil {
			continue // no configuration at all
		}
		if err := hclspec.Check(s); err != nil {
			return nil, err
		}
	}
	d.info = Info{
		Name: name, Capabilities: nomadCapabilities(caps.GetCapabilities()),
		ConfigSchema: hclspec.Schema(d.configSpec), TaskConfigSchema: hclspec.Schema(d.taskSpec),
		Features: nomadFeatures(caps.GetCapabilities()),
	}
	return []Backend{d}, nil
}

func (d *nomadDriver) Info() Info { return d.info }

func (d *nomadDriver) SetConfig(ctx context.Context, config []byte) error {
	body, err := hclspec.EncodeJSON(d.configSpec, config)
	if err != nil {
		return err
	}
	_, err = d.base.SetConfig(ctx, &basepb.SetConfigRequest{
		MsgpackConfig: body, PluginApiVersion: nomadAPIVersion,
		NomadConfig: &basepb.NomadConfig{Driver: &basepb.NomadDriverConfig{
			ClientMinPort: clientMinPort, ClientMaxPort: clientMaxPort, Topology: d.topology(),
		}},
	})
	return errdefs.FromGRPC(err)
}

func (d *nomadDriver) Fingerprint(ctx context.Context) (<-chan Fingerprint, error) {
	s, err := d.rpc.Fingerprint(ctx, &pb.FingerprintRequest{})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return receive(ctx, s.Recv, func(m *pb.FingerprintResponse) Fingerprint {
		f := nomadFingerprint(m)
		if d.refused != "" && f.Health != HealthUndetected {
			f.Health, f.HealthDescription = HealthUnhealthy, d.refused
		}
		return f
	}), nil
}

// receive delivers the messages of a stream until the stream or ctx ends.
func receive[M, T any](ctx context.Context, recv func() (M, error), convert func(M) T) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		for {
			m, err := recv()
			if err != nil {
				return // the end of the process or of ctx, which the host notices itself
			}
			select {
			case out <- convert(m):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// nomadHandle is Handle.State.
type nomadHandle struct {
	Task []byte // a TaskHandle of the protocol
	Logs LogConfig
}

func (d *nomadDriver) StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error) {
	if d.refused != "" {
		return nil, nil, errdefs.InvalidArgumentf("%s", d.refused)
	}
	body, err := hclspec.EncodeJSON(d.taskSpec, task.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	config, logs := nomadTask(task, body), task.Logs
	logs.Disabled = logs.Disabled || d.info.Capabilities.DisableLogCollection
	if err := d.roots.build(ctx, task); err != nil {
		return nil, nil, err
	}
	if config.StdoutPath, config.StderrPath, err = d.attach(ctx, logs); err != nil {
		_ = d.roots.remove(task.Ref()) // the error says more, and the next start makes it anew
		return nil, nil, fmt.Errorf("prepare the logs of task %s: %w", task.Name, err)
	}
	resp, err := d.rpc.StartTask(ctx, &pb.StartTaskRequest{Task: config})
	if err == nil {
		err = startError(resp)
	} else {
		err = nomadError(err)
	}
	if err != nil {
		_ = d.detach(context.WithoutCancel(ctx), logs) // the start's error says more
		_ = d.roots.remove(task.Ref())
		return nil, nil, err
	}
	state, err := encodeHandle(resp.GetHandle(), config, logs)
	if err != nil {
		return nil, nil, err
	}
	d.know(task.ID, logs)
	return &Handle{TaskID: task.ID, Version: int(resp.GetHandle().GetVersion()), State: state}, nomadOverride(resp.GetNetworkOverride()), nil
}

func startError(resp *pb.StartTaskResponse) error {
	switch resp.GetResult() {
	case pb.StartTaskResponse_RETRY:
		return errdefs.Unavailablef("%s", resp.GetDriverErrorMsg())
	case pb.StartTaskResponse_FATAL:
		return errdefs.WithRetryable(errdefs.InvalidArgumentf("%s", resp.GetDriverErrorMsg()), false)
	}
	return nil
}

func encodeHandle(h *pb.TaskHandle, config *pb.TaskConfig, logs LogConfig) ([]byte, error) {
	if h == nil {
		return nil, errdefs.Internalf("the plugin started a task and gave no handle for it; the plugin is defective")
	}
	h.Config = config
	task, err := proto.Marshal(h)
	if err != nil {
		return nil, errdefs.Internalf("encode the task's handle: %w", err)
	}
	state, err := json.Marshal(nomadHandle{Task: task, Logs: logs})
	if err != nil {
		return nil, errdefs.Internalf("encode the task's handle: %w", err)
	}
	return state, nil
}

func (d *nomadDriver) RecoverTask(ctx context.Context, handle *Handle) error {
	d.mu.Lock()
	_, known := d.tasks[handle.TaskID]
	d.mu.Unlock()
	if known {
		return nil
	}
	var state nomadHandle
	if err := json.Unmarshal(handle.State, &state); err != nil {
		return errdefs.NotFoundf("the task's handle cannot be read: %w", err)
	}
	task := &pb.TaskHandle{}
	if err := proto.Unmarshal(state.Task, task); err != nil {
		return errdefs.NotFoundf("the task's handle cannot be read: %w", err)
	}
	// Attach the FIFOs first: a recovered task must not have FIFOs without a reader.
	if _, _, err := d.attach(ctx, state.Logs); err != nil {
		return errdefs.Unavailablef("take up the logs of the task again: %w", err)
	}
	if _, err := d.rpc.RecoverTask(ctx, &pb.RecoverTaskRequest{TaskId: handle.TaskID, Handle: task}); err != nil {
		switch err = nomadError(err); {
		case errdefs.IsUnavailable(err), errdefs.IsDeadlineExceeded(err), errdefs.IsCanceled(err):
			return err
		}
		// The protocol cannot express "not yet": a task that cannot be recovered
		// counts as lost.
		return errdefs.NotFoundf("the plugin cannot recover the task: %w", err)
	}
	d.roots.recover(handle.TaskID, task.GetConfig())
	d.know(handle.TaskID, state.Logs)
	return nil
}

// Lost ends the logs of a task that could not be recovered and is given up. It is not
// called when only a new version is being tried.
func (d *nomadDriver) Lost(ctx context.Context, handle *Handle) {
	var state nomadHandle
	if json.Unmarshal(handle.State, &state) == nil {
		_ = d.detach(ctx, state.Logs) // the task is gone, and its logs end with it
	}
}

func (d *nomadDriver) know(id string, logs LogConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = logs
}

func (d *nomadDriver) attach(ctx context.Context, logs LogConfig) (stdout, stderr string, err error) {
	if logs.Disabled || d.host.Logs == nil {
		return "/dev/null", "/dev/null", nil
	}
	return d.host.Logs.Attach(ctx, logs)
}

func (d *nomadDriver) detach(ctx context.Context, logs LogConfig) error {
	if logs.Disabled || d.host.Logs == nil {
		return nil
	}
	return d.host.Logs.Detach(ctx, logs)
}

func (d *nomadDriver) WaitTask(ctx context.Context, taskID string) (ExitResult, error) {
	resp, err := d.rpc.WaitTask(ctx, &pb.WaitTaskRequest{TaskId: taskID})
	if err != nil {
		return ExitResult{}, nomadError(err)
	}
	if resp.GetResult() == nil && resp.GetErr() == "" {
		// A plugin that is shutting down answers this way: it is not the end of the
		// task.
		return ExitResult{}, errdefs.Unavailablef("the plugin ended its wait without a result")
	}
	out := nomadExit(resp.GetResult())
	out.Err = resp.GetErr()
	return out, nil
}

func (d *nomadDriver) StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error {
	_, err := d.rpc.StopTask(ctx, &pb.StopTaskRequest{TaskId: taskID, Timeout: durationpb.New(timeout), Signal: signal})
	return nomadError(err)
}

func (d *nomadDriver) DestroyTask(ctx context.Context, ref TaskRef, force bool) error {
	_, err := d.rpc.DestroyTask(ctx, &pb.DestroyTaskRequest{TaskId: ref.ID, Force: force})
	if err = nomadError(err); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	d.mu.Lock()
	logs, known := d.tasks[ref.ID]
	delete(d.tasks, ref.ID)
	d.mu.Unlock()
	err = d.roots.remove(ref)
	if known {
		err = errors.Join(err, d.detach(ctx, logs))
	}
	return err
}

func (d *nomadDriver) InspectTask(ctx context.Context, taskID string) (*TaskStatus, error) {
	resp, err := d.rpc.InspectTask(ctx, &pb.InspectTaskRequest{TaskId: taskID})
	if err != nil {
		return nil, nomadError(err)
	}
	return nomadStatus(resp), nil
}

func (d *nomadDriver) SignalTask(ctx context.Context, taskID string, signal string) error {
	_, err := d.rpc.SignalTask(ctx, &pb.SignalTaskRequest{TaskId: taskID, Signal: signal})
	return nomadError(err)
}

func (d *nomadDriver) TaskEvents(ctx context.Context) (<-chan TaskEvent, error) {
	s, err := d.rpc.TaskEvents(ctx, &pb.TaskEventsRequest{})
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	return receive(ctx, s.Recv, func(e *pb.DriverTaskEvent) TaskEvent {
		return TaskEvent{TaskID: e.GetTaskId(), Time: nomadTime(e.GetTimestamp(), time.Now()), Message: e.GetMessage(), Annotations: e.GetAnnotations()}
	}), nil
}

// nomadError classifies an error of the protocol. Only the text identifies an unknown
// task, so this is the one place that matches text.
func nomadError(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown && strings.Contains(s.Message(), "task not found") {
		return errdefs.NotFoundf("%s", s.Message())
	}
	return errdefs.FromGRPC(err)
}
