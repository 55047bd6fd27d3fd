// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// shelf is a cluster of two nodes with volumes. Its nodes start an alloc when the one that
// it replaces has ended, as agents do, and end one whenever they like.
type shelf struct {
	*testing.T
	rng   *rand.Rand
	store *state.Store
	fsm   *fsm.FSM
	now   time.Time
	ids   int
	plans []*model.Plan // made and not submitted yet
}

func (s *shelf) NewID() string {
	s.ids++
	return fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.ids)
}

func (s *shelf) apply(c fsm.Command) any {
	s.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		s.Fatal(err)
	}
	return s.fsm.ApplyBatch([]fsm.Entry{{Index: s.store.View().Index() + 1, Data: data}})[0]
}

func (s *shelf) must(c fsm.Command) {
	s.Helper()
	if err, failed := s.apply(c).(error); failed {
		s.Fatalf("%T: %v", c, err)
	}
}

func volumeID(node int, name string) string { return fmt.Sprintf("%s on n%d", name, node) }

// newShelf makes the nodes: both have "data", and each has its own "data[i]".
func newShelf(t *testing.T, seed uint64) *shelf {
	s := &shelf{T: t, rng: rand.New(rand.NewPCG(seed, 14)), store: state.New(), now: time.Unix(1_700_000_000, 0).UTC()}
	s.fsm = fsm.New(s.store, hclog.NewNullLogger())
	s.must(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	s.must(&fsm.RaiseLevel{Level: fsm.Level})
	for i := range 2 {
		own := fmt.Sprintf("data[%d]", i)
		n := &model.Node{
			ID: fmt.Sprint("n", i), Datacenter: "dc1", NodePool: "default", Status: model.NodeStatusReady, Attributes: map[string]string{"driver.raw_exec": "1"},
			NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: 5000}, Memory: model.NodeMemoryResources{MemoryMB: 10000}, Disk: model.NodeDiskResources{DiskMB: 10000}},
			HostVolumes: map[string]*model.HostVolumeConfig{
				"data": {Name: "data", ID: volumeID(i, "data")}, own: {Name: own, ID: volumeID(i, own)}, "foreign": {Name: "foreign", ID: volumeID(i, "foreign")},
			},
		}
		n.ComputedClass = n.ComputeClass()
		s.must(&fsm.RegisterNode{Node: n})
		for _, name := range []string{"data", own, "foreign"} {
			v := &model.HostVolume{ID: volumeID(i, name), Name: name, Namespace: "default", NodeID: n.ID, PluginID: "mkdir", ModifyTime: 1}
			for _, mode := range model.HostAccessModes {
				v.RequestedCapabilities = append(v.RequestedCapabilities, &model.VolumeCapability{AccessMode: mode, AttachmentMode: model.AttachmentFileSystem})
			}
			s.must(&fsm.PutHostVolume{Volume: v, New: true})
		}
	}
	s.must(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "other"}}})
	return s
}

// shelfJobs are how jobs use "data".
var shelfJobs = map[string]*model.VolumeRequest{
	"alone":  {Type: "host", Source: "data", AccessMode: model.AccessSingleNodeSingleWriter},
	"second": {Type: "host", Source: "data", AccessMode: model.AccessSingleNodeSingleWriter},
	"many":   {Type: "host", Source: "data", AccessMode: model.AccessSingleNodeMultiWriter},
	"reader": {Type: "host", Source: "data", AccessMode: model.AccessSingleNodeReader, ReadOnly: true},
	"own":    {Type: "host", Source: "data", AccessMode: model.AccessSingleNodeSingleWriter, PerAlloc: true},
	"bound":  {Type: "host", Source: "data", Sticky: true},
}

var shelfNames = []string{"alone", "second", "many", "reader", "own", "bound"}

func (s *shelf) job(id string, count int) {
	ask := *shelfJobs[id]
	s.must(&fsm.UpsertJob{Job: &model.Job{
		ID: id, Name: id, Namespace: "default", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{{
			Name: "g", Count: count, Volumes: map[string]*model.VolumeRequest{"v": &ask},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Env: map[string]string{"V": fmt.Sprint(s.rng.IntN(3))}, Resources: &model.Resources{CPU: 10, MemoryMB: 10}}},
		}},
	}})
}

