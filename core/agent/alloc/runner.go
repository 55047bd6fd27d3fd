// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package alloc runs one alloc on its node: it carries out what core/agent/task
// decides, keeps the order of the group's tasks, judges the alloc's health, and
// writes down what an agent needs to go on after a restart before anybody is
// told. A runner has no goroutine of its own, only one per task that starts or
// runs. It does not talk to servers, own plugin processes or choose what runs
// here. Only core/agent and packages below it may import it.
package alloc

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/allocdir"
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
	ctx    context.Context // ends when the agent does, not when the alloc does
	cancel context.CancelFunc
	work   sync.WaitGroup

	building sync.Mutex // held while the alloc's folders are made
	built    bool
	tookOver bool // the data of the alloc before
	uid      int  // that Users gave; guarded by mu

	mu       sync.Mutex
	alloc    *model.Allocation
	group    *model.TaskGroup
	received time.Time
	tasks    map[string]*taskRun
	stop     task.StopRequest
	health   *model.AllocDeploymentStatus
	look     *time.Timer // when to settle again at the latest; see settle
	probing  probing
	ended    bool
	begun    bool // Start was called; until then nothing is done
	closed   bool
	lastErr  error
}

// taskRun is a task of the alloc.
type taskRun struct {
	job     *model.Task
	spec    task.Spec
	state   task.State
	handle  *driver.Handle
	address *driver.NetworkOverride
	timer   *time.Timer
	abort   context.CancelFunc // ends a start that is under way
	dirty   bool
	unseen  bool // what was read back of it has yet to be confirmed by its driver

	fetched      bool                  // its artifacts are there
	rendering    Rendering             // its templates, while they are open
	firstScripts []*model.ChangeScript // to be run when it has started
	at           StepStatus            // where a start is
	detail       func() string         // what the step there waits for
	left         <-chan struct{}       // closed when a step that was left behind has ended
	reserved     atomic.Pointer[device.Reservation]
}

// New makes the runner of an alloc that has just arrived, with its Job.
func New(cfg *Config, a *model.Allocation) (*Runner, error) {
	return Restore(cfg, &Record{Alloc: a, Received: cfg.Now()})
}

// Restore makes the runner of an alloc that an earlier agent ran.
func Restore(cfg *Config, rec *Record) (*Runner, error) {
	a := rec.Alloc
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return nil, errdefs.InvalidArgumentf("alloc %s: its job has no group %q; evaluate the job again", a.ID, a.TaskGroup)
	}
	r := &Runner{
		cfg: cfg, id: a.ID, dir: allocdir.New(cfg.Root, a.ID), logger: cfg.Logger.With("alloc_id", a.ID),
		alloc: a, group: tg, received: rec.Received, health: rec.Health, uid: rec.UID, tasks: map[string]*taskRun{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	now := cfg.Now()
	for _, t := range tg.Tasks {
		run := &taskRun{job: t, spec: cfg.specOf(a.Job, tg, t), state: task.New(now)}
		if old, ok := rec.Tasks[t.Name]; ok {
			run.state, run.handle, run.fetched = old.State, old.Handle, old.Fetched
		}
		r.tasks[t.Name] = run
	}
	return r, nil
}

// Start begins to run the alloc, or goes on with it after a restart.
func (r *Runner) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
	r.want(r.alloc)
	now := r.cfg.Now()
	var effects effects
	for name, t := range r.tasks {
		r.resume(name, t, now, &effects)
		t.dirty = true
	}
	r.saveAlloc()
	r.settle(&effects)
}

