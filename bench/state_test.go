// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// The state tables beside go-memdb with the same rows and indexes, in one run:
//
//	go test ./bench -run '^$' -bench 'State' -benchtime 1x
const (
	stateAllocs = 1_000_000
	stateNodes  = 10_000
	stateTxn    = 1000
)

// stateWorld makes allocs: 100 jobs, one eval and deployment per 1,000 allocs.
type stateWorld struct {
	rng   *rand.Rand
	nodes []string
	jobs  []string
	res   *model.AllocatedResources
}

func newStateWorld() *stateWorld {
	w := &stateWorld{rng: rand.New(rand.NewPCG(1, 1)), res: &model.AllocatedResources{
		Tasks: map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: 100}, Memory: model.AllocatedMemoryResources{MemoryMB: 64}}},
	}}
	for range stateNodes {
		w.nodes = append(w.nodes, w.id())
	}
	for i := range 100 {
		w.jobs = append(w.jobs, fmt.Sprintf("job-%d", i))
	}
	return w
}

func (w *stateWorld) id() string {
	a, b := w.rng.Uint64(), w.rng.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

func (w *stateWorld) allocs(n int) []*model.Allocation {
	out := make([]*model.Allocation, n)
	var eval, dep string
	for i := range out {
		if i%1000 == 0 {
			eval, dep = w.id(), w.id()
		}
		out[i] = &model.Allocation{
			ID: w.id(), Namespace: "default", JobID: w.jobs[i/1000%len(w.jobs)], EvalID: eval, DeploymentID: dep,
			NodeID: w.nodes[w.rng.IntN(len(w.nodes))], TaskGroup: "web", AllocatedResources: w.res,
			DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending,
		}
	}
	return out
}

// allocStore is the interface that both stores implement.
type allocStore interface {
	insert(index uint64, allocs []*model.Allocation)
	update(index uint64, ids []string)
	scanNode(id string) int
	get(id string) bool
}

type droverStore struct{ s *state.Store }

func (d droverStore) insert(index uint64, allocs []*model.Allocation) {
	_ = d.s.Update(index, func(tx *state.Tx) error {
		for _, a := range allocs {
			tx.PlaceAlloc(a, int64(index))
		}
		return nil
	})
}

func (d droverStore) update(index uint64, ids []string) {
	_ = d.s.Update(index, func(tx *state.Tx) error {
		for _, id := range ids {
			if err := tx.UpdateAllocFromClient(&model.AllocReport{ID: id, ClientStatus: model.AllocClientStatusRunning}, int64(index)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d droverStore) scanNode(id string) (n int) {
	for a := range d.s.View().NodeAllocs(id) {
		n += len(a.ClientStatus)
	}
	return n
}

func (d droverStore) get(id string) bool { return d.s.View().AllocByID(id) != nil }

type memdbStore struct{ db *memdb.MemDB }

func newMemdb(b *testing.B) memdbStore {
	field := func(name, field string, unique bool) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: name, Unique: unique, AllowMissing: !unique, Indexer: &memdb.StringFieldIndex{Field: field}}
	}
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{"allocs": {
		Name: "allocs",
		Indexes: map[string]*memdb.IndexSchema{
			"id": field("id", "ID", true), "node": field("node", "NodeID", false), "eval": field("eval", "EvalID", false),
			"deployment": field("deployment", "DeploymentID", false),
			"job": {Name: "job", Indexer: &memdb.CompoundIndex{Indexes: []memdb.Indexer{
				&memdb.StringFieldIndex{Field: "Namespace"}, &memdb.StringFieldIndex{Field: "JobID"}}}},
		},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return memdbStore{db}
}

func (m memdbStore) insert(_ uint64, allocs []*model.Allocation) {
	tx := m.db.Txn(true)
	for _, a := range allocs {
		if err := tx.Insert("allocs", a); err != nil {
			panic(err)
		}
	}
	tx.Commit()
}

func (m memdbStore) update(_ uint64, ids []string) {
	tx := m.db.Txn(true)
	for _, id := range ids {
		old, _ := tx.First("allocs", "id", id)
		c := *old.(*model.Allocation)
		c.ClientStatus = model.AllocClientStatusRunning
		if err := tx.Insert("allocs", &c); err != nil {
			panic(err)
		}
	}
	tx.Commit()
}

func (m memdbStore) scanNode(id string) (n int) {
	it, _ := m.db.Txn(false).Get("allocs", "node", id)
	for a := it.Next(); a != nil; a = it.Next() {
		n += len(a.(*model.Allocation).ClientStatus)
	}
	return n
}

func (m memdbStore) get(id string) bool {
	a, _ := m.db.Txn(false).First("allocs", "id", id)
	return a != nil
}

func BenchmarkStateDrover(b *testing.B) {
	benchmarkStore(b, func(*testing.B) allocStore { return droverStore{state.New()} })
}

func BenchmarkStateMemdb(b *testing.B) {
	benchmarkStore(b, func(b *testing.B) allocStore { return newMemdb(b) })
}

func benchmarkStore(b *testing.B, open func(*testing.B) allocStore) {
	for range b.N {
		w := newStateWorld()
		allocs := w.allocs(stateAllocs)
		ids := make([]string, len(allocs))
		for i, a := range allocs {
			ids[i] = a.ID
		}
		s := open(b)
		rows := heap()
		start := time.Now()
		for i := 0; i < len(allocs); i += stateTxn {
			s.insert(uint64(2+i/stateTxn), allocs[i:i+stateTxn])
		}
		b.ReportMetric(stateAllocs/time.Since(start).Seconds(), "inserts/s")
		b.ReportMetric((heap()-rows)/stateAllocs, "index-B/object")

		start = time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "fullGC-ms")

		const updates = 200_000
		w.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		start = time.Now()
		for i := 0; i < updates; i += stateTxn {
			s.update(uint64(10_000+i), ids[i:i+stateTxn])
		}
		b.ReportMetric(updates/time.Since(start).Seconds(), "updates/s")

		start = time.Now()
		n := 0
		for range 3 {
			for _, node := range w.nodes {
				n += s.scanNode(node)
			}
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/(3*stateAllocs), "scan-ns/row")

		start = time.Now()
		for _, id := range ids[:100_000] {
			if !s.get(id) {
				b.Fatal("a row is missing")
			}
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/100_000, "get-ns")
		runtime.KeepAlive(n)
		runtime.KeepAlive(allocs)
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
