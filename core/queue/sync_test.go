// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/sdk/errdefs"
)

func ack(t *testing.T, b *queue.Broker, id, token string) {
	t.Helper()
	if err := b.Ack(id, token); err != nil {
		t.Fatal(err)
	}
}

// changed returns a newer value of an evaluation.
func changed(e *model.Evaluation, index uint64) *model.Evaluation {
	c := *e
	c.ModifyIndex = index
	return &c
}

func TestAPausedBrokerDeliversNothingAndLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j1", 50, 1))
		token := get(t, b, ctx, "a")
		b.Pause(true)
		b.Enqueue(eval("b", "j2", 50, 2))
		nothing(t, b, ctx)
		ack(t, b, "a", token)
		time.AfterFunc(time.Second, func() { b.Pause(false) })
		get(t, b, ctx, "b") // who waits is woken
	})
}

func TestAnEvaluationThatHasEndedIsForgottenWhereverItIs(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(t *testing.T, b *queue.Broker, ctx context.Context)
		next  string // of its job
	}{
		"it is ready": {func(*testing.T, *queue.Broker, context.Context) {}, "behind"},
		"it waits for its time": {func(_ *testing.T, b *queue.Broker, _ context.Context) {
			e := eval("later", "k", 50, 1)
			e.WaitUntil = time.Now().Add(time.Hour)
			b.Enqueue(e)
			b.Forget("later")
		}, "a"},
		"it waits for its retry": {func(t *testing.T, b *queue.Broker, ctx context.Context) {
			if err := b.Nack("a", get(t, b, ctx, "a")); err != nil {
				t.Error(err)
			}
		}, "behind"},
		"it is above the limit of deliveries": {func(t *testing.T, b *queue.Broker, ctx context.Context) {
			for range 3 {
				if err := b.Nack("a", get(t, b, ctx, "a")); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Hour)
			if got := b.Stats(); got != (queue.Stats{Ready: 1, Waiting: 1}) {
				t.Errorf("%+v", got)
			}
		}, "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
				b.Enqueue(eval("a", "j", 50, 1), eval("behind", "j", 50, 2))
				c.begin(t, b, ctx)
				if c.next != "a" {
					b.Forget("a")
					b.Forget("a") // which is no error
				}
				token := get(t, b, ctx, c.next)
				ack(t, b, c.next, token)
				if c.next != "a" {
					if got := b.Stats(); got != (queue.Stats{}) || len(b.Known()) > 0 {
						t.Errorf("%+v and %v are left", got, b.Known())
					}
				}
			})
		})
	}
}

func TestOfThoseThatWaitForAJobOneIsForgottenAndTheOthersStay(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1), eval("b", "j", 50, 2), eval("c", "j", 50, 3))
		token := get(t, b, ctx, "a")
		if got := b.Stats(); got != (queue.Stats{Unacked: 1, Waiting: 2}) {
			t.Errorf("%+v", got)
		}
		b.Forget("c")
		ack(t, b, "a", token)
		token = get(t, b, ctx, "b")
		b.Enqueue(eval("d", "j", 50, 4))
		b.Forget("d") // the only one
		ack(t, b, "b", token)
		if got := b.Stats(); got != (queue.Stats{}) || len(b.Cancelled()) > 0 {
			t.Errorf("%+v are left, or one is superseded", got)
		}
	})
}

func TestAnEvaluationThatChangesWhileAWorkerHasItIsProcessedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(b *queue.Broker, e *model.Evaluation)
		again bool
	}{
		"it has changed":                 {func(b *queue.Broker, e *model.Evaluation) { b.Enqueue(changed(e, 8)) }, true},
		"it is the same":                 {func(b *queue.Broker, e *model.Evaluation) { b.Enqueue(changed(e, 7)) }, false},
		"it has changed, and then ended": {func(b *queue.Broker, e *model.Evaluation) { b.Enqueue(changed(e, 8)); b.Forget(e.ID) }, false},
		"its newer value says that it ends": {func(b *queue.Broker, e *model.Evaluation) {
			ended := changed(e, 8)
			ended.Status = model.EvalStatusComplete
			b.Enqueue(ended)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
				e := changed(eval("a", "j", 50, 1), 7)
				b.Enqueue(e)
				token := get(t, b, ctx, "a")
				c.edit(b, e)
				ack(t, b, "a", token)
				if !c.again {
					nothing(t, b, ctx)
					return
				}
				got, token, err := b.Dequeue(ctx)
				if err != nil || got.ModifyIndex != 8 {
					t.Fatalf("%+v, %v", got, err)
				}
				ack(t, b, "a", token)
			})
		})
	}
}

