// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package serve answers requests to the node that arrive over its session: about files,
// logs, commands in tasks, statistics, plugins and metadata. It owns no state of what
// it is asked for. Only core/agent and packages below it may import it.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ rpc.Node = (*Server)(nil)

// Allocs are the allocs of the node.
type Allocs interface {
	// Runner returns the runner of an alloc, or an error of class NotFound.
	Runner(allocID string) (*alloc.Runner, error)
}

// Collector removes ended allocs.
type Collector interface {
	One(ctx context.Context, allocID string) error
	All(ctx context.Context) error
}

// Meta is the metadata of the node.
type Meta interface {
	Meta() rpc.NodeMeta
	// SetMeta changes metadata; a nil value hides a configured key.
	SetMeta(ctx context.Context, change map[string]*string) error
}

// Cluster is the cluster that the node belongs to.
type Cluster interface {
	Standing() rpc.NodeCluster
	// Trust makes the node begin a new session with whichever cluster answers.
	Trust(ctx context.Context) error
	// IdentityClaims returns the claims of the node's identity; RenewIdentity requests a
	// new identity from the servers.
	IdentityClaims() (map[string]any, error)
	RenewIdentity(ctx context.Context) error
}

// HTTP answers HTTP requests to the agent that arrive over the session.
type HTTP interface {
	Answer(ctx context.Context, in <-chan []byte, send func([]byte) error) error
}

// Config is what a server needs.
type Config struct {
	Root      string // directory of the allocs' directories
	Allocs    Allocs
	Collector Collector
	Meta      Meta
	Cluster   Cluster
	HTTP      HTTP
	// Plugins is nil if the node has no host of plugins. PluginInstall lets operators
	// install and remove plugins.
	Plugins       Plugins
	PluginInstall bool
	Drivers       Drivers // nil like Plugins
	Machine       Machine
	Samples       Samples
	MHz           float64 // speed of a core
	NoExec        bool    // rejects operators' commands in tasks
	HostVolumes   HostVolumes
	Storage       Storage
	Logger        hclog.Logger
}

// Server answers the requests to one node.
type Server struct{ cfg Config }

// New returns a server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Call implements rpc.Node. A panic fails only the request.
func (s *Server) Call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		s.cfg.Logger.Error("a request to this node panicked; this is a defect of drover", p.Fields("request", call.Method)...)
		err = errdefs.Internalf("the request %q panicked; see the log of the node's agent", call.Method)
	})
	return s.call(ctx, call, in, send)
}

func (s *Server) call(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	switch call.Method {
	case rpc.MethodHostStats:
		return s.answerHostStats(ctx, send)
	case rpc.MethodCollect:
		return s.cfg.Collector.All(ctx)
	case rpc.MethodNodeMeta:
		return sendJSON(send, s.cfg.Meta.Meta())
	case rpc.MethodSetNodeMeta:
		return with(call, func(change map[string]*string) error { return s.setMeta(ctx, change, send) })
	case rpc.MethodNodeCluster:
		return sendJSON(send, s.cfg.Cluster.Standing())
	case rpc.MethodTrust:
		return s.trust(ctx, send)
	case rpc.MethodNodeIdentity:
		claims, err := s.cfg.Cluster.IdentityClaims()
		if err != nil {
			return err
		}
		return sendJSON(send, rpc.NodeIdentity{Claims: claims})
	case rpc.MethodRenewIdentity:
		return s.cfg.Cluster.RenewIdentity(ctx)
	case rpc.MethodAllocGC:
		return with(call, func(q rpc.AllocRequest) error { return s.cfg.Collector.One(ctx, q.AllocID) })
	case rpc.MethodAllocStats:
		return with(call, func(q rpc.AllocRequest) error { return s.answerStats(ctx, q, send) })
	case rpc.MethodChecks:
		return with(call, func(q rpc.AllocRequest) error { return s.answerChecks(q, send) })
	case rpc.MethodAllocTasks:
		return with(call, func(q rpc.AllocRequest) error { return s.answerTasks(ctx, q, send) })
	case rpc.MethodRestart:
		return with(call, s.restartAlloc)
	case rpc.MethodSignal:
		return with(call, func(q rpc.SignalRequest) error { return s.signalAlloc(ctx, q) })
	case rpc.MethodPause:
		return with(call, func(q rpc.PauseRequest) error { return s.pauseAlloc(ctx, q) })
	case rpc.MethodDirect:
		return with(call, func(q rpc.ScheduleRequest) error { return s.directAlloc(q, send) })
	case rpc.MethodListFiles, rpc.MethodStatFile, rpc.MethodReadFile, rpc.MethodStreamFile:
		return with(call, func(q rpc.FileRequest) error { return s.fileCall(ctx, call.Method, q, send) })
	case rpc.MethodAllocData:
		return with(call, func(q rpc.DataRequest) error { return s.sendData(ctx, q, send) })
	case rpc.MethodStreamLogs:
		return with(call, func(q rpc.LogRequest) error { return s.streamLogs(ctx, q, frames(send)) })
	case rpc.MethodPlugins:
		return s.answerPlugins(send)
	case rpc.MethodPlugin:
		return with(call, func(q rpc.PluginRequest) error { return s.answerPlugin(q.Name, send) })
	case rpc.MethodChangePlugin, rpc.MethodInstallPlugin:
		return with(call, func(q rpc.PluginRequest) error { return s.changePlugin(ctx, q, in, send) })
	case rpc.MethodValidate:
		return with(call, func(q rpc.ValidateRequest) error { return s.validateConfigs(ctx, q, send) })
	case rpc.MethodMakeVolume:
		return with(call, func(v *model.HostVolume) error { return answerVolume(ctx, v, s.cfg.HostVolumes.Create, send) })
	case rpc.MethodAdoptVolume:
		return with(call, func(v *model.HostVolume) error { return answerVolume(ctx, v, s.cfg.HostVolumes.Register, send) })
	case rpc.MethodRemoveVolume:
		return with(call, func(q rpc.HostVolumeRequest) error { return s.cfg.HostVolumes.Delete(ctx, q.ID) })
	case rpc.MethodCSICreate, rpc.MethodCSIDelete, rpc.MethodCSIValidate, rpc.MethodCSIList, rpc.MethodCSIExpand, rpc.MethodCSIAttach, rpc.MethodCSIDetach,
		rpc.MethodCSISnapshot, rpc.MethodCSIDeleteSnapshot, rpc.MethodCSIListSnapshots, rpc.MethodCSIRelease, rpc.MethodCSINodeExpand:
		return with(call, func(q rpc.StorageCall) error { return s.callStorage(ctx, call.Method, q, send) })
	case rpc.MethodHTTP:
		return s.cfg.HTTP.Answer(ctx, in, send)
	case rpc.MethodExec:
		return with(call, func(q rpc.ExecRequest) error { return s.exec(ctx, q, in, send) })
	}
	return errdefs.Unimplementedf("this node does not know the request %q; upgrade it", call.Method)
}