func (s *shelf) report(a *model.Allocation, status string) {
	at := s.now
	task := &model.TaskState{State: "running", StartedAt: &at}
	if status != "running" {
		task = &model.TaskState{State: "dead", Failed: status == "failed", FinishedAt: &at}
	}
	now := &model.Allocation{ID: a.ID, ClientStatus: status, TaskStates: map[string]*model.TaskState{"t": task}}
	s.must(&fsm.UpdateAllocsFromClient{At: s.now.UnixNano(), Reports: []*model.AllocReport{now.ReportSince(nil)}})
}

// nodeDoes is one thing that a node does with an alloc.
func (s *shelf) nodeDoes(a *model.Allocation) {
	before := s.store.View().AllocByID(a.PreviousAllocation)
	waits := before != nil && before.NodeID == a.NodeID && !before.ClientTerminalStatus()
	switch {
	case a.ClientTerminalStatus():
	case a.ServerTerminalStatus():
		s.report(a, "complete")
	case a.ClientStatus == "pending" && !waits:
		s.report(a, "running")
	case a.ClientStatus == "running" && s.rng.IntN(4) == 0:
		s.report(a, "failed")
	}
}

func (s *shelf) plan(job string) *model.Plan {
	e := &model.Evaluation{ID: s.NewID(), Namespace: "default", JobID: job, Type: "service", Priority: 50, Status: "pending"}
	return schedule.Process(s.store.View(), e, s.now, s).Plan
}

func (s *shelf) submit(p *model.Plan) {
	at := s.store.View().Index()
	r := plan.Verify(s.store.View(), p)
	s.apply(fsm.NewApplyPlan(p, r, at, s.now.UnixNano()))
}

// check holds what must hold after every step.
func (s *shelf) check() {
	s.Helper()
	v := s.store.View()
	writers, alone := map[string][]string{}, map[string]bool{}
	for a := range v.Allocs() {
		ask := v.JobOf(a).TaskGroups[0].Volumes["v"]
		on := v.NodeByID(a.NodeID).HostVolumes[ask.VolumeName(a.Index())]
		if on == nil {
			s.Fatalf("%s is on %s, which has no volume %q", a.Name, a.NodeID, ask.VolumeName(a.Index()))
		}
		if a.ClientStatus == "running" && ask.Writes() {
			writers[on.ID] = append(writers[on.ID], a.Name+" "+a.ID)
			alone[on.ID] = alone[on.ID] || ask.AccessMode == model.AccessSingleNodeSingleWriter
		}
		if c := v.VolumeClaimOf(ask.Claim(v.JobOf(a), "g", a.Name, a.Index(), "")); ask.Sticky && !a.TerminalStatus() && (c == nil || c.VolumeID != on.ID) {
			s.Fatalf("%s is on %s, and its claim is %+v", a.Name, on.ID, c)
		}
	}
	for id, list := range writers {
		if alone[id] && len(list) > 1 {
			s.Fatalf("volume %s, which one wants to write alone, has the writers %v", id, list)
		}
	}
}

func (s *shelf) step() {
	job := shelfNames[s.rng.IntN(len(shelfNames))]
	switch s.rng.IntN(9) {
	case 0:
		s.job(job, s.rng.IntN(4))
	case 1:
		s.apply(&fsm.DeregisterJob{Namespace: "default", ID: job})
	case 2, 3: // plans are made on a state that is older when they are verified
		if s.store.View().JobByID("default", job) != nil {
			s.plans = append(s.plans, s.plan(job))
		}
	case 4, 5:
		for len(s.plans) > 0 {
			s.submit(s.plans[0])
			s.plans = s.plans[1:]
			s.check()
		}
	case 6, 7:
		for a := range s.store.View().Allocs() {
			if s.rng.IntN(2) == 0 {
				s.nodeDoes(a)
			}
		}
	case 8:
		s.remove(volumeID(s.rng.IntN(2), "data"))
	}
	s.now = s.now.Add(time.Minute)
	s.check()
}

