// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package claims attaches volumes of type csi to the nodes whose allocs hold them, and
// detaches them when no alloc does any more. What is to be done is derived from the state
// alone: allocs that have not ended hold volumes, and an attachment is a row of the volume
// that is written before the driver is asked and removed when the driver has detached. So a
// volume is detached in the end, whatever has happened to its alloc, its node, its driver or
// the servers.
//
// Its calls go to drivers through Drivers, which core/endpoint implements. core/server
// imports it.
package claims

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// together is how many volumes have calls in progress.
	together = 64
	// callLimit is how long one call to a driver may take.
	callLimit = 2 * time.Minute
	// minBackoff and maxBackoff are the waits between tries of a step that fails.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// claimWait is how long Claim waits for a volume. The node asks again.
	claimWait = 15 * time.Second
	// claimPoll is the interval at which Claim looks again: the end of another alloc frees a
	// volume without a change of the volume's row.
	claimPoll = 500 * time.Millisecond
	// maxErrorText bounds the words of a driver that are stored.
	maxErrorText = 512
)

// Drivers makes calls to drivers. Each may be repeated.
type Drivers interface {
	// Attach attaches a volume to a node and returns what the driver says to the node.
	Attach(ctx context.Context, vol *model.CSIVolume, at *model.CSIAttachment) (publishContext map[string]string, err error)
	// Detach takes a volume from a node.
	Detach(ctx context.Context, vol *model.CSIVolume, at *model.CSIAttachment) error
	// Release makes a node end everything that it has of a volume.
	Release(ctx context.Context, vol *model.CSIVolume, nodeID string) error
}

// Config is what a Keeper needs.
type Config struct {
	Store   *state.Store
	Log     propose.Log
	Drivers Drivers
	Now     func() time.Time // nil means time.Now
	Logger  hclog.Logger
}

// Keeper keeps the attachments of volumes while Run runs.
type Keeper struct {
	cfg   Config
	slots chan struct{}

	mu     sync.Mutex
	run    context.Context // nil while Run does not run
	work   sync.WaitGroup
	busy   map[string]bool // volumes with a worker, by key
	timers map[string]*time.Timer
	// changed is when a node or a driver of a volume that has attachments changed last.
	changed map[string]time.Time
}

// New returns a Keeper.
func New(cfg Config) *Keeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keeper{cfg: cfg, slots: make(chan struct{}, together), busy: map[string]bool{}, timers: map[string]*time.Timer{}, changed: map[string]time.Time{}}
}

// Run attaches and detaches volumes until ctx ends. A server runs it while it leads.
func (k *Keeper) Run(ctx context.Context) {
	feed := k.cfg.Store.Subscribe(state.TableAllocs, state.TableNodes, state.TableCSIVolumes)
	defer feed.Close()
	k.mu.Lock()
	k.run = ctx
	k.mu.Unlock()
	defer k.stop()
	k.lookAtAll()
	for {
		batch, err := feed.Next(ctx)
		switch {
		case err != nil:
			return
		case batch.Resync:
			k.lookAtAll()
		default:
			k.follow(k.cfg.Store.View(), batch.Changes)
		}
	}
}

// stop ends all work.
func (k *Keeper) stop() {
	k.mu.Lock()
	k.run = nil
	for key, t := range k.timers {
		t.Stop()
		delete(k.timers, key)
	}
	k.mu.Unlock()
	k.work.Wait()
}

func (k *Keeper) lookAtAll() {
	for vol := range k.cfg.Store.View().CSIVolumes() {
		k.look(key{vol.Namespace, vol.ID})
	}
}

// key names a volume.
type key struct{ namespace, id string }

func (k key) String() string { return k.namespace + "\x00" + k.id }

// follow looks at the volumes that changes concern, at each once.
func (k *Keeper) follow(view *state.View, changes []state.Change) {
	concerned := concerns{volumes: map[key]bool{}, plugins: map[string]bool{}, nodes: map[string]bool{}}
	for _, c := range changes {
		if p := panics.Catch(func() { concerned.add(view, c) }); p != nil {
			k.cfg.Logger.Error("a change is not acted upon; this is a defect of drover", p.Fields("table", c.Table, "index", c.Index)...)
		}
	}
	if len(concerned.nodes) > 0 {
		k.followNodes(view, &concerned)
	}
	for of := range concerned.volumes {
		k.look(of)
	}
}