func TestAnEvaluationThatChangesWhileItIsReadyIsDeliveredAsItIsNow(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		e := changed(eval("a", "j", 50, 1), 7)
		b.Enqueue(e)
		b.Enqueue(changed(e, 8))
		if got, _, err := b.Dequeue(ctx); err != nil || got.ModifyIndex != 8 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestABrokerHasWhatIsAsNewAsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		e := changed(eval("a", "j", 50, 1), 7)
		has := func(index uint64, want bool) {
			t.Helper()
			if got := b.Has(changed(e, index)); got != want {
				t.Errorf("it has the value of %d: %t", index, got)
			}
		}
		has(7, false)
		b.Enqueue(e)
		has(6, true)
		has(7, true)
		has(8, false)
		get(t, b, ctx, "a")
		b.Enqueue(changed(e, 9)) // for later
		has(8, true)
		has(9, true)
		has(10, false)
		if got := b.Known(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("it knows %v", got)
		}
	})
}

func TestABrokerThatIsDisabledForgetsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1), eval("b", "k", 50, 2))
		token := get(t, b, ctx, "a")
		b.Pause(true)
		b.SetEnabled(false)
		b.Enqueue(eval("c", "l", 50, 3))
		b.CancelLater([]*model.Evaluation{eval("d", "m", 50, 4)})
		b.Hold(eval("e", "n", 50, 5))
		if release, err := b.Admit(queue.LaneID{Namespace: "default"}); err != nil {
			t.Error(err)
		} else {
			release()
		}
		if len(b.Known()) > 0 || len(b.Lanes()) > 0 || len(b.Cancelled()) > 0 {
			t.Errorf("it has %v in %v", b.Known(), b.Lanes())
		}
		if err := b.Ack("a", token); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a worker of the former time gets %v", err)
		}
		b.SetEnabled(true)
		b.Enqueue(eval("f", "j", 50, 6))
		get(t, b, ctx, "f") // nor is it paused, nor the job busy
		nothing(t, b, ctx)
	})
}

func TestOnlyTheWorkerThatHoldsAnEvaluationMayDecideOnIt(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		for _, token := range []string{"", "other"} {
			for name, err := range map[string]error{"ack": b.Ack("a", token), "nack": b.Nack("a", token), "extend": b.Extend("a", token), "ack of nothing": b.Ack("b", token)} {
				if !errdefs.IsFailedPrecondition(err) {
					t.Errorf("%s with the token %q: %v", name, token, err)
				}
			}
		}
		get(t, b, ctx, "a")
	})
}

func TestAWorkerThatSaysSoKeepsItsEvaluation(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		token := get(t, b, ctx, "a")
		for range 5 { // the nack timeout is a minute
			time.Sleep(50 * time.Second)
			if err := b.Extend("a", token); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		token = get(t, b, ctx, "a") // it has died
		if got := time.Since(start); got != 61*time.Second {
			t.Errorf("another worker gets it after %s, not after the timeout and the delay of a retry", got)
		}
		ack(t, b, "a", token)
	})
}

func TestRetriesAreDelayedTwiceAsLongEachTimeUpToAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, _ *queue.Broker, ctx context.Context) {
		b := queue.NewBroker(queue.Config{DeliveryLimit: 10})
		b.SetEnabled(true)
		go b.Run(ctx)
		b.Enqueue(eval("a", "j", 50, 1))
		for i, want := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			start := time.Now()
			token := get(t, b, ctx, "a")
			if got := time.Since(start); got != want*time.Second {
				t.Errorf("the delivery %d comes after %s, not %ds", i, got, want)
			}
			if err := b.Nack("a", token); err != nil {
				t.Fatal(err)
			}
			if got := b.Stats(); got != (queue.Stats{Delayed: 1}) {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestOfThoseThatWaitForAJobTheNewestIsNextInWhateverOrderTheyCame(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1), eval("new", "j", 50, 9), eval("old", "j", 50, 5))
		token := get(t, b, ctx, "a")
		select {
		case <-b.Superseded():
			t.Error("one is said to be superseded before the job is free")
		default:
		}
		ack(t, b, "a", token)
		<-b.Superseded()
		got := b.Cancelled()
		if len(got) != 1 || got[0].ID != "old" || len(b.Cancelled()) != 0 {
			t.Errorf("superseded is %v", got)
		}
		b.CancelLater(got) // it could not be marked
		if again := b.Cancelled(); len(again) != 1 || again[0].ID != "old" {
			t.Errorf("superseded is %v", again)
		}
		get(t, b, ctx, "new")
	})
}

