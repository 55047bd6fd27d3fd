// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whoever waits for a key is woken by its first change and by nothing else, however many
// others come and go.
func TestEachWaiterIsWokenByItsKeysAlone(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := New()
		key := func() Key { return Key{Table: fmt.Sprint("t", rng.IntN(4)), Value: fmt.Sprint(rng.IntN(3))} }
		type watch struct {
			keys map[Key]bool
			ch   <-chan struct{}
			end  context.CancelFunc
			over bool // its context has ended
		}
		var all []*watch
		woken := map[*watch]bool{}
		for range 60 {
			switch rng.IntN(4) {
			case 0, 1: // sometimes for one key twice
				keys := []Key{key(), key(), key()}[:1+rng.IntN(3)]
				ctx, end := context.WithCancel(context.Background())
				w := &watch{keys: map[Key]bool{}, ch: s.Watch(ctx, keys...), end: end}
				for _, k := range keys {
					w.keys[k] = true
				}
				all = append(all, w)
			case 2:
				if len(all) > 0 {
					w := all[rng.IntN(len(all))]
					if !woken[w] {
						w.over = true
					}
					w.end()
				}
			default:
				k := key()
				s.watches.mu.Lock()
				s.watches.wake(k)
				s.watches.mu.Unlock()
				for _, w := range all {
					woken[w] = woken[w] || w.keys[k]
				}
			}
			for _, w := range all {
				closed := false
				select {
				case <-w.ch:
					closed = true
				default:
				}
				if closed != woken[w] && !w.over {
					t.Fatalf("seed %d: a waiter for %v is woken: %t, and should be: %t", seed, w.keys, closed, woken[w])
				}
			}
		}
		for _, w := range all {
			w.end()
		}
		s.watches.all()
		s.watches.mu.Lock()
		if len(s.watches.armed) != 0 {
			t.Errorf("seed %d: %d keys are still waited for", seed, len(s.watches.armed))
		}
		s.watches.mu.Unlock()
	}
}

// BenchmarkWake wakes all that wait for one table, as a commit does.
func BenchmarkWake(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint("waiters=", n), func(b *testing.B) {
			s := New()
			for b.Loop() {
				b.StopTimer()
				for range n {
					s.Watch(b.Context(), Key{Table: TableServices}, Key{Table: TableNodes})
				}
				b.StartTimer()
				s.watches.mu.Lock()
				s.watches.wake(Key{Table: TableNodes})
				s.watches.mu.Unlock()
			}
		})
	}
}

// The last in a list takes the position of one that is removed. Here it is the waiter itself,
// whose positions in the list are not in order.
func TestAWaiterThatWaitsForOneKeyThriceIsRemovedWhereverItsPositionsHaveMoved(t *testing.T) {
	s, k := New(), Key{Table: "t"}
	var others []*waiter
	for range 4 {
		s.Watch(t.Context(), k)
		others = append(others, s.watches.armed[k][len(others)])
	}
	thrice := s.Watch(t.Context(), k, k, k)
	for _, i := range []int{2, 3, 1, 0} {
		s.watches.drop(others[i])
	}
	s.watches.all()
	select {
	case <-thrice:
	default:
		t.Error("it was not woken")
	}
	if len(s.watches.armed) != 0 {
		t.Errorf("%d keys are still waited for", len(s.watches.armed))
	}
}
