// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/network"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// fakeDriver runs tasks in memory: a task runs until somebody ends it. It
// outlives the agents of a test, as tasks outlive an agent.
type fakeDriver struct {
	networks    []pluginhost.NetworkFingerprint
	mu          sync.Mutex
	tasks       map[string]*fakeTask
	starts      []string
	signals     []string
	failing     error                    // of StartTask
	readings    []pluginhost.HostReading // of HostStats
	measured    []device.GroupStats      // of DeviceStats
	deaf        bool                     // StopTask ends nothing
	told        []string                 // to the device plugin
	sick        string                   // why its device is not healthy
	deafDevices bool                     // ReleaseDevices fails
	version     string
	more        []schema.Attribute // of a later version
	changed     chan struct{}      // closed at a change of version
}

type fakeTask struct {
	config *driver.TaskConfig
	exit   *driver.ExitResult
	ended  chan struct{}
}

func newFakeDriver() *fakeDriver {
	return &fakeDriver{tasks: map[string]*fakeTask{}, version: "1.0.0", changed: make(chan struct{})}
}

// upgrade makes it another version of itself, which knows one attribute more.
func (d *fakeDriver) upgrade(version, attribute string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version, d.more = version, append(d.more, schema.Attribute{Name: attribute, Type: schema.String})
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *fakeDriver) Driver(name string) (driver.Driver, error) {
	if name != "fake" {
		return nil, errdefs.NotFoundf("no driver %q", name)
	}
	return d, nil
}

func (d *fakeDriver) Fingerprints() ([]pluginhost.DriverFingerprint, <-chan struct{}) {
	info := d.Info()
	d.mu.Lock()
	defer d.mu.Unlock()
	return []pluginhost.DriverFingerprint{{Name: "fake", Health: driver.HealthHealthy, Attributes: map[string]string{"driver.fake": "1"},
		PluginVersion: d.version, Capabilities: info.Capabilities, Features: info.Features, TaskConfigSchema: info.TaskConfigSchema}}, d.changed
}

func (d *fakeDriver) Devices() ([]pluginhost.DeviceFingerprint, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g0 := device.Instance{ID: "g0", Healthy: d.sick == "", HealthDescription: d.sick}
	return []pluginhost.DeviceFingerprint{{Name: "fake", Groups: []device.Group{{Vendor: "acme", Type: "gpu", Name: "x", Instances: []device.Instance{g0}}}}}, d.changed
}

// sicken makes its device unhealthy, or healthy without a reason.
func (d *fakeDriver) sicken(why string) {
	d.set(func() {
		d.sick = why
		close(d.changed)
		d.changed = make(chan struct{})
	})
}

func (d *fakeDriver) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// tellings is what the device plugin was told.
func (d *fakeDriver) tellings() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}

func (d *fakeDriver) Plugins() ([]pluginhost.PluginStatus, <-chan struct{}) {
	return []pluginhost.PluginStatus{{Name: "driver-fake", Version: "1.0.0", State: pluginhost.StateRunning, Names: pluginhost.Names{Drivers: []string{"fake"}}}}, make(chan struct{})
}

func (d *fakeDriver) Networks() ([]pluginhost.NetworkFingerprint, <-chan struct{}) {
	return d.networks, make(chan struct{})
}

func (d *fakeDriver) Registries() ([]pluginhost.RegistryFingerprint, <-chan struct{}) {
	return nil, make(chan struct{})
}

func (d *fakeDriver) SyncServices(_ context.Context, name string, _ registry.SyncRequest) (*registry.SyncResult, error) {
	return nil, errdefs.NotFoundf("no registry %q", name)
}

func (d *fakeDriver) LoginAt(_ context.Context, name string, _ registry.LoginRequest) (*registry.Login, error) {
	return nil, errdefs.NotFoundf("no registry %q", name)
}

func (d *fakeDriver) LogoutFrom(_ context.Context, name, _ string, _ registry.Credential) error {
	return errdefs.NotFoundf("no registry %q", name)
}

func (d *fakeDriver) QueryRegistry(_ context.Context, name string, _ registry.Query) (*registry.Answer, error) {
	return nil, errdefs.NotFoundf("no registry %q", name)
}

func (d *fakeDriver) CreateNetwork(_ context.Context, r network.Request) (*network.Attachment, error) {
	return nil, errdefs.NotFoundf("no network %q", r.Network)
}

func (d *fakeDriver) DestroyNetwork(context.Context, string, string) error { return nil }

func (d *fakeDriver) Volumes() ([]pluginhost.VolumeFingerprint, <-chan struct{}) { return nil, nil }

func (d *fakeDriver) WithVolume(context.Context, string, func(context.Context, volume.Backend) error) error {
	return errdefs.NotFoundf("no storage plugins")
}

