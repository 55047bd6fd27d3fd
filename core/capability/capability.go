// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package capability owns the cluster's capability level: it raises the level when every
// server of the raft configuration announces that it reads a higher one, and says which
// servers are too old for a command. The meaning of the levels is in core/fsm; its caller
// tells it which servers there are and what they announce. core/server composes it.
package capability

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/recur"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Server is a server of the raft configuration and the level that it announces.
type Server struct {
	ID   string
	Name string // "" if it is unknown
	// Level is 0 if the server has announced none: it is not reachable, or of the first
	// release.
	Level int
}

func (s Server) String() string {
	name := s.ID
	if s.Name != "" {
		name = s.Name + " (" + s.ID + ")"
	}
	if s.Level == 0 {
		return name + ", which announces no level"
	}
	return fmt.Sprintf("%s, which reads level %d", name, s.Level)
}

// Highest returns the highest level that all servers read: 1 if one of them announces
// none, or if there are none.
func Highest(servers []Server) int {
	if len(servers) == 0 {
		return 1
	}
	level := servers[0].Level
	for _, s := range servers {
		level = min(level, s.Level)
	}
	return max(1, level)
}

// Refuse returns the error for a command that needs a higher level than the cluster has.
// Its class is FailedPrecondition, or Unavailable if every server is new enough: then the
// leader is about to raise the level.
func Refuse(need, have int, servers []Server) error {
	var old []string
	for _, s := range servers {
		if s.Level < need {
			old = append(old, s.String())
		}
	}
	if len(old) == 0 {
		return errdefs.Unavailablef("this needs capability level %d, and the cluster still has level %d; the leader is about to raise it, try again", need, have)
	}
	return errdefs.FailedPreconditionf("this needs capability level %d, and the cluster has level %d, because not every server reads more: upgrade %s; if one of them is gone for good, remove it with `drover operator raft remove-peer`",
		need, have, strings.Join(old, "; "))
}

// Raiser raises the level while this server is the leader.
type Raiser struct {
	Store *state.Store
	Log   propose.Log
	// Servers returns the servers of the raft configuration.
	Servers func() ([]Server, error)
	// Release is the release of this server: a server that is too old for the level
	// names it.
	Release string
	Logger  hclog.Logger
}

// period is the interval at which the announced levels are checked: they are not in the
// state, so there is no event of a change.
const period = time.Second

// timeout limits one attempt to write the level.
const timeout = 5 * time.Second

// Once raises the level if that is possible now.
func (r *Raiser) Once(ctx context.Context) error {
	servers, err := r.Servers()
	if err != nil {
		return err
	}
	level, was := Highest(servers), r.Store.View().Level()
	if level <= was {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := propose.Commands(ctx, r.Log, &fsm.RaiseLevel{Level: level, Release: r.Release}); err != nil {
		return fmt.Errorf("raise the capability level of the cluster: %w", err)
	}
	if was > 1 || len(servers) > 1 {
		r.Logger.Info("all servers are new enough: the capability level of the cluster is raised, and older servers can no longer join", "from", was, "to", level)
	}
	return nil
}

// Run raises the level whenever that is possible, until ctx ends.
func (r *Raiser) Run(ctx context.Context) {
	recur.Loop{Period: period, Trouble: "the capability level could not be raised; it is tried again", Logger: r.Logger}.Run(ctx, r.Once)
}
