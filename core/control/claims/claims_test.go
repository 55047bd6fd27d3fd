// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package claims_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control/claims"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// cluster has nodes n0 to n2 with a driver that attaches, and a volume "db".
type cluster struct {
	*testing.T
	store *state.Store
	fsm   *fsm.FSM

	mu       sync.Mutex // also of the storage
	attached map[string]bool
	failing  func(call string) error
	calls    []string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, store: state.New(), attached: map[string]bool{}, failing: func(string) error { return nil }}
	c.fsm = fsm.New(c.store, hclog.NewNullLogger())
	c.must(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	c.must(&fsm.RaiseLevel{Level: fsm.Level})
	for i := range 3 {
		c.node(i, model.NodeStatusReady)
	}
	v := &model.CSIVolume{ID: "db", Namespace: "default", ExternalID: "x", PluginID: "p", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	c.must(&fsm.PutCSIVolume{Volume: v, New: true})
	ask := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	c.must(&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: ask, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}}}})
	return c
}

func (c *cluster) node(i int, status string) {
	id := fmt.Sprint("n", i)
	plugin := func() map[string]*model.CSIInfo {
		return map[string]*model.CSIInfo{"p": {
			PluginID: "p", Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &model.CSIControllerInfo{SupportsAttachDetach: true}, NodeInfo: &model.CSINodeInfo{ID: "ext-" + id},
		}}
	}
	c.must(&fsm.RegisterNode{Node: &model.Node{ID: id, Status: status, CSIControllerPlugins: plugin(), CSINodePlugins: plugin()}})
}

// Propose implements propose.Log.
func (c *cluster) Propose(_ context.Context, data []byte) (uint64, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	index := c.store.View().Index() + 1
	answer := c.fsm.ApplyBatch([]fsm.Entry{{Index: index, Data: data}})[0]
	if err, failed := answer.(error); failed {
		return index, nil, err
	}
	return index, answer, nil
}

func (c *cluster) must(cmd fsm.Command) {
	c.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		c.Fatal(err)
	}
	if _, _, err := c.Propose(c.Context(), data); err != nil {
		c.Fatalf("%T: %v", cmd, err)
	}
}

func (c *cluster) place(id, node, previous string) {
	c.Helper()
	at := c.store.View().Index()
	c.must(&fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "default", JobID: "j", SnapshotIndex: at, Place: []*model.Allocation{
		{ID: id, Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: node, PreviousAllocation: previous, ClientStatus: model.AllocClientStatusPending, DesiredStatus: "run"},
	}}})
}

func (c *cluster) end(id, status string) {
	c.Helper()
	now := &model.Allocation{ID: id, ClientStatus: status}
	c.must(&fsm.UpdateAllocsFromClient{At: 1, Reports: []*model.AllocReport{now.ReportSince(nil)}})
}

func (c *cluster) call(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, name)
	return c.failing(name)
}

// Attach implements claims.Drivers. As in a storage system, one node has the volume.
func (c *cluster) Attach(_ context.Context, _ *model.CSIVolume, at *model.CSIAttachment) (map[string]string, error) {
	err := c.call("attach " + at.ExternalNodeID)
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.attached {
		if other != at.ExternalNodeID {
			c.Errorf("the volume is attached to %s and would be attached to %s", other, at.ExternalNodeID)
		}
	}
	if err == nil || errdefs.IsDeadlineExceeded(err) { // done, and the answer was lost
		c.attached[at.ExternalNodeID] = true
	}
	return map[string]string{"device": at.ExternalNodeID}, err
}