func (d *fakeDriver) RunVolume(context.Context, pluginhost.VolumeInstance) error {
	return errdefs.NotFoundf("no storage plugins")
}

func (d *fakeDriver) EndVolume(context.Context, string, string) error { return nil }

func (d *fakeDriver) ListNetworks(context.Context) (map[string][]string, error) { return nil, nil }

func (d *fakeDriver) SweepNetwork(context.Context, string, string) error { return nil }

func (d *fakeDriver) HostStats(context.Context) []pluginhost.HostReading { return d.readings }

func (d *fakeDriver) DeviceStats(context.Context) []device.GroupStats { return d.measured }

func (d *fakeDriver) ReserveDevices(_ context.Context, h device.Holder, s device.Set, config map[string]any) (*device.Reservation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, fmt.Sprint("reserve ", strings.Join(s.IDs, ","), " for ", h.AllocID, "/", h.Task, " ", config))
	return &device.Reservation{Env: map[string]string{"ACME_VISIBLE": s.Group() + ":" + strings.Join(s.IDs, ",")}}, nil
}

func (d *fakeDriver) ReleaseDevices(_ context.Context, h device.Holder, s device.Set) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deafDevices {
		return errdefs.Unavailablef("its plugin is away")
	}
	d.told = append(d.told, fmt.Sprint("release ", strings.Join(s.IDs, ","), " of ", h.AllocID, "/", h.Task))
	return nil
}

func (d *fakeDriver) Info() driver.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.Info{Name: "fake", Capabilities: driver.Capabilities{SendSignals: true, Exec: true},
		TaskConfigSchema: schema.Schema{Attributes: append([]schema.Attribute{{Name: "say", Type: schema.String}}, d.more...)}}
}

func (d *fakeDriver) StartTask(_ context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts = append(d.starts, c.Name)
	if d.failing != nil {
		return nil, nil, d.failing
	}
	if d.tasks[c.ID] != nil {
		return nil, nil, errdefs.AlreadyExistsf("task %q is there", c.ID)
	}
	if err := os.WriteFile(c.Logs.StdoutPath+".0", c.DriverConfig, 0o644); err != nil {
		return nil, nil, err
	}
	d.tasks[c.ID] = &fakeTask{config: c, ended: make(chan struct{})}
	return &driver.Handle{TaskID: c.ID, State: []byte("h")}, nil, nil
}

func (d *fakeDriver) get(id string) (*fakeTask, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errdefs.NotFoundf("no task %q", id)
}

func (d *fakeDriver) RecoverTask(_ context.Context, h *driver.Handle) error {
	_, err := d.get(h.TaskID)
	return err
}

func (d *fakeDriver) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	t, err := d.get(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	select {
	case <-t.ended:
		return *t.exit, nil
	case <-ctx.Done():
		return driver.ExitResult{}, ctx.Err()
	}
}

// end ends a task of that name, if one runs.
func (d *fakeDriver) end(name string, r driver.ExitResult) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tasks {
		if t.config.Name == name && t.exit == nil {
			t.exit = &r
			close(t.ended)
			return true
		}
	}
	return false
}

func (d *fakeDriver) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, t := range d.tasks {
		if t.exit == nil {
			n++
		}
	}
	return n
}

func (d *fakeDriver) started() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.starts...)
}

func (d *fakeDriver) StopTask(_ context.Context, id string, _ time.Duration, _ string) error {
	t, err := d.get(id)
	d.mu.Lock()
	deaf := d.deaf
	d.mu.Unlock()
	if err == nil && !deaf {
		d.end(t.config.Name, driver.ExitResult{ExitCode: 130, Signal: 2})
	}
	return err
}

func (d *fakeDriver) DestroyTask(_ context.Context, ref driver.TaskRef, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[ref.ID]; t != nil && t.exit == nil {
		t.exit = &driver.ExitResult{ExitCode: 137, Signal: 9}
		close(t.ended)
	}
	delete(d.tasks, ref.ID)
	return nil
}

func (d *fakeDriver) ListTasks(context.Context) ([]*driver.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*driver.Handle
	for _, id := range slices.Sorted(maps.Keys(d.tasks)) {
		out = append(out, &driver.Handle{TaskID: id, State: []byte("h")})
	}
	return out, nil
}

// haunt gives the driver a task that no agent has asked for.
func (d *fakeDriver) haunt(id, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = &fakeTask{config: &driver.TaskConfig{ID: id, Name: name}, ended: make(chan struct{})}
}

func (d *fakeDriver) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tasks[id] != nil
}

func (d *fakeDriver) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	t, err := d.get(id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.exit != nil {
		return &driver.TaskStatus{ID: id, State: driver.TaskExited, Exit: t.exit}, nil
	}
	return &driver.TaskStatus{ID: id, State: driver.TaskRunning}, nil
}

