// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateAllocsFromClient applies what nodes report. Only ID and what a node owns
// is read: ClientStatus, ClientDescription, TaskStates, NetworkStatus,
// DeploymentStatus and ModifyTime. Allocs that are gone are skipped.
type UpdateAllocsFromClient struct {
	Allocs []*model.Allocation
	Evals  []*model.Evaluation
}

func (*UpdateAllocsFromClient) kind() byte { return kindUpdateAllocsFromClient }

func (c *UpdateAllocsFromClient) apply(tx *state.Tx) error {
	for _, a := range c.Allocs {
		if a == nil {
			continue
		}
		if err := tx.UpdateAllocFromClient(a); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// clientUpdate is the part of an alloc that a node owns: what is stored.
type clientUpdate struct {
	ID                string
	ClientStatus      string
	ClientDescription string
	TaskStates        map[string]*model.TaskState
	NetworkStatus     *model.AllocNetworkStatus
	DeploymentStatus  *model.AllocDeploymentStatus
	ModifyTime        int64
}

type packedClientUpdates struct {
	Updates []clientUpdate
	Evals   []*model.Evaluation
}

func (c *UpdateAllocsFromClient) packedForm() any { return &packedClientUpdates{} }

func (c *UpdateAllocsFromClient) pack() (any, error) {
	form := &packedClientUpdates{Evals: c.Evals, Updates: make([]clientUpdate, 0, len(c.Allocs))}
	for _, a := range c.Allocs {
		if a == nil {
			continue
		}
		form.Updates = append(form.Updates, clientUpdate{
			ID: a.ID, ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription, TaskStates: a.TaskStates,
			NetworkStatus: a.NetworkStatus, DeploymentStatus: a.DeploymentStatus, ModifyTime: a.ModifyTime,
		})
	}
	return form, nil
}

func (c *UpdateAllocsFromClient) unpack(form any) error {
	f := form.(*packedClientUpdates)
	c.Evals = f.Evals
	seen := interner{}
	for _, u := range f.Updates {
		c.Allocs = append(c.Allocs, &model.Allocation{
			ID: u.ID, ClientStatus: seen.intern(u.ClientStatus), ClientDescription: seen.intern(u.ClientDescription), TaskStates: u.TaskStates,
			NetworkStatus: u.NetworkStatus, DeploymentStatus: u.DeploymentStatus, ModifyTime: u.ModifyTime,
		})
	}
	return nil
}

// UpdateDesiredTransitions says, by alloc, what operators and controllers ask of
// the scheduler. Allocs that are gone are skipped.
type UpdateDesiredTransitions struct {
	Transitions map[string]model.DesiredTransition
	Evals       []*model.Evaluation
}

func (*UpdateDesiredTransitions) kind() byte { return kindUpdateDesired }

func (c *UpdateDesiredTransitions) apply(tx *state.Tx) error {
	for _, id := range slices.Sorted(maps.Keys(c.Transitions)) {
		if err := tx.SetDesiredTransition(id, c.Transitions[id]); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	upsertEvals(tx, c.Evals)
	return nil
}

// interner makes equal strings of one entry share their bytes.
type interner map[string]string

func (in interner) intern(s string) string {
	if t, ok := in[s]; ok {
		return t
	}
	in[s] = s
	return s
}
