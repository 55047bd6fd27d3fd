// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeView is a View over slices. What a test does not fill is empty.
type fakeView struct {
	index       uint64
	jobs        []*model.Job // all versions, newest first
	allocs      []*model.Allocation
	evals       []*model.Evaluation
	deployments []*model.Deployment
	nodes       []*model.Node
	namespaces  []*model.Namespace
	pools       []*model.NodePool
	config      *model.SchedulerConfiguration
	variables   []*model.Variable
	keys        []*model.RootKey
	plugins     []*model.PluginSpec
	schemas     []*model.DriverSchema
	uses        []*model.DriverUse
	services    []*model.ServiceRegistration
	volumes     []*model.HostVolume
	claims      []*model.VolumeClaim
	csi         []*model.CSIVolume
	drivers     []*model.CSIPlugin
}

func find[T any](list []*T, ok func(*T) bool) *T {
	if i := slices.IndexFunc(list, ok); i >= 0 {
		return list[i]
	}
	return nil
}

func where[T any](list []*T, ok func(*T) bool) []*T {
	return slices.DeleteFunc(slices.Clone(list), func(t *T) bool { return !ok(t) })
}

func (v *fakeView) HostVolumeByID(id string) *model.HostVolume {
	return find(v.volumes, func(h *model.HostVolume) bool { return h.ID == id })
}
func (v *fakeView) HostVolumes() iter.Seq[*model.HostVolume] { return slices.Values(v.volumes) }
func (v *fakeView) HostVolumeUsers(h *model.HostVolume) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool { return a.NodeID == h.NodeID })
}
func (v *fakeView) CSIVolumeByID(ns, id string) *model.CSIVolume {
	return find(v.csi, func(c *model.CSIVolume) bool { return c.Namespace == ns && c.ID == id })
}
func (v *fakeView) CSIVolumes() iter.Seq[*model.CSIVolume] { return slices.Values(v.csi) }
func (v *fakeView) CSIVolumeHolders(ns, id string) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool {
		job := v.JobOf(a)
		if job == nil || a.Namespace != ns || a.ClientTerminalStatus() {
			return false
		}
		tg := job.LookupTaskGroup(a.TaskGroup)
		return tg != nil && tg.CSIRequest(id, a.Index()) != nil
	})
}
func (v *fakeView) CSIPluginByID(id string) *model.CSIPlugin {
	return find(v.drivers, func(p *model.CSIPlugin) bool { return p.ID == id })
}
func (v *fakeView) CSIPlugins() []*model.CSIPlugin             { return v.drivers }
func (v *fakeView) VolumeClaims() iter.Seq[*model.VolumeClaim] { return slices.Values(v.claims) }

