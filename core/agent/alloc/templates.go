// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// templateEvent is the type of events that templates make.
const templateEvent = "Template"

// Templates renders the templates of tasks.
type Templates interface {
	// Open parses all templates of a task.
	Open(ctx context.Context, t TemplateTask) (Rendering, error)
}

// TemplateTask is the input with which templates of a task are rendered.
type TemplateTask struct {
	Templates []*model.Template
	Env       map[string]string // variables as the task sees them, with facts of the node
	TaskDir   string            // absolute, as is AllocDir, the folder that the tasks share
	AllocDir  string
	Alloc     *model.Allocation
	Registry  template.Registry
	// Running means that the task already runs with rendered files; it must be notified
	// only of files that change now.
	Running bool
}

// Rendering keeps the templates of one task rendered.
type Rendering interface {
	// First returns when every template was rendered once.
	First(ctx context.Context) error
	// Changes delivers later changes until Close closes the channel; nil if there can be
	// none.
	Changes() <-chan TemplateChange
	// Env has the variables of the templates that are environment files.
	Env() template.Vars
	// Waiting names the data for which rendering waits.
	Waiting() []string
	Close()
}

// TemplateChange is what a task must do because rendered files have changed.
type TemplateChange = template.Change

// render renders the task's templates and puts their variables into its
// environment. Data that is missing is waited for, as long as the task is wanted.
func (p *preparation) render(ctx context.Context) error {
	if len(p.task.Templates) == 0 {
		return nil
	}
	if p.cfg.Templates == nil {
		return errdefs.InvalidArgumentf("task %q has templates, which this node cannot render", p.name)
	}
	if p.again() {
		p.closeTemplates(p.name)
	}
	for {
		err := p.renderOnce(ctx)
		if err == nil || !errdefs.IsDeadlineExceeded(err) {
			return err
		}
		// One try is over. Data may still come: that is no failure of the task.
		p.note(p.name, model.TaskEvent{Type: templateEvent, Message: err.Error() + "; it is tried again"})
	}
}

// again reports whether a restart renders the templates anew.
func (p *preparation) again() bool {
	policy := p.task.RestartPolicy
	if policy == nil {
		policy = p.group.RestartPolicy
	}
	return policy != nil && policy.RenderTemplates
}

func (p *preparation) renderOnce(ctx context.Context) error {
	var open Rendering
	err := p.runStep(ctx, p.name, step{name: StepTemplates, limit: p.cfg.Limits.Templates, detail: p.missing, do: func(ctx context.Context) (err error) {
		if open, err = p.openTemplates(ctx, p.name, false); err != nil {
			return err
		}
		if err = open.First(ctx); err != nil {
			if w := missing(open.Waiting()); w != "" && ctx.Err() != nil {
				err = errdefs.DeadlineExceededf("%s", w)
			}
			p.closeTemplates(p.name)
		}
		return err
	}})
	if err != nil {
		return err
	}
	vars := open.Env()
	p.knowSecrets(p.name, vars.Secret)
	p.env = p.environment(p.alloc, p.task, p.info.Capabilities, vars)
	return nil
}

// missing returns the data for which the open templates wait.
func (p *preparation) missing() string {
	p.mu.Lock()
	open := p.tasks[p.name].rendering
	p.mu.Unlock()
	if open == nil {
		return ""
	}
	return missing(open.Waiting())
}

// missing returns the text of the event that names the data for which a template waits.
func missing(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "Missing: " + strings.Join(names, ", ")
}

