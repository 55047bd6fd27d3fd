// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
)

// size is what an alloc asks for, or what a node has.
type size struct{ cpu, mem int64 }

func (s size) fits(in size) bool { return s.cpu <= in.cpu && s.mem <= in.mem }
func (s size) less(o size) size  { return size{s.cpu - o.cpu, s.mem - o.mem} }

var packingNode = size{4000, 8192}

// mixes are the kinds of allocs that come, each as often as the others.
var mixes = []struct {
	name  string
	kinds []size
}{
	{"equal", []size{{500, 700}}},
	{"sizes", []size{{250, 512}, {500, 1024}, {1000, 2048}, {1500, 3072}}},
	{"shapes", []size{{1000, 512}, {250, 2048}, {600, 1200}}},
}

// BenchmarkPacking lets allocs come one after the other until the first finds no room, and
// counts those before it: on 4 nodes beside the most that any placement of the same sequence
// allows, over 60 sequences, and beside the best rules that do not know the sequence: of one that
// knows how often which kind comes, and of one that learns it. On 200 nodes beside best-fit and a
// random node that fits, over 3 sequences.
func BenchmarkPacking(b *testing.B) {
	for _, mix := range mixes {
		b.Run(mix.name, func(b *testing.B) {
			for b.Loop() {
				var ours, exact, online, learned int
				rule, learner := newOnline(mix.kinds, false), newOnline(mix.kinds, true)
				for seed := range uint64(60) {
					comes := sequence(seed, mix.kinds, 400)
					ours += placedBy(b, 4, mix.kinds, comes)
					exact += mostOf(4, mix.kinds, comes)
					online += rule.placed(comes)
					if len(mix.kinds) < 4 { // of four kinds there are too many states
						learned += learner.placed(comes)
					}
				}
				b.ReportMetric(100*float64(ours)/float64(exact), "%-of-exact")
				b.ReportMetric(float64(exact)/60, "exact-allocs")
				b.ReportMetric(100*float64(online)/float64(exact), "%-online-of-exact")
				if learned > 0 {
					b.ReportMetric(100*float64(learned)/float64(exact), "%-learner-of-exact")
				}
				var large, best, random int
				for seed := range uint64(3) {
					comes := sequence(100+seed, mix.kinds, 20_000)
					large += placedBy(b, 200, mix.kinds, comes)
					best += placedPlainly(200, mix.kinds, comes, bestFit)
					rng := rand.New(rand.NewPCG(seed, 3))
					random += placedPlainly(200, mix.kinds, comes, func(left []size, ask size) int { return anyFit(rng, left, ask) })
				}
				b.ReportMetric(100*float64(large)/float64(best), "%-of-best-fit")
				b.ReportMetric(100*float64(large)/float64(random), "%-of-random")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sequence draws which kinds come.
func sequence(seed uint64, kinds []size, n int) []int {
	rng := rand.New(rand.NewPCG(seed, 8))
	out := make([]int, n)
	for i := range out {
		out[i] = rng.IntN(len(kinds))
	}
	return out
}

// placedBy returns how many allocs the scheduler places before the first without room.
func placedBy(b *testing.B, nodes int, kinds []size, comes []int) int {
	b.Helper()
	store, ids := state.New(), &numbers{}
	index := uint64(10)
	update := func(f func(tx *state.Tx)) {
		index++
		if err := store.Update(index, func(tx *state.Tx) error { f(tx); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	update(func(tx *state.Tx) {
		for i := range nodes {
			n := &model.Node{
				ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), Datacenter: "dc1", NodePool: "default", Attributes: map[string]string{"driver.raw_exec": "1"},
				Status: model.NodeStatusReady, SchedulingEligibility: model.NodeSchedulingEligible,
				NodeResources: &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: packingNode.cpu}, Memory: model.NodeMemoryResources{MemoryMB: packingNode.mem}, Disk: model.NodeDiskResources{DiskMB: 1e6}},
			}
			n.ComputedClass = n.ComputeClass()
			tx.RegisterNode(n)
		}
	})
	for i, kind := range comes {
		ask, id := kinds[kind], fmt.Sprint("job", i)
		update(func(tx *state.Tx) {
			tx.UpsertJob(&model.Job{
				ID: id, Namespace: "default", Type: model.JobTypeService, Datacenters: []string{"*"}, NodePool: "default",
				TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: int(ask.cpu), MemoryMB: int(ask.mem)}}}}},
			}, nil)
		})
		eval := &model.Evaluation{ID: "e", Namespace: "default", JobID: id, Type: model.JobTypeService}
		o := schedule.Process(store.View(), eval, time.Unix(1_700_000_000, 0), ids)
		if len(o.Plan.Place) == 0 {
			return i
		}
		update(func(tx *state.Tx) { tx.PlaceAlloc(o.Plan.Place[0], 1) })
	}
	return len(comes)
}

// placedPlainly is placedBy for a rule that chooses a node, -1 for none.
func placedPlainly(nodes int, kinds []size, comes []int, choose func(left []size, ask size) int) int {
	left := make([]size, nodes)
	for i := range left {
		left[i] = packingNode
	}
	for i, kind := range comes {
		n := choose(left, kinds[kind])
		if n < 0 {
			return i
		}
		left[n] = left[n].less(kinds[kind])
	}
	return len(comes)
}

