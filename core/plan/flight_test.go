// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plan_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/plan"
	"github.com/drover-project/drover/sdk/errdefs"
)

// What a plan in flight takes for itself is not given to the next one: the second plan is
// refused before it costs an entry of the log.
func TestWhatAPlanInFlightHoldsAloneIsNotGivenToAnother(t *testing.T) {
	port := func(p *model.Plan) *model.Plan {
		p.Place[0].AllocatedResources.Shared.Ports = []model.AllocatedPortMapping{{Label: "http", Value: 8080}}
		return p
	}
	for name, c := range map[string]struct {
		first, second func(f *fixture) *model.Plan
		reason        string
	}{
		"a port": {
			first:  func(f *fixture) *model.Plan { return port(f.place("0", "n", 10)) },
			second: func(f *fixture) *model.Plan { return port(f.place("1", "n", 10)) },
			reason: "port",
		},
		"a volume of type csi": {
			first:  func(f *fixture) *model.Plan { return f.place("w0", "n", 10) },
			second: func(f *fixture) *model.Plan { return f.place("w1", "m", 10) },
			reason: "CSI volume db",
		},
		"the work of its job": {
			first: func(f *fixture) *model.Plan { return f.place("0", "n", 10) },
			second: func(f *fixture) *model.Plan {
				p := f.place("0", "n", 10)
				p.Place[0].ID = "again"
				return p
			},
			reason: "another plan of the job came first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.writers(t)
			first, second := f.submit(c.first(f)), f.submit(c.second(f))
			close(f.log.gate)
			if r := <-first; r.err != nil || len(r.Rejections) != 0 || len(r.Place) != 1 {
				t.Errorf("the first: %+v, %v", r.PlanResult, r.err)
			}
			if r := <-second; r.err != nil || len(r.Rejections) != 1 || !strings.Contains(r.Rejections[0].Reason, c.reason) {
				t.Errorf("the second: %+v, %v", r.PlanResult, r.err)
			}
			if f.log.entries != 1 {
				t.Errorf("%d entries", f.log.entries)
			}
		})
	}
}

// writers makes the nodes n and m mount the volume db, which has one writer, and registers
// the jobs w0 and w1, which write to it.
func (f *fixture) writers(t *testing.T) {
	t.Helper()
	n := f.store.View().NodeByID("n").Copy()
	n.CSINodePlugins = map[string]*model.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &model.CSINodeInfo{ID: "n"}}}
	m := n.Copy()
	m.ID, m.Name = "m", "m"
	f.log.apply(t, &fsm.RegisterNode{Node: n})
	f.log.apply(t, &fsm.RegisterNode{Node: m})
	f.log.apply(t, &fsm.PutCSIVolume{New: true, Volume: &model.CSIVolume{
		ID: "db", Namespace: "default", ExternalID: "x", PluginID: "p",
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: model.AccessSingleNodeSingleWriter, AttachmentMode: model.AttachmentFileSystem}},
	}})
	for i := range 2 {
		f.log.apply(t, &fsm.UpsertJob{Job: &model.Job{ID: fmt.Sprint("w", i), Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{
			Name: "g", Tasks: []*model.Task{{Name: "t"}},
			Volumes: map[string]*model.VolumeRequest{"v": {Type: "csi", Source: "db", AccessMode: model.AccessSingleNodeSingleWriter, AttachmentMode: model.AttachmentFileSystem}},
		}}}})
	}
}

// A worker is told what became of its plan, also if the server stops leading meanwhile.
func TestAnApplierThatStopsWaitsForThePlanInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		applier := plan.NewApplier(func() plan.View { return f.store.View() }, f.log, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		ended := make(chan struct{})
		running.Go(func() { applier.Run(ctx); close(ended) })
		flying := make(chan answer, 1)
		running.Go(func() {
			r, err := applier.Submit(context.Background(), f.place("0", "n", 10))
			flying <- answer{r, err}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the applier has stopped, and a plan is in flight")
		default:
		}
		close(f.log.gate)
		running.Wait()
		if r := <-flying; r.err != nil || len(r.Place) != 1 {
			t.Errorf("the plan in flight: %+v, %v", r.PlanResult, r.err)
		}
	})
}

// panicking is a log in which every entry with more than one plan panics when applied.
type panicking struct{ *log }

func (l panicking) Propose(ctx context.Context, data []byte) (uint64, any, error) {
	c, err := fsm.Decode(data)
	if err != nil {
		return 0, nil, err
	}
	if _, many := c.(*fsm.Batch); many {
		return 0, nil, fmt.Errorf("entry 7: %w", fsm.ErrPanicked)
	}
	return l.log.Propose(ctx, data)
}

// The plans beside the one at fault are tried again, each alone or beside others, so what
// they are told must not be that they are the one at fault.
func TestPlansThatSharedAnEntryWithOneThatPanicsMayBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		close(f.log.gate)
		applier := plan.NewApplier(func() plan.View { return f.store.View() }, panicking{f.log}, time.Now)
		errs := make([]error, 2)
		var submitted, running sync.WaitGroup
		for i := range errs {
			submitted.Go(func() { _, errs[i] = applier.Submit(context.Background(), f.place(fmt.Sprint(i), "n", 1)) })
		}
		synctest.Wait() // both wait, so they share an entry
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { applier.Run(ctx) })
		submitted.Wait()
		for i, err := range errs {
			if !errdefs.IsAborted(err) || errors.Is(err, fsm.ErrPanicked) {
				t.Errorf("plan %d: %v", i, err)
			}
		}
		cancel()
		running.Wait()
	})
}
