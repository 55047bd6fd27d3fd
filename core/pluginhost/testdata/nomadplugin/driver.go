// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	attrpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/attribute"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	hclspec "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/hclspec"
)

var errUnknown = errors.New("task not found for given id")

type driver struct {
	pb.UnimplementedDriverServer
	log hclog.Logger
	// executors: each task has one.
	executors bool
	// chroot: the folder of a task, which the host fills, is the task's root directory.
	chroot bool

	mu    sync.Mutex
	shell string
	cores int
	tasks map[string]*task
}

type task struct {
	config  *pb.TaskConfig
	pid     int
	started time.Time
	done    chan struct{}
	exit    *pb.ExitResult // after done
}

func newDriver(log hclog.Logger) *driver { return &driver{log: log, tasks: map[string]*task{}} }

func (d *driver) configure(shell string, cores int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shell, d.cores = shell, cores
	d.log.Info("configured", "shell", shell)
}

func (d *driver) find(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errUnknown
}

func (d *driver) TaskConfigSchema(context.Context, *pb.TaskConfigSchemaRequest) (*pb.TaskConfigSchemaResponse, error) {
	return &pb.TaskConfigSchemaResponse{Spec: object(map[string]*hclspec.Spec{
		"script": attr("script", "string", true), "args": attr("args", "list(string)", false),
	})}, nil
}

func (d *driver) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesResponse, error) {
	caps := &pb.DriverCapabilities{SendSignals: true, Exec: true}
	if d.chroot {
		caps.FsIsolation = pb.DriverCapabilities_CHROOT
	}
	return &pb.CapabilitiesResponse{Capabilities: caps}, nil
}

func (d *driver) Fingerprint(_ *pb.FingerprintRequest, s grpc.ServerStreamingServer[pb.FingerprintResponse]) error {
	d.mu.Lock()
	shell, cores := d.shell, d.cores
	d.mu.Unlock()
	err := s.Send(&pb.FingerprintResponse{Health: pb.FingerprintResponse_HEALTHY, HealthDescription: "Healthy", Attributes: map[string]*attrpb.Attribute{
		"driver.hello":       {Value: &attrpb.Attribute_BoolVal{BoolVal: true}},
		"driver.hello.shell": {Value: &attrpb.Attribute_StringVal{StringVal: shell}},
		"driver.hello.cores": {Value: &attrpb.Attribute_IntVal{IntVal: int64(cores)}},
		"driver.hello.room":  {Value: &attrpb.Attribute_IntVal{IntVal: 5}, Unit: "GiB"},
	}})
	<-s.Context().Done()
	return err
}

func (d *driver) StartTask(_ context.Context, r *pb.StartTaskRequest) (*pb.StartTaskResponse, error) {
	c := r.GetTask()
	var config struct {
		Script string   `codec:"script"`
		Args   []string `codec:"args"`
	}
	if err := decode(c.GetMsgpackDriverConfig(), &config); err != nil {
		return nil, err
	}
	if config.Script == "fatal" {
		return &pb.StartTaskResponse{Result: pb.StartTaskResponse_FATAL, DriverErrorMsg: "never"}, nil
	}
	if config.Script == "leaves" {
		return nil, leave(c, config.Args)
	}
	stdout, err := os.OpenFile(c.GetStdoutPath(), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := os.OpenFile(c.GetStderrPath(), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()
	start := (*exec.Cmd).Start
	command := append([]string{d.shell, "-c", config.Script, "hello"}, config.Args...)
	if d.executors {
		if command, err = throughExecutor(c, command); err != nil {
			return nil, err
		}
		start = startExecutor
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = stdout, stderr, c.GetAllocDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if d.chroot {
		cmd.SysProcAttr.Chroot, cmd.Dir = filepath.Join(c.GetAllocDir(), c.GetName()), "/"
	}
	for k, v := range c.GetEnv() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if err := start(cmd); err != nil {
		return nil, err
	}
	t := d.know(c, cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		t.exit = &pb.ExitResult{ExitCode: int32(ws.ExitStatus())}
		if ws.Signaled() {
			t.exit = &pb.ExitResult{ExitCode: 128 + int32(ws.Signal()), Signal: int32(ws.Signal())}
		}
		close(t.done)
	}()
	return &pb.StartTaskResponse{Handle: &pb.TaskHandle{Version: 1, State: pb.TaskState_RUNNING, DriverState: []byte(strconv.Itoa(t.pid))}}, nil
}

// leave starts a process of the task, and a helper that the plugin would reach it
// by, and fails without a word about them, as the reference's executor does where
// it may not join a cgroup. With an argument it first hangs until that file is gone,
// and says so by another one beside it.
func leave(c *pb.TaskConfig, args []string) error {
	if len(args) > 0 {
		if err := os.WriteFile(args[0]+".hangs", nil, 0o600); err != nil {
			return err
		}
	}
	for len(args) > 0 && exists(args[0]) {
		time.Sleep(5 * time.Millisecond)
	}
	own := exec.Command("/bin/sh", "-c", "sleep 1000 & wait")
	for k, v := range c.GetEnv() {
		own.Env = append(own.Env, k+"="+v)
	}
	helper := exec.Command("/bin/sh", "-c", "sleep 1000 & wait", "executor", `{"LogFile":"`+c.GetAllocDir()+"/"+c.GetName()+`/executor.out"}`)
	for _, cmd := range []*exec.Cmd{own, helper} {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { _ = cmd.Wait() }()
	}
	return errors.New("rpc error: code = Unknown desc = open /sys/fs/cgroup/freezer/nomad/cgroup.procs: no such file or directory")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (d *driver) know(c *pb.TaskConfig, pid int) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &task{config: c, pid: pid, started: time.Now(), done: make(chan struct{})}
	d.tasks[c.GetId()] = t
	return t
}

func (d *driver) RecoverTask(_ context.Context, r *pb.RecoverTaskRequest) (*pb.RecoverTaskResponse, error) {
	pid, err := strconv.Atoi(string(r.GetHandle().GetDriverState()))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return nil, fmt.Errorf("task %s has ended", r.GetTaskId())
	}
	t := d.know(r.GetHandle().GetConfig(), pid)
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			if syscall.Kill(pid, 0) != nil {
				t.exit = &pb.ExitResult{ExitCode: -1}
				close(t.done)
				return
			}
		}
	}()
	return &pb.RecoverTaskResponse{}, nil
}

