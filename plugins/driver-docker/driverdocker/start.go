// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// StartTask implements driver.Driver.
func (d *Driver) StartTask(ctx context.Context, tc *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	c, err := parseTaskConfig(tc.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	agent, x, _ := d.now()
	if x == nil {
		return nil, nil, errdefs.FailedPreconditionf("start task %q: the driver has no config yet", tc.ID)
	}
	if _, err := c.pullLimit(agent); err != nil { // also if the image is there
		return nil, nil, err
	}
	if err := d.learnNode(tc.NodeID); err != nil {
		return nil, nil, err
	}
	if err := d.beginStart(tc.ID); err != nil {
		return nil, nil, err
	}
	defer d.endStart(tc.ID)
	s := &start{Driver: d, daemon: x, agent: agent, config: c, task: tc, mounts: stage{all: d.stages, endpoint: x.endpoint}}
	defer s.mounts.release()
	handle, address, err := s.run(ctx)
	if err = s.seen(err); err != nil {
		s.undo()
		return nil, nil, wrapTask(tc.ID, err)
	}
	return handle, address, nil
}

func (d *Driver) beginStart(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[id] != nil || d.starting[id] {
		return errdefs.AlreadyExistsf("task %q: is there already; destroy it before it is started again", id)
	}
	d.starting[id] = true
	return nil
}

func (d *Driver) endStart(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starting, id)
}

// start holds the state of one start of a task.
type start struct {
	*Driver
	daemon *daemon
	agent  agentConfig
	config taskConfig
	task   *driver.TaskConfig
	mounts stage

	image     string
	container string
}

func (s *start) run(ctx context.Context) (*driver.Handle, *driver.NetworkOverride, error) {
	spec, err := s.spec(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.create(ctx, spec); err != nil {
		return nil, nil, err
	}
	t := newTask(s.task.ID, s.daemon, handleState{
		Endpoint: s.daemon.endpoint, Container: s.container, Image: s.image, TTY: s.config.TTY, Logs: logsOf(s.task, s.agent),
	})
	t.mounts = s.mounts.name
	s.daemon.adopt(t) // before it starts, since it may end at once
	limited, cancel := context.WithTimeout(ctx, workLimit)
	defer cancel()
	if _, err := s.daemon.api.Load().ContainerStart(limited, s.container, client.ContainerStartOptions{}); err != nil {
		return nil, nil, s.daemon.failed(ctx, err, "start container %s", short(s.container))
	}
	c, err := s.daemon.inspect(ctx, s.container)
	if err != nil {
		return nil, nil, err
	}
	t.note(c)
	ports, err := mapped(specInput{task: s.task, config: s.config})
	if err != nil {
		return nil, nil, err
	}
	handle, err := t.handle()
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-s.learnTask(t):
	case <-ctx.Done(): // it is started nevertheless
	}
	return handle, override(c, s.config.AdvertiseIPv6Address, nonEmpty(ports)), nil
}

// learnTask registers the task and starts copying its output. The returned channel is closed
// once the log files are there, or cannot be.
func (d *Driver) learnTask(t *task) <-chan struct{} {
	ctx, cancel := context.WithCancel(d.ctx)
	t.stopLogs = cancel
	opened := make(chan struct{})
	d.mu.Lock()
	d.known[t.id], d.claimed[t.id] = t, true
	d.mu.Unlock()
	d.work.Go(func() {
		defer close(t.logged)
		t.copyLogs(ctx, d.dir, func() { close(opened) })
	})
	return opened
}

// spec validates the config before the image is pulled.
func (s *start) spec(ctx context.Context) (client.ContainerCreateOptions, error) {
	var none client.ContainerCreateOptions
	f, err := s.daemon.learn(ctx)
	if err != nil {
		return none, err
	}
	in := specInput{
		task: s.task, config: s.config, agent: s.agent, owner: s.owner, image: s.config.Image,
		api: s.daemon.api.Load().ClientVersion(), host: f, source: checked,
	}
	if _, err := buildSpec(in); err != nil {
		return none, err
	}
	if s.image, err = s.daemon.prepareImage(ctx, s.agent, s.config, s.task); err != nil {
		return none, err
	}
	in.image, in.source = s.image, s.mounted
	spec, err := buildSpec(in)
	if err == nil {
		err = s.writeNames(in, spec.HostConfig)
	}
	if s.mounts.name != "" && err == nil {
		spec.Config.Labels[labelMounts] = s.mounts.name
	}
	// The name is more readable than the id in lists of containers.
	if id, ierr := s.daemon.imageID(ctx, s.config.Image); err == nil && ierr == nil && id == s.image {
		spec.Config.Image = s.config.Image
	}
	return spec, err
}