func (v *fakeView) Index() uint64               { return v.index }
func (v *fakeView) TableIndex(...string) uint64 { return v.index }
func (v *fakeView) RemovalIndex(string) uint64  { return 0 }
func (v *fakeView) JobByID(ns, id string) *model.Job {
	return find(v.jobs, func(j *model.Job) bool { return j.Namespace == ns && j.ID == id })
}
func (v *fakeView) JobOf(a *model.Allocation) *model.Job {
	return v.jobByVersion(a.Namespace, a.JobID, a.JobVersion)
}
func (v *fakeView) jobByVersion(ns, id string, n uint64) *model.Job {
	return find(v.jobs, func(j *model.Job) bool { return j.Namespace == ns && j.ID == id && j.Version == n })
}
func (v *fakeView) JobVersions(ns, id string) []*model.Job {
	return where(v.jobs, func(j *model.Job) bool { return j.Namespace == ns && j.ID == id })
}
func (v *fakeView) Jobs(ns string) iter.Seq[*model.Job] {
	seen := map[model.JobKey]bool{}
	return slices.Values(where(v.jobs, func(j *model.Job) bool {
		first := !seen[j.Key()]
		seen[j.Key()] = true
		return first && (ns == "" || j.Namespace == ns)
	}))
}
func (v *fakeView) JobSummary(ns, id string) *model.JobSummary {
	return &model.JobSummary{JobID: id, Namespace: ns, ModifyIndex: 7}
}
func (v *fakeView) JobSubmission(ns, id string, n uint64) *model.JobSubmission {
	if v.jobByVersion(ns, id, n) == nil {
		return nil
	}
	return &model.JobSubmission{Source: "job {}", JobID: id, Namespace: ns, Version: n, JobModifyIndex: 3}
}
func (v *fakeView) ScalingEvents(string, string) map[string][]*model.ScalingEvent { return nil }
func (v *fakeView) AllocByID(id string) *model.Allocation {
	return find(v.allocs, func(a *model.Allocation) bool { return a.ID == id })
}
func (v *fakeView) AllocsByJob(ns, id string) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool { return a.Namespace == ns && a.JobID == id })
}
func (v *fakeView) AllocsByNode(id string) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool { return a.NodeID == id })
}
func (v *fakeView) AllocsByEval(id string) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool { return a.EvalID == id })
}
func (v *fakeView) Services(ns string) iter.Seq[*model.ServiceRegistration] {
	return slices.Values(where(v.services, func(r *model.ServiceRegistration) bool { return ns == "" || r.Namespace == ns }))
}
func (v *fakeView) ServicesByName(ns, name string) []*model.ServiceRegistration {
	return where(v.services, func(r *model.ServiceRegistration) bool { return r.Namespace == ns && r.ServiceName == name })
}
func (v *fakeView) ServicesByJob(ns, id string) []*model.ServiceRegistration {
	return where(v.services, func(r *model.ServiceRegistration) bool { return r.Namespace == ns && r.JobID == id })
}
func (v *fakeView) ServicesByAlloc(id string) []*model.ServiceRegistration {
	return where(v.services, func(r *model.ServiceRegistration) bool { return r.AllocID == id })
}
func (v *fakeView) AllocsByDeployment(id string) []*model.Allocation {
	return where(v.allocs, func(a *model.Allocation) bool { return a.DeploymentID == id })
}
func (v *fakeView) Allocs() iter.Seq[*model.Allocation] { return slices.Values(v.allocs) }
func (v *fakeView) EvalByID(id string) *model.Evaluation {
	return find(v.evals, func(e *model.Evaluation) bool { return e.ID == id })
}
func (v *fakeView) EvalsByJob(ns, id string) []*model.Evaluation {
	return where(v.evals, func(e *model.Evaluation) bool { return e.Namespace == ns && e.JobID == id })
}
func (v *fakeView) Evals() iter.Seq[*model.Evaluation] { return slices.Values(v.evals) }
func (v *fakeView) DeploymentByID(id string) *model.Deployment {
	return find(v.deployments, func(d *model.Deployment) bool { return d.ID == id })
}
func (v *fakeView) LatestDeployment(ns, id string) *model.Deployment {
	return find(v.deployments, func(d *model.Deployment) bool { return d.Namespace == ns && d.JobID == id })
}
func (v *fakeView) DeploymentsByJob(ns, id string) []*model.Deployment {
	return where(v.deployments, func(d *model.Deployment) bool { return d.Namespace == ns && d.JobID == id })
}
func (v *fakeView) Deployments() iter.Seq[*model.Deployment] { return slices.Values(v.deployments) }
func (v *fakeView) NodeByID(id string) *model.Node {
	return find(v.nodes, func(n *model.Node) bool { return n.ID == id })
}
func (v *fakeView) Nodes() iter.Seq[*model.Node] { return slices.Values(v.nodes) }
func (v *fakeView) NamespaceByName(name string) *model.Namespace {
	return find(v.namespaces, func(n *model.Namespace) bool { return n.Name == name })
}
func (v *fakeView) Namespaces() iter.Seq[*model.Namespace] { return slices.Values(v.namespaces) }
func (v *fakeView) VariableByPath(ns, path string) *model.Variable {
	return find(v.variables, func(x *model.Variable) bool { return x.Namespace == ns && x.Path == path })
}
func (v *fakeView) Variables(ns, prefix string) iter.Seq[*model.Variable] {
	return slices.Values(where(v.variables, func(x *model.Variable) bool {
		return (ns == "" || x.Namespace == ns) && strings.HasPrefix(x.Path, prefix)
	}))
}
func (v *fakeView) DriverSchemas() iter.Seq[*model.DriverSchema] { return slices.Values(v.schemas) }
func (v *fakeView) DriverSchemasOf(driver string) []*model.DriverSchema {
	return where(v.schemas, func(s *model.DriverSchema) bool { return s.Driver == driver })
}
func (v *fakeView) DriverUses(driver string) []*model.DriverUse {
	return where(v.uses, func(u *model.DriverUse) bool { return u.Driver == driver })
}
func (v *fakeView) RootKeys() iter.Seq[*model.RootKey] { return slices.Values(v.keys) }
func (v *fakeView) PluginSpecByName(name string) *model.PluginSpec {
	return find(v.plugins, func(p *model.PluginSpec) bool { return p.Name == name })
}
func (v *fakeView) PluginSpecs() iter.Seq[*model.PluginSpec] { return slices.Values(v.plugins) }
func (v *fakeView) NodePoolByName(name string) *model.NodePool {
	return find(v.pools, func(p *model.NodePool) bool { return p.Name == name })
}
func (v *fakeView) NodePools() iter.Seq[*model.NodePool]           { return slices.Values(v.pools) }
func (v *fakeView) SchedulerConfig() *model.SchedulerConfiguration { return v.config }