// followNodes adds the volumes that changed nodes concern. What has failed at those that have
// attachments is tried again at once.
func (k *Keeper) followNodes(view *state.View, concerned *concerns) {
	for vol := range view.CSIVolumes() {
		if !concerned.plugins[vol.PluginID] && !concerned.attached(vol) {
			continue
		}
		of := key{vol.Namespace, vol.ID}
		concerned.volumes[of] = true
		if len(vol.Attachments) > 0 {
			k.mu.Lock()
			k.changed[of.String()] = k.cfg.Now()
			k.mu.Unlock()
		}
	}
}

// concerns is what a batch of changes concerns.
type concerns struct {
	volumes map[key]bool
	// nodes are those whose status or drivers have changed, and plugins their drivers, before and
	// after.
	nodes, plugins map[string]bool
}

// add adds what a change concerns.
func (x *concerns) add(view *state.View, c state.Change) {
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	switch obj := obj.(type) {
	case *model.CSIVolume:
		x.volumes[key{obj.Namespace, obj.ID}] = true
	case *model.Allocation:
		tg := groupOf(view, obj)
		if tg == nil {
			return
		}
		for _, r := range tg.Volumes {
			if r.IsCSI() {
				x.volumes[key{obj.Namespace, r.VolumeName(obj.Index())}] = true
			}
		}
	case *model.Node:
		x.addNode(c, obj.ID)
	}
}

func (x *concerns) addNode(c state.Change, id string) {
	old, _ := c.Old.(*model.Node)
	n, _ := c.New.(*model.Node)
	if old != nil && n != nil && old.Status == n.Status && reflect.DeepEqual(old.CSINodePlugins, n.CSINodePlugins) && reflect.DeepEqual(old.CSIControllerPlugins, n.CSIControllerPlugins) {
		return
	}
	x.nodes[id] = true
	for _, side := range []*model.Node{old, n} {
		if side == nil {
			continue
		}
		for _, reported := range []map[string]*model.CSIInfo{side.CSINodePlugins, side.CSIControllerPlugins} {
			for plugin := range reported {
				x.plugins[plugin] = true
			}
		}
	}
}

// attached reports whether a volume is attached to one of the nodes.
func (x *concerns) attached(vol *model.CSIVolume) bool {
	for id := range vol.Attachments {
		if x.nodes[id] {
			return true
		}
	}
	return false
}

// look begins what is to be done for a volume.
func (k *Keeper) look(of key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := of.String()
	if k.run == nil {
		return
	}
	if k.busy[name] { // it looks again before it rests
		return
	}
	if step, wake := k.next(of); step == nil {
		k.wakeAt(of, wake)
		return
	}
	k.busy[name] = true
	ctx := k.run
	k.work.Go(func() { k.serve(ctx, of) })
}

// wakeAt looks at a volume again at a time; never if it is zero. The caller holds mu.
func (k *Keeper) wakeAt(of key, at time.Time) {
	name := of.String()
	if t := k.timers[name]; t != nil {
		t.Stop()
		delete(k.timers, name)
	}
	if !at.IsZero() && k.run != nil {
		k.timers[name] = time.AfterFunc(max(at.Sub(k.cfg.Now()), time.Millisecond), func() { k.look(of) })
	}
}

// next is Next for a volume. The caller holds mu.
func (k *Keeper) next(of key) (*Step, time.Time) {
	view := k.cfg.Store.View()
	vol := view.CSIVolumeByID(of.namespace, of.id)
	if vol == nil || len(vol.Attachments) == 0 {
		delete(k.changed, of.String())
	}
	if vol == nil {
		return nil, time.Time{}
	}
	return Next(view, vol, k.cfg.Now(), k.changed[of.String()])
}

