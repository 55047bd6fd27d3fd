// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package alloc runs one alloc on its node: it carries out the decisions of
// core/agent/task, keeps the order of the group's tasks, judges the alloc's health,
// and stores what the agent needs after a restart before it reports anything. A runner
// has no goroutine of its own, only one per task that starts or runs. It does not talk
// to servers, own plugin processes or choose what runs on the node. Only core/agent
// and packages below it may import it.
package alloc

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Runner runs one alloc.
type Runner struct {
	cfg    *Config
	id     string
	dir    allocdir.Dir
	logger hclog.Logger
	ctx    context.Context // ends with the agent, not with the alloc
	cancel context.CancelFunc
	work   sync.WaitGroup

	networking sync.Mutex // held while the network is made or removed
	building   sync.Mutex // held while the alloc's directories are created
	built      bool       // guarded by building

	mu       sync.Mutex
	alloc    *model.Allocation
	group    *model.TaskGroup
	received time.Time
	tasks    map[string]*taskRun
	stop     task.StopRequest
	health   *model.AllocDeploymentStatus
	look     *time.Timer // latest time of the next settle
	checked  checked
	groupRun
	life
}

// groupRun is the work of the alloc's group, guarded by Runner.mu.
type groupRun struct {
	phase       group.State
	phaseDirty  bool
	groupTimer  *time.Timer
	groupCancel context.CancelFunc // cancels the current try of a step
	groupLeft   <-chan struct{}    // closed when the last try of a step has ended
	groupDetail string             // what the claims of volumes wait for

	disk   disk
	mounts map[string]*storage.Mount // volumes of storage plugins, by their requests; never changed in place

	attached         *Network       // nil while the alloc has no network
	uid              int            // user id that Users assigned
	fetchingDetail   string         // what the fetch of the previous alloc's data waits for
	fetchingProgress *StartProgress // its progress
}

// life says how far a Runner is, guarded by Runner.mu.
type life struct {
	begun   bool // Start was called
	ended   bool
	closed  bool
	over    chan struct{} // closed when the alloc has ended
	readers int           // number of readers of the ended alloc's data, which is kept while there are any
}

// taskRun is a task of the alloc.
type taskRun struct {
	job     *model.Task
	spec    task.Spec
	state   task.State
	handle  *driver.Handle
	address *driver.NetworkOverride
	timer   *time.Timer
	abort   context.CancelFunc // cancels a start in progress
	dirty   bool
	unseen  bool // its stored state has not been confirmed by its driver yet
	// recovered is closed when the driver knows the task again, or never will. It is nil for
	// a task that was not running when the agent started.
	recovered chan struct{}

	fetched      bool                  // its artifacts were fetched
	rendering    Rendering             // its templates, while they are open
	firstScripts []*model.ChangeScript // scripts to run once the task has started
	at           StepStatus            // current step of a start
	detail       func() string         // returns what the step waits for
	left         <-chan struct{}       // closed when an abandoned step has ended
	reserved     atomic.Pointer[device.Reservation]
	secrets      atomic.Pointer[strings.Replacer] // hides the task's secrets in texts
	freeing      []uint64                         // runs that the driver is destroying
	tokens       tokens
	grouped      grouped
}

// New returns a runner for a new alloc, with its Job.
func New(cfg *Config, a *model.Allocation) (*Runner, error) {
	return Restore(cfg, &Record{Alloc: a, Received: cfg.Now()})
}

// Restore returns a runner for an alloc of an earlier agent process.
func Restore(cfg *Config, rec *Record) (*Runner, error) {
	a := rec.Alloc
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return nil, errdefs.InvalidArgumentf("alloc %s: its job has no group %q; evaluate the job again", a.ID, a.TaskGroup)
	}
	r := &Runner{
		cfg: cfg, id: a.ID, dir: allocdir.New(cfg.Root, a.ID), logger: cfg.Logger.With("alloc_id", a.ID),
		alloc: a, group: tg, received: rec.Received, health: rec.Health, tasks: map[string]*taskRun{},
		checked: checked{stored: rec.Checks}, groupRun: groupRun{uid: rec.UID, attached: rec.Network, mounts: rec.Mounts}, life: life{over: make(chan struct{})},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	now := cfg.Now()
	for _, t := range tg.Tasks {
		run := &taskRun{job: t, spec: cfg.specOf(a, tg, t), state: task.New(now)}
		if old, ok := rec.Tasks[t.Name]; ok {
			run.state, run.handle, run.fetched, run.address, run.tokens.renew = old.State, old.Handle, old.Fetched, old.Address, old.Renew
			if run.state.Has == (task.Limits{}) {
				run.state.Has = run.spec.Limits
			}
		}
		r.tasks[t.Name] = run
	}
	if rec.Group != nil {
		r.phase = *rec.Group
	} else {
		r.phase = r.newGroup()
	}
	return r, nil
}

