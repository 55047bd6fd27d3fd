// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

type contract = driver.Driver

// fakeDriver keeps tasks in memory: they run until they are stopped or ended by
// the test, and outlive runners.
type fakeDriver struct {
	contract // what no test needs

	mu      sync.Mutex
	tasks   map[string]*fakeTask
	log     []string // "start web", "stop web", ...
	configs []*driver.TaskConfig
	// destroyed are the ids that were to be destroyed, known or not.
	destroyed []string

	onStart func(ctx context.Context, c *driver.TaskConfig) error
	onStop  func(t *fakeTask, timeout time.Duration) error // nil: it ends at once
	// onValidate is what ValidateTask answers; nil: the driver cannot validate.
	onValidate func(config string) ([]driver.Diagnostic, error)
	onExec     func(ctx context.Context, command []string) (int, error)
	// onUpdate answers UpdateTask; nil is what a driver does that cannot.
	onUpdate func(id string, r driver.Resources) error
	away     error // every call answers it
	features []driver.Feature
	unsure   int // so many inspections answer that the state is unknown

	lists     bool // it says which tasks it has
	isolation driver.FSIsolation
	user      string // of tasks that name none
	unknown   bool   // UnknownUser
	dynamic   bool   // DynamicUsers
	cgroup    driver.HostCgroup
	mounts    bool // MountConfigs

	destroying time.Duration // how long DestroyTask takes
}

type fakeTask struct {
	config *driver.TaskConfig
	exit   *driver.ExitResult
	ended  chan struct{}
	paused bool
}

func (d *fakeDriver) Driver(name string) (driver.Driver, error) {
	if name != "fake" {
		return nil, errdefs.NotFoundf("no driver %q", name)
	}
	return d, nil
}

func (d *fakeDriver) Info() driver.Info {
	return driver.Info{Name: "fake", Features: d.features, Capabilities: driver.Capabilities{SendSignals: true, Exec: true, FSIsolation: d.isolation, DefaultUser: d.user, UnknownUser: d.unknown, DynamicUsers: d.dynamic, HostCgroup: d.cgroup, MountConfigs: d.mounts},
		TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{{Name: "say", Type: schema.String}}}}
}

// with changes the driver while nobody calls it.
func (d *fakeDriver) with(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *fakeDriver) say(what, taskID string) {
	d.log = append(d.log, what+" "+strings.Split(taskID, "/")[1])
}

func (d *fakeDriver) StartTask(ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	d.mu.Lock()
	d.say("start", c.ID)
	d.configs = append(d.configs, c)
	hook := d.onStart
	d.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[c.ID] != nil {
		return nil, nil, errdefs.AlreadyExistsf("task %q is there", c.ID)
	}
	d.tasks[c.ID] = &fakeTask{config: c, ended: make(chan struct{})}
	return &driver.Handle{TaskID: c.ID, State: []byte("h")}, nil, nil
}

func (d *fakeDriver) ValidateTask(_ context.Context, c *driver.TaskDraft) ([]driver.Diagnostic, error) {
	d.mu.Lock()
	hook := d.onValidate
	d.mu.Unlock()
	if hook == nil {
		return nil, errdefs.Unimplementedf("no validation")
	}
	return hook(string(c.DriverConfig))
}

func (d *fakeDriver) get(id string) (*fakeTask, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away != nil {
		return nil, d.away
	}
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errdefs.NotFoundf("no task %q", id)
}

func (d *fakeDriver) RecoverTask(_ context.Context, h *driver.Handle) error {
	_, err := d.get(h.TaskID)
	return err
}

func (d *fakeDriver) ListTasks(context.Context) ([]*driver.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.lists {
		return nil, errdefs.Unimplementedf("no list")
	}
	var out []*driver.Handle
	for id := range d.tasks {
		out = append(out, &driver.Handle{TaskID: id, State: []byte("h")})
	}
	return out, nil
}