func (d *fakeDriver) TaskStats(ctx context.Context, _ time.Duration) (<-chan []driver.TaskStats, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var batch []driver.TaskStats
	for id := range d.tasks {
		batch = append(batch, driver.TaskStats{TaskID: id, Time: time.Unix(7, 0), Memory: driver.MemoryStats{RSS: 42, Measured: []string{"RSS"}}})
	}
	out := make(chan []driver.TaskStats, 1)
	out <- batch
	go func() { <-ctx.Done(); close(out) }()
	return out, nil
}

func (d *fakeDriver) SignalTask(_ context.Context, _, signal string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signals = append(d.signals, signal)
	return nil
}

func (d *fakeDriver) ExecTask(_ context.Context, _ string, o driver.ExecOptions, s driver.ExecStream) (driver.ExitResult, error) {
	_, err := s.Stdout.Write([]byte(o.Command[0]))
	return driver.ExitResult{ExitCode: 3}, err
}

func (d *fakeDriver) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() { <-ctx.Done(); close(out) }()
	return out, nil
}

// fakeServers holds the allocs of one node.
type fakeServers struct {
	plugins  []rpc.WantedPlugin // of the registry
	mu       sync.Mutex
	index    uint64
	allocs   map[string]*model.Allocation
	reports  map[string]*model.Allocation
	nodes    []*model.Node
	refusals int
	refusal  error    // of updates
	sent     []string // ids of the allocs that were reported, each time
	beats    int
	aways    int // how often the agent said that it ends
	told     []*model.NodeEvent
	changed  chan struct{}
	behind   bool           // answer with an old index
	cluster  *model.Cluster // of the servers; nil is not told
	asked    map[string]bool
	schemas  map[string][][]byte // by hash, every time it came
	refused  int                 // how many schemas were refused
	noSchema bool                // schemas are refused
}

// fetched reports whether the node has fetched an alloc.
func (s *fakeServers) fetched(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

func newFakeServers() *fakeServers {
	return &fakeServers{index: 10, allocs: map[string]*model.Allocation{}, reports: map[string]*model.Allocation{}, changed: make(chan struct{}), asked: map[string]bool{}, schemas: map[string][][]byte{}}
}

func (s *fakeServers) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *fakeServers) assign(a *model.Allocation) {
	s.set(func() {
		a.AllocModifyIndex = s.index
		s.allocs[a.ID] = a
	})
}

func (s *fakeServers) report(id string) *model.Allocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reports[id]; r != nil {
		return r
	}
	return &model.Allocation{}
}

// refuse has the next n registrations refused.
func (s *fakeServers) refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals = n
}

// registered is the node as it registered last.
func (s *fakeServers) registered() *model.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[len(s.nodes)-1]
}

// events are the messages of all events that the node has reported.
func (s *fakeServers) events() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return messages(&model.Node{Events: s.told})
}

func (s *fakeServers) event(i int) *model.NodeEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[i]
}

func (s *fakeServers) Register(_ context.Context, n *model.Node) (rpc.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 {
		s.refusals--
		return rpc.Lease{}, errdefs.Unavailablef("no leader")
	}
	if ours := s.cluster.At(0).ClusterID; n.ClusterID != "" && n.ClusterID != ours {
		return rpc.Lease{}, rpc.OtherCluster(n.ClusterID, ours)
	}
	s.nodes = append(s.nodes, n)
	s.told = append(s.told, n.Events...)
	lease := rpc.Lease{TTL: 10 * time.Second, ClusterID: s.cluster.At(0).ClusterID}
	for _, d := range n.Drivers {
		if s.schemas[d.SchemaHash] == nil {
			lease.Missing = append(lease.Missing, d.SchemaHash)
		}
	}
	return lease, nil
}

// Change refuses all changes, as a server of the release before does.
func (s *fakeServers) Change(context.Context, *model.NodeChange) (rpc.Lease, error) {
	return rpc.Lease{}, errdefs.Unimplementedf("unknown method Change")
}

func (s *fakeServers) PutDriverSchemas(_ context.Context, _ rpc.Identity, bodies [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noSchema {
		s.refused += len(bodies)
		return errdefs.InvalidArgumentf("not this one")
	}
	for _, data := range bodies {
		s.schemas[driverschema.Hash(data)] = append(s.schemas[driverschema.Hash(data)], data)
	}
	return nil
}

func (s *fakeServers) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	if errdefs.IsFailedPrecondition(s.refusal) {
		s.refusal = nil // it made the node ready
	}
	return rpc.Lease{TTL: 10 * time.Second}, nil
}