// Detach implements claims.Drivers.
func (c *cluster) Detach(_ context.Context, _ *model.CSIVolume, at *model.CSIAttachment) error {
	err := c.call("detach " + at.ExternalNodeID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || errdefs.IsDeadlineExceeded(err) {
		delete(c.attached, at.ExternalNodeID)
	}
	return err
}

// Release implements claims.Drivers.
func (c *cluster) Release(_ context.Context, _ *model.CSIVolume, node string) error {
	return c.call("release " + node)
}

// lead runs a keeper until the function that it returns is called.
func (c *cluster) lead() (*claims.Keeper, func()) {
	k := claims.New(claims.Config{Store: c.store, Log: c, Drivers: c, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	synctest.Wait()
	return k, func() { cancel(); <-done }
}

func (c *cluster) volume() *model.CSIVolume { return c.store.View().CSIVolumeByID("default", "db") }

func (c *cluster) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.calls, ", ")
	c.calls = nil
	return out
}

func TestAVolumeFollowsItsAllocs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k, stop := c.lead()
		defer func() { stop() }()
		c.place("a1", "n0", "")
		grant, err := k.Claim(t.Context(), "n0", "a1", "v")
		if err != nil || grant.Attachment.PublishContext["device"] != "ext-n0" || c.said() != "attach ext-n0" {
			t.Fatalf("%+v, %v", grant, err)
		}
		if _, err := k.Claim(t.Context(), "n1", "a1", "v"); !errdefs.IsPermissionDenied(err) {
			t.Errorf("an alloc of another node: %v", err)
		}
		if _, err := k.Claim(t.Context(), "n0", "a1", "other"); !errdefs.IsInvalidArgument(err) {
			t.Errorf("another volume: %v", err)
		}
		// The alloc in its place waits until it has ended, and is told what its node says.
		said := &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, ClientDescription: "it is being looked at"}
		c.must(&fsm.UpdateAllocsFromClient{At: 1, Reports: []*model.AllocReport{said.ReportSince(nil)}})
		c.place("a2", "n1", "a1")
		if _, err := k.Claim(t.Context(), "n1", "a2", "v"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "held by alloc a1 (j.g[0]) on node n0, which has not ended: it is being looked at") {
			t.Errorf("held: %v", err)
		}
		c.end("a1", model.AllocClientStatusComplete)
		if grant, err := k.Claim(t.Context(), "n1", "a2", "v"); err != nil || grant.Attachment.NodeID != "n1" {
			t.Errorf("moved: %+v, %v", grant, err)
		}
		if got := c.said(); got != "release n0, detach ext-n0, attach ext-n1" {
			t.Errorf("calls: %s", got)
		}
		if _, err := k.Claim(t.Context(), "n0", "a1", "v"); !errdefs.IsPermissionDenied(err) {
			t.Errorf("an alloc that has ended: %v", err)
		}
		// A node that is down is not asked to release anything.
		c.node(1, model.NodeStatusDown)
		c.end("a2", model.AllocClientStatusLost)
		synctest.Wait()
		if got := c.said(); got != "detach ext-n1" || len(c.volume().Attachments) != 0 {
			t.Errorf("calls: %s; %+v", got, c.volume().Attachments)
		}
		stop()
		if _, err := k.Claim(t.Context(), "n0", "a1", "v"); !errdefs.IsUnavailable(err) {
			t.Errorf("a server that does not lead: %v", err)
		}
	})
}

func TestADriverThatFailsForAnHourDoesNotKeepTheVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k, stop := c.lead()
		c.place("a1", "n0", "")
		if _, err := k.Claim(t.Context(), "n0", "a1", "v"); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.failing = func(call string) error {
			if strings.HasPrefix(call, "detach") {
				return errors.New("the array\nis on fire")
			}
			return nil
		}
		c.mu.Unlock()
		c.end("a1", model.AllocClientStatusFailed)
		c.must(&fsm.DeregisterJob{Namespace: "default", ID: "j", Purge: true})
		c.must(&fsm.DeregisterNodes{IDs: []string{"n0"}})
		time.Sleep(30 * time.Minute)
		stop() // the server is killed, another one leads
		_, stop = c.lead()
		time.Sleep(30 * time.Minute)
		at := c.volume().Attachments["n0"]
		if at == nil || at.State != model.CSIDetaching || at.LastError != "the array is on fire" || at.NextTry <= time.Now().UnixNano() {
			t.Fatalf("%+v", at)
		}
		if n := strings.Count(c.said(), "detach"); n < 50 || n > 80 {
			t.Errorf("%d tries in an hour", n)
		}
		c.mu.Lock()
		c.failing = func(string) error { return nil }
		c.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if left := c.volume().Attachments; len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
		stop()
	})
}

// The keeper attaches and detaches a bounded number of volumes at a time. A driver call that
// panics must not use up that number.
func TestACallThatPanicsDoesNotKeepOtherVolumesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.failing = func(string) error { panic("a defect") }
		k, stop := c.lead()
		c.place("a1", "n0", "")
		time.Sleep(2 * time.Hour) // it is tried once a minute
		if n := strings.Count(c.said(), "attach"); n < 100 {
			t.Errorf("%d tries in two hours", n)
		}
		c.mu.Lock()
		c.failing = func(string) error { return nil }
		c.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if _, err := k.Claim(t.Context(), "n0", "a1", "v"); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// Whatever fails, at whatever step servers are killed: the volume is never at two nodes, and
