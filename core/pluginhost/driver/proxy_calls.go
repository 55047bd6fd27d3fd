// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"slices"
	"time"

	v1 "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var _ Driver = (*Proxy)(nil)

// StartTask starts a task in the driver's process and remembers its handle.
func (p *Proxy) StartTask(ctx context.Context, config *TaskConfig) (*Handle, *NetworkOverride, error) {
	if err := p.refusal(); err != nil {
		return nil, nil, err
	}
	defer p.begin()()
	d, gen, err := p.forCall(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer p.leave(gen)
	config = withSecrets(d.Info(), config)
	var handle *Handle
	var override *NetworkOverride
	var failed error
	begun := time.Now()
	defer p.starting()()
	err = p.call(ctx, p.limits.Start, func(ctx context.Context) error {
		handle, override, failed = d.StartTask(ctx, config)
		if errdefs.IsUnavailable(failed) {
			return nil // the start may need something unavailable, such as its image, which does not concern other tasks
		}
		return failed
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, nil, p.undo(ctx, d, gen, config, begun, err)
	}
	if handle == nil || handle.TaskID != config.ID {
		err := errdefs.Internalf("driver %q: it started task %s and returned no handle for it, or the handle of another task; the plugin is defective", p.name, config.ID)
		return nil, nil, p.undo(ctx, d, gen, config, begun, err)
	}
	p.remember(handle, gen)
	return handle, override, nil
}

// starting tells the owner of the process that the driver is to start processes, until the
// function that it returns is called.
func (p *Proxy) starting() (ended func()) {
	if p.hooks.Starting == nil {
		return func() {}
	}
	return p.hooks.Starting()
}

// withSecrets moves the secrets into the environment for a driver without
// Capabilities.SecretEnv: an older one, or one built for Nomad.
func withSecrets(info Info, config *TaskConfig) *TaskConfig {
	if info.Capabilities.SecretEnv {
		return config
	}
	return config.WithoutSecretEnv()
}

// RecoverTask makes a task known to the driver's process, and to later processes.
func (p *Proxy) RecoverTask(ctx context.Context, handle *Handle) error {
	defer p.begin()()
	d, gen, err := p.forCall(ctx)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	if err := p.call(ctx, p.limits.Call, func(ctx context.Context) error { return d.RecoverTask(ctx, handle) }); err != nil {
		if errdefs.IsNotFound(err) {
			lost(ctx, d, handle)
		}
		return err
	}
	p.remember(handle, gen)
	return nil
}

// WaitTask waits for the end of the task across any number of plugin processes. It
// returns Unavailable only when the host closes.
func (p *Proxy) WaitTask(ctx context.Context, taskID string) (ExitResult, error) {
	for {
		d, gen, err := p.forTask(ctx, taskID, p.patiently)
		if err == nil {
			var result ExitResult
			result, err = p.waitIn(ctx, d, gen, taskID)
			if err == nil {
				return result, nil
			}
		}
		if ctx.Err() != nil {
			return ExitResult{}, ctx.Err()
		}
		if !transient(err) || !p.pause(ctx, taskID, gen) {
			return ExitResult{}, err
		}
	}
}

// patiently waits for a process for as long as it takes.
func (p *Proxy) patiently(ctx context.Context) (Driver, uint64, error) { return p.acquire(ctx, 0) }

// call makes one call with a time limit, unless the breaker is open.
func (p *Proxy) call(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	return p.breaker.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return settle(ctx, do(ctx))
	})
}

// waitIn waits in one process. If another one replaces it, that is Unavailable.
func (p *Proxy) waitIn(ctx context.Context, d Driver, gen uint64, taskID string) (ExitResult, error) {
	defer p.leave(gen)
	during, cancel := p.while(ctx, gen)
	defer cancel()
	result, err := d.WaitTask(during, taskID)
	return result, settle(ctx, err)
}

// transient reports whether the error says nothing about the task, so that the call is
// repeated.
func transient(err error) bool {
	return errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err)
}