func (s *fakeServers) Away(context.Context, rpc.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aways++
	return nil
}

func (s *fakeServers) UpdateAllocs(_ context.Context, _ rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := rpc.UpdateAnswer{Index: s.index}
	for _, r := range reports {
		s.sent = append(s.sent, r.ID)
		if s.refusal != nil {
			return out, s.refusal
		}
		if err := r.Validate(); err != nil {
			return out, err
		}
		known := s.knows(r.ID)
		news, missing := known.News(r)
		if missing {
			out.Whole = append(out.Whole, r.ID)
		}
		if news == nil {
			continue
		}
		known = known.WithNews(news)
		if h := news.Health; h != nil {
			known.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &h.Healthy}
		}
		s.reports[r.ID] = known
	}
	return out, nil
}

// knows returns what the servers know of an alloc.
func (s *fakeServers) knows(id string) *model.Allocation {
	if a := s.reports[id]; a != nil {
		return a
	}
	a := &model.Allocation{ID: id}
	if x := s.allocs[id]; x != nil {
		a.DeploymentID, a.ClientStatus = x.DeploymentID, x.ClientStatus
	}
	return a
}

func (s *fakeServers) FetchAllocs(_ context.Context, _ rpc.Identity, ids []string) ([]*model.Allocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*model.Allocation
	for _, id := range ids {
		s.asked[id] = true
		if a := s.allocs[id]; a != nil {
			out = append(out, a)
		}
	}
	return out, nil
}

func (s *fakeServers) Plugins(context.Context, rpc.Identity) (rpc.PluginAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rpc.PluginAnswer{Index: s.index, Confirmed: true, Plugins: s.plugins}, nil
}

func (s *fakeServers) PluginFile(_ context.Context, _ rpc.Identity, digest string, _ func([]byte) error) error {
	return errdefs.NotFoundf("no file %s", digest)
}

func (s *fakeServers) AllocData(context.Context, rpc.Identity, string, func(*rpc.DataPiece) error) error {
	return errdefs.NotFoundf("no data")
}

func (s *fakeServers) Identities(context.Context, rpc.Identity, rpc.IdentityQuery) (rpc.IdentityAnswer, error) {
	return rpc.IdentityAnswer{}, errdefs.Unimplementedf("no tokens")
}

func (s *fakeServers) ClaimVolume(context.Context, rpc.Identity, rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	return rpc.VolumeGrant{}, errdefs.Unimplementedf("these servers have no volumes")
}

func (s *fakeServers) CheckToken(context.Context, rpc.Identity, string) error {
	return errdefs.Unimplementedf("no tokens")
}

func (s *fakeServers) Variables(ctx context.Context, _ rpc.Identity, q rpc.VariableQuery) (rpc.VariableAnswer, error) {
	if q.Since > 0 {
		<-ctx.Done()
		return rpc.VariableAnswer{}, ctx.Err()
	}
	return rpc.VariableAnswer{Index: 5, Variables: []rpc.Variable{{Namespace: q.Namespace, Path: q.Path, Items: map[string]string{"user": q.JobID}}}}, nil
}

func (s *fakeServers) Services(ctx context.Context, _ rpc.Identity, q rpc.ServiceQuery) (rpc.ServiceAnswer, error) {
	if q.Since > 0 {
		<-ctx.Done()
		return rpc.ServiceAnswer{}, ctx.Err()
	}
	if q.Name == "" {
		return rpc.ServiceAnswer{Index: 5, Services: []rpc.ServiceTags{{Name: "db", Tags: []string{q.Namespace}}}}, nil
	}
	return rpc.ServiceAnswer{Index: 5, Instances: []*model.ServiceRegistration{{ID: "i", ServiceName: q.Name, Address: "10.0.0.1", Port: 20000, Tags: []string{"b", "a"}}}}, nil
}

func (s *fakeServers) Attach(ctx context.Context, id rpc.Identity, _ rpc.Node, push func(*rpc.Assignments) error) error {
	for {
		s.mu.Lock()
		at := s.cluster.At(s.index)
		x := &rpc.Assignments{Index: s.index, Full: true, Confirmed: !s.behind, ClusterID: at.ClusterID, TermID: at.TermID, Lost: s.cluster.Lacks(id.Seen)}
		if !x.Lost {
			id.Seen = at
		}
		for _, a := range s.allocs {
			x.Set = append(x.Set, rpc.Assignment{AllocID: a.ID, AllocModifyIndex: a.AllocModifyIndex, DesiredStatus: a.DesiredStatus, Reported: s.knows(a.ID).ReportDigest()})
		}
		if s.behind {
			x.Index, x.Set = 1, nil
		}
		changed := s.changed
		s.mu.Unlock()
		if err := push(x); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