func (d *fakeDriver) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	t, err := d.get(id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case t.exit != nil:
		return &driver.TaskStatus{ID: id, State: driver.TaskExited, Exit: t.exit}, nil
	case d.unsure > 0:
		d.unsure--
		return &driver.TaskStatus{ID: id, State: driver.TaskUnknown}, nil
	}
	return &driver.TaskStatus{ID: id, State: driver.TaskRunning, Paused: t.paused}, nil
}

func (d *fakeDriver) PauseTask(_ context.Context, id string) error { return d.hold(id, true) }

func (d *fakeDriver) ResumeTask(_ context.Context, id string) error { return d.hold(id, false) }

func (d *fakeDriver) hold(id string, pause bool) error {
	t, err := d.get(id)
	if err != nil {
		return err
	}
	d.with(func() { t.paused = pause })
	return nil
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

func (d *fakeDriver) finish(t *fakeTask, r driver.ExitResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.exit == nil {
		t.exit = &r
		close(t.ended)
	}
}

func (d *fakeDriver) StopTask(_ context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.get(id)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.say("stop"+signal, id)
	hook := d.onStop
	d.mu.Unlock()
	if hook != nil {
		return hook(t, timeout)
	}
	d.finish(t, driver.ExitResult{ExitCode: 130, Signal: 2})
	return nil
}

func (d *fakeDriver) DestroyTask(ctx context.Context, ref driver.TaskRef, _ bool) error {
	d.mu.Lock()
	takes := d.destroying
	d.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	d.with(func() { d.destroyed = append(d.destroyed, ref.ID) })
	t, err := d.get(ref.ID)
	if errdefs.IsUnavailable(err) {
		return err
	}
	if err != nil {
		return nil
	}
	d.mu.Lock()
	if t.exit == nil {
		d.say("destroy", ref.ID)
	}
	d.mu.Unlock()
	d.finish(t, driver.ExitResult{ExitCode: 137, Signal: 9})
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, ref.ID)
	return nil
}

func (d *fakeDriver) UpdateTask(_ context.Context, id string, r driver.Resources) error {
	if _, err := d.get(id); err != nil {
		return err
	}
	d.mu.Lock()
	d.say(fmt.Sprintf("update to %d MiB", r.MemoryMB), id)
	hook := d.onUpdate
	d.mu.Unlock()
	if hook == nil {
		return errdefs.Unimplementedf("the fake cannot change resources")
	}
	return hook(id, r)
}

func (d *fakeDriver) SignalTask(_ context.Context, id, signal string) error {
	if _, err := d.get(id); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say(signal, id)
	if signal == "SIGBAD" {
		return errdefs.InvalidArgumentf("no such signal")
	}
	return nil
}

func (d *fakeDriver) ExecTask(ctx context.Context, id string, o driver.ExecOptions, s driver.ExecStream) (driver.ExitResult, error) {
	d.mu.Lock()
	d.say("exec "+strings.Join(o.Command, " "), id)
	hook := d.onExec
	d.mu.Unlock()
	if hook == nil {
		return driver.ExitResult{}, nil
	}
	if _, err := s.Stdout.Write([]byte("said")); err != nil {
		return driver.ExitResult{}, err
	}
	code, err := hook(ctx, o.Command)
	return driver.ExitResult{ExitCode: code}, err
}

// end ends the run of a task that goes on.
func (d *fakeDriver) end(t *testing.T, name string, code int) {
	t.Helper()
	d.mu.Lock()
	var found *fakeTask
	for _, x := range d.tasks {
		if x.config.Name == name && x.exit == nil {
			found = x
		}
	}
	d.mu.Unlock()
	if found == nil {
		t.Fatalf("%s does not run", name)
	}
	d.finish(found, driver.ExitResult{ExitCode: code})
}

