// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Identities signs and checks tokens of tasks. *identity.Signer implements it.
type Identities interface {
	Sign(view *state.View, a *model.Allocation, task string, id *model.WorkloadIdentity, now time.Time) (string, error)
	// Check returns an error of class PermissionDenied unless a token belongs to a living
	// task and is meant for the API.
	Check(view *state.View, token string, now time.Time) error
}

// identityBounds are how large a question for tokens may be: a task has 100 identities.
var identityBounds = model.Bounds{Text: 256, Entries: 101, Total: 32 << 10}

// tokenBounds are how long a token that is to be checked may be.
var tokenBounds = model.Bounds{Text: 8 << 10, Total: 8 << 10}

// Identities implements rpc.Servers. A node gets tokens only for tasks of living allocs that
// it has.
func (d *Dispatcher) Identities(ctx context.Context, id rpc.Identity, q rpc.IdentityQuery) (rpc.IdentityAnswer, error) {
	if err := identityBounds.Check("IdentityQuery", q); err != nil {
		return rpc.IdentityAnswer{}, err
	}
	view := d.abreast(ctx, id, 0)
	if _, err := d.known(view, id); err != nil {
		return rpc.IdentityAnswer{}, err
	}
	if d.cfg.Identities == nil {
		return rpc.IdentityAnswer{}, errdefs.Unimplementedf("these servers sign no tokens of tasks")
	}
	a := view.AllocByID(q.AllocID)
	switch {
	case a == nil || a.NodeID != id.NodeID:
		return rpc.IdentityAnswer{}, errdefs.PermissionDeniedf("node %q has no alloc %q, so it gets no tokens for it", id.NodeID, q.AllocID)
	case a.ClientTerminalStatus():
		return rpc.IdentityAnswer{}, errdefs.PermissionDeniedf("alloc %q has ended, so its tasks get no tokens", q.AllocID)
	}
	a = view.AllocWithJob(a)
	task := taskOf(a, q.Task)
	if task == nil && q.Task != "" {
		return rpc.IdentityAnswer{}, errdefs.InvalidArgumentf("alloc %q has no task %q", q.AllocID, q.Task)
	}
	now := d.cfg.Now()
	var out rpc.IdentityAnswer
	for _, name := range q.Names {
		wanted := services.Identity(services.Input{Alloc: a, Job: a.Job, Node: view.NodeByID(a.NodeID)}, q.Task, name)
		if wanted == nil && task != nil {
			wanted = task.IdentityByName(name)
		}
		if wanted == nil {
			return rpc.IdentityAnswer{}, errdefs.InvalidArgumentf("task %q of alloc %q and its services have no identity %q", q.Task, q.AllocID, name)
		}
		text, err := d.cfg.Identities.Sign(view, a, q.Task, wanted, now)
		if err != nil {
			return rpc.IdentityAnswer{}, err
		}
		out.Tokens = append(out.Tokens, rpc.IdentityToken{Name: name, JWT: text, TTL: wanted.TTL})
	}
	return out, nil
}

func taskOf(a *model.Allocation, name string) *model.Task {
	if a.Job == nil {
		return nil
	}
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	for _, t := range tg.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// CheckToken implements rpc.Servers.
func (d *Dispatcher) CheckToken(ctx context.Context, id rpc.Identity, token string) error {
	if err := tokenBounds.Check("Token", struct{ Token string }{token}); err != nil {
		return err
	}
	view := d.abreast(ctx, id, 0)
	if _, err := d.known(view, id); err != nil {
		return err
	}
	if d.cfg.Identities == nil {
		return errdefs.Unimplementedf("these servers sign no tokens of tasks")
	}
	return d.cfg.Identities.Check(view, token, d.cfg.Now())
}