// Start starts the alloc, or recovers it after a restart.
func (r *Runner) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
	r.want(r.alloc)
	now := r.cfg.Now()
	r.keepMounts()
	var effects effects
	for name, t := range r.tasks {
		r.resume(name, t, now, &effects)
		t.dirty = true
	}
	r.beginGroup(&effects)
	r.saveAlloc()
	r.settle(&effects)
	if !r.ended {
		r.holdCores(coresOf(r.alloc))
	}
}

// Update sets the servers' newest version of the alloc, with its Job.
func (r *Runner) Update(a *model.Allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		r.logger.Error("update refused: the new version of the job does not have the alloc's group; evaluate the job again", "group", a.TaskGroup)
		return
	}
	if a.DeploymentID != r.alloc.DeploymentID {
		r.health, r.received = nil, r.cfg.Now() // a new deployment judges health again
	}
	back := a.UnknownSince().After(r.alloc.UnknownSince())
	r.alloc, r.group = a, tg
	for _, t := range tg.Tasks {
		if run := r.tasks[t.Name]; run != nil { // in-place updates never add tasks
			run.job, run.spec = t, r.cfg.specOf(a, tg, t)
		}
	}
	r.want(a)
	r.saveAlloc()
	var e effects
	for name := range r.tasks {
		r.step(name, task.Resize{}, &e)
	}
	if back {
		r.noteReturn(&e)
	}
	r.settle(&e)
}

// noteReturn records with every running task that its node has reconnected, after
// servers had marked the alloc as unknown. Servers may have heard of the alloc's state
// before the node learns that it was unknown.
func (r *Runner) noteReturn(e *effects) {
	for name, t := range r.tasks {
		if t.state.Phase == task.Running {
			r.step(name, task.Note{Event: model.TaskEvent{Type: model.TaskClientReconnected, DisplayMessage: "Client reconnected"}}, e)
		}
	}
}

func (r *Runner) want(a *model.Allocation) {
	if a.ServerTerminalStatus() {
		no := a.DesiredTransition.NoShutdownDelay
		r.stop = task.StopRequest{Wanted: true, NoDelay: no != nil && *no}
	}
}

// Stop ends the alloc regardless of its assignment, because the node gives it up.
func (r *Runner) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop.Wanted = true
	r.settle(&effects{})
}

// StopAfter is how long the alloc may run on a node that has lost its servers; 0 means no
// limit.
func (r *Runner) StopAfter() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch tg := r.group; {
	case tg.Disconnect != nil && tg.Disconnect.StopOnClientAfter != nil:
		return *tg.Disconnect.StopOnClientAfter
	case tg.StopAfterClientDisconnect != nil:
		return *tg.StopAfterClientDisconnect
	}
	return 0
}

// CutOff fails the alloc, because its node has been without servers for longer than
// the group allows. The servers decide where it runs next.
func (r *Runner) CutOff(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop.CutOff = after
	r.settle(&effects{})
}

// IsCutOff reports whether CutOff was called.
func (r *Runner) IsCutOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop.CutOff > 0
}

// Close releases the alloc without ending its tasks, and waits until all goroutines of
// the runner have ended.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for _, t := range r.tasks {
		if t.timer != nil {
			t.timer.Stop()
		}
		if t.tokens.timer != nil {
			t.tokens.timer.Stop()
		}
	}
	if r.look != nil {
		r.look.Stop()
	}
	if r.groupTimer != nil {
		r.groupTimer.Stop()
	}
	r.endChecks()
	r.mu.Unlock()
	r.cancel()
	for name := range r.tasks {
		r.closeTemplates(name)
		r.shutAPI(name)
	}
	r.work.Wait()
}

// Destroy removes the directory and stored state of an ended alloc.
func (r *Runner) Destroy(ctx context.Context) error {
	if !r.Ended() {
		return errdefs.FailedPreconditionf("alloc %s has not ended; stop it first", r.id)
	}
	if r.BeingRead() {
		return errdefs.Unavailablef("the data of alloc %s is on its way to another node; it is removed later", r.id)
	}
	r.Close()
	if r.cfg.Disks != nil {
		r.cfg.Disks.Release(r.dir.Path)
	}
	if err := r.dir.Remove(); err != nil {
		return err
	}
	if err := r.cfg.Store.DeleteAlloc(ctx, r.id); err != nil {
		return err
	}
	r.cfg.Users.Release(r.id)
	return nil
}

