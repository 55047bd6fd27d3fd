// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package claims

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// shared has a volume and a twin of it in another namespace, and a job in each namespace with
// one group per way to use them.
type shared struct {
	testing.TB
	store  *state.Store
	fsm    *fsm.FSM
	groups []*model.TaskGroup
	placed int
}

func newShared(t testing.TB, requests ...model.VolumeRequest) *shared {
	s := &shared{TB: t, store: state.New()}
	s.fsm = fsm.New(s.store, hclog.NewNullLogger())
	s.apply(&fsm.BeginTerm{ClusterID: "c", TermID: "t"})
	s.apply(&fsm.RaiseLevel{Level: fsm.Level})
	s.apply(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "other"}}})
	for i, r := range requests {
		r.Name, r.Type, r.Source = "v", "csi", "db"
		s.groups = append(s.groups, &model.TaskGroup{Name: fmt.Sprint("g", i), Count: 1, Volumes: map[string]*model.VolumeRequest{"v": &r}, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}})
	}
	for _, ns := range []string{"default", "other"} {
		s.apply(&fsm.PutCSIVolume{New: true, Volume: &model.CSIVolume{ID: "db", Namespace: ns, ExternalID: "x", PluginID: "p"}})
		s.apply(&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: ns, Type: "service", TaskGroups: s.groups}})
	}
	return s
}

func (s *shared) apply(cmd fsm.Command) {
	s.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		s.Fatal(err)
	}
	if err, failed := s.fsm.ApplyBatch([]fsm.Entry{{Index: s.store.View().Index() + 1, Data: data}})[0].(error); failed {
		s.Fatalf("%T: %v", cmd, err)
	}
}

// place places allocs in one entry, so that they have the same CreateIndex.
func (s *shared) place(ns string, nodes []string, group func(i int) int) {
	s.Helper()
	at := s.store.View().Index()
	plan := &model.Plan{Namespace: ns, JobID: "j", SnapshotIndex: at}
	for i, node := range nodes {
		g := s.groups[group(i)].Name
		s.apply(&fsm.RegisterNode{Node: &model.Node{ID: node, Status: model.NodeStatusReady}})
		s.placed++
		plan.Place = append(plan.Place, &model.Allocation{
			ID: fmt.Sprintf("a%06d", s.placed*7919%1_000_000), Name: model.AllocName("j", g, 0), Namespace: ns, JobID: "j", TaskGroup: g, NodeID: node,
			ClientStatus: model.AllocClientStatusPending, DesiredStatus: "run",
		})
	}
	plan.SnapshotIndex = s.store.View().Index()
	s.apply(&fsm.ApplyPlan{VerifiedIndex: plan.SnapshotIndex, Plan: plan})
}

// Looking at the oldest alloc of each use decides as looking at every alloc does.
func TestTheOldestOfThoseThatUseAVolumeAlikeSpeaksForAll(t *testing.T) {
	modes := []model.VolumeRequest{
		{AccessMode: "single-node-writer", AttachmentMode: "file-system"}, {AccessMode: "single-node-multi-writer", AttachmentMode: "file-system"},
		{AccessMode: "single-node-reader-only", AttachmentMode: "file-system", ReadOnly: true}, {AccessMode: "multi-node-single-writer", AttachmentMode: "file-system"},
		{AccessMode: "multi-node-single-writer", AttachmentMode: "file-system", ReadOnly: true}, {AccessMode: "multi-node-multi-writer", AttachmentMode: "file-system"},
		{AccessMode: "multi-node-multi-writer", AttachmentMode: "block-device"}, {AccessMode: "multi-node-reader-only", AttachmentMode: "file-system", ReadOnly: true},
	}
	refused, granted := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 17))
		s := newShared(t, modes...)
		some := rng.IntN(len(modes)) // most allocs use the volume alike
		for range 1 + rng.IntN(5) {
			ns := []string{"default", "default", "other"}[rng.IntN(3)]
			s.place(ns, []string{fmt.Sprint("n", rng.IntN(3)), fmt.Sprint("n", rng.IntN(3))}, func(int) int {
				if rng.IntN(3) == 0 {
					return rng.IntN(len(modes))
				}
				return some
			})
		}
		v := s.store.View()
		vol := v.CSIVolumeByID("default", "db")
		holders := v.CSIVolumeHolders("default", "db")
		for _, a := range holders {
			use := model.CSIUseOf(a.NodeID, requestOf(v, a, vol))
			want := false
			for _, other := range holders {
				want = want || older(other, a) && use.Excludes(model.CSIUseOf(other.NodeID, requestOf(v, other, vol))) != ""
			}
			twin := v.CSIVolumeByID("other", "db")
			for _, other := range v.CSIVolumeHolders("other", "db") {
				want = want || older(other, a) && use.Clashes(model.CSIUseOf(other.NodeID, requestOf(v, other, twin))) != ""
			}
			if got := rivalsOf(v, vol, holders).excluding(a, use); (got != nil) != want {
				t.Fatalf("seed %d: alloc %s with %+v is excluded by %v, and should be excluded: %t", seed, a.ID, use, got, want)
			}
			if want {
				refused++
			} else {
				granted++
			}
		}
	}
	if refused < 100 || granted < 100 {
		t.Errorf("%d allocs were excluded and %d were not", refused, granted)
	}
}

// BenchmarkNextOfSharedVolume decides about a volume that allocs on many nodes write to.
func BenchmarkNextOfSharedVolume(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint("allocs=", n), func(b *testing.B) {
			s := newShared(b, model.VolumeRequest{AccessMode: "multi-node-multi-writer", AttachmentMode: "file-system"})
			nodes := make([]string, n)
			for i := range nodes {
				nodes[i] = fmt.Sprint("n", i)
			}
			s.place("default", nodes, func(int) int { return 0 })
			v := s.store.View()
			vol := v.CSIVolumeByID("default", "db")
			for b.Loop() {
				Next(v, vol, time.Time{}, time.Time{})
			}
		})
	}
}