func TestDelayedEvaluationsComeInTheOrderOfTheirTimes(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		start := time.Now()
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(50) {
			e := eval(fmt.Sprint(i), fmt.Sprint("j", i), 50, uint64(i))
			e.WaitUntil = start.Add(time.Duration(i) * 10 * time.Second)
			b.Enqueue(e)
		}
		for i := range 50 {
			ack(t, b, fmt.Sprint(i), get(t, b, ctx, fmt.Sprint(i)))
			if got := time.Since(start); got != time.Duration(i)*10*time.Second {
				t.Fatalf("%d comes after %s", i, got)
			}
		}
	})
}

func TestThoseThatWaitForJobsAreTriedAgainInTheOrderOfTheirLimits(t *testing.T) {
	b, out := blockedIn()
	at, job := time.Unix(1000, 0), []model.JobKey{{Namespace: "default", ID: "db"}}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(50) {
		b.Block(blockedEval(fmt.Sprint(i), fmt.Sprint("j", i), 10, nil), queue.Need{NoRoom: true, On: job, Until: at.Add(time.Duration(i))})
	}
	if !b.Awaits() {
		t.Error("none depends on a job")
	}
	for i := range 50 {
		if next, ok := b.NextLimit(); !ok || !next.Equal(at.Add(time.Duration(i))) {
			t.Fatalf("the next limit is %s after the first", next.Sub(at))
		}
		b.ReleaseDue(at.Add(time.Duration(i)))
		if len(*out) != i+1 || (*out)[i] != fmt.Sprint(i) {
			t.Fatalf("tried again are %v", *out)
		}
	}
}

// A limit counts as long as the evaluation for which it was set waits with it.
func TestALimitEndsWithTheWaitForWhichItWasSet(t *testing.T) {
	b, out := blockedIn()
	at, job := time.Unix(1000, 0), []model.JobKey{{Namespace: "default", ID: "db"}}
	b.Block(blockedEval("a", "j", 10, nil), queue.Need{NoRoom: true, On: job, Until: at})
	b.Block(blockedEval("a", "j", 11, nil), queue.Need{NoRoom: true, On: job, Until: at.Add(time.Hour)})
	if next, _ := b.NextLimit(); !next.Equal(at.Add(time.Hour)) {
		t.Errorf("the next limit is %s", next)
	}
	if b.ReleaseDue(at); len(*out) > 0 {
		t.Errorf("tried again are %v", *out)
	}
	b.Block(blockedEval("a", "j", 12, nil), queue.Need{NoRoom: true, On: job})
	if _, ok := b.NextLimit(); ok {
		t.Error("one without a limit has one")
	}
}

func TestAnOlderEvaluationOfAJobThatArrivesLateIsSuperseded(t *testing.T) {
	for created, want := range map[uint64]string{4: "late", 5: "held", 6: "held"} {
		b, out := blockedIn()
		held, late := blockedEval("held", "j", 10, nil), blockedEval("late", "j", 10, nil)
		held.CreateIndex, late.CreateIndex = 5, created
		b.Block(held, queue.Need{})
		b.Block(late, queue.Need{})
		<-b.Superseded()
		if len(*out) > 0 {
			t.Errorf("created at %d: tried again are %v", created, *out)
		}
		if got := b.Cancelled(); len(got) != 1 || got[0].ID != want || b.Len() != 1 || b.Held()[0].ID == want || b.Known()[0] == want {
			t.Errorf("created at %d: superseded is %v", created, got)
		}
		if got := b.Cancelled(); len(got) != 0 {
			t.Errorf("%v is superseded twice", got)
		}
	}
}

// What has left the queue is not superseded by the next evaluation of its job.
func TestAnEvaluationThatLeavesTheQueueLeavesNothingBehind(t *testing.T) {
	for name, leave := range map[string]func(b *queue.Blocked){
		"woken": func(b *queue.Blocked) { b.UnblockAll(11) }, "forgotten": func(b *queue.Blocked) { b.Forget("a"); b.Forget("a") },
		"released": func(b *queue.Blocked) { b.Release("a") },
	} {
		b, _ := blockedIn()
		b.Block(blockedEval("a", "j", 10, nil), queue.Need{})
		leave(b)
		b.Block(blockedEval("b", "j", 20, nil), queue.Need{})
		if got := b.Cancelled(); len(got) > 0 || b.Len() != 1 {
			t.Errorf("%s: superseded are %v", name, got)
		}
	}
}