// mounted mounts a source. A process that may not mount passes the task's own directories
// by path, and paths that a task could replace only if the operator lets tasks mount any
// path of the machine.
func (s *start) mounted(dir, rel string, create bool) (string, error) {
	if canStage() {
		return s.mounts.bind(dir, rel, create)
	}
	own := rel == "alloc" && dir == s.task.AllocDir || (rel == "local" || rel == "secrets") && dir == s.task.TaskDir
	if runtime.GOOS == "linux" && !own && !s.agent.Volumes.Enabled {
		return "", errdefs.FailedPreconditionf("show %s to the container: a task could replace it with a link unless root mounts it; run the agent as root, or allow any path with volumes { enabled = true } in the agent's plugin \"docker\" config", joinPath(dir, rel))
	}
	return checked(dir, rel, create)
}

// seen returns the result of the start. The start has failed if the daemon does not
// see the mounts.
func (s *start) seen(err error) error {
	unseen, uerr := s.mounts.unseen()
	if unseen {
		return errdefs.New(errdefs.FailedPrecondition, fmt.Errorf("%w; %s", errors.Join(err, errUnseen), s.stages.unseenCure()))
	}
	return errors.Join(err, uerr)
}

// create creates the container. If an older container of the same task has the name,
// it is removed.
func (s *start) create(ctx context.Context, spec client.ContainerCreateOptions) error {
	attempts := s.agent.ContainerExistsAttempts
	if s.config.ContainerExistsAttempts > 0 {
		attempts = s.config.ContainerExistsAttempts
	}
	for try := 0; ; try++ {
		limited, cancel := context.WithTimeout(ctx, workLimit)
		r, err := s.daemon.api.Load().ContainerCreate(limited, spec)
		cancel()
		if err == nil {
			s.container = r.ID
			if s.mounts.name != "" {
				s.stages.seen.Store(true)
			}
			for _, w := range r.Warnings {
				s.log.Warn("the Docker daemon has warnings for a container", "task_id", s.task.ID, "warning", w)
			}
			return nil
		}
		err = s.daemon.failed(ctx, err, "create container %s", spec.Name)
		if errdefs.IsInvalidArgument(err) && s.mounts.name != "" {
			return s.stages.explain(err)
		}
		if !errdefs.IsConflict(err) || try >= attempts {
			return err
		}
		if terr := s.takeName(ctx, spec.Name); terr != nil {
			return errors.Join(terr, err)
		}
		if !pause(ctx, time.Duration(try)*500*time.Millisecond) {
			return fmt.Errorf("create container %s: %w", spec.Name, ctx.Err())
		}
	}
}

// takeName removes the container that has the name, if its labels prove that it
// belongs to an earlier run of the same task.
func (s *start) takeName(ctx context.Context, name string) error {
	c, err := s.daemon.inspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	l := c.Config.Labels
	if l[labelOwner] != s.owner || l[labelAlloc] != s.task.AllocID || l[labelName] != s.task.Name {
		return errdefs.FailedPreconditionf("container %s (%s) has the name that the task's container needs, but does not belong to this node; remove or rename it", name, short(c.ID))
	}
	if other := s.daemon.task(c.ID); other != nil && other.result() == nil {
		return errdefs.FailedPreconditionf("container %s (%s) has the name that the task's container needs, and belongs to task %q, which still runs; stop that task first", name, short(c.ID), other.id)
	}
	return s.discard(ctx, s.daemon, c.ID, l[labelMounts])
}

// undo removes what a failed start has left behind.
func (s *start) undo() {
	ctx, cancel := context.WithTimeout(s.ctx, workLimit)
	defer cancel()
	if s.container != "" {
		s.daemon.disown(s.container)
		if err := s.discard(ctx, s.daemon, s.container, s.mounts.name); err != nil {
			s.log.Warn("cannot remove the container of a failed start", "task_id", s.task.ID, "container", s.container, "error", err)
		}
	} else {
		s.unmount(s.mounts.name)
	}
	if s.image != "" {
		s.daemon.images.release(s.image, s.task.ID, time.Now(), s.agent)
	}
}