// with decodes a call's request.
func with[T any](call rpc.Call, f func(T) error) error {
	var q T
	if err := json.Unmarshal(call.Body, &q); err != nil {
		return errdefs.InvalidArgumentf("decode the request %q: %w", call.Method, err)
	}
	return f(q)
}

func sendJSON(send func([]byte) error, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return errdefs.Internalf("encode the answer: %w", err)
	}
	return send(body)
}

func frames(send func([]byte) error) func(*model.StreamFrame) error {
	return func(f *model.StreamFrame) error { return sendJSON(send, f) }
}

func (s *Server) setMeta(ctx context.Context, change map[string]*string, send func([]byte) error) error {
	if err := s.cfg.Meta.SetMeta(ctx, change); err != nil {
		return err
	}
	return sendJSON(send, s.cfg.Meta.Meta())
}

func (s *Server) trust(ctx context.Context, send func([]byte) error) error {
	if err := s.cfg.Cluster.Trust(ctx); err != nil {
		return err
	}
	return sendJSON(send, s.cfg.Cluster.Standing())
}

func (s *Server) restartAlloc(q rpc.RestartRequest) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	return r.Restart(q.Task, q.AllTasks)
}

func (s *Server) signalAlloc(ctx context.Context, q rpc.SignalRequest) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	return inTime(ctx, func(ctx context.Context) error { return r.Signal(ctx, q.Task, q.Signal) })
}

func (s *Server) pauseAlloc(ctx context.Context, q rpc.PauseRequest) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	return inTime(ctx, func(ctx context.Context) error { return r.Pause(ctx, q.Task, !q.Resume) })
}

// driverPatience limits a call to a driver whose answer a user awaits. It is less than
// servers wait for a node, which would then name the node and not the driver.
const driverPatience = 20 * time.Second

// inTime makes a call to the driver of a task.
func inTime(ctx context.Context, call func(context.Context) error) error {
	late := errdefs.DeadlineExceededf("the driver of the task has not answered within %s: its plugin hangs or is overloaded; drover plugin status names the plugins of a node", driverPatience)
	ctx, cancel := context.WithTimeoutCause(ctx, driverPatience, late)
	defer cancel()
	err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return late
	}
	return err
}

// directAlloc tells tasks with a schedule what to do, and answers what they do then.
func (s *Server) directAlloc(q rpc.ScheduleRequest, send func([]byte) error) error {
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	if q.State != "" {
		if err := r.Direct(q.Task, q.State); err != nil {
			return err
		}
	}
	now, err := r.Schedules(q.Task)
	if err != nil {
		return err
	}
	return sendJSON(send, now)
}

// The messages of an exec, as the public API has them.
type (
	execIO struct {
		Data  []byte `json:"data,omitempty"`
		Close bool   `json:"close,omitempty"`
	}
	termSize struct {
		Height int `json:"height,omitempty"`
		Width  int `json:"width,omitempty"`
	}
	execInput struct {
		Stdin   *execIO   `json:"stdin,omitempty"`
		TTYSize *termSize `json:"tty_size,omitempty"`
	}
	execResult struct {
		ExitCode int `json:"exit_code"`
	}
	execOutput struct {
		Stdout *execIO     `json:"stdout,omitempty"`
		Stderr *execIO     `json:"stderr,omitempty"`
		Exited bool        `json:"exited,omitempty"`
		Result *execResult `json:"result,omitempty"`
	}
)

func (s *Server) exec(ctx context.Context, q rpc.ExecRequest, in <-chan []byte, send func([]byte) error) error {
	if s.cfg.NoExec {
		return errdefs.PermissionDeniedf("Permission denied: the configuration of this node has client.disable_remote_exec, so nobody runs commands in its tasks")
	}
	r, err := s.cfg.Allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	cmd, err := commandOf(r.Alloc(), q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := newExecSession(send)
	go x.read(ctx, in)
	result, err := r.Exec(ctx, q.Task, driver.ExecOptions{Command: cmd, TTY: q.Tty, User: q.User, Directory: q.Dir, Env: q.Env}, driver.ExecStream{
		Stdin: x.stdin, Stdout: x.writer(false), Stderr: x.writer(true), Resize: x.sizes,
	})
	x.close()
	if err != nil {
		return err
	}
	return x.finish(result.ExitCode)
}