// pause waits for a process other than generation gen, or for a while, since the
// driver itself may have been unable to answer. It then has the task recovered again.
// It returns false if the proxy is closed.
func (p *Proxy) pause(ctx context.Context, taskID string, gen uint64) bool {
	_, now, changed, closed := p.state()
	if closed {
		return false
	}
	if now != gen {
		return true
	}
	timer := time.NewTimer(p.limits.Retry)
	defer timer.Stop()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-timer.C:
		p.doubt(taskID)
	}
	return true
}

// doubt has the task recovered at its next call.
func (p *Proxy) doubt(taskID string) {
	p.mu.Lock()
	t := p.tasks[taskID]
	p.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation = 0
}

// onTask carries out one quick call about a task.
func (p *Proxy) onTask(ctx context.Context, taskID string, limit time.Duration, call func(context.Context, Driver) error) error {
	defer p.begin()()
	d, gen, err := p.forTask(ctx, taskID, p.forCall)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	return p.call(ctx, limit, func(ctx context.Context) error { return call(ctx, d) })
}

// StopTask stops a task.
func (p *Proxy) StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error {
	return p.onTask(ctx, taskID, timeout+p.limits.StopExtra, func(ctx context.Context, d Driver) error {
		return d.StopTask(ctx, taskID, timeout, signal)
	})
}

// DestroyTask destroys a task, and forgets it if that worked.
func (p *Proxy) DestroyTask(ctx context.Context, ref TaskRef, force bool) error {
	err := p.destroy(ctx, ref, force)
	if errdefs.IsNotFound(err) { // it could not be recovered, so there is nothing to destroy
		err = nil
	}
	if err == nil {
		p.forget(ref.ID)
	}
	return err
}

// destroy calls DestroyTask. A task that cannot be destroyed does not delay calls for
// others.
func (p *Proxy) destroy(ctx context.Context, ref TaskRef, force bool) error {
	defer p.begin()()
	d, gen, err := p.forTask(ctx, ref.ID, p.forCall)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	return p.breaker.Aside(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, p.limits.Call)
		defer cancel()
		return settle(ctx, d.DestroyTask(ctx, ref, force))
	})
}

// InspectTask says how a task is.
func (p *Proxy) InspectTask(ctx context.Context, taskID string) (*TaskStatus, error) {
	var status *TaskStatus
	err := p.onTask(ctx, taskID, p.limits.Call, func(ctx context.Context, d Driver) (err error) {
		status, err = d.InspectTask(ctx, taskID)
		return err
	})
	if err == nil && status.State != TaskRunning && status.State != TaskExited {
		status.State = TaskUnknown // whatever the driver reports
	}
	return status, err
}

// ListTasks implements Lister. It does not start a process.
func (p *Proxy) ListTasks(ctx context.Context) ([]*Handle, error) {
	d, gen, _, closed := p.enter()
	if d == nil || closed {
		return nil, p.away()
	}
	defer p.leave(gen)
	l, ok := d.(Lister)
	if !ok {
		return nil, errdefs.Unimplementedf("driver %q does not list its tasks", p.name)
	}
	var list []*Handle
	var answered error
	err := p.call(ctx, p.limits.Call, func(ctx context.Context) error {
		if list, answered = l.ListTasks(ctx); errdefs.IsUnavailable(answered) {
			return nil // the service that the driver asks may be unavailable, which does not concern its calls
		}
		return answered
	})
	if err == nil {
		err = answered
	}
	p.mu.Lock()
	p.lists = p.lists || err == nil
	p.mu.Unlock()
	return list, err
}

// validateLimit limits a validation, which a start waits for.
const validateLimit = 5 * time.Second