// bestFit chooses the node on which the least is left, in parts of a node.
func bestFit(left []size, ask size) int {
	best, least := -1, 0.0
	for i, l := range left {
		if !ask.fits(l) {
			continue
		}
		after := l.less(ask)
		rest := float64(after.cpu)/float64(packingNode.cpu) + float64(after.mem)/float64(packingNode.mem)
		if best < 0 || rest < least {
			best, least = i, rest
		}
	}
	return best
}

func anyFit(rng *rand.Rand, left []size, ask size) int {
	var fit []int
	for i, l := range left {
		if ask.fits(l) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return fit[rng.IntN(len(fit))]
}

// counts is how many allocs of each kind there are.
type counts [4]int

// mostOf returns the longest beginning of a sequence that fits on the nodes in any way.
func mostOf(nodes int, kinds []size, comes []int) int {
	known := map[string]bool{}
	var all counts
	for i, kind := range comes {
		all[kind]++
		if !fitOn(nodes, kinds, all, known) {
			return i
		}
	}
	return len(comes)
}

// fitOn reports whether allocs fit on nodes: one of the fullest fillings of the first node
// must leave what fits on the others.
func fitOn(nodes int, kinds []size, all counts, known map[string]bool) bool {
	if all == (counts{}) {
		return true
	}
	if nodes == 0 {
		return false
	}
	key := fmt.Sprint(nodes, all)
	if ok, seen := known[key]; seen {
		return ok
	}
	known[key] = fillNode(packingNode, 0, kinds, all, func(rest counts) bool { return fitOn(nodes-1, kinds, rest, known) })
	return known[key]
}

// fillNode calls then with what remains after each filling of a node to which nothing can be
// added, until then returns true.
func fillNode(left size, kind int, kinds []size, all counts, then func(counts) bool) bool {
	if kind == len(kinds) {
		for k, ask := range kinds {
			if all[k] > 0 && ask.fits(left) {
				return false // not full: another filling has more
			}
		}
		return then(all)
	}
	most := 0
	for rest := left; most < all[kind] && kinds[kind].fits(rest); most++ {
		rest = rest.less(kinds[kind])
	}
	for n := most; n >= 0; n-- {
		rest := all
		rest[kind] -= n
		after := size{left.cpu - int64(n)*kinds[kind].cpu, left.mem - int64(n)*kinds[kind].mem}
		if fillNode(after, kind+1, kinds, rest, then) {
			return true
		}
	}
	return false
}

// filled are the contents of four nodes, as indexes of online.of, in order.
type filled [4]uint8

// filling is what is left of a node and, for a rule that learns, what is on it.
type filling struct {
	left  size
	holds counts
}

// online is the rule that places the most allocs on average, of all that see one after the
// other. It knows that each kind comes as often as the others; or it learns how often each
// comes, where at first every mix is as likely as any other (Laplace's rule of succession).
type online struct {
	kinds  []size
	learns bool
	of     []filling
	index  map[filling]uint8
	value  map[filled]float32 // how many more are placed on average
}

func newOnline(kinds []size, learns bool) *online {
	return &online{kinds: kinds, learns: learns, index: map[filling]uint8{}, value: map[filled]float32{}}
}

func (o *online) number(f filling) uint8 {
	i, known := o.index[f]
	if !known {
		i = uint8(len(o.of))
		o.index[f], o.of = i, append(o.of, f)
	}
	return i
}

// best returns the contents when an alloc is placed where that is best, and how many are placed
// from it on; 0 if there is no room.
func (o *online) best(on filled, kind int) (out filled, most float32) {
	for i, f := range on {
		if i > 0 && on[i-1] == f || !o.kinds[kind].fits(o.of[f].left) {
			continue
		}
		more := filling{o.of[f].left.less(o.kinds[kind]), o.of[f].holds}
		if o.learns {
			more.holds[kind]++
		}
		after := on
		after[i] = o.number(more)
		slices.Sort(after[:])
		if n := 1 + o.average(after); n > most {
			out, most = after, n
		}
	}
	return out, most
}

func (o *online) average(on filled) float32 {
	if n, known := o.value[on]; known {
		return n
	}
	came, all := [len(counts{})]int{}, len(o.kinds) // once more of each kind than came
	for _, f := range on {
		for k, n := range o.of[f].holds {
			came[k], all = came[k]+n, all+n
		}
	}
	sum := float32(0)
	for k := range o.kinds {
		_, n := o.best(on, k)
		sum += n * float32(came[k]+1)
	}
	o.value[on] = sum / float32(all)
	return o.value[on]
}

// placed returns how many allocs of a sequence the rule places before the first without room.
func (o *online) placed(comes []int) int {
	empty := o.number(filling{left: packingNode})
	on := filled{empty, empty, empty, empty}
	for i, kind := range comes {
		after, n := o.best(on, kind)
		if n == 0 {
			return i
		}
		on = after
	}
	return len(comes)
}