// openTemplates returns the open templates of a task, opening them if need be.
// From then on the task hears of their changes.
func (r *Runner) openTemplates(ctx context.Context, name string, running bool) (Rendering, error) {
	r.mu.Lock()
	open, a, t := r.tasks[name].rendering, r.alloc, r.tasks[name].job
	r.mu.Unlock()
	if open != nil {
		return open, nil
	}
	var c driver.Capabilities
	if drv, err := r.cfg.Drivers.Driver(t.Driver); err == nil {
		c = drv.Info().Capabilities
	}
	open, err := r.cfg.Templates.Open(ctx, TemplateTask{
		Templates: t.Templates, Env: r.environment(a, t, c, template.Vars{}).All(), TaskDir: r.dir.Task(name), AllocDir: r.dir.Shared(),
		Alloc: a, Registry: registryOf(a, t), Running: running,
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		open.Close()
		return nil, errdefs.Canceledf("the agent ends")
	}
	r.tasks[name].rendering = open
	if !running {
		r.tasks[name].firstScripts = firstScripts(t.Templates)
	}
	if changes := open.Changes(); changes != nil {
		r.work.Go(func() {
			for c := range changes {
				r.act(name, c)
			}
		})
	}
	return open, nil
}

func (r *Runner) closeTemplates(name string) {
	r.mu.Lock()
	open := r.tasks[name].rendering
	r.tasks[name].rendering = nil
	r.mu.Unlock()
	if open != nil {
		open.Close()
	}
}

// firstScripts are the scripts that also run once the task has started.
func firstScripts(templates []*model.Template) []*model.ChangeScript {
	var out []*model.ChangeScript
	for _, t := range templates {
		if t.ChangeMode == template.ModeScript && t.ChangeScript != nil && t.ChangeScript.RunOnFirstRender {
			out = append(out, t.ChangeScript)
		}
	}
	return out
}

// beginTemplates runs the scripts of the first render once the task has started, or opens
// the templates again after a restart of the agent.
func (r *Runner) beginTemplates(ctx context.Context, name string, run uint64) {
	r.mu.Lock()
	t := r.tasks[name]
	resume := t.rendering == nil && len(t.job.Templates) > 0 && r.cfg.Templates != nil
	scripts := t.firstScripts
	t.firstScripts = nil
	r.mu.Unlock()
	switch {
	case resume:
		r.work.Go(func() { r.resumeTemplates(ctx, name) })
	case len(scripts) > 0:
		r.work.Go(func() {
			for _, s := range scripts {
				r.runScript(ctx, name, run, s)
			}
		})
	}
}

// resumeTemplates renders the templates of a task that runs since before this
// agent. It never fails the task: it is tried until ctx ends.
func (r *Runner) resumeTemplates(ctx context.Context, name string) {
	for pause := retryMin; ctx.Err() == nil; pause = min(2*pause, retryMax) {
		open, err := r.openTemplates(ctx, name, true)
		if err == nil {
			if err = open.First(ctx); err == nil {
				r.knowSecrets(name, open.Env().Secret)
				return
			}
			r.closeTemplates(name)
		}
		if ctx.Err() != nil {
			return
		}
		r.logger.Warn("the templates of a running task cannot be rendered; it keeps the files that it has", "task", name, "error", err)
		r.pauseIn(ctx, pause)
	}
}

// act carries out the change_mode of changed templates. A task that does not run sees the
// new files when it next starts.
func (r *Runner) act(name string, c TemplateChange) {
	r.mu.Lock()
	t := r.tasks[name]
	phase, run := t.state.Phase, t.state.Run
	r.mu.Unlock()
	switch {
	case phase != task.Running && phase != task.Starting:
	case c.Mode == template.ModeRestart:
		r.post(name, task.Restart{Reason: "Template with change_mode restart re-rendered"})
	case phase == task.Running:
		for _, s := range c.Signals {
			r.signalForChange(r.ctx, name, s, "Template", "Template re-rendered")
		}
		for _, s := range c.Scripts {
			r.runScript(r.ctx, name, run, s)
		}
	}
}

// signalTimeout bounds the delivery of a signal, retries included.
const signalTimeout = time.Minute

// signalForChange sends a signal to the task because a template or a token has changed, and
// fails the task if it cannot. what and reason are for the events.
func (r *Runner) signalForChange(ctx context.Context, name, signal, what, reason string) {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	var err error
	for pause := retryMin; ; pause *= 2 {
		if err = r.signal(ctx, name, signal, reason); err == nil || errdefs.IsFailedPrecondition(err) {
			return // delivered, or the task runs no more
		}
		if errdefs.IsInvalidArgument(err) || errdefs.IsUnimplemented(err) || !r.pauseIn(ctx, pause) {
			break
		}
	}
	if r.ctx.Err() != nil {
		return
	}
	r.failByHook(name, what+" failed to send signal "+signal+": "+err.Error())
}

// failByHook kills a task because a hook of it has failed, such as the signal after a
// change of a template.
func (r *Runner) failByHook(name, why string) {
	r.post(name, task.Kill{Reason: model.TaskEvent{
		Type: model.TaskHookFailed, Message: why, DisplayMessage: why, FailsTask: true, Details: map[string]string{"message": why, "fails_task": "true"},
	}})
}

// registryOf returns from which part of a registry the templates of a task read: what its
// consul block names, or else what its group's consul block names.
func registryOf(a *model.Allocation, t *model.Task) template.Registry {
	own := t.Consul
	if tg := a.Job.LookupTaskGroup(a.TaskGroup); own == nil && tg != nil {
		own = tg.Consul
	}
	if own == nil {
		own = &model.Consul{}
	}
	out := template.Registry{Cluster: own.Cluster, Namespace: own.Namespace, Partition: own.Partition}
	if tg := a.Job.LookupTaskGroup(a.TaskGroup); tg != nil {
		if l, ok := TaskLogin(a.ID, tg, t); ok {
			out.As = l.ID
		}
	}
	return out
}
