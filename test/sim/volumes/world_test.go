// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/control/claims"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// world is a server, three nodes and a storage system with the volume "db", which one node at
// a time can have.
type world struct {
	*testing.T
	*chance
	dir   string
	store *state.Store
	fsm   *fsm.FSM
	calm  atomic.Bool // no more faults
	ctrl  *part
	nodes []*node

	log      sync.Mutex // of the state
	mu       sync.Mutex // of what follows
	attached map[string]bool
	running  map[string]bool // target paths of allocs whose tasks run
	down     map[string]bool // nodes that servers cannot reach
	upSince  map[string]time.Time
	faults   map[string]int
	keeper   *claims.Keeper
	stop     func() // of the keeper
}

func newWorld(t *testing.T, dir string, seed uint64) *world {
	w := &world{
		T: t, chance: &chance{r: rand.New(rand.NewPCG(seed, 101))}, dir: dir, store: state.New(), attached: map[string]bool{}, running: map[string]bool{}, down: map[string]bool{}, upSince: map[string]time.Time{}, faults: map[string]int{},
	}
	w.fsm = fsm.New(w.store, hclog.NewNullLogger())
	w.must(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	w.must(&fsm.RaiseLevel{Level: fsm.Level})
	w.ctrl = w.newPart()
	for i := range 3 {
		w.nodes = append(w.nodes, w.newNode(fmt.Sprint("n", i)))
	}
	w.must(&fsm.PutCSIVolume{New: true, Volume: &model.CSIVolume{
		ID: "db", Namespace: "default", ExternalID: "ext", PluginID: "disk", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
	}})
	ask := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	w.must(&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: ask, Tasks: []*model.Task{{Name: "t", Driver: "exec"}}}}}})
	w.lead()
	return w
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[what]++
}

// Propose implements propose.Log.
func (w *world) Propose(_ context.Context, data []byte) (uint64, any, error) {
	w.log.Lock()
	defer w.log.Unlock()
	index := w.store.View().Index() + 1
	answer := w.fsm.ApplyBatch([]fsm.Entry{{Index: index, Data: data}})[0]
	if err, failed := answer.(error); failed {
		return index, nil, err
	}
	return index, answer, nil
}

func (w *world) must(cmd fsm.Command) {
	w.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		w.Fatal(err)
	}
	if _, _, err := w.Propose(w.Context(), data); err != nil {
		w.Fatalf("%T: %v", cmd, err)
	}
}

// lead runs the keeper of a leader; the one before has been killed.
func (w *world) lead() {
	if w.stop != nil {
		w.stop()
	}
	k := claims.New(claims.Config{Store: w.store, Log: w, Drivers: w, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeper, w.stop = k, func() { cancel(); <-done }
}

// Attach implements claims.Drivers.
func (w *world) Attach(ctx context.Context, _ *model.CSIVolume, at *model.CSIAttachment) (map[string]string, error) {
	return nil, w.ctrl.call(ctx, "attach", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for other := range w.attached {
			if other != at.NodeID {
				w.Errorf("the volume is attached to %s and would be attached to %s", other, at.NodeID)
			}
		}
		w.attached[at.NodeID] = true
		return nil
	})
}

// longestCall is how long a call to a driver can go on.
const longestCall = 3 * time.Minute

// Detach implements claims.Drivers.
func (w *world) Detach(ctx context.Context, _ *model.CSIVolume, at *model.CSIAttachment) error {
	return w.ctrl.call(ctx, "detach", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.nodes {
			// Of a node that was down when this began, nobody knows what it has.
			sure := !w.down[n.id] && time.Since(w.upSince[n.id]) > longestCall
			if has := n.has(); n.id == at.NodeID && has != "" && sure {
				w.Errorf("the volume is detached from %s, which is in reach and has it: %s", n.id, has)
			}
		}
		delete(w.attached, at.NodeID)
		return nil
	})
}

// Release implements claims.Drivers.
func (w *world) Release(ctx context.Context, _ *model.CSIVolume, nodeID string) error {
	for _, n := range w.nodes {
		w.mu.Lock()
		k, down := n.keeper, w.down[n.id]
		w.mu.Unlock()
		if n.id != nodeID {
			continue
		}
		if down || k == nil || !w.calm.Load() && w.n(5) == 0 {
			return errdefs.Unavailablef("the node is out of reach")
		}
		_, err := k.Call(ctx, rpc.MethodCSIRelease, rpc.StorageCall{Plugin: "disk", ID: "ext"})
		return err
	}
	return nil
}

// node is a machine with an agent.
type node struct {
	*machine
	store  *memory
	allocs map[string]*life // durable; the lock of the world is held

	keeper *storage.Keeper // nil while the agent does not run
	end    func()          // kills the agent
}

func (w *world) newNode(id string) *node {
	n := &node{machine: &machine{part: w.newPart(), id: id, at: map[string]bool{}, change: make(chan struct{})}, store: &memory{of: map[string][]byte{}}, allocs: map[string]*life{}}
	n.registers(model.NodeStatusReady)
	n.starts()
	return n
}

// registers tells the servers how the node is.
func (n *node) registers(status string) {
	info := map[string]*model.CSIInfo{"disk": {
		PluginID: "disk", Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &model.CSIControllerInfo{SupportsAttachDetach: true}, NodeInfo: &model.CSINodeInfo{ID: n.id},
	}}
	n.mu.Lock()
	n.world.down[n.id] = status != model.NodeStatusReady
	n.upSince[n.id] = time.Now()
	n.mu.Unlock()
	n.must(&fsm.RegisterNode{Node: &model.Node{ID: n.id, Status: status, CSIControllerPlugins: info, CSINodePlugins: info}})
}

