// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"slices"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
)

// blockedIn returns blocked evaluations, and the ids of those that they have enqueued.
func blockedIn() (b *queue.Blocked, out *[]string) {
	out = new([]string)
	b = queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			*out = append(*out, e.ID)
		}
	})
	b.SetEnabled(true)
	return b, out
}

func TestRoomHelpsOnlyWhatWaitsForLessInItsPool(t *testing.T) {
	room := queue.Room{Class: "c", Pool: "default", Free: queue.Amount{CPU: 10, Memory: 10, Disk: 10, Devices: 10}}
	for name, c := range map[string]struct {
		need  queue.Need
		helps bool
	}{
		"an unknown amount":           {queue.Need{}, true},
		"exactly as much":             {queue.Need{Amounts: []queue.Amount{room.Free}}, true},
		"more cpu":                    {queue.Need{Amounts: []queue.Amount{{CPU: 11}}}, false},
		"more memory":                 {queue.Need{Amounts: []queue.Amount{{Memory: 11}}}, false},
		"more disk":                   {queue.Need{Amounts: []queue.Amount{{Disk: 11}}}, false},
		"more devices":                {queue.Need{Amounts: []queue.Amount{{Devices: 11}}}, false},
		"one of two that fits":        {queue.Need{Amounts: []queue.Amount{{CPU: 11}, {CPU: 1}}}, true},
		"its pool":                    {queue.Need{Pool: "default"}, true},
		"any pool":                    {queue.Need{Pool: model.NodePoolAll}, true},
		"another pool":                {queue.Need{Pool: "gpu"}, false},
		"no room but other jobs only": {queue.Need{NoRoom: true}, false},
	} {
		b, out := blockedIn()
		b.Block(blockedEval("e", "j", 10, nil), c.need)
		if b.Unblock(room, 11); (len(*out) == 1) != c.helps || (b.Len() == 0) != c.helps {
			t.Errorf("%s: woke %v, %d left", name, *out, b.Len())
		}
	}
}

// An evaluation that was planned on a state has seen all that was free in it.
func TestWhatAnEvaluationHasSeenDoesNotWakeIt(t *testing.T) {
	for name, event := range map[string]func(b *queue.Blocked, index uint64){
		"room on a class":      func(b *queue.Blocked, index uint64) { b.Unblock(queue.Room{Class: "c"}, index) },
		"room on its node":     func(b *queue.Blocked, index uint64) { b.UnblockNode("n", index) },
		"room anywhere":        func(b *queue.Blocked, index uint64) { b.UnblockAll(index) },
		"another class of its": func(b *queue.Blocked, index uint64) { b.Unblock(queue.Room{Class: "new"}, index) },
	} {
		for index, wakes := range map[uint64]bool{9: false, 10: false, 11: true} {
			for _, before := range []bool{false, true} {
				if before && name == "room on its node" {
					continue // what a node gains is noted by its class
				}
				b, out := blockedIn()
				if before {
					event(b, index)
				}
				e := blockedEval("e", "j", 10, map[string]bool{"c": true})
				e.NodeID = "n"
				b.Block(e, queue.Need{})
				if !before {
					event(b, index)
				}
				if (len(*out) == 1) != wakes || (b.Len() == 0) != wakes {
					t.Errorf("%s at %d, before it was blocked: %v: woke %v, %d left", name, index, before, *out, b.Len())
				}
			}
		}
	}
}

func TestAChangedJobDropsWhatWasPlannedBeforeAndSaysWhat(t *testing.T) {
	for index, dropped := range map[uint64]string{9: "", 10: "", 11: "e"} {
		b, _ := blockedIn()
		b.Block(blockedEval("e", "j", 10, nil), queue.Need{})
		if got := b.Untrack("default", "j", index); got != dropped {
			t.Errorf("a change at %d drops %q, want %q", index, got, dropped)
		}
		var canceled []string
		for _, e := range b.Cancelled() {
			canceled = append(canceled, e.ID)
		}
		if dropped == "" && (len(canceled) > 0 || b.Len() != 1) || dropped != "" && (!slices.Equal(canceled, []string{"e"}) || b.Len() != 0) {
			t.Errorf("a change at %d: to be marked as canceled %v, %d left", index, canceled, b.Len())
		}
	}
	b, _ := blockedIn()
	if got := b.Untrack("default", "j", 11); got != "" {
		t.Errorf("a job without one drops %q", got)
	}
}

func TestAQueueThatIsDisabledForgetsAndHoldsNothing(t *testing.T) {
	b, out := blockedIn()
	b.Block(blockedEval("e", "j", 10, nil), queue.Need{})
	b.SetEnabled(false)
	b.Block(blockedEval("f", "k", 10, nil), queue.Need{})
	b.UnblockAll(11)
	if b.Len() != 0 || len(*out) != 0 {
		t.Errorf("%d held, woke %v", b.Len(), *out)
	}
}

func TestWhatIsWokenTogetherIsEnqueuedByPriorityAndAge(t *testing.T) {
	b, out := blockedIn()
	for i, id := range []string{"third", "fourth", "first", "second"} {
		e := blockedEval(id, id, 10, nil)
		e.Priority, e.CreateIndex = map[bool]int{true: 80, false: 50}[i > 1], uint64(i)
		e.NodeID = "n"
		b.Block(e, queue.Need{})
	}
	if b.UnblockNode("n", 11); !slices.Equal(*out, []string{"first", "second", "third", "fourth"}) {
		t.Errorf("woke %v", *out)
	}
}
