// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// socketName is the name of a driver's socket, as the reference has it.
const socketName = "csi.sock"

// Driver is a task that is a CSI driver.
type Driver struct {
	AllocID string
	Task    string
	Plugin  *model.TaskCSIPluginConfig
	// Isolated means that the task has a file system of its own, into which folders of the
	// node are mounted.
	Isolated bool
	// Healthy means that the driver has answered already, to an agent before.
	Healthy bool
	// Note adds an event to the task, and Fail ends it as failed. They may block.
	Note, Fail func(model.TaskEvent)
}

// controls and publishes report which parts of a driver a task is.
func controls(p *model.TaskCSIPluginConfig) bool  { return p.Type != model.CSIPluginNode }
func publishes(p *model.TaskCSIPluginConfig) bool { return p.Type != model.CSIPluginController }

// Folders are directories of the node that a task gets that is a driver.
type Folders struct {
	Socket string // where the driver makes its socket
	Mounts string // where it stages and publishes volumes; "" for a controller
}

// Endpoint is what the task of a driver finds in CSI_ENDPOINT.
func (k *Keeper) Endpoint(d Driver) string {
	if d.Isolated {
		return "unix://" + filepath.Join(d.Plugin.MountDir, socketName)
	}
	return "unix://" + k.socket(d)
}

func (k *Keeper) socketDir(d Driver) string {
	return filepath.Join(k.sockets, digest(d.AllocID + "/" + d.Task)[:16])
}

func (k *Keeper) socket(d Driver) string { return filepath.Join(k.socketDir(d), socketName) }

// mounts is the directory with everything that a plugin stages and publishes on the node.
func (k *Keeper) mounts(pluginID string) string {
	return filepath.Join(k.cfg.Dir, "node", part{id: pluginID}.name())
}

// Folders returns the folders of a driver. Prepare makes them.
func (k *Keeper) Folders(d Driver) Folders {
	out := Folders{Socket: k.socketDir(d)}
	if publishes(d.Plugin) {
		out.Mounts = k.mounts(d.Plugin.ID)
	}
	return out
}