// Update takes what servers want of the alloc now. a carries its Job.
func (r *Runner) Update(a *model.Allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		r.lastErr = errdefs.InvalidArgumentf("alloc %s: its new job version has no group %q; evaluate the job again", a.ID, a.TaskGroup)
		r.logger.Error("update refused", "error", r.lastErr)
		return
	}
	if a.DeploymentID != r.alloc.DeploymentID {
		r.health, r.received, r.probing.passed = nil, r.cfg.Now(), false // a new deployment asks anew
	}
	back := a.UnknownSince().After(r.alloc.UnknownSince())
	r.alloc, r.group = a, tg
	for _, t := range tg.Tasks {
		if run := r.tasks[t.Name]; run != nil { // in-place updates never add tasks
			run.job, run.spec = t, r.cfg.specOf(a.Job, tg, t)
		}
	}
	r.want(a)
	r.saveAlloc()
	var e effects
	if back {
		r.noteReturn(&e)
	}
	r.settle(&e)
}

// noteReturn notes with every task that runs that servers, who held the alloc for out
// of reach, have heard of its node again. They may have heard how it is, too, before
// the node hears that they had held it so.
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

// Stop ends the alloc whatever servers want: its node gives it up.
func (r *Runner) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop.Wanted = true
	r.settle(&effects{})
}

// CutOff ends the alloc, which fails: its node has lost the servers for longer than
// its group allows. They decide where its work is done from now on.
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

// Close lets go of the alloc without ending its tasks, and waits until nothing
// of the runner runs any more.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for _, t := range r.tasks {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
	if r.look != nil {
		r.look.Stop()
	}
	r.mu.Unlock()
	r.cancel()
	for name := range r.tasks {
		r.closeTemplates(name)
	}
	r.work.Wait()
}

// Destroy removes what is left of an alloc that has ended.
func (r *Runner) Destroy(ctx context.Context) error {
	if !r.Ended() {
		return errdefs.FailedPreconditionf("alloc %s has not ended; stop it first", r.id)
	}
	r.Close()
	if err := r.dir.Remove(); err != nil {
		return err
	}
	if err := r.cfg.Store.DeleteAlloc(ctx, r.id); err != nil {
		return err
	}
	r.cfg.Users.Release(r.id)
	return nil
}

// effects is what a round of steps wants done, by task.
type effects struct{ list []taskEffects }

type taskEffects struct {
	name string
	list []task.Effect
}

// post hands an event to a task.
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
	switch ev.(type) {
	case task.Kill, task.Rerun:
		if t.abort != nil {
			t.abort()
		}
	}
	next, list := task.Step(t.spec, t.state, ev, r.cfg.Now())
	t.dirty = t.dirty || !reflect.DeepEqual(next, t.state)
	t.state = next
	if len(list) > 0 {
		e.list = append(e.list, taskEffects{name, list})
	}
}

// settle brings the group in order, writes down what has changed, tells the
// servers, and only then does what is to be done.
func (r *Runner) settle(e *effects) {
	if r.closed || !r.begun {
		return
	}
	now := r.cfg.Now()
	for {
		actions := task.Order(r.group, r.states(), r.wanted(now))
		if len(actions) == 0 {
			break
		}
		for _, a := range actions {
			r.step(a.Task, a.Event, e)
		}
	}
	r.lookAgain(now, r.judge(now, e), task.Expiry(r.group, r.states()))
	r.saveTasks()
	if r.seen() {
		r.cfg.Publish(r.view())
	}
	for _, te := range e.list {
		r.carryOut(te)
	}
	r.letGo()
	r.noteEnd()
}

// seen reports whether all tasks are what their states say. Of what was read back
// after a restart of the agent that is not known until the drivers have said so,
// and until then nobody is told: the machine may have been restarted, too.
func (r *Runner) seen() bool {
	for _, t := range r.tasks {
		if t.unseen {
			return false
		}
	}
	return true
}

// letGo closes the templates of tasks that are dead.
func (r *Runner) letGo() {
	for _, t := range r.tasks {
		if open := t.rendering; open != nil && t.state.Phase == task.Dead {
			t.rendering = nil
			r.work.Go(open.Close)
		}
	}
}

func (r *Runner) noteEnd() {
	for _, t := range r.tasks {
		if t.state.Phase != task.Dead {
			r.ended = false
			return
		}
	}
	if !r.ended {
		r.ended = true
		r.cfg.Ended(r.id)
	}
}

