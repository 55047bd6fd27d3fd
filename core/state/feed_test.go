// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"testing"

	"github.com/drover-project/drover/core/model"
)

// pool writes a node pool at an index.
func pool(t *testing.T, s *Store, index uint64, name string) {
	t.Helper()
	if err := s.Update(index, func(tx *Tx) error {
		tx.UpsertNodePool(&model.NodePool{Name: name})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// next takes what a feed has; it must have something.
func next(t *testing.T, f *Feed) Batch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 { // of two channels that are ready, either is taken
		if b, err := f.Next(ctx); err == nil {
			return b
		}
	}
	t.Fatal("the feed has nothing")
	return Batch{}
}

func nothing(t *testing.T, f *Feed) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if b, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("the feed has %+v, %v", b, err)
		}
	}
}

func TestAFeedHasEachChangeOfItsTablesOnce(t *testing.T) {
	s := New()
	pool(t, s, 10, "before")
	pools, all, other := s.Subscribe(TableNodePools), s.Subscribe(), s.Subscribe(TableNodes)
	if pools.Since() != 10 {
		t.Errorf("it has every change after %d, not 10", pools.Since())
	}
	pool(t, s, 11, "a")
	pool(t, s, 12, "b")
	for name, f := range map[string]*Feed{"of the table": pools, "of all": all} {
		b := next(t, f)
		if len(b.Changes) != 2 || b.Index != 12 || b.Resync || b.Changes[1].New.(*model.NodePool).Name != "b" {
			t.Errorf("the feed %s has %+v", name, b)
		}
		nothing(t, f)
	}
	nothing(t, other)
	pool(t, s, 13, "c")
	if b := next(t, pools); len(b.Changes) != 1 || b.Index != 13 {
		t.Errorf("then it has %+v", b)
	}
}

func TestAFeedThatIsClosedHoldsUpNoOther(t *testing.T) {
	s := New()
	first, second := s.Subscribe(), s.Subscribe()
	first.Close()
	pool(t, s, 10, "a")
	nothing(t, first)
	if b := next(t, second); len(b.Changes) != 1 {
		t.Errorf("the other one has %+v", b)
	}
	if second.Close(); len(s.feeds.list) != 0 {
		t.Errorf("%d feeds are left", len(s.feeds.list))
	}
}

func TestAReaderThatIsTooSlowIsToldToReadAgain(t *testing.T) {
	s := New()
	f := s.Subscribe()
	f.limit = 3
	for i := range uint64(3) {
		pool(t, s, 10+i, string(rune('a'+i)))
	}
	if b := next(t, f); b.Resync || len(b.Changes) != 3 {
		t.Errorf("at its limit it has %+v", b)
	}
	for i := range uint64(6) {
		pool(t, s, 20+i, string(rune('a'+i)))
	}
	if b := next(t, f); !b.Resync || len(b.Changes) != 0 || b.Index != 25 {
		t.Errorf("above its limit it has %+v", b)
	}
	pool(t, s, 30, "z")
	if b := next(t, f); b.Resync || len(b.Changes) != 1 {
		t.Errorf("after that it has %+v", b)
	}
}

func TestAfterARestoreAFeedSaysToReadAgain(t *testing.T) {
	s := New()
	f := s.Subscribe()
	pool(t, s, 10, "a")
	s.feeds.resync(40)
	if b := next(t, f); !b.Resync || len(b.Changes) != 0 || b.Index != 40 {
		t.Errorf("it has %+v", b)
	}
	s.feeds.resync(50)
	if b := next(t, f); !b.Resync || b.Index != 50 {
		t.Errorf("after a second one it has %+v", b)
	}
	f.signal() // as by changes that were taken together with those before them
	nothing(t, f)
}