// Prepare makes the folders of a driver before its task starts.
func (k *Keeper) Prepare(d Driver) error {
	f := k.Folders(d)
	// The directory of all sockets keeps everybody out except root and the mounts in tasks,
	// whose users may be any.
	if err := errors.Join(os.MkdirAll(k.sockets, 0o700), os.Chmod(k.sockets, 0o700), os.MkdirAll(f.Socket, 0o777), os.Chmod(f.Socket, 0o777)); err != nil {
		return fmt.Errorf("make the folder for the socket of CSI driver %q: %w", d.Plugin.ID, err)
	}
	if err := os.Remove(filepath.Join(f.Socket, socketName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old socket of CSI driver %q: %w", d.Plugin.ID, err)
	}
	if f.Mounts == "" {
		return nil
	}
	if err := os.MkdirAll(f.Mounts, 0o711); err != nil {
		return fmt.Errorf("make the folder for the volumes of CSI driver %q: %w", d.Plugin.ID, err)
	}
	if d.Isolated {
		if err := share(f.Mounts); err != nil {
			return fmt.Errorf("let mounts of CSI driver %q, which has a file system of its own, reach the machine: %w", d.Plugin.ID, err)
		}
	}
	return nil
}

// part is the node's or the controller's part of a driver on this node. A driver that is
// both in one task is the node's part.
type part struct {
	id         string
	controller bool
}

// name is the name of the part's instance of the adapter. It stays the same, since the
// instance keeps its records under it.
func (p part) name() string {
	switch {
	case p.controller:
		return "controller-" + fileName(p.id)
	case plainName.MatchString(p.id):
		return p.id
	}
	return fileName(p.id)
}

// slot is a part of a driver with the tasks that can serve it. The first task serves it; when
// that task ends, the next one takes over.
type slot struct {
	part    part
	drivers []*running
	wake    chan struct{} // capacity 1: drivers has changed
}

// running is a running task of a driver. Only the goroutine of its slot uses the fields that
// change.
type running struct {
	Driver
	since    time.Time // when it began to serve the slot; zero before
	healthy  bool      // now
	troubled bool      // the last event about its health says that it is not healthy
	given    bool      // given up: it did not become healthy in time, so its task was failed
}

// Begin records that the task of a driver runs. The caller must call end when it does not run
// any more: with gone if the task has ended, without if only the agent ends.
func (k *Keeper) Begin(d Driver) (end func(gone bool)) {
	p := part{id: d.Plugin.ID, controller: !publishes(d.Plugin)}
	r := &running{Driver: d}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slots[p]
	if s == nil {
		s = &slot{part: p, wake: make(chan struct{}, 1)}
		k.slots[p] = s
		k.work.Go(func() { k.serve(s) })
	}
	s.drivers = append(s.drivers, r)
	waits := len(s.drivers) > 1
	s.ring()
	if waits {
		k.work.Go(func() {
			d.Note(event(model.TaskHookMessage, fmt.Sprintf("another task of this node serves CSI driver %q; this one takes over when that has ended", d.Plugin.ID)))
		})
	}
	return func(gone bool) {
		k.mu.Lock()
		s.drivers = slices.DeleteFunc(s.drivers, func(x *running) bool { return x == r })
		s.ring()
		k.mu.Unlock()
		if gone {
			_ = os.RemoveAll(k.socketDir(d)) // it is made again for the next start
		}
	}
}

func (s *slot) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func event(kind, text string) model.TaskEvent {
	return model.TaskEvent{Type: kind, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
}

// serve runs the instance of a slot as long as it has a task.
func (k *Keeper) serve(s *slot) {
	var last *running
	for k.ctx.Err() == nil {
		r := k.first(s)
		if last != nil && r != last && last.Healthy {
			k.report(s, last, nil, "the task of the driver does not run")
		}
		if last = r; r == nil {
			k.end(s)
			if k.forget(s) {
				return
			}
			continue
		}
		err := k.run(s, r)
		prints, changed := k.cfg.Plugins.Volumes()
		k.wait(s, changed, k.judge(s, r, prints, err))
	}
}

// first returns the task that serves a slot; nil if there is none.
func (k *Keeper) first(s *slot) *running {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(s.drivers) == 0 {
		return nil
	}
	r := s.drivers[0]
	if r.since.IsZero() {
		r.since = k.cfg.Now()
	}
	return r
}

func (k *Keeper) run(s *slot, r *running) error {
	ctx, cancel := context.WithTimeout(k.ctx, k.cfg.Limits.Start)
	defer cancel()
	config := map[string]any{"endpoint": "unix://" + k.socket(r.Driver), "controller": controls(r.Plugin), "node": publishes(r.Plugin)}
	if r.Isolated && publishes(r.Plugin) {
		config["host_dir"], config["driver_dir"] = k.mounts(r.Plugin.ID), filepath.Clean(r.Plugin.StagePublishBaseDir)
	}
	return k.cfg.Plugins.RunVolume(ctx, pluginhost.VolumeInstance{Name: s.part.name(), Plugin: Adapter, Config: config})
}

func (k *Keeper) end(s *slot) {
	ctx, cancel := context.WithTimeout(k.ctx, k.cfg.Limits.Start)
	defer cancel()
	if err := k.cfg.Plugins.EndVolume(ctx, Adapter, s.part.name()); err != nil && k.ctx.Err() == nil {
		k.cfg.Logger.Warn("the plugin of a CSI driver whose task has ended goes on", "driver", s.part.id, "error", err)
	}
}

// forget removes a slot that has no task. It reports whether it did.
func (k *Keeper) forget(s *slot) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(s.drivers) > 0 {
		return false
	}
	delete(k.slots, s.part)
	return true
}

// wait returns when a slot must be looked at again.
func (k *Keeper) wait(s *slot, changed <-chan struct{}, after time.Duration) {
	var timeout <-chan time.Time
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-changed:
	case <-s.wake:
	case <-timeout:
	case <-k.ctx.Done():
	}
}

// judge updates the health of a driver, and ends its task if the driver has not become healthy
// in time. It returns when to look again; 0 means at the next change.
func (k *Keeper) judge(s *slot, r *running, prints []pluginhost.VolumeFingerprint, err error) time.Duration {
	print := printOf(prints, s.part.name())
	problem := problemOf(s.part, r, print, err)
	if problem == "" {
		problem = k.rival(s.part, r, print)
	}
	if problem == "" {
		k.nowHealthy(s, r, print)
		return 0
	}
	if r.Healthy {
		k.report(s, r, print, problem)
	}
	if r.healthy {
		r.healthy, r.troubled = false, true
		r.Note(event(model.TaskPluginUnhealthy, fmt.Sprintf("plugin: %s: %s", r.Plugin.ID, problem)))
	}
	again := time.Duration(0)
	if err != nil {
		again = k.cfg.Limits.Again
	}
	if r.Healthy || r.given || r.Plugin.HealthTimeout <= 0 {
		return again
	}
	if left := r.since.Add(r.Plugin.HealthTimeout).Sub(k.cfg.Now()); left > 0 {
		if again > 0 {
			return min(again, left)
		}
		return left
	}
	k.giveUp(r, problem)
	return again
}

