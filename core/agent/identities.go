// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// signatures are the tokens that servers sign for the runners.
type signatures struct{ agent *Agent }

// Sign implements alloc.Identities.
func (s signatures) Sign(ctx context.Context, allocID, task string, names []string) ([]alloc.Token, error) {
	got, err := s.agent.cfg.Servers.Identities(ctx, s.agent.session.Identity(), rpc.IdentityQuery{AllocID: allocID, Task: task, Names: names})
	if errdefs.IsUnimplemented(err) {
		return nil, errdefs.Unavailablef("these servers sign no tokens of tasks yet; upgrade them: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if len(got.Tokens) != len(names) {
		return nil, errdefs.Internalf("the servers sent %d tokens for %d identities", len(got.Tokens), len(names))
	}
	out := make([]alloc.Token, 0, len(names))
	for _, t := range got.Tokens {
		out = append(out, alloc.Token{Name: t.Name, JWT: t.JWT, TTL: t.TTL})
	}
	return out, nil
}

// Tasks returns the listener for requests of tasks to the agent, over their sockets.
func (a *Agent) Tasks() net.Listener { return a.taskAPI }

// CheckToken returns nil if a living task has the token, as the servers say.
func (a *Agent) CheckToken(ctx context.Context, token string) error {
	return a.cfg.Servers.CheckToken(ctx, a.session.Identity(), token)
}