// RecoverTask implements driver.Driver.
func (d *Driver) RecoverTask(ctx context.Context, h *driver.Handle) error {
	state, err := parseHandle(h)
	if err != nil {
		return err
	}
	if known, err := d.beginRecovery(h.TaskID); known || err != nil {
		return err
	}
	defer d.endStart(h.TaskID)
	x, err := d.daemonOf(state.Endpoint)
	if err != nil {
		return err
	}
	t := newTask(h.TaskID, x, state)
	t.recovered = true
	x.adopt(t) // before it is inspected, since it may end in between
	c, err := x.inspect(ctx, state.Container)
	switch {
	case errdefs.IsNotFound(err):
		err = errdefs.NotFoundf("recover task %q: its container %s is gone", h.TaskID, short(state.Container))
		removeCursor(d.dir, state.Container)
	case err != nil:
		err = errdefs.Unavailablef("recover task %q: %w", h.TaskID, err)
	case c.Config.Labels[labelTask] != h.TaskID:
		err = errdefs.NotFoundf("recover task %q: container %s is not the task's", h.TaskID, short(state.Container))
	}
	if err != nil {
		x.disown(state.Container)
		if errdefs.IsNotFound(err) {
			d.unclaim(h.TaskID)
		}
		return err
	}
	x.images.use(state.Image, t.id)
	t.mounts = c.Config.Labels[labelMounts]
	t.note(c)
	d.learnTask(t)
	return nil
}

// beginRecovery prevents two concurrent recoveries of a task, which would both copy
// its output. From now on the task's container is not an orphan.
func (d *Driver) beginRecovery(id string) (known bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[id] != nil {
		return true, nil
	}
	if d.starting[id] {
		return false, errdefs.Unavailablef("recover task %q: it is being started or recovered already; ask again", id)
	}
	d.starting[id], d.claimed[id] = true, true
	return false, nil
}

func (d *Driver) unclaim(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.claimed, id)
}

// daemonOf returns the daemon in which a task was started. Since then the config may
// have changed to another daemon.
func (d *Driver) daemonOf(endpoint string) (*daemon, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.daemons[endpoint]; x != nil {
		return x, nil
	}
	c := d.config
	c.Endpoint = endpoint
	api, err := newClient(c)
	if err != nil {
		return nil, errdefs.Unavailablef("%w", err)
	}
	return d.newDaemon(api, endpoint)
}

// InspectTask implements driver.Driver.
func (d *Driver) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	t, err := d.of(id)
	if err != nil {
		return nil, err
	}
	c, cerr := t.d.inspect(ctx, t.state.Container)
	if cerr == nil {
		t.note(c)
	} else if errdefs.IsNotFound(cerr) {
		_ = t.settle(ctx) // settle records that the container was removed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := &driver.TaskStatus{ID: id, State: driver.TaskRunning, StartedAt: t.startedAt, Attributes: map[string]string{
		"container_id": t.state.Container, "image_id": t.state.Image, "endpoint": t.state.Endpoint,
	}}
	if cerr == nil {
		describe(c, out.Attributes)
	}
	if t.dropped > 0 {
		out.Attributes["dropped_log_bytes"] = fmt.Sprint(t.dropped)
	}
	if t.exit != nil {
		r := *t.exit
		out.State, out.ExitedAt, out.Exit = driver.TaskExited, t.endedAt, &r
	} else if cerr != nil {
		out.State = driver.TaskUnknown // the daemon does not answer
	} else {
		out.Paused = c.State.Paused
	}
	return out, nil
}

// describe adds attributes of a container for users.
func describe(c container.InspectResponse, out map[string]string) {
	if len(c.Name) > 1 {
		out["container_name"] = c.Name[1:]
	}
	out["image"] = c.Config.Image
	if c.State.Pid > 0 {
		out["pid"] = fmt.Sprint(c.State.Pid)
	}
	if c.State.Health != nil {
		out["health"] = string(c.State.Health.Status)
	}
	if c.HostConfig != nil {
		out["network_mode"] = string(c.HostConfig.NetworkMode)
		out["runtime"] = c.HostConfig.Runtime
	}
	if c.NetworkSettings == nil {
		return
	}
	for name, e := range c.NetworkSettings.Networks {
		if e != nil && e.IPAddress.IsValid() {
			out["network."+name+".ip"] = e.IPAddress.String()
		}
		if e != nil && e.GlobalIPv6Address.IsValid() {
			out["network."+name+".ipv6"] = e.GlobalIPv6Address.String()
		}
	}
	for port, bindings := range c.NetworkSettings.Ports {
		for _, b := range bindings {
			out["port."+port.String()] = b.HostIP.String() + ":" + b.HostPort
		}
	}
}