// ValidateTask implements Validator. It does not start a process.
func (p *Proxy) ValidateTask(ctx context.Context, task *TaskDraft) ([]Diagnostic, error) {
	d, gen, _, closed := p.enter()
	if d == nil || closed {
		return nil, p.away()
	}
	defer p.leave(gen)
	v, ok := d.(Validator)
	if !ok || !slices.Contains(d.Info().Features, v1.FeatureValidateTask) {
		return nil, errdefs.Unimplementedf("driver %q does not validate configs", p.name)
	}
	ctx, cancel := context.WithTimeout(ctx, min(validateLimit, p.limits.Call))
	defer cancel()
	// The call bypasses the breaker, because a slow rule of the plugin says nothing about
	// its other calls.
	found, err := v.ValidateTask(ctx, task)
	return found, settle(ctx, err)
}

// ProcessStats implements ProcessMeter.
func (p *Proxy) ProcessStats(ctx context.Context, taskID string) (map[string]PidStats, error) {
	var out map[string]PidStats
	err := p.onTask(ctx, taskID, p.limits.Call, func(ctx context.Context, d Driver) (err error) {
		m, ok := d.(ProcessMeter)
		if !ok || !slices.Contains(d.Info().Features, v1.FeatureProcessStats) {
			return errdefs.Unimplementedf("driver %q does not measure single processes", p.name)
		}
		out, err = m.ProcessStats(ctx, taskID)
		return err
	})
	return out, err
}

// UpdateTask implements Updater.
func (p *Proxy) UpdateTask(ctx context.Context, taskID string, resources Resources) error {
	return p.onTask(ctx, taskID, p.limits.Call, func(ctx context.Context, d Driver) error {
		u, ok := d.(Updater)
		if !ok || !slices.Contains(d.Info().Features, v1.FeatureUpdateResources) {
			return errdefs.Unimplementedf("driver %q cannot change the resources of a running task", p.name)
		}
		return u.UpdateTask(ctx, taskID, resources)
	})
}

// PauseTask implements Pauser.
func (p *Proxy) PauseTask(ctx context.Context, taskID string) error {
	return p.onPauser(ctx, taskID, Pauser.PauseTask)
}

// ResumeTask implements Pauser.
func (p *Proxy) ResumeTask(ctx context.Context, taskID string) error {
	return p.onPauser(ctx, taskID, Pauser.ResumeTask)
}

func (p *Proxy) onPauser(ctx context.Context, taskID string, call func(Pauser, context.Context, string) error) error {
	return p.onTask(ctx, taskID, p.limits.Call, func(ctx context.Context, d Driver) error {
		u, ok := d.(Pauser)
		if !ok || !slices.Contains(d.Info().Features, v1.FeaturePause) {
			return errdefs.Unimplementedf("driver %q cannot pause tasks", p.name)
		}
		return call(u, ctx, taskID)
	})
}

// ReadLogs implements LogReader. It ends with ctx and has no other time limit.
func (p *Proxy) ReadLogs(ctx context.Context, taskID string, q LogQuery, send func(LogPiece) error) error {
	defer p.begin()()
	d, gen, err := p.forTask(ctx, taskID, p.forCall)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	l, ok := d.(LogReader)
	if !ok || !slices.Contains(d.Info().Features, v1.FeatureReadLogs) {
		return errdefs.Unimplementedf("driver %q cannot read the output of its tasks", p.name)
	}
	during, cancel := p.while(ctx, gen)
	defer cancel()
	return settle(ctx, l.ReadLogs(during, taskID, q, send))
}

// SignalTask signals a task.
func (p *Proxy) SignalTask(ctx context.Context, taskID string, signal string) error {
	defer p.begin()()
	d, gen, err := p.forTask(ctx, taskID, p.forCall)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	err = p.call(ctx, p.limits.Call, func(ctx context.Context) error { return d.SignalTask(ctx, taskID, signal) })
	return p.explain(ctx, gen, err)
}

// ExecTask runs a command in a task. It ends with ctx and has no other time limit.
func (p *Proxy) ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error) {
	defer p.begin()()
	d, gen, err := p.forTask(ctx, taskID, p.forCall)
	if err != nil {
		return ExitResult{}, err
	}
	defer p.leave(gen)
	defer p.starting()()
	result, err := d.ExecTask(ctx, taskID, opts, stream)
	return result, p.explain(ctx, gen, settle(ctx, err))
}
