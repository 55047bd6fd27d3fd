// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// HostReport describes an agent's machine, for debugging.
type HostReport struct {
	AgentID  string
	HostData HostData
}

// HostData describes one machine. Values of the environment that may be secrets are
// masked.
type HostData struct {
	OS          string
	Network     []map[string]string
	ResolvConf  string
	Hosts       string
	Environment map[string]string
	Disk        map[string]DiskUsage
}

// DiskUsage is one file system, in MB.
type DiskUsage struct {
	DiskMB int64
	UsedMB int64
}

// SchedulerWorker is one worker of a server's scheduler.
type SchedulerWorker struct {
	ID                string   `json:"id"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
	Started           string   `json:"started"`
	Status            string   `json:"status"`
	WorkloadStatus    string   `json:"workload_status"`
}

// SchedulerWorkers is a server's workers.
type SchedulerWorkers struct {
	ServerID   string            `json:"server_id"`
	Schedulers []SchedulerWorker `json:"schedulers"`
	Wanted     int               `json:"-"` // number of workers that run while this server is the leader
}

// SchedulerWorkersConfig is the configuration of a server's workers.
type SchedulerWorkersConfig struct {
	ServerID          string   `json:"server_id"`
	NumSchedulers     int      `json:"num_schedulers"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
}

// EnabledSchedulers are the job types that every worker processes.
var EnabledSchedulers = []string{model.JobTypeService, model.JobTypeBatch, model.JobTypeSystem, model.JobTypeSysBatch, "_core"}

// maxSchedulers limits the number of workers that can be requested; no machine has use
// for more.
const maxSchedulers = 1024

// QueueLane describes the evaluations of a namespace in a node pool, in the leader's queue.
type QueueLane struct {
	Namespace, NodePool string
	Weight              int  // of the namespace among namespaces
	PoolWeight          int  // of the pool within the namespace
	Ordered             bool // new jobs wait until those before them are placed
	MaxDepth            int  // evaluations that may wait

	Ready    int // evaluations that a worker may take
	Unacked  int // evaluations that workers have
	Waiting  int // evaluations that wait for a time, or for another one of their job
	Holding  int // jobs without room for which the jobs after them wait
	Served   uint64
	LastWait time.Duration // how long the last served evaluation was ready
}

// Inspection are the operations for debugging an agent.
type Inspection interface {
	Host(ctx context.Context) (*HostReport, error)
	Reload(ctx context.Context) error
	// Monitor streams the log lines that follow its call of began until ctx ends.
	Monitor(ctx context.Context, req *MonitorRequest, began func() error, line func([]byte) error) error
	// ExportLogs streams an agent's past log.
	ExportLogs(ctx context.Context, req *ExportRequest, send func([]byte) error) error
}

// Schedulers are the workers of a server's scheduler.
type Schedulers interface {
	Schedulers() *SchedulerWorkers
	SetSchedulers(ctx context.Context, count int) error
}

// MonitorRequest requests log lines of at least a level.
type MonitorRequest struct {
	Level           string
	JSON            bool
	IncludeLocation bool
}

// ExportRequest requests an agent's past log: its log file (OnDisk), or a unit of the
// systemd journal.
type ExportRequest struct {
	OnDisk  bool
	Service string
	Since   time.Duration // 0 means all
	Follow  bool
}

// debugOnly rejects requests for internals of the process unless the operator has
// enabled them.
func debugOnly(h handler) handler {
	return func(s *Server, w http.ResponseWriter, r *http.Request) (any, error) {
		if !s.cfg.EnableDebug {
			return nil, fail(http.StatusForbidden, "Permission denied")
		}
		return h(s, w, r)
	}
}

// thatAgent forwards a request that names another node.
func thatAgent(h handler) handler {
	return func(s *Server, w http.ResponseWriter, r *http.Request) (any, error) {
		q := paramsOf(r)
		named := q.get("node_id")
		if s.cfg.AgentOf == nil || named == "" || q.get("server_id") != "" || s.isMyNode(r, named) {
			return h(s, w, r)
		}
		agent, err := s.cfg.AgentOf(named)
		if err != nil {
			return nil, err
		}
		agent.ServeHTTP(w, r)
		return done, nil
	}
}