// running names the tasks that run.
func (d *fakeDriver) running() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, x := range d.tasks {
		if x.exit == nil {
			out = append(out, x.config.Name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (d *fakeDriver) did() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.log, ", ")
}

// memStore keeps records in memory.
type memStore struct {
	mu     sync.Mutex
	alloc  *alloc.Record
	tasks  map[string]alloc.TaskRecord
	group  *group.State
	checks map[string]checks.State
	gone   bool
}

func (s *memStore) PutAlloc(_ context.Context, rec *alloc.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alloc = rec
	return nil
}

func (s *memStore) PutStates(_ context.Context, _ string, states alloc.States) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.tasks, states.Tasks)
	if states.Checks != nil {
		s.checks = states.Checks
	}
	if states.Group != nil {
		s.group = states.Group
	}
	return nil
}

func (s *memStore) DeleteAlloc(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return nil
}

func (s *memStore) record() *alloc.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := *s.alloc
	rec.Tasks, rec.Group, rec.Checks = maps.Clone(s.tasks), s.group, s.checks
	return &rec
}

// bed is one alloc on a fake driver and real directories.
type bed struct {
	t      *testing.T
	driver *fakeDriver
	store  *memStore
	cfg    *alloc.Config
	r      *alloc.Runner
}

// newBed is made inside a synctest bubble.
func newBed(t *testing.T, root string) *bed {
	b := &bed{t: t, driver: &fakeDriver{tasks: map[string]*fakeTask{}}, store: &memStore{tasks: map[string]alloc.TaskRecord{}}}
	b.cfg = &alloc.Config{
		Node: func() *model.Node { return &model.Node{ID: "n1", Name: "node"} }, Region: "global", Root: root, Drivers: b.driver, Store: b.store,
		Publish: func(*model.Allocation) {}, Ended: func(string) {}, Starts: make(chan struct{}, 2), Limits: alloc.DefaultLimits(),
		Now: time.Now, Jitter: func() float64 { return 0 }, Logger: hclog.NewNullLogger(),
	}
	b.cfg.Checks = checks.New(checks.Config{Now: time.Now, Jitter: b.cfg.Jitter, Logger: b.cfg.Logger})
	return b
}

func (b *bed) run(a *model.Allocation) *bed {
	b.t.Helper()
	r, err := alloc.New(b.cfg, a)
	if err != nil {
		b.t.Fatal(err)
	}
	b.r = r
	r.Start()
	return b
}

// restart ends the runner as the end of the agent does, and begins another.
func (b *bed) restart(meanwhile func()) {
	b.t.Helper()
	b.r.Close()
	if meanwhile != nil {
		meanwhile()
	}
	r, err := alloc.Restore(b.cfg, b.store.record())
	if err != nil {
		b.t.Fatal(err)
	}
	b.r = r
	r.Start()
}

func (b *bed) events(name string) string {
	var out []string
	for _, e := range b.r.View().TaskStates[name].Events {
		out = append(out, e.DisplayMessage)
	}
	return strings.Join(out, "; ")
}

func (b *bed) hasEvent(name, part string) {
	b.t.Helper()
	if got := b.events(name); !strings.Contains(got, part) {
		b.t.Errorf("no event %q of %s: %s", part, name, got)
	}
}

func (b *bed) wants(running, status string) {
	b.t.Helper()
	if got, s := b.driver.running(), b.r.View().ClientStatus; got != running || s != status {
		b.t.Fatalf("%q run and the alloc is %s; want %q and %s\nlog: %s", got, s, running, status, b.driver.did())
	}
}

// newTask is a task written as "name", "name:hook" or "name:hook:sidecar".
func newTask(s string) *model.Task {
	part := strings.Split(s, ":")
	t := &model.Task{Name: part[0], Driver: "fake", KillTimeout: 5 * time.Second, RestartPolicy: &model.RestartPolicy{Mode: "fail"}}
	if len(part) > 1 {
		t.Lifecycle = &model.TaskLifecycleConfig{Hook: part[1], Sidecar: len(part) > 2}
	}
	return t
}

func newAlloc(tasks ...*model.Task) *model.Allocation {
	job := &model.Job{ID: "j", Name: "j", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: tasks}}}
	return &model.Allocation{ID: "a1", Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g", Job: job, DesiredStatus: "run"}
}

func stopped(a *model.Allocation) *model.Allocation {
	c := a.Copy()
	c.DesiredStatus = "stop"
	return c
}