// in the end it is where it is needed, or nowhere.
func TestNoAttachmentIsLeftBehind(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // the keeper's goroutines draw, too
			rng := rand.New(rand.NewPCG(seed, 92))
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			c := newCluster(t)
			c.failing = func(string) error {
				switch draw(4) {
				case 0:
					return errdefs.Unavailablef("not now")
				case 1:
					return errdefs.DeadlineExceededf("the answer is lost")
				}
				return nil
			}
			k, stop := c.lead()
			last := ""
			for i := range 25 {
				id, node := fmt.Sprint("a", i), draw(3)
				c.node(node, model.NodeStatusReady)
				c.place(id, fmt.Sprint("n", node), last)
				if draw(3) > 0 {
					_, _ = k.Claim(t.Context(), fmt.Sprint("n", node), id, "v")
				}
				if last != "" {
					c.end(last, model.AllocClientStatusComplete)
				}
				if last = id; draw(4) == 0 {
					c.node(node, model.NodeStatusDown)
					c.end(id, model.AllocClientStatusLost)
				}
				time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
				if draw(4) == 0 {
					stop()
					k, stop = c.lead()
				}
			}
			c.end(last, model.AllocClientStatusComplete)
			time.Sleep(time.Hour)
			if left := c.volume().Attachments; len(left) != 0 || len(c.attached) != 0 {
				t.Errorf("seed %d: state has %+v, the storage %v", seed, left, c.attached)
			}
			stop()
		})
	}
}

// foreign places an alloc of namespace "other" whose group asks for a volume "db".
func (c *cluster) foreign() {
	c.Helper()
	ask := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "db", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	c.must(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "other"}}})
	c.must(&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: "other", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: ask, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}}}})
	at := c.store.View().Index()
	c.must(&fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "other", JobID: "j", SnapshotIndex: at, Place: []*model.Allocation{
		{ID: "f1", Name: "j.g[0]", Namespace: "other", JobID: "j", TaskGroup: "g", NodeID: "n0", ClientStatus: model.AllocClientStatusPending, DesiredStatus: "run"},
	}}})
}

func TestAnAllocGetsNoVolumeOfAnotherNamespace(t *testing.T) {
	c := newCluster(t)
	c.foreign()
	if c.store.View().AllocByID("f1") != nil {
		t.Error("it is placed though only another namespace has the volume")
	}
	own := &model.CSIVolume{ID: "db", Namespace: "other", ExternalID: "y", PluginID: "p", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
	c.must(&fsm.PutCSIVolume{Volume: own, New: true})
	c.foreign()
	c.must(&fsm.DeleteCSIVolume{Namespace: "other", ID: "db", Force: true})
	_, err := claims.Decide(c.store.View(), "n0", "f1", "v")
	if want := `volume "db" does not exist in namespace "other"; create or register it`; !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestAVolumeInUseIsNotDeleted(t *testing.T) {
	c := newCluster(t)
	c.place("a1", "n0", "")
	for what, cmd := range map[string]fsm.Command{
		"marked": &fsm.MarkCSIVolume{Namespace: "default", ID: "db", Deleting: true, Now: 1}, "forgotten": &fsm.DeleteCSIVolume{Namespace: "default", ID: "db"},
	} {
		data, err := fsm.Encode(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Propose(t.Context(), data); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// twin registers the volume of "db" again, in another namespace.
func (c *cluster) twin() *model.CSIVolume {
	c.Helper()
	c.must(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "other"}}})
	v := c.volume().Copy()
	v.ID, v.Namespace = "archive", "other"
	c.must(&fsm.PutCSIVolume{Volume: v, New: true})
	return v
}

func TestAVolumeThatIsRegisteredTwiceHasOneWriterAndIsNotDeleted(t *testing.T) {
	c := newCluster(t)
	v := c.twin()
	data, err := fsm.Encode(&fsm.MarkCSIVolume{Namespace: "default", ID: "db", Deleting: true, Now: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Propose(t.Context(), data); err == nil || !strings.Contains(err.Error(), "db is volume archive of namespace other, too") {
		t.Errorf("its data is deleted with one of them: %v", err)
	}
	c.place("a1", "n0", "")
	ask := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "archive", AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	c.must(&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: "other", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: ask, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}}}})
	at := c.store.View().Index()
	c.must(&fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "other", JobID: "j", SnapshotIndex: at, Place: []*model.Allocation{
		{ID: "b1", Name: "j.g[0]", Namespace: "other", JobID: "j", TaskGroup: "g", NodeID: "n1", ClientStatus: model.AllocClientStatusPending, DesiredStatus: "run"},
	}}})
	if _, err := claims.Decide(c.store.View(), "n1", "b1", "v"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "is held by alloc a1") {
		t.Errorf("two allocs write to one volume of the storage system: %v", err)
	}
	if _, err := claims.Decide(c.store.View(), "n0", "a1", "v"); !errdefs.IsUnavailable(err) || strings.Contains(err.Error(), "is held by") {
		t.Errorf("the older one does not have it: %v", err)
	}
	c.end("a1", model.AllocClientStatusComplete)
	if _, err := claims.Decide(c.store.View(), "n1", "b1", "v"); err != nil && strings.Contains(err.Error(), "is held by") {
		t.Errorf("of %s: %v", v.ID, err)
	}
}

