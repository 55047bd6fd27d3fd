// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package propose_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// log applies each entry at once and counts them.
type log struct {
	machine *fsm.FSM
	index   uint64
	bounded bool
	err     error
}

func newLog() *log { return &log{machine: fsm.New(state.New(), hclog.NewNullLogger()), index: 1} }

func (l *log) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	_, l.bounded = ctx.Deadline()
	if l.err != nil {
		return 0, nil, l.err
	}
	l.index++
	answer := l.machine.ApplyBatch([]fsm.Entry{{Index: l.index, Data: command}})[0]
	if err, failed := answer.(error); failed {
		return l.index, nil, err
	}
	return l.index, answer, nil
}

func namespace(name string) fsm.Command {
	return &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name}}}
}

func TestCommandsThatAreProposedTogetherAreOneEntry(t *testing.T) {
	l := newLog()
	index, err := propose.Commands(t.Context(), l, namespace("a"), namespace("b"))
	if err != nil || index != 2 || l.bounded {
		t.Fatalf("index %d, bounded %t, %v", index, l.bounded, err)
	}
	for _, name := range []string{"a", "b"} {
		if l.machine.Store().View().NamespaceByName(name) == nil {
			t.Errorf("namespace %s is missing", name)
		}
	}
	if index, err = propose.Bounded(t.Context(), l, namespace("c")); err != nil || index != 3 || !l.bounded {
		t.Errorf("index %d, bounded %t, %v", index, l.bounded, err)
	}
}

func TestARefusalKeepsItsClassAndItsIndex(t *testing.T) {
	l := newLog()
	missing := &fsm.UpdateNodeStatus{NodeID: "nowhere"}
	if index, err := propose.Commands(t.Context(), l, missing); !errdefs.IsNotFound(err) || index != 2 {
		t.Errorf("alone: index %d, %v", index, err)
	}
	if _, err := propose.Commands(t.Context(), l, missing, namespace("a")); !errdefs.IsNotFound(err) {
		t.Errorf("beside another: %v", err)
	}
	if l.machine.Store().View().NamespaceByName("a") == nil {
		t.Error("a refused command kept another one of its entry from being applied")
	}
	l.err = errdefs.Unavailablef("no leader")
	if _, err := propose.Commands(t.Context(), l, namespace("b")); !errors.Is(err, l.err) {
		t.Errorf("%v", err)
	}
}

func TestACommandThatCannotBeEncodedIsNotProposed(t *testing.T) {
	l := newLog()
	if _, err := propose.Commands(t.Context(), l, (*fsm.ApplyPlan)(nil)); !errdefs.IsInvalidArgument(err) || l.index != 1 {
		t.Errorf("%v, %d entries", err, l.index-1)
	}
}

func TestEachPlanGetsItsOwnRefusals(t *testing.T) {
	l := newLog()
	plan := func(id, node string) *fsm.ApplyPlan {
		a := &model.Allocation{ID: id, Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: node, DesiredStatus: "run", ClientStatus: "pending"}
		return &fsm.ApplyPlan{VerifiedIndex: l.index, Plan: &model.Plan{EvalID: "e", Namespace: "default", JobID: "j", SnapshotIndex: 2, Place: []*model.Allocation{a}}}
	}
	if _, err := propose.Commands(t.Context(), l,
		&fsm.RegisterNode{Node: &model.Node{ID: "n", Status: model.NodeStatusReady, SchedulingEligibility: "eligible"}},
		&fsm.UpsertJob{Job: &model.Job{ID: "j", Namespace: "default", Type: "batch", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t"}}}}}},
	); err != nil {
		t.Fatal(err)
	}
	if _, refused, err := propose.Plans(t.Context(), l, plan("a", "n")); err != nil || refused != nil {
		t.Errorf("what fits: %v, %v", refused, err)
	}
	index, one, err := propose.Plans(t.Context(), l, plan("b", "gone"))
	if err != nil || index != 4 || len(one) != 1 || len(one[0]) != 1 {
		t.Fatalf("one plan: index %d, %v, %v", index, one, err)
	}
	_, many, err := propose.Plans(t.Context(), l, plan("c", "n"), plan("d", "gone"))
	if err != nil || len(many) != 2 || many[0] != nil || len(many[1]) != 1 || many[1][0].NodeID != "gone" {
		t.Errorf("two plans: %v, %v", many, err)
	}
}

func TestARequestThatWroteSomethingBeforeALaterEntryWasRefusedIsKnownToHaveWritten(t *testing.T) {
	refused := errdefs.WithReason(errdefs.Unavailablef("not the leader"), propose.ReasonNotLeader)
	l := newLog()
	ctx, wrote := propose.Track(t.Context())
	l.err = refused
	if _, err := propose.Commands(ctx, l, &fsm.RecountJobs{}); !propose.NotLeader(err) || wrote() {
		t.Errorf("after a refusal: %v, wrote is %v", err, wrote())
	}
	l.err = errdefs.Unavailablef("the lead was lost; the outcome is unknown")
	if _, err := propose.Commands(ctx, l, &fsm.RecountJobs{}); propose.NotLeader(err) || !wrote() {
		t.Errorf("after an unknown outcome: %v, wrote is %v", err, wrote())
	}
	ctx, wrote = propose.Track(t.Context())
	l.err = nil
	if _, err := propose.Commands(ctx, l, &fsm.RecountJobs{}); err != nil || !wrote() {
		t.Errorf("after a write: %v, wrote is %v", err, wrote())
	}
	l.err = refused
	if _, err := propose.Commands(ctx, l, &fsm.RecountJobs{}); !propose.NotLeader(err) || !wrote() {
		t.Errorf("after a write and a refusal: %v, wrote is %v", err, wrote())
	}
}
