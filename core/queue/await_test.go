// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
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
