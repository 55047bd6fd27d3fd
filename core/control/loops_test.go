// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/state"
)

// log applies commands at once.
type log struct {
	machine *fsm.FSM
	mu      sync.Mutex
	index   uint64
	refuse  error
}

func (l *log) Propose(_ context.Context, data []byte) (uint64, any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return 0, nil, l.refuse
	}
	l.index++
	answer := l.machine.ApplyBatch([]fsm.Entry{{Index: l.index, Data: data}})[0]
	if err, ok := answer.(error); ok {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

// fake is a controller of namespaces that records what it is asked.
type fake struct {
	mu          sync.Mutex
	asked       []string
	independent bool
	decide      func(in control.Input, key string) (control.Decision, error)
}

func (f *fake) Declare() control.Declaration {
	return control.Declaration{
		Name: "fake", Wakes: []string{state.TableNamespaces}, Reads: []string{state.TableNamespaces},
		Writes: []fsm.Command{(*fsm.UpsertNamespaces)(nil), (*fsm.UpsertNodePools)(nil)}, Independent: f.independent,
	}
}

func (*fake) Keys(c state.Change) []string {
	if n, ok := c.New.(*model.Namespace); ok {
		if n.Name == "trap" {
			panic("no namespace of ours has this name")
		}
		return []string{n.Name}
	}
	return nil
}

func (*fake) All(v control.View) (out []string) {
	for n := range v.Namespaces() {
		if n.Name == "trap" {
			panic("no namespace of ours has this name")
		}
		out = append(out, n.Name)
	}
	return out
}

func (f *fake) Decide(in control.Input, key string) (control.Decision, error) {
	f.mu.Lock()
	f.asked = append(f.asked, key)
	f.mu.Unlock()
	return f.decide(in, key)
}

func (f *fake) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

// start runs the controller over a fresh state until the test ends.
func start(t *testing.T, f *fake) (*state.Store, *log, *control.Loops) {
	store := state.New()
	l := &log{machine: fsm.New(store, hclog.NewNullLogger()), index: 10}
	s := control.NewLoops(store, l, func() string { return "id" }, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, f) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return store, l, s
}

func nothing(control.Input, string) (control.Decision, error) { return control.Decision{}, nil }

func TestAControllerSeesEverythingOnceAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: nothing}
		_, l, _ := start(t, f)
		if got := f.take(); !slices.Equal(got, []string{"default"}) {
			t.Fatalf("at the start it was asked about %q", got)
		}
		data, err := fsm.Encode(&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "a"}, {Name: "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Propose(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := f.take(); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("after a change it was asked about %q", got)
		}
	})
}

func TestAKeyIsAskedAgainAtItsTimeAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		f := &fake{}
		f.decide = func(in control.Input, _ string) (control.Decision, error) {
			if first {
				first = false
				return control.Decision{Wake: in.Now.Add(time.Hour)}, nil
			}
			return control.Decision{}, nil
		}
		start(t, f)
		f.take()
		time.Sleep(time.Hour - time.Second) // the bubble's clock
		synctest.Wait()
		if got := f.take(); got != nil {
			t.Fatalf("asked too early: %q", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := f.take(); len(got) != 1 {
			t.Fatalf("at its time it was asked about %q", got)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := f.take(); got != nil {
			t.Fatalf("asked again without a reason: %q", got)
		}
	})
}

func TestAPanicCostsOneKeyABackoffAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good atomic.Bool
		f := &fake{}
		f.decide = func(control.Input, string) (control.Decision, error) {
			if !good.Load() {
				panic("broken rule")
			}
			return control.Decision{}, nil
		}
		_, _, s := start(t, f)
		good.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.take(); len(got) != 2 {
			t.Fatalf("asked %d times, want once and once more after the backoff", len(got))
		}
		if st := s.Stats()["fake"]; st.Failures != 1 || st.Decisions != 2 || st.LastError == "" {
			t.Fatalf("stats %+v", st)
		}
	})
}

func TestARefusedCommandIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.decide = func(in control.Input, _ string) (control.Decision, error) {
			if in.View.NamespaceByName("made") != nil {
				return control.Decision{}, nil
			}
			return control.Decision{Commands: []fsm.Command{&fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "made"}}}}}, nil
		}
		store := state.New()
		l := &log{machine: fsm.New(store, hclog.NewNullLogger()), index: 10, refuse: errors.New("no leader")}
		s := control.NewLoops(store, l, func() string { return "id" }, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, f) }()
		synctest.Wait()
		l.mu.Lock()
		l.refuse = nil
		l.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if store.View().NamespaceByName("made") == nil {
			t.Error("the command was never tried again")
		}
		cancel()
		<-done
	})
}

func TestDecisionsOfAnIndependentControllerGoTogetherAndFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		l := &log{machine: fsm.New(store, hclog.NewNullLogger()), index: 10, refuse: errors.New("no leader")}
		if err := store.Update(5, func(tx *state.Tx) error {
			for _, name := range []string{"a", "b", "bad"} {
				tx.UpsertNamespace(&model.Namespace{Name: name})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f := &fake{independent: true, decide: func(_ control.Input, key string) (control.Decision, error) {
			if key == "bad" {
				return control.Decision{}, errors.New("bad")
			}
			return control.Decision{Commands: []fsm.Command{&fsm.UpsertNodePools{Pools: []*model.NodePool{{Name: "pool-" + key}}}}}, nil
		}}
		s := control.NewLoops(store, l, func() string { return "id" }, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(ctx, f) })
		synctest.Wait()
		if got := f.take(); !slices.Equal(got, []string{"a", "b", "bad", "default"}) || s.Stats()["fake"].Failures != 4 {
			t.Fatalf("asked %q, %+v", got, s.Stats()["fake"])
		}
		l.mu.Lock()
		l.refuse = nil
		l.mu.Unlock()
		time.Sleep(time.Second) // the bubble's clock: what was refused is tried again
		synctest.Wait()
		for _, name := range []string{"pool-a", "pool-b", "pool-default"} {
			if store.View().NodePoolByName(name) == nil {
				t.Errorf("no %s", name)
			}
		}
		if n := l.index - 10; n != 1 {
			t.Errorf("three commands took %d entries", n)
		}
		cancel()
		wg.Wait()
	})
}

func TestAPanicOnAChangeOrOnEverythingCostsNoOtherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: nothing}
		_, l, s := start(t, f)
		f.take()
		upsert := func(names ...string) {
			cmd := &fsm.UpsertNamespaces{}
			for _, name := range names {
				cmd.Namespaces = append(cmd.Namespaces, &model.Namespace{Name: name})
			}
			data, err := fsm.Encode(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := l.Propose(t.Context(), data); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		before := panics.Caught()
		upsert("a", "trap", "b")
		if got := f.take(); !slices.Equal(got, []string{"a", "b"}) || panics.Caught()-before != 1 {
			t.Errorf("beside a change that panics it was asked about %q, %d panics", got, panics.Caught()-before)
		}
		again := &fake{decide: nothing} // as when this server leads again
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, again) }()
		synctest.Wait()
		upsert("c")
		if got := again.take(); !slices.Contains(got, "c") || panics.Caught()-before != 2 {
			t.Errorf("after it could not name everything it was asked about %q, %d panics", got, panics.Caught()-before)
		}
		cancel()
		<-done
	})
}
