// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
)

func TestWhatWaitsForJobsIsFoundByThemAndWokenByNothingElse(t *testing.T) {
	var out []string
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			out = append(out, e.ID)
		}
	})
	b.SetEnabled(true)
	db, etl := model.JobKey{Namespace: "default", ID: "db"}, model.JobKey{Namespace: "default", ID: "etl"}
	at := time.Unix(1000, 0)
	b.UnblockAll(50)
	b.Block(blockedEval("a", "j1", 10, nil), queue.Need{NoRoom: true, On: []model.JobKey{db, etl}, Until: at.Add(time.Minute)})
	b.Block(blockedEval("b", "j2", 10, nil), queue.Need{NoRoom: true, On: []model.JobKey{etl}})
	b.Block(blockedEval("c", "j3", 60, nil), queue.Need{On: []model.JobKey{db}, Until: at})
	b.Unblock(queue.Room{Class: "x"}, 70) // c waits for room too
	b.UnblockAll(80)
	b.UnblockNode("n", 80)
	if !slices.Equal(out, []string{"c"}) {
		t.Fatalf("woken by room: %v", out)
	}
	ids := func(job model.JobKey) (out []string) {
		for _, e := range b.Dependants(job) {
			out = append(out, e.ID)
		}
		slices.Sort(out)
		return out
	}
	if on, both := ids(db), ids(etl); !slices.Equal(on, []string{"a"}) || !slices.Equal(both, []string{"a", "b"}) {
		t.Fatalf("db: %v, etl: %v", on, both)
	}
	if next, ok := b.NextLimit(); !ok || !next.Equal(at.Add(time.Minute)) {
		t.Errorf("the next limit is %s, %v: c is not held any more", next, ok)
	}
	b.ReleaseDue(at)
	b.Release("nobody")
	if b.Len() != 2 {
		t.Errorf("%d are held", b.Len())
	}
	b.ReleaseDue(at.Add(time.Minute))
	b.Release("b")
	if !slices.Equal(out, []string{"c", "a", "b"}) || b.Awaits() || b.Len() != 0 {
		t.Errorf("woken: %v, %d are held", out, b.Len())
	}
	if _, ok := b.NextLimit(); ok {
		t.Error("a limit is left")
	}
}

func TestWhatWaitsForANodeIsWokenByThatNodeAlone(t *testing.T) {
	var out []string
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			out = append(out, e.ID)
		}
	})
	b.SetEnabled(true)
	block := func(id, job, node string) {
		e := blockedEval(id, job, 10, nil)
		e.NodeID = node
		b.Block(e, queue.Need{})
	}
	block("a", "j1", "n1")
	block("b", "j2", "n1")
	block("c", "j3", "n2")
	block("d", "j4", "")
	block("e", "j2", "n2") // replaces b
	b.UnblockNode("n1", 10)
	if len(out) > 0 {
		t.Errorf("woken by what they have seen: %v", out)
	}
	b.UnblockNode("n1", 11)
	b.UnblockNode("n1", 12)
	if !slices.Equal(out, []string{"a"}) {
		t.Errorf("woken by the first node: %v", out)
	}
	b.Forget("c")
	b.UnblockNode("n2", 11)
	if !slices.Equal(out, []string{"a", "e"}) || b.Len() != 1 {
		t.Errorf("woken by both nodes: %v, and %d are held", out, b.Len())
	}
}

// A cluster may have any number of node classes over time. What is remembered of them is
// bounded, and no evaluation misses what it waits for.
func TestNoGainOfResourcesIsMissedWhenThereAreVeryManyClasses(t *testing.T) {
	woken := map[string]bool{}
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			woken[e.ID] = true
		}
	})
	b.SetEnabled(true)
	for i := range 20_000 {
		b.Unblock(queue.Room{Class: fmt.Sprint("c", i)}, uint64(100+i))
	}
	only := map[string]bool{"c0": true} // no other class helps it
	for i := range 20_000 {
		only[fmt.Sprint("c", i)] = i == 0
	}
	b.Block(blockedEval("early", "j1", 99, only), queue.Need{})
	b.Block(blockedEval("late", "j2", 30_000, nil), queue.Need{})
	if !woken["early"] || woken["late"] {
		t.Errorf("woken: %v", woken)
	}
}

// BenchmarkUnblockNode ends an alloc while other evaluations wait for room anywhere.
func BenchmarkUnblockNode(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("blocked=", n), func(b *testing.B) {
			q := queue.NewBlocked(func(...*model.Evaluation) {})
			q.SetEnabled(true)
			for i := range n {
				q.Block(blockedEval(fmt.Sprint("e", i), fmt.Sprint("j", i), 10, nil), queue.Need{})
			}
			for b.Loop() {
				q.UnblockNode("n1", 11)
			}
		})
	}
}
