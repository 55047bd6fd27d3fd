// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// serving is a store with the job web, whose alloc a1 runs and offers the services web and
// admin.
func serving(t *testing.T) *state.Store {
	t.Helper()
	s := state.New()
	update(t, s, func(tx *state.Tx) error { tx.RegisterNode(&model.Node{ID: "n1", Datacenter: "dc1"}); return nil })
	register(t, s, offering("web", "blue"))
	place(t, s, alloc("a1", 0))
	report(t, s, runs("a1"))
	return s
}

func offering(id, tag string) *model.Job {
	j := job(id, 1)
	j.TaskGroups[0].Services = []*model.Service{{Name: "web", Provider: "nomad", Tags: []string{tag}}, {Name: "admin", Provider: "nomad"}}
	return j
}

func runs(id string) *model.Allocation {
	return &model.Allocation{ID: id, ClientStatus: model.AllocClientStatusRunning, ModifyTime: 2000}
}

func TestAServiceIsRegisteredWhileItsAllocRuns(t *testing.T) {
	s := serving(t)
	list := s.View().ServicesByName("default", "web")
	if len(list) != 1 || list[0].AllocID != "a1" || list[0].Datacenter != "dc1" || list[0].CreateIndex != s.View().Index() {
		t.Fatalf("registered are %+v", list)
	}
	watched := func(service string) <-chan struct{} {
		return s.Watch(context.Background(), state.Key{Table: state.TableServices, By: state.ByService, Value: state.JobKey("default", service)})
	}
	registered := s.View().TableIndex(state.TableServices)

	quiet := watched("web")
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, ClientDescription: "Tasks are running", ModifyTime: 3000})
	if closed(quiet) || s.View().TableIndex(state.TableServices) != registered {
		t.Error("news of the alloc that are none of its services woke who waits for them")
	}

	register(t, s, offering("web", "green"))
	web, admin := watched("web"), watched("admin")
	at := update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocUpdateInPlace, AllocID: "a1", JobVersion: 1}, "e2", 4000)
	})
	got := s.View().ServicesByName("default", "web")
	if len(got) != 1 || got[0].Tags[0] != "green" || got[0].CreateIndex != list[0].CreateIndex || got[0].ModifyIndex != at {
		t.Errorf("after an update with another tag: %+v", got[0])
	}
	if !closed(web) || closed(admin) {
		t.Error("a changed tag wakes who waits for that service, and nobody else")
	}

	web = watched("web")
	stop(t, s, "a1", model.AllocClientStatusRunning)
	if got := s.View().ServicesByAlloc("a1"); len(got) > 0 || !closed(web) {
		t.Errorf("an alloc that servers stop, and that still runs, has %+v", got)
	}
	if s.View().RemovalIndex(state.TableServices) != s.View().Index() {
		t.Error("the removal has no index")
	}
}

func TestAServiceOfALostNodeIsGoneAtOnceAndBackWithIt(t *testing.T) {
	s := serving(t)
	update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocMarkUnknown, AllocID: "a1"}, "e2", 4000)
	})
	if got := s.View().ServicesByJob("default", "web"); len(got) > 0 {
		t.Fatalf("the node is lost, and there is %+v", got[0])
	}
	report(t, s, runs("a1"))
	if got := s.View().ServicesByJob("default", "web"); len(got) != 2 {
		t.Errorf("the node is back, and there are %d", len(got))
	}
}

func TestARemovedRegistrationStaysAwayUntilItsAllocIsUpdated(t *testing.T) {
	s := serving(t)
	remove := func() {
		t.Helper()
		update(t, s, func(tx *state.Tx) error {
			tx.Deregister(tx.View().ServicesByName("default", "web")[0])
			return nil
		})
	}
	count := func() int { return len(s.View().ServicesByName("default", "web")) }
	remove()
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, ClientDescription: "Tasks are running", ModifyTime: 3000})
	if count() != 0 || len(s.View().ServicesByName("default", "admin")) != 1 {
		t.Error("one was removed; news of the alloc brought it back, or took the other")
	}
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, TaskStates: map[string]*model.TaskState{"t": {State: model.TaskStateRunning}}, ModifyTime: 4000})
	if count() != 1 {
		t.Error("a started task did not bring it back")
	}
	started := func(at int64) map[string]*model.TaskState {
		when := time.Unix(at, 0)
		return map[string]*model.TaskState{"t": {State: model.TaskStateRunning, StartedAt: &when}}
	}
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, TaskStates: started(4), ModifyTime: 4100})
	remove()
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, TaskStates: started(4), ModifyTime: 4200})
	if count() != 0 {
		t.Error("news of a task that runs brought it back")
	}
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, TaskStates: started(5), ModifyTime: 4300})
	if count() != 0 {
		t.Error("a restart brought it back on a cluster whose older servers would not see that")
	}
	update(t, s, func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: model.AllocClientStatusRunning, TaskStates: started(6), ModifyTime: 4400})
	if count() != 1 {
		t.Error("a task that started again so soon that nobody saw it end did not bring it back")
	}
	remove()
	register(t, s, offering("web", "green"))
	update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocUpdateInPlace, AllocID: "a1", JobVersion: 1}, "e2", 5000)
	})
	if count() != 1 {
		t.Error("an update did not bring it back")
	}
}

func TestARegistrationFollowsItsNode(t *testing.T) {
	s := serving(t)
	update(t, s, func(tx *state.Tx) error { tx.RegisterNode(&model.Node{ID: "n1", Datacenter: "dc2"}); return nil })
	if got := s.View().ServicesByAlloc("a1"); len(got) != 2 || got[0].Datacenter != "dc2" {
		t.Errorf("the node moved, and there are %+v", got)
	}
}

// The figure of bench/RESULTS.md for 10,000 services.
func BenchmarkServices(b *testing.B) {
	const jobs, each = 1000, 10
	// The tags of a job are shared by its registrations, so its own bytes do not count here.
	fill := func(services bool) *state.Store {
		s := state.New()
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		must(s.Update(2, func(tx *state.Tx) error {
			for i := range jobs {
				j := offering(fmt.Sprintf("job-%d", i), "t")
				if !services {
					j.TaskGroups[0].Services = nil
				}
				tx.UpsertJob(j, nil)
			}
			return nil
		}))
		must(s.Update(3, func(tx *state.Tx) error {
			for i := range jobs {
				for k := range each / 2 {
					a := alloc(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, k), 0)
					a.JobID, a.ClientStatus = fmt.Sprintf("job-%d", i), model.AllocClientStatusRunning
					tx.PlaceAlloc(a, 1)
				}
			}
			return nil
		}))
		return s
	}
	s := fill(true)
	b.Run("bytes of each", func(b *testing.B) {
		for b.Loop() {
			with, some := held(func() *state.Store { return fill(true) })
			without, none := held(func() *state.Store { return fill(false) })
			b.ReportMetric((float64(with)-float64(without))/(jobs*each), "B/registration")
			runtime.KeepAlive([]*state.Store{some, none})
		}
	})
	v := s.View()
	b.Run("list all 10,000", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range v.Services("") {
				n++
			}
			if n != jobs*each {
				b.Fatal(n)
			}
		}
	})
	b.Run("the 10 of a job", func(b *testing.B) {
		for b.Loop() {
			if n := len(v.ServicesByJob("default", "job-7")); n != each {
				b.Fatal(n)
			}
		}
	})
}

// held returns how many bytes of memory a store takes.
func held(fill func() *state.Store) (uint64, *state.Store) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := fill()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return after.HeapAlloc - before.HeapAlloc, s
}