func (d *driver) WaitTask(ctx context.Context, r *pb.WaitTaskRequest) (*pb.WaitTaskResponse, error) {
	t, err := d.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-t.done:
		return &pb.WaitTaskResponse{Result: t.exit}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *driver) StopTask(_ context.Context, r *pb.StopTaskRequest) (*pb.StopTaskResponse, error) {
	t, err := d.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	_ = syscall.Kill(-t.pid, syscall.SIGTERM)
	select {
	case <-t.done:
	case <-time.After(r.GetTimeout().AsDuration()):
		_ = syscall.Kill(-t.pid, syscall.SIGKILL)
		<-t.done
	}
	return &pb.StopTaskResponse{}, nil
}

func (d *driver) DestroyTask(_ context.Context, r *pb.DestroyTaskRequest) (*pb.DestroyTaskResponse, error) {
	if _, err := d.find(r.GetTaskId()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, r.GetTaskId())
	return &pb.DestroyTaskResponse{}, nil
}

func (d *driver) InspectTask(_ context.Context, r *pb.InspectTaskRequest) (*pb.InspectTaskResponse, error) {
	t, err := d.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	status := &pb.TaskStatus{Id: t.config.GetId(), Name: t.config.GetName(), State: pb.TaskState_RUNNING, StartedAt: timestamppb.New(t.started)}
	select {
	case <-t.done:
		status.State, status.Result, status.CompletedAt = pb.TaskState_EXITED, t.exit, timestamppb.Now()
	default:
	}
	return &pb.InspectTaskResponse{Task: status, Driver: &pb.TaskDriverStatus{Attributes: map[string]string{"pid": strconv.Itoa(t.pid)}}}, nil
}

func (d *driver) SignalTask(_ context.Context, r *pb.SignalTaskRequest) (*pb.SignalTaskResponse, error) {
	t, err := d.find(r.GetTaskId())
	if err == nil && r.GetSignal() == "SIGUSR1" {
		err = syscall.Kill(t.pid, syscall.SIGUSR1)
	}
	return &pb.SignalTaskResponse{}, err
}

func (d *driver) TaskEvents(_ *pb.TaskEventsRequest, s grpc.ServerStreamingServer[pb.DriverTaskEvent]) error {
	<-s.Context().Done()
	return nil
}

func (d *driver) TaskStats(r *pb.TaskStatsRequest, s grpc.ServerStreamingServer[pb.TaskStatsResponse]) error {
	if _, err := d.find(r.GetTaskId()); err != nil {
		return err
	}
	ticker := time.NewTicker(r.GetCollectionInterval().AsDuration())
	defer ticker.Stop()
	for {
		err := s.Send(&pb.TaskStatsResponse{Stats: &pb.TaskStats{Id: r.GetTaskId(), Timestamp: timestamppb.Now(), AggResourceUsage: &pb.TaskResourceUsage{
			Cpu:    &pb.CPUUsage{Percent: 12.5, MeasuredFields: []pb.CPUUsage_Fields{pb.CPUUsage_PERCENT}},
			Memory: &pb.MemoryUsage{Rss: 4096, MeasuredFields: []pb.MemoryUsage_Fields{pb.MemoryUsage_RSS}},
		}}})
		if err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (d *driver) ExecTaskStreaming(s grpc.BidiStreamingServer[pb.ExecTaskStreamingRequest, pb.ExecTaskStreamingResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if _, err := d.find(first.GetSetup().GetTaskId()); err != nil {
		return err
	}
	command := first.GetSetup().GetCommand()
	cmd := exec.CommandContext(s.Context(), command[0], command[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = stdin.Close() }()
		for {
			m, err := s.Recv()
			if err != nil || m.GetStdin().GetClose() {
				return
			}
			_, _ = stdin.Write(m.GetStdin().GetData())
		}
	}()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if err := s.Send(&pb.ExecTaskStreamingResponse{Stdout: &pb.ExecTaskStreamingIOOperation{Data: out}}); err != nil {
		return err
	}
	return s.Send(&pb.ExecTaskStreamingResponse{Exited: true, Result: &pb.ExitResult{ExitCode: int32(cmd.ProcessState.ExitCode())}})
}