// remove begins the removal of a volume, lets plans be applied that were made before, and
// gives it up. Nothing may be placed on the volume meanwhile.
func (s *shelf) remove(id string) {
	s.Helper()
	v := s.store.View()
	used := len(v.HostVolumeUsers(v.HostVolumeByID(id))) > 0
	late := s.plan("many")
	verified := plan.Verify(s.store.View(), late)
	at := s.store.View().Index()
	_, refused := s.apply(&fsm.MarkHostVolume{ID: id, Deleting: true}).(error)
	if refused != used {
		s.Fatalf("volume %s is in use: %v, its removal is refused: %v", id, used, refused)
	}
	if refused {
		return
	}
	s.apply(fsm.NewApplyPlan(late, verified, at, s.now.UnixNano()))
	for _, job := range shelfNames {
		if s.store.View().JobByID("default", job) != nil {
			s.submit(s.plan(job))
		}
	}
	v = s.store.View()
	if users := v.HostVolumeUsers(v.HostVolumeByID(id)); len(users) > 0 {
		s.Fatalf("%s was placed on volume %s, which is being removed", users[0].Name, id)
	}
	s.must(&fsm.MarkHostVolume{ID: id})
}

// calm stops all jobs but one, lets everything end, and returns how many allocs of the one
// run at last.
func (s *shelf) calm(job string, count int) (running int) {
	s.plans = nil
	for _, other := range shelfNames {
		if s.store.View().JobByID("default", other) != nil {
			s.must(&fsm.DeregisterJob{Namespace: "default", ID: other})
		}
	}
	s.job(job, count)
	for range 12 {
		for _, j := range shelfNames {
			if s.store.View().JobByID("default", j) != nil {
				s.submit(s.plan(j))
			}
		}
		s.now = s.now.Add(time.Hour)
		for a := range s.store.View().Allocs() {
			if a.ClientStatus == "pending" || a.ServerTerminalStatus() {
				s.nodeDoes(a)
			}
		}
		s.check()
	}
	for _, a := range s.store.View().AllocsByJob("default", job) {
		if a.ClientStatus == "running" && !a.ServerTerminalStatus() {
			running++
		}
	}
	return running
}

func TestAVolumeWithOneWriterNeverHasTwoAndIsNeverLostToPlansInFlight(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newShelf(t, seed)
			for range 150 {
				s.step()
			}
			for job, want := range map[string]int{"alone": 2, "own": 2, "many": 3, "bound": 3} {
				if got := s.calm(job, 3); got != want {
					t.Errorf("job %s runs %d of 3 allocs, want %d", job, got, want)
				}
			}
		})
	}
}

// A job cannot use a volume of another namespace, and a claim ends with its job.
func TestVolumesBelongToANamespaceAndClaimsToAJob(t *testing.T) {
	s := newShelf(t, 1)
	job := &model.Job{
		ID: "thief", Name: "thief", Namespace: "other", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default",
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: map[string]*model.VolumeRequest{"v": {Type: "host", Source: "data"}}, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}},
	}
	s.must(&fsm.UpsertJob{Job: job})
	e := &model.Evaluation{ID: s.NewID(), Namespace: "other", JobID: "thief", Type: "service", Status: "pending"}
	if out := schedule.Process(s.store.View(), e, s.now, s); len(out.Plan.Place) > 0 || out.FailedTGAllocs["g"].ConstraintFiltered["missing compatible host volumes"] != 2 {
		t.Errorf("placed %v, failed %+v", out.Plan.Place, out.FailedTGAllocs["g"])
	}
	if got := s.calm("bound", 2); got != 2 {
		t.Fatalf("%d allocs run", got)
	}
	claims := map[string]string{}
	for c := range s.store.View().VolumeClaims() {
		claims[c.AllocName] = c.VolumeID
	}
	if len(claims) != 2 {
		t.Fatalf("claims %v", claims)
	}
	s.calm("alone", 1) // the job is stopped, and comes back
	s.calm("bound", 2)
	for c := range s.store.View().VolumeClaims() {
		if claims[c.AllocName] != c.VolumeID || s.store.View().AllocByID(c.AllocID).ServerTerminalStatus() {
			t.Errorf("the claim of %s is now %+v", c.AllocName, c)
		}
	}
	s.must(&fsm.DeregisterJob{Namespace: "default", ID: "bound", Purge: true})
	for c := range s.store.View().VolumeClaims() {
		t.Errorf("a claim is left: %+v", c)
	}
}