// fakeBackend answers reads from its view and records registrations. A method
// that a test did not expect panics, which the API turns into status 500.
type fakeBackend struct {
	api.Backend
	mu          sync.Mutex
	view        *fakeView
	recorded    api.View // answers instead of view if set
	changed     chan struct{}
	watched     chan struct{} // gets a token at each Watch
	registered  []*api.JobRegisterRequest
	findings    []*api.JobFinding
	registerErr error
	files       map[string]string
	frames      []*model.StreamFrame
	exec        func(*api.ExecRequest, <-chan *api.ExecInput, func(*api.ExecOutput) error) error
	changes     chan []state.Change
	lost        chan uint64 // up to this index changes are lost
	feeds       atomic.Int64
	past        past
	since       uint64 // the first index of which there are changes is the next
}

// past is what was removed from the state.
type past struct {
	deployments []*model.PastDeployment
	evals       []*model.PastEvaluation
	extent      model.HistoryExtent
	err         error
}

func newBackend(v *fakeView) *fakeBackend {
	return &fakeBackend{view: v, changed: make(chan struct{}), watched: make(chan struct{}, 16), changes: make(chan []state.Change), lost: make(chan uint64)}
}

// set replaces the view and wakes blocked reads.
func (b *fakeBackend) set(v *fakeView) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.view = v
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fakeBackend) OIDCIssuer() string { return "" }