// starts starts the agent, which goes on with its allocs.
func (n *node) starts() {
	k, err := storage.Open(context.Background(), storage.Config{
		Dir: filepath.Join(n.dir, n.id), Plugins: n.machine, Store: n.store, Claim: n.claim, Now: time.Now, Logger: hclog.NewNullLogger(), Lives: func(string) bool { return true }, Uses: n.uses,
	})
	if err != nil {
		n.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.allocs {
		if a.holds {
			k.Keep(a.mount)
		}
	}
	work.Go(func() { k.Run(ctx) })
	k.Begin(storage.Driver{
		AllocID: "driver", Task: "t", Healthy: true, Plugin: &model.TaskCSIPluginConfig{ID: "disk", Type: model.CSIPluginMonolith, MountDir: "/csi", HealthTimeout: time.Minute},
		Note: func(model.TaskEvent) {}, Fail: func(model.TaskEvent) { n.Error("the driver's task is ended") },
	})
	for _, a := range n.allocs {
		work.Go(func() { a.live(ctx, k) })
	}
	n.keeper = k
	n.end = func() {
		cancel()
		k.Close()
		work.Wait()
	}
}

// restarts kills the agent and starts it again after a while.
func (n *node) restarts(after time.Duration) {
	n.mu.Lock()
	n.keeper = nil
	n.mu.Unlock()
	n.end()
	time.Sleep(after)
	n.starts()
}

// gets is the arrival of an alloc.
func (n *node) gets(a *life) {
	n.mu.Lock()
	n.allocs[a.id] = a
	n.mu.Unlock()
	n.restarts(0) // it is simpler than another way to begin one, and worse
}

func (n *node) uses(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.allocs[id] != nil && n.allocs[id].holds
}

func (n *node) claim(ctx context.Context, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	n.mu.Lock()
	k, down := n.world.keeper, n.world.down[n.id]
	n.mu.Unlock()
	if down || !n.calm.Load() && n.n(5) == 0 {
		return rpc.VolumeGrant{}, errdefs.Unavailablef("no server is in reach")
	}
	if _, err := k.Claim(ctx, n.id, q.AllocID, q.Volume); err != nil {
		return rpc.VolumeGrant{}, err
	}
	if !n.calm.Load() && n.n(10) == 0 {
		return rpc.VolumeGrant{}, errdefs.DeadlineExceededf("the answer is lost")
	}
	return rpc.VolumeGrant{Namespace: "default", ID: "db", ExternalID: "ext", Plugin: "disk"}, nil
}

// life is the life of an alloc on its node. Its fields outlive the agent.
type life struct {
	n       *node
	id      string
	mount   *storage.Mount
	holds   bool          // a step may have left something: it is set before the first call
	ready   bool          // its task runs
	stopped chan struct{} // closed when servers want its end
	over    bool
	failed  error // the last one
}

// live brings the volume, has the task run until it is stopped, and takes the volume back, as a
// runner does with the steps of a group. It ends with the agent, and the next one continues.
func (a *life) live(ctx context.Context, k *storage.Keeper) {
	n := a.n
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-a.stopped:
			cancel()
		case <-wanted.Done():
		}
	}()
	for !a.is(func() bool { return a.ready || a.over }) && wanted.Err() == nil {
		if a.bring(wanted, k) == nil {
			break
		}
		pause(wanted, n.upTo(10*time.Second))
	}
	<-wanted.Done()
	if ctx.Err() != nil || a.is(func() bool { return a.over }) {
		return
	}
	a.is(func() bool {
		a.ready = false
		if a.mount != nil {
			delete(n.running, a.mount.Target)
		}
		return true
	})
	for ctx.Err() == nil && a.is(func() bool { return a.holds }) {
		step, done := context.WithTimeout(ctx, time.Minute)
		err := k.Unpublish(step, a.mount)
		if err == nil {
			err = k.Unstage(step, a.mount)
		}
		done()
		if err == nil {
			a.is(func() bool { a.holds = false; return true })
			k.Look()
			break
		}
		a.is(func() bool { a.failed = err; return true })
		pause(ctx, n.upTo(10*time.Second))
	}
	for ctx.Err() == nil && !n.reports(a) {
		pause(ctx, time.Second)
	}
}

// is asks or does something with the lock held.
func (a *life) is(do func() bool) bool {
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	return do()
}

func (a *life) bring(ctx context.Context, k *storage.Keeper) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	m, err := k.Claim(ctx, a.id, "v", func(string) {})
	if err != nil {
		return err
	}
	a.is(func() bool { a.mount, a.holds = m, true; return true })
	if err := k.Stage(ctx, m); err != nil {
		return err
	}
	if err := k.Publish(ctx, m); err != nil {
		return err
	}
	a.is(func() bool {
		if ctx.Err() == nil {
			a.ready, a.n.running[m.Target] = true, true
		}
		return true
	})
	return ctx.Err()
}

// reports tells servers of the end of an alloc. It reports whether they have heard it.
func (n *node) reports(a *life) bool {
	n.mu.Lock()
	down := n.world.down[n.id]
	n.mu.Unlock()
	if down {
		return false
	}
	now := &model.Allocation{ID: a.id, ClientStatus: model.AllocClientStatusComplete}
	n.must(&fsm.UpdateAllocsFromClient{At: time.Now().UnixNano(), Reports: []*model.AllocReport{now.ReportSince(nil)}})
	a.is(func() bool { a.over = true; return true })
	return true
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// memory is the durable store of an agent.
type memory struct {
	mu sync.Mutex
	of map[string][]byte
}

func (s *memory) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.of[key]; v != nil {
		return v, nil
	}
	return nil, errdefs.NotFoundf("no %s", key)
}

func (s *memory) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = value
	return nil
}