// Nodes of a driver whose parts are separate programs say nothing of its controller. While that
// moves, nobody gets a volume that must be attached, least of all beside the node that has it.
func TestAVolumeIsNotUsedWithoutTheControllerThatAttachesIt(t *testing.T) {
	for name, known := range map[string]func(*cluster, *model.CSIVolume){
		"from its creation":       func(_ *cluster, v *model.CSIVolume) { v.Attaches = true },
		"from another node":       func(c *cluster, _ *model.CSIVolume) { c.attach("n1") },
		"from the node that asks": func(c *cluster, _ *model.CSIVolume) { c.attach("n0") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			v := c.volume().Copy()
			known(c, v)
			v.Attachments = c.volume().Attachments
			c.must(&fsm.PutCSIVolume{Volume: v})
			for i := range 3 {
				id := fmt.Sprint("n", i)
				plugins := map[string]*model.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &model.CSINodeInfo{ID: "ext-" + id}}}
				c.must(&fsm.RegisterNode{Node: &model.Node{ID: id, Status: model.NodeStatusReady, CSINodePlugins: plugins}})
			}
			c.place("a1", "n0", "")
			if g, err := claims.Decide(c.store.View(), "n0", "a1", "v"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "no node runs a controller") {
				t.Errorf("granted: %+v, %v", g, err)
			}
			c.node(2, model.NodeStatusReady) // has a controller
			if _, err := claims.Decide(c.store.View(), "n0", "a1", "v"); name == "from its creation" && (err == nil || !strings.Contains(err.Error(), "is not attached to this node yet")) {
				t.Errorf("with a controller: %v", err)
			}
		})
	}
}

func (c *cluster) attach(node string) {
	at := &model.CSIAttachment{NodeID: node, AccessMode: "single-node-writer", AttachmentMode: "file-system", State: model.CSIDetaching}
	c.must(&fsm.PutCSIAttachment{Namespace: "default", ID: "db", Attachment: at})
}

func TestADriverThatComesBackIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k, stop := c.lead()
		defer stop()
		c.place("a1", "n0", "")
		if _, err := k.Claim(t.Context(), "n0", "a1", "v"); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.failing = func(string) error { return errors.New("no controller") }
		c.mu.Unlock()
		c.end("a1", model.AllocClientStatusFailed)
		time.Sleep(10*time.Minute + 7*time.Second)
		tries := c.volume().Attachments["n0"].Failures
		c.node(2, "down") // and its controller with it: one more try, which fails
		time.Sleep(100 * time.Millisecond)
		if n := c.volume().Attachments["n0"].Failures; n != tries+1 {
			t.Errorf("%d tries before the change, then %d", tries, n)
		}
		c.mu.Lock()
		c.failing = func(string) error { return nil }
		c.mu.Unlock()
		c.node(2, model.NodeStatusReady)
		time.Sleep(100 * time.Millisecond)
		if left := c.volume().Attachments; len(left) != 0 {
			t.Errorf("the driver is back, and left is %+v", left["n0"])
		}
	})
}