// effects collects the effects of a round of transitions, by task.
type effects struct {
	list  []taskEffects
	group []group.Effect
}

type taskEffects struct {
	name string
	list []task.Effect
}

// post applies an event to a task.
func (r *Runner) post(name string, ev task.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e effects
	if _, ended := ev.(task.Exited); ended {
		r.tasks[name].unseen = false
	}
	r.step(name, ev, &e)
	r.settle(&e)
}

func (r *Runner) step(name string, ev task.Event, e *effects) {
	t := r.tasks[name]
	ev = t.hide(ev)
	switch ev.(type) {
	case task.Kill, task.Rerun:
		if t.abort != nil {
			t.abort()
		}
	}
	next, list := task.Step(t.spec, t.state, ev, r.cfg.Now())
	t.dirty = t.dirty || !reflect.DeepEqual(next, t.state)
	t.state = next
	list = t.giveUp(list)
	if len(list) > 0 {
		e.list = append(e.list, taskEffects{name, list})
	}
}

func (r *Runner) saveAlloc() {
	err := r.cfg.Store.PutAlloc(r.ctx, r.record())
	r.noteSaved(err)
}

// record returns what is stored of the alloc. Of its job that is only its own group:
// otherwise a job with many groups would be stored whole for each of its allocs.
func (r *Runner) record() *Record {
	job, stored := *r.alloc.Job, *r.alloc
	job.TaskGroups = []*model.TaskGroup{job.LookupTaskGroup(stored.TaskGroup)}
	stored.Job = &job
	return &Record{Alloc: &stored, Received: r.received, Health: r.health, UID: r.uid, Network: r.attached, Mounts: r.mounts}
}

// saveStates stores what has changed of the group, of the tasks and of the checks.
func (r *Runner) saveStates() {
	dirty := States{Tasks: map[string]TaskRecord{}}
	if r.phaseDirty {
		phase := r.phase
		dirty.Group, r.phaseDirty = &phase, false
	}
	for name, t := range r.tasks {
		if t.dirty {
			dirty.Tasks[name] = TaskRecord{State: t.state, Handle: t.handle, Fetched: t.fetched, Address: t.address, Renew: t.tokens.renew}
			t.dirty = false
		}
	}
	dirty.Checks = r.changedChecks()
	if dirty.Group != nil || len(dirty.Tasks) > 0 || dirty.Checks != nil {
		r.noteSaved(r.cfg.Store.PutStates(r.ctx, r.id, dirty))
	}
}

// noteSaved logs a failed write, for example on a full disk. Tasks continue; but after
// a restart of the agent they would not be recovered.
func (r *Runner) noteSaved(err error) {
	if err != nil && r.ctx.Err() == nil {
		r.logger.Error("the state of the alloc could not be kept; a restart of the agent would lose it", "error", err)
	}
}

// view returns the alloc as reported to servers. It is shared and never changed
// afterwards.
func (r *Runner) view() *model.Allocation {
	a := r.alloc
	out := &model.Allocation{
		ID: a.ID, Namespace: a.Namespace, Name: a.Name, NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
		EvalID: a.EvalID, DeploymentID: a.DeploymentID, NetworkStatus: r.network(),
		DeploymentStatus: r.health, TaskStates: make(map[string]*model.TaskState, len(r.tasks)),
	}
	out.ClientStatus, out.ClientDescription = clientStatus(r.states(), r.phase)
	for name, t := range r.tasks {
		out.TaskStates[name] = t.state.Reported()
	}
	return out
}

// network returns the group's network, or else the address that a driver gave to one of
// the tasks, if any.
func (r *Runner) network() *model.AllocNetworkStatus {
	out := &model.AllocNetworkStatus{Failing: r.failingServices()}
	for name, t := range r.tasks {
		if t.address == nil {
			continue
		}
		if out.Drivers == nil {
			out.Drivers = map[string]*model.DriverNetwork{}
		}
		out.Drivers[name] = &model.DriverNetwork{IP: t.address.IP, PortMap: t.address.PortMap, AutoAdvertise: t.address.AutoAdvertise}
	}
	if r.attached != nil {
		out.InterfaceName = r.attached.Interface
		out.Address, out.AddressIPv6 = r.attached.addresses()
		if d := r.attached.DNS; d != nil {
			out.DNS = &model.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
		}
		return out
	}
	for _, t := range r.tasks {
		if t.address != nil {
			out.Address = t.address.IP
		}
	}
	return out
}
