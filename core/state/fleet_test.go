// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

type asJSON struct{}

func (asJSON) Append(dst []byte, row any) ([]byte, error) {
	b, err := json.Marshal(row)
	return append(dst, b...), err
}
func (asJSON) Decode(data []byte, row any) error { return json.Unmarshal(data, row) }

// TestTheFleetSaysWhatTheTablesSay changes nodes and allocs at random, with transactions that
// fail and restores, and compares the fleet of each view, asked for now and then, with what
// the tables say one node after the other. Views are asked again in the end, when later ones
// have been made from them.
func TestTheFleetSaysWhatTheTablesSay(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomFleet(t, rand.New(rand.NewPCG(seed, 15))) })
	}
}

func randomFleet(t *testing.T, r *rand.Rand) {
	s := state.New()
	register(t, s, job("web", 1))
	var views []*state.View
	allocs := 0
	for step := range 120 {
		id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", r.IntN(30))
		if r.IntN(6) == 0 {
			id = fmt.Sprint("n", r.IntN(5)) // ids that are no UUIDs come between the others
		}
		write := func(tx *state.Tx) error {
			switch known := tx.View().NodeByID(id) != nil; {
			case !known || r.IntN(4) == 0:
				tx.RegisterNode(randomNode(r, id))
			case r.IntN(3) == 0:
				return tx.UpdateNodeStatus(id, []string{model.NodeStatusReady, model.NodeStatusDown}[r.IntN(2)], 1, nil)
			case r.IntN(8) == 0:
				return tx.DeleteNode(id)
			default:
				allocs++
				a := alloc(fmt.Sprint("a", allocs), 0)
				a.NodeID = id
				tx.PlaceAlloc(a, 1)
			}
			return nil
		}
		switch r.IntN(8) {
		case 0:
			_ = s.Update(s.View().Index()+1, func(tx *state.Tx) error {
				_ = write(tx)
				checkFleet(t, tx.View())
				return errors.New("rolled back")
			})
		case 1:
			if id := fmt.Sprint("a", 1+r.IntN(allocs+1)); s.View().AllocByID(id) != nil {
				report(t, s, &model.Allocation{ID: id, ClientStatus: "complete"})
			}
		case 2:
			if step%5 == 0 {
				var stream bytes.Buffer
				if err := s.View().Save(&stream, asJSON{}); err != nil {
					t.Fatal(err)
				}
				if err := s.Restore(&stream, asJSON{}); err != nil {
					t.Fatal(err)
				}
			}
		default:
			update(t, s, write)
		}
		views = append(views, s.View())
		if r.IntN(3) == 0 {
			checkFleet(t, s.View())
		}
	}
	for _, v := range views {
		checkFleet(t, v)
	}
}

func randomNode(r *rand.Rand, id string) *model.Node {
	n := &model.Node{
		ID: id, Name: id, Datacenter: fmt.Sprint("dc", r.IntN(2)), NodeClass: fmt.Sprint("c", r.IntN(3)), NodePool: "default", Status: model.NodeStatusReady,
		NodeResources:     &model.NodeResources{Cpu: model.NodeCpuResources{CpuShares: int64(1000 + r.IntN(5))}},
		ReservedResources: &model.NodeReservedResources{Cpu: model.NodeReservedCpuResources{CpuShares: uint64(r.IntN(100))}},
	}
	if r.IntN(4) > 0 {
		n.ComputedClass = n.ComputeClass()
	}
	return n
}

func checkFleet(t *testing.T, v *state.View) {
	t.Helper()
	f, nodes := v.Fleet(), slices.Collect(v.Nodes())
	if !slices.Equal(f.Nodes, nodes) {
		t.Fatalf("%d nodes, want %d in this order: %v", len(f.Nodes), len(nodes), nodes)
	}
	row, counts := 0, make([]int, len(f.Kinds))
	for n, use := range v.NodesWithUse() {
		cpu, mem, disk := v.NodeUsed(n.ID)
		if n != nodes[row] || use != (model.NodeUse{CPU: cpu, MemoryMB: mem, DiskMB: disk}) {
			t.Fatalf("row %d is node %s, which uses %+v; want %s with %d MHz, %d MB", row, n.ID, use, nodes[row].ID, cpu, mem)
		}
		if f.Capacity[row] != n.Capacity() {
			t.Fatalf("node %s has %+v, want %+v", n.ID, f.Capacity[row], n.Capacity())
		}
		counts[f.Kind[row]]++
		kind := f.Kinds[f.Kind[row]]
		if kind.Ready != n.Ready() || kind.Pool != n.NodePool || kind.Datacenter != n.Datacenter || kind.Class != n.NodeClass || kind.Computed != n.ComputedClass {
			t.Fatalf("node %+v is of kind %+v", n, kind)
		}
		if n.ComputedClass == "" && f.Count[f.Kind[row]] != 1 {
			t.Fatalf("node %s has no class, and is of one kind with others", n.ID)
		}
		row++
	}
	if !slices.Equal(counts, f.Count) {
		t.Fatalf("nodes by kind: %v, want %v", f.Count, counts)
	}
}

// TestAFleetIsMadeAnewOnlyForNodesThatChange guards the cost of evaluations: allocs come and go
// all the time, nodes seldom change.
func TestAFleetIsMadeAnewOnlyForNodesThatChange(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	for i := range 3 {
		update(t, s, func(tx *state.Tx) error {
			tx.RegisterNode(randomNode(rand.New(rand.NewPCG(1, 1)), fmt.Sprint("n", i)))
			return nil
		})
	}
	before := s.View().Fleet()
	place(t, s, alloc("a1", 0))
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "complete"})
	if s.View().Fleet() != before {
		t.Error("an alloc that came and went made another fleet")
	}
	update(t, s, func(tx *state.Tx) error { return tx.UpdateNodeStatus("n1", model.NodeStatusDown, 1, nil) })
	after := s.View().Fleet()
	if after == before || after.Nodes[0] != before.Nodes[0] || before.Nodes[1].Status == model.NodeStatusDown {
		t.Error("a node that went down is not in the next fleet, or is in the one before")
	}
	update(t, s, func(tx *state.Tx) error { return tx.DeleteNode("n0") })
	if f := s.View().Fleet(); len(f.Nodes) != 2 || len(after.Nodes) != 3 {
		t.Errorf("%d nodes after one was removed, %d before", len(f.Nodes), len(after.Nodes))
	}
}

func TestKindsThatNoNodeHasAreForgotten(t *testing.T) {
	s := state.New()
	for i := range 500 {
		update(t, s, func(tx *state.Tx) error {
			tx.RegisterNode(&model.Node{ID: "n", NodePool: "default", NodeClass: fmt.Sprint(i), ComputedClass: fmt.Sprint(i), Status: "ready"})
			return nil
		})
		s.View().Fleet()
	}
	if n := len(s.View().Fleet().Kinds); n > 100 {
		t.Errorf("a fleet of one node knows %d kinds", n)
	}
}