func (r *Runner) states() map[string]task.State {
	out := make(map[string]task.State, len(r.tasks))
	for name, t := range r.tasks {
		out[name] = t.state
	}
	return out
}

// wanted is what is wanted of the alloc: by servers, its node and its own limits.
func (r *Runner) wanted(now time.Time) task.StopRequest {
	stop := r.stop
	end := task.Expiry(r.group, r.states())
	stop.Expired = !end.IsZero() && !now.Before(end)
	return stop
}

// lookAgain has the alloc settled again at the first of the times that is to come.
func (r *Runner) lookAgain(now time.Time, times ...time.Time) {
	if r.look != nil {
		r.look.Stop()
		r.look = nil
	}
	var first time.Time
	for _, at := range times {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if !first.IsZero() && !r.ended {
		r.look = time.AfterFunc(first.Sub(now), r.reconsider)
	}
}

// judge decides the alloc's health once, if anybody waits for it, and returns
// when to ask again; zero if there is no need.
func (r *Runner) judge(now time.Time, e *effects) (again time.Time) {
	rule, ok := ruleOf(r.alloc, r.group, r.received)
	if !ok || r.stop.Wanted || r.health != nil && r.health.Healthy != nil || !r.seen() {
		return time.Time{}
	}
	v := judge(rule, r.group, r.states(), now)
	if v.decided && v.healthy {
		v = r.gate(rule, now)
	}
	if !v.decided {
		return v.at
	}
	for name, why := range v.reason {
		r.step(name, task.Note{Event: model.TaskEvent{
			Type: model.AllocHealthy, Message: why, DisplayMessage: why, Details: map[string]string{"message": why},
		}}, e)
	}
	r.health = &model.AllocDeploymentStatus{Healthy: &v.healthy, Timestamp: now.UTC(), Canary: r.alloc.DeploymentStatus.IsCanary()}
	r.saveAlloc()
	return time.Time{}
}

func (r *Runner) reconsider() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(&effects{})
}

func (r *Runner) saveAlloc() {
	err := r.cfg.Store.PutAlloc(r.ctx, r.record())
	r.noteSaved(err)
}

func (r *Runner) record() *Record {
	return &Record{Alloc: r.alloc, Received: r.received, Health: r.health, UID: r.uid}
}

func (r *Runner) saveTasks() {
	dirty := map[string]TaskRecord{}
	for name, t := range r.tasks {
		if t.dirty {
			dirty[name] = TaskRecord{State: t.state, Handle: t.handle, Fetched: t.fetched}
			t.dirty = false
		}
	}
	if len(dirty) > 0 {
		r.noteSaved(r.cfg.Store.PutTasks(r.ctx, r.id, dirty))
	}
}

// noteSaved: tasks go on when the disk is full; only a restart of the agent
// would then not find them.
func (r *Runner) noteSaved(err error) {
	if err != nil && r.ctx.Err() == nil {
		r.lastErr = err
		r.logger.Error("the state of the alloc could not be kept; a restart of the agent would lose it", "error", err)
	}
}

// view is what servers are told. It is shared and never changed afterwards.
func (r *Runner) view() *model.Allocation {
	a := r.alloc
	out := &model.Allocation{
		ID: a.ID, Namespace: a.Namespace, Name: a.Name, NodeID: a.NodeID, JobID: a.JobID, TaskGroup: a.TaskGroup,
		EvalID: a.EvalID, DeploymentID: a.DeploymentID, NetworkStatus: r.network(),
		DeploymentStatus: r.health, TaskStates: make(map[string]*model.TaskState, len(r.tasks)),
	}
	out.ClientStatus, out.ClientDescription = clientStatus(r.states())
	for name, t := range r.tasks {
		out.TaskStates[name] = t.state.Reported()
	}
	return out
}

// network is the address that a driver gave one of the tasks, if any.
func (r *Runner) network() *model.AllocNetworkStatus {
	out := &model.AllocNetworkStatus{}
	for _, t := range r.tasks {
		if t.address != nil {
			out.Address = t.address.IP
		}
	}
	return out
}
