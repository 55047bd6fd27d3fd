// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package propose is how every part of a server writes commands to the log: it encodes
// them as one entry and waits until this server has applied it. It decides nothing, and
// does not know how entries are replicated (core/consensus) or applied (core/fsm).
package propose

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Log is the replicated log. core/consensus implements it.
type Log interface {
	// Propose returns once the command is on the disks of a quorum and this server has
	// applied it. It returns the command's log index and the state machine's result. A
	// result that is an error is returned as err.
	//
	// An error of class Unavailable means that this server is not the leader or lost
	// leadership meanwhile; DeadlineExceeded means that ctx ended first. The command
	// may then have been applied, or may still be, unless NotLeader(err).
	Propose(ctx context.Context, command []byte) (index uint64, answer any, err error)
}

// ReasonNotLeader is the reason code (errdefs.ReasonOf) of an error which says that a
// server does not lead and has proposed nothing, so that the caller may ask the leader
// instead. It is transmitted between machines.
const ReasonNotLeader = "not_leader"

// NotLeader reports whether err says that the server does not lead and has proposed nothing.
func NotLeader(err error) bool { return errdefs.ReasonOf(err) == ReasonNotLeader }

// trackKey is the context key of a tracker.
type trackKey struct{}

// tracker records whether anything was proposed.
type tracker struct{ wrote atomic.Bool }

// Track returns a context, and a function which reports whether anything may have been
// proposed with it. A request that writes several entries may have written the first ones
// when a later one fails with NotLeader: it must not be repeated.
func Track(ctx context.Context) (tracked context.Context, wrote func() bool) {
	t := &tracker{}
	return context.WithValue(ctx, trackKey{}, t), t.wrote.Load
}

// Limit is how long Bounded waits for a quorum.
const Limit = 30 * time.Second

// Commands proposes commands as one log entry, whose index it returns. It waits until
// they are applied or ctx ends. Commands of one entry are independent: one that is
// refused does not keep the others from being applied, and the first refusal is the
// error. InvalidArgument: a command is incomplete. See Log for the other errors.
func Commands(ctx context.Context, log Log, commands ...fsm.Command) (index uint64, err error) {
	index, _, err = entry(ctx, log, commands)
	return index, err
}

// Answered is Bounded for one command that has an answer, of which it returns the type
// that the caller expects.
func Answered[T any](ctx context.Context, log Log, command fsm.Command) (answer T, index uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	index, got, err := entry(ctx, log, []fsm.Command{command})
	if err != nil {
		return answer, index, err
	}
	answer, ok := got.(T)
	if !ok {
		return answer, index, errdefs.Internalf("the answer of a %T is a %T", command, got)
	}
	return answer, index, nil
}

// Bounded is Commands with a time limit, for contexts that may have none.
func Bounded(ctx context.Context, log Log, commands ...fsm.Command) (index uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	return Commands(ctx, log, commands...)
}

// Plans proposes plans as one log entry. It returns for each plan the part that was
// refused, or nil if no part of any plan was refused.
func Plans(ctx context.Context, log Log, plans ...*fsm.ApplyPlan) (index uint64, refused [][]model.PlanRejection, err error) {
	commands := make([]fsm.Command, len(plans))
	for i, p := range plans {
		commands[i] = p
	}
	index, answer, err := entry(ctx, log, commands)
	if err != nil || answer == nil {
		return index, nil, err
	}
	each, many := answer.([]any)
	if !many {
		each = []any{answer}
	}
	refused = make([][]model.PlanRejection, len(plans))
	for i, a := range each {
		refused[i], _ = a.([]model.PlanRejection)
	}
	return index, refused, nil
}

// entry proposes commands as one log entry.
func entry(ctx context.Context, log Log, commands []fsm.Command) (index uint64, answer any, err error) {
	var command fsm.Command = &fsm.Batch{Commands: commands}
	if len(commands) == 1 {
		command = commands[0]
	}
	data, err := fsm.Encode(command)
	if err != nil {
		return 0, nil, err
	}
	index, answer, err = log.Propose(ctx, data)
	if t, ok := ctx.Value(trackKey{}).(*tracker); ok && !NotLeader(err) {
		t.wrote.Store(true)
	}
	return index, answer, err
}