// serve carries out steps for one volume, one after the other, until nothing is left to do.
func (k *Keeper) serve(ctx context.Context, of key) {
	name := of.String()
	var again time.Time // set if the work ends early
	defer func() {
		if again.IsZero() {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, name)
		k.wakeAt(of, again)
	}()
	defer panics.Handle(func(p *panics.Panic) {
		k.cfg.Logger.Error("the attachments of a volume are not kept for a while; this is a defect of drover", p.Fields("volume", of.id, "namespace", of.namespace)...)
		again = k.cfg.Now().Add(maxBackoff)
	})
	for {
		step := k.nextOrRest(ctx, of)
		if step == nil {
			return
		}
		select {
		case k.slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		if err := k.inSlot(ctx, of, step); err != nil {
			if ctx.Err() == nil {
				k.cfg.Logger.Warn("the state of an attachment could not be written; it is tried again", "volume", of.id, "namespace", of.namespace, "error", err)
			}
			again = k.cfg.Now().Add(minBackoff)
			return
		}
	}
}

// inSlot carries out a step in the slot that the caller has taken, and gives the slot back even
// if the step panics.
func (k *Keeper) inSlot(ctx context.Context, of key, step *Step) error {
	defer func() { <-k.slots }()
	return k.do(ctx, of, step)
}

// nextOrRest returns the next step of a volume, or ends its worker and returns nil. A change
// of the state after it has looked makes a new worker.
func (k *Keeper) nextOrRest(ctx context.Context, of key) *Step {
	k.mu.Lock()
	defer k.mu.Unlock()
	step, wake := k.next(of)
	if step != nil && ctx.Err() == nil {
		return step
	}
	delete(k.busy, of.String())
	k.wakeAt(of, wake)
	return nil
}

// do carries out a step. Its errors are those of writing its result.
func (k *Keeper) do(ctx context.Context, of key, step *Step) error {
	at := *step.Attachment
	if step.Detach {
		if at.State != model.CSIDetaching {
			at.State, at.Since, at.Failures, at.LastError, at.NextTry = model.CSIDetaching, k.cfg.Now().UnixNano(), 0, "", 0
			if err := k.write(ctx, of, &at, false); err != nil {
				return err
			}
		}
		if err := k.detach(ctx, of, &at, step.Release); err != nil {
			return k.failed(ctx, of, &at, err)
		}
		return k.write(ctx, of, &at, true)
	}
	if err := k.write(ctx, of, &at, false); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	vol := k.cfg.Store.View().CSIVolumeByID(of.namespace, of.id)
	if vol == nil {
		return nil
	}
	publish, err := k.cfg.Drivers.Attach(call, vol, &at)
	if err != nil {
		return k.failed(ctx, of, &at, err)
	}
	at.State, at.PublishContext, at.Since = model.CSIAttached, publish, k.cfg.Now().UnixNano()
	at.Failures, at.LastError, at.NextTry = 0, "", 0
	return k.write(ctx, of, &at, false)
}

func (k *Keeper) detach(ctx context.Context, of key, at *model.CSIAttachment, release bool) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	vol := k.cfg.Store.View().CSIVolumeByID(of.namespace, of.id)
	if vol == nil {
		return nil
	}
	if release {
		if err := k.cfg.Drivers.Release(ctx, vol, at.NodeID); err != nil {
			return err
		}
	}
	return k.cfg.Drivers.Detach(ctx, vol, at)
}

// failed notes why a step has failed, and when it is tried again.
func (k *Keeper) failed(ctx context.Context, of key, at *model.CSIAttachment, cause error) error {
	if ctx.Err() != nil { // this server does not lead any more: the next leader tries again
		return ctx.Err()
	}
	at.Failures++
	wait := backoff(at.Failures)
	at.LastError, at.NextTry = oneLine(cause.Error()), k.cfg.Now().Add(wait).UnixNano()
	k.cfg.Logger.Warn("a volume is not where it should be; it is tried again", "volume", of.id, "namespace", of.namespace, "node_id", at.NodeID, "state", at.State, "failures", at.Failures, "in", wait, "error", at.LastError)
	return k.write(ctx, of, at, false)
}

// oneLine bounds a text of a driver.
func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return text
}

func (k *Keeper) write(ctx context.Context, of key, at *model.CSIAttachment, gone bool) error {
	_, err := propose.Bounded(ctx, k.cfg.Log, &fsm.PutCSIAttachment{Namespace: of.namespace, ID: of.id, Attachment: at, Gone: gone})
	if errdefs.IsNotFound(err) { // the volume was forgotten by force
		return nil
	}
	return err
}

// Claim returns a volume that an alloc of a node asks for, once the alloc may use it, or why
// it may not yet: see Decide.
func (k *Keeper) Claim(ctx context.Context, nodeID, allocID, name string) (*Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	for {
		k.mu.Lock()
		leads := k.run != nil
		k.mu.Unlock()
		if !leads {
			return nil, errdefs.WithReason(errdefs.Unavailablef("this server does not lead; ask the leader"), propose.ReasonNotLeader)
		}
		once, done := context.WithTimeout(ctx, claimPoll)
		changed := k.cfg.Store.Watch(once, volumeKey(k.cfg.Store.View(), allocID, name))
		grant, err := Decide(k.cfg.Store.View(), nodeID, allocID, name)
		if !errdefs.IsUnavailable(err) {
			done()
			return grant, err
		}
		select {
		case <-changed:
		case <-once.Done(): // what else the answer depends on may have changed
		}
		done()
		if ctx.Err() != nil {
			return nil, err
		}
	}
}