func TestAnEvaluationThatNoClassCanTellAboutIsWokenByAny(t *testing.T) {
	for escaped, wakes := range map[bool]bool{true: true, false: false} {
		b, out := blockedIn()
		e := blockedEval("a", "j", 10, map[string]bool{"c": false})
		e.EscapedComputedClass = escaped
		b.Block(e, queue.Need{})
		if b.Unblock(queue.Room{Class: "c"}, 11); (len(*out) == 1) != wakes {
			t.Errorf("escaped: %t, woke %v", escaped, *out)
		}
	}
}

// Room for jobs says nothing to those that wait for other jobs alone.
func TestWhatWaitsForJobsAloneIsNotWokenByRoomOnItsNode(t *testing.T) {
	b, out := blockedIn()
	e := blockedEval("a", "j", 10, nil)
	e.NodeID = "n"
	b.Block(e, queue.Need{NoRoom: true, On: []model.JobKey{{Namespace: "default", ID: "db"}}})
	if b.UnblockNode("n", 11); len(*out) > 0 {
		t.Errorf("woke %v", *out)
	}
}

func TestTheLargerAmountOfEachKind(t *testing.T) {
	a, b := queue.Amount{CPU: 1, Memory: 4, Disk: 5, Devices: 8}, queue.Amount{CPU: 2, Memory: 3, Disk: 6, Devices: 7}
	if got, want := a.Most(b), (queue.Amount{CPU: 2, Memory: 4, Disk: 6, Devices: 8}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestAnEvaluationThatIsBlockedAgainWaitsForWhatItNeedsNow(t *testing.T) {
	b, _ := blockedIn()
	db, etl := model.JobKey{Namespace: "default", ID: "db"}, model.JobKey{Namespace: "default", ID: "etl"}
	b.Block(blockedEval("a", "j", 10, nil), queue.Need{NoRoom: true, On: []model.JobKey{db}})
	b.Block(blockedEval("a", "j", 11, nil), queue.Need{NoRoom: true, On: []model.JobKey{etl}})
	if len(b.Dependants(db)) != 0 || len(b.Dependants(etl)) != 1 || b.Len() != 1 {
		t.Errorf("%d wait for db, %d for etl, %d are held", len(b.Dependants(db)), len(b.Dependants(etl)), b.Len())
	}
	if got := b.Cancelled(); len(got) != 0 {
		t.Errorf("it supersedes itself: %v", got)
	}
}

func TestRoomThatCameBeforeAndHelpsNothingWakesNothing(t *testing.T) {
	b, out := blockedIn()
	b.Unblock(queue.Room{Class: "c"}, 20)
	b.Block(blockedEval("a", "j", 15, map[string]bool{"c": false}), queue.Need{})
	if len(*out) != 0 || b.Len() != 1 {
		t.Errorf("woke %v", *out)
	}
}

func TestWhatHappensWhileAQueueIsDisabledIsNotRemembered(t *testing.T) {
	b, out := blockedIn()
	b.SetEnabled(false)
	b.UnblockAll(50)
	b.Unblock(queue.Room{Class: "c"}, 50)
	b.SetEnabled(true)
	b.Block(blockedEval("a", "j", 10, nil), queue.Need{})
	if len(*out) != 0 || b.Len() != 1 {
		t.Errorf("woke %v", *out)
	}
}

func TestOfEqualEvaluationsTheFirstThatCameIsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		for i := range 50 {
			b.Enqueue(eval(fmt.Sprint(i), fmt.Sprint("j", i), 50, uint64(i)))
		}
		for i := range 50 {
			get(t, b, ctx, fmt.Sprint(i))
		}
	})
}

func TestABrokerWhoseOnlyEvaluationIsForgottenHasNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		b.Forget("a")
		nothing(t, b, ctx)
	})
}

func TestNobodyIsToldOfSupersededEvaluationsIfThereAreNone(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1), eval("b", "j", 50, 2))
		ack(t, b, "a", get(t, b, ctx, "a"))
		select {
		case <-b.Superseded():
			t.Error("one is said to be superseded")
		default:
		}
	})
}