// problemOf says why a driver cannot be used now; "" if it can.
func problemOf(p part, r *running, print *pluginhost.VolumeFingerprint, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("the plugin %q that speaks to the driver cannot be started: %v", Adapter, err)
	case print == nil:
		return "the driver was not asked yet"
	case print.Plugin != Adapter+"@"+p.name():
		return fmt.Sprintf("the plugin %q of this node serves a storage plugin of that name; give the driver another id", print.Plugin)
	case print.Problem != "":
		return print.Problem
	case publishes(r.Plugin) && print.Node == nil:
		return fmt.Sprintf("the driver has no node service, and its type is %q", r.Plugin.Type)
	}
	return ""
}

// rival returns a problem if another driver of this node already has the same id, or "". The
// driver that came first keeps the id, because the volumes with that id are its own.
func (k *Keeper) rival(p part, r *running, print *pluginhost.VolumeFingerprint) string {
	for _, controller := range []bool{false, true} {
		other := k.reported(part{id: p.id, controller: controller}.name())
		if other != nil && other.AllocID != r.AllocID && other.Provider != print.Provider {
			return fmt.Sprintf("alloc %s runs the driver %q with the id %q on this node, and this one is the driver %q; give it another id", other.AllocID, other.Provider, p.id, print.Provider)
		}
	}
	return ""
}

func (k *Keeper) nowHealthy(s *slot, r *running, print *pluginhost.VolumeFingerprint) {
	was, tell := r.healthy, !r.Healthy || r.troubled
	r.healthy, r.Healthy, r.troubled = true, true, false
	k.report(s, r, print, "")
	if was {
		return
	}
	k.ring() // it can take back now what belongs to nobody
	if tell {
		r.Note(event(model.TaskPluginHealthy, "plugin: "+r.Plugin.ID))
	}
}

// giveUp ends the task of a driver that has never become healthy.
func (k *Keeper) giveUp(r *running, problem string) {
	r.given = true
	k.cfg.Logger.Warn("a CSI driver has not become healthy in time; its task is ended", "driver", r.Plugin.ID, "alloc_id", r.AllocID, "task", r.Task, "health_timeout", r.Plugin.HealthTimeout, "error", problem)
	why := event(model.TaskPluginUnhealthy, fmt.Sprintf("CSI driver %q has not become healthy within its health_timeout of %s: %s", r.Plugin.ID, r.Plugin.HealthTimeout, problem))
	why.FailsTask, why.Details["fails_task"] = true, "true"
	r.Fail(why)
}

func printOf(prints []pluginhost.VolumeFingerprint, name string) *pluginhost.VolumeFingerprint {
	for i := range prints {
		if prints[i].Name == name {
			return &prints[i]
		}
	}
	return nil
}

// instance returns the name under which the host knows a part of a storage plugin. NotFound:
// the node does not have it. Unavailable: the task of the driver does not run now.
func (k *Keeper) instance(pluginID string, controller bool) (string, error) {
	k.mu.Lock()
	node, other := k.slots[part{id: pluginID}], k.slots[part{id: pluginID, controller: true}]
	nodeControls := node != nil && len(node.drivers) > 0 && controls(node.drivers[0].Plugin)
	k.mu.Unlock()
	switch {
	case controller && other != nil:
		return other.part.name(), nil
	case controller && nodeControls, !controller && node != nil:
		return node.part.name(), nil
	}
	prints, _ := k.cfg.Plugins.Volumes()
	if p := printOf(prints, pluginID); p != nil && !isInstance(p) {
		return pluginID, nil
	}
	if r := k.reported(part{id: pluginID, controller: controller}.name()); r != nil {
		return "", errdefs.Unavailablef("the task of storage plugin %q does not run on this node at the moment", pluginID)
	}
	what := "node's"
	if controller {
		what = "controller's"
	}
	return "", errdefs.NotFoundf("this node does not run the %s part of storage plugin %q", what, pluginID)
}