// isHere rejects a request for another agent.
func (s *Server) isHere(r *http.Request) error {
	p := paramsOf(r)
	node, server := p.get("node_id"), p.get("server_id")
	if node != "" && server != "" {
		return fail(http.StatusBadRequest, "Cannot target node and server simultaneously")
	}
	self := s.local.Identity()
	if node != "" && !(len(node) >= 4 && strings.HasPrefix(self.NodeID, node)) {
		return fail(http.StatusNotFound, "Unknown node \""+node+"\": this agent can only answer for itself; ask the agent of that node")
	}
	if server != "" && server != "leader" && server != self.ServerID && server != self.ServerName {
		return fail(http.StatusNotFound, "unknown Nomad server "+server)
	}
	return nil
}

func (s *Server) agentHost(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := s.isHere(r); err != nil {
		return nil, err
	}
	return s.local.Host(r.Context())
}

func (s *Server) agentReload(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := s.local.Reload(r.Context()); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func (s *Server) listSchedulers(http.ResponseWriter, *http.Request) (any, error) {
	return s.backend.Schedulers(), nil
}

func (s *Server) schedulersConfig(http.ResponseWriter, *http.Request) (any, error) {
	now := s.backend.Schedulers()
	return &SchedulerWorkersConfig{ServerID: now.ServerID, NumSchedulers: now.Wanted, EnabledSchedulers: EnabledSchedulers}, nil
}

func (s *Server) putSchedulersConfig(w http.ResponseWriter, r *http.Request) (any, error) {
	var req SchedulerWorkersConfig
	if err := decodeBody(r, &req, false); err != nil {
		return nil, fail(http.StatusBadRequest, "Invalid request: "+err.Error())
	}
	if req.NumSchedulers < 0 {
		return nil, fail(http.StatusBadRequest, "Invalid request")
	}
	if req.NumSchedulers < 1 || req.NumSchedulers > maxSchedulers {
		return nil, fail(http.StatusBadRequest, "Invalid request: num_schedulers must be between 1 and 1024")
	}
	for _, kind := range EnabledSchedulers {
		if len(req.EnabledSchedulers) > 0 && !slices.Contains(req.EnabledSchedulers, kind) {
			return nil, fail(http.StatusBadRequest, "Invalid request: enabled_schedulers must hold all of "+strings.Join(EnabledSchedulers, ", ")+": every worker schedules every type")
		}
	}
	if err := s.backend.SetSchedulers(r.Context(), req.NumSchedulers); err != nil {
		return nil, err
	}
	return s.schedulersConfig(w, r)
}

// maxProfileSeconds is the maximum duration of a profile.
const maxProfileSeconds = 300

// agentProfile answers with a profile of the process in the format of net/http/pprof.
func (s *Server) agentProfile(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := s.isHere(r); err != nil {
		return nil, err
	}
	seconds, err := intParam(r, "seconds", 1)
	if err != nil {
		return nil, err
	}
	if seconds < 1 || seconds > maxProfileSeconds {
		return nil, fail(http.StatusBadRequest, "seconds must be between 1 and 300")
	}
	kind := r.PathValue("kind")
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	switch kind {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile", "trace":
		q := paramsOf(r)
		if q.get("seconds") == "" { // the default of net/http/pprof is 30
			q.values.Set("seconds", "1")
			r = r.Clone(r.Context())
			r.URL.RawQuery = q.values.Encode()
		}
		if kind == "profile" {
			pprof.Profile(w, r)
		} else {
			pprof.Trace(w, r)
		}
	default:
		if !slices.Contains([]string{"goroutine", "heap", "allocs", "block", "mutex", "threadcreate"}, kind) {
			return nil, fail(http.StatusNotFound, "Pprof profile not found profile: "+kind)
		}
		pprof.Handler(kind).ServeHTTP(w, r)
	}
	return done, nil
}

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// agentMonitor streams log lines: as frames, or as plain text with plain=true.
func (s *Server) agentMonitor(w http.ResponseWriter, r *http.Request) (any, error) {
	req := &MonitorRequest{Level: cmp.Or(paramsOf(r).get("log_level"), "INFO")}
	var err error
	if req.JSON, err = boolParam(r, "log_json"); err != nil {
		return nil, err
	}
	if req.IncludeLocation, err = boolParam(r, "log_include_location"); err != nil {
		return nil, err
	}
	plain, err := boolParam(r, "plain")
	if err != nil {
		return nil, err
	}
	if err := s.isHere(r); err != nil {
		return nil, err
	}
	if !slices.Contains(logLevels, strings.ToLower(req.Level)) {
		return nil, fail(http.StatusBadRequest, "Unknown log level: "+req.Level)
	}
	out := newStream(r.Context(), w, plain)
	// Clients wait for the header of the answer, and the first line may take long. Once
	// they have it they miss no line.
	began := func() error { out.start(); return out.flush() }
	err = s.local.Monitor(r.Context(), req, began, func(line []byte) error {
		return out.frame(&model.StreamFrame{Data: line, File: "log"})
	})
	return done, out.end(err)
}

func (s *Server) exportLogs(w http.ResponseWriter, r *http.Request) (any, error) {
	p := paramsOf(r)
	req := &ExportRequest{Service: p.get("service_name")}
	var err error
	if req.OnDisk, err = boolParam(r, "on_disk"); err != nil {
		return nil, err
	}
	if req.Follow, err = boolParam(r, "follow"); err != nil {
		return nil, err
	}
	if v := p.get("logs_since"); v != "" {
		if req.Since, err = time.ParseDuration(v); err != nil || req.Since < 0 {
			return nil, fail(http.StatusBadRequest, "logs_since must be a duration such as 72h")
		}
	}
	if req.OnDisk == (req.Service != "") {
		return nil, fail(http.StatusBadRequest, "one of on_disk and service_name must be given, and not both")
	}
	if req.OnDisk && (req.Follow || req.Since != 0) {
		return nil, fail(http.StatusBadRequest, "follow and logs_since are for service_name only")
	}
	if err := s.isHere(r); err != nil {
		return nil, err
	}
	plain, err := boolParam(r, "plain")
	if err != nil {
		return nil, err
	}
	out := newStream(r.Context(), w, plain)
	err = s.local.ExportLogs(r.Context(), req, func(b []byte) error { return out.frame(&model.StreamFrame{Data: b, File: "log"}) })
	return done, out.end(err)
}

// Identity says which agent this is. An id is "" for a side that does not run here.
type Identity struct {
	NodeID     string
	ServerID   string
	ServerName string
}

// nodeMetaRequest changes the metadata of a node. A null value removes a key.
type nodeMetaRequest struct {
	NodeID string
	Meta   map[string]*string
}

func (s *Server) nodeMeta(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.NodeMeta(r.Context(), paramsOf(r).get("node_id"))
}

func (s *Server) putNodeMeta(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req nodeMetaRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if len(req.Meta) == 0 {
		return nil, fail(http.StatusBadRequest, "missing required Meta object")
	}
	return s.local.ApplyNodeMeta(r.Context(), cmp.Or(req.NodeID, paramsOf(r).get("node_id")), req.Meta)
}

// nodeIdentity returns what the identity of a node says.
func (s *Server) nodeIdentity(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.NodeIdentity(r.Context(), paramsOf(r).get("node_id"), false)
}

// renewIdentity gives a node a new identity.
func (s *Server) renewIdentity(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req struct{ NodeID string }
	if err := decodeBody(r, &req, true); err != nil {
		return nil, err
	}
	return s.local.NodeIdentity(r.Context(), cmp.Or(req.NodeID, paramsOf(r).get("node_id")), true)
}

// nodeCluster returns the cluster of a node.
func (s *Server) nodeCluster(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.NodeCluster(r.Context(), paramsOf(r).get("node_id"), false)
}

// trustCluster makes a node accept its current servers.
func (s *Server) trustCluster(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.NodeCluster(r.Context(), paramsOf(r).get("node_id"), true)
}