func (b *fakeBackend) Ready(context.Context, api.ReadMode) (api.ReadMeta, error) {
	return api.ReadMeta{KnownLeader: true}, nil
}
func (b *fakeBackend) View() api.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recorded != nil {
		return b.recorded
	}
	return b.view
}
func (b *fakeBackend) Watch(context.Context, ...state.Key) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched <- struct{}{}
	return b.changed
}
func (b *fakeBackend) QueueLanes() []*api.QueueLane {
	return []*api.QueueLane{{Namespace: "team", NodePool: "gpu", Weight: 4, PoolWeight: 1, Ready: 2}}
}
func (b *fakeBackend) PastDeployments(_ context.Context, q model.PastQuery) ([]*model.PastDeployment, model.HistoryExtent, error) {
	if b.past.err != nil {
		return nil, b.past.extent, b.past.err
	}
	return where(b.past.deployments, func(d *model.PastDeployment) bool {
		return (q.Namespace == "" || d.Namespace == q.Namespace) && strings.HasPrefix(d.ID, q.Prefix)
	}), b.past.extent, nil
}
func (b *fakeBackend) PastEvaluations(_ context.Context, q model.PastQuery) ([]*model.PastEvaluation, model.HistoryExtent, error) {
	if b.past.err != nil {
		return nil, b.past.extent, b.past.err
	}
	return where(b.past.evals, func(e *model.PastEvaluation) bool {
		return (q.Namespace == "" || e.Namespace == q.Namespace) && (q.JobID == "" || q.JobID == e.JobID) && strings.HasPrefix(e.ID, q.Prefix)
	}), b.past.extent, nil
}
func (b *fakeBackend) Region() string { return "global" }
func (b *fakeBackend) Leader() string { return "" }
func (b *fakeBackend) RegisterJob(_ context.Context, req *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registered = append(b.registered, req)
	if b.registerErr != nil {
		return nil, b.registerErr
	}
	return &api.JobRegisterResponse{EvalID: "e1", EvalCreateIndex: 5, JobModifyIndex: 5, Findings: b.findings, QueryMeta: api.QueryMeta{Index: 5}}, nil
}
func (b *fakeBackend) DiffJobs(older, newer *model.Job) (any, error) {
	return map[string]uint64{"From": older.Version, "To": newer.Version}, nil
}
func (b *fakeBackend) ReadFile(_ context.Context, _, path string, offset, limit int64) (io.ReadCloser, error) {
	text, ok := b.files[path]
	if !ok {
		return nil, errdefs.NotFoundf("stat %s: no such file or directory", path)
	}
	text = text[offset:]
	if limit >= 0 {
		text = text[:limit]
	}
	return io.NopCloser(strings.NewReader(text)), nil
}
func (b *fakeBackend) StreamLogs(_ context.Context, _ *api.LogStreamRequest, send func(*model.StreamFrame) error) error {
	for _, f := range b.frames {
		if err := send(f); err != nil {
			return err
		}
	}
	return nil
}
func (b *fakeBackend) Exec(_ context.Context, req *api.ExecRequest, in <-chan *api.ExecInput, send func(*api.ExecOutput) error) error {
	return b.exec(req, in, send)
}
func (b *fakeBackend) Changes(context.Context) (api.ChangeFeed, error) {
	b.feeds.Add(1)
	return b, nil
}
func (b *fakeBackend) Since() uint64 { return b.since }
func (b *fakeBackend) Next(ctx context.Context) ([]state.Change, error) {
	select {
	case c := <-b.changes:
		return c, nil
	case index := <-b.lost:
		return nil, &api.LostChangesError{Index: index}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func serve(t *testing.T, b *fakeBackend) *httptest.Server {
	t.Helper()
	return serveAPI(t, api.New(b, hclog.NewNullLogger(), api.Config{}))
}

func serveAPI(t *testing.T, s *api.Server) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return srv
}

// fed is the API over a backend whose changes become events until the test ends.
func fed(t *testing.T, b *fakeBackend, cfg api.Config) *api.Server {
	t.Helper()
	s := api.New(b, hclog.NewNullLogger(), cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Feed(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// limited ends after a minute: a stream that tells nothing ends by itself never.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// events opens a stream of events.
func events(t *testing.T, srv *httptest.Server, query string) *bufio.Scanner {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), "GET", srv.URL+"/v1/event/stream?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return bufio.NewScanner(resp.Body)
}

// ask sends a request and returns the answer with its whole body.
func ask(t *testing.T, srv *httptest.Server, method, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %q: %v", body, err)
	}
	return v
}

func (b *fakeBackend) Identity() api.Identity { return api.Identity{ServerID: "s1", NodeID: uuid} }
