// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
)

// Session returns the state of the node's session with its servers.
func (a *Agent) Session() session.State { return a.session.State() }

// Connected reports whether the node holds a session with a server.
func (a *Agent) Connected() bool { return a.session.Connected() }

// Stranger returns a channel that is closed once servers of another cluster have
// answered: the node does not register with them until an operator agrees.
func (a *Agent) Stranger() <-chan struct{} { return a.session.Stranger() }

// HasAlloc reports whether the node has an alloc, running or not yet collected.
func (a *Agent) HasAlloc(id string) bool {
	_, err := a.allocs.Runner(id)
	return err == nil
}

// Allocs returns the allocs of the node as the node knows them.
func (a *Agent) Allocs() []*model.Allocation {
	var out []*model.Allocation
	for _, r := range a.allocs.Runners() {
		x, now := *r.Alloc(), r.View()
		x.ClientStatus, x.ClientDescription, x.TaskStates = now.ClientStatus, now.ClientDescription, now.TaskStates
		out = append(out, &x)
	}
	return out
}
