// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

// drain is one run of "node drain".
type drain struct {
	enable, disable, self    bool
	force, noDeadline        bool
	detach, monitorOnly, yes bool
	ignoreSystem, keepOff    bool
	deadline                 time.Duration
	meta                     keyValues
	message                  string
	deadlineGiven            bool
}

func nodeDrain() spec {
	return spec{
		usage: "node drain [options] <node>", synopsis: "Drains a node of its allocations, or ends the drain", max: 1, takes: "nodes",
		help: "If the node is given by a prefix of its id, the command asks for confirmation first.",
		setup: func(fs *flag.FlagSet) run {
			d := &drain{meta: keyValues{}}
			fs.BoolVar(&d.enable, "enable", false, "Starts the drain.")
			fs.BoolVar(&d.disable, "disable", false, "Ends the drain and makes the node eligible for new allocations.")
			fs.BoolVar(&d.self, "self", false, "Uses the agent's own node.")
			fs.DurationVar(&d.deadline, "deadline", time.Hour, "Time after which the remaining allocations are stopped; one hour by default.")
			fs.BoolVar(&d.noDeadline, "no-deadline", false, "Waits for replacements without a deadline.")
			fs.BoolVar(&d.force, "force", false, "Stops all allocations at once.")
			fs.BoolVar(&d.ignoreSystem, "ignore-system", false, "Does not stop the allocations of system jobs.")
			fs.BoolVar(&d.keepOff, "keep-ineligible", false, "With -disable: the node stays ineligible for new allocations.")
			fs.StringVar(&d.message, "m", "", "Reason for the drain; stored with it.")
			fs.Var(d.meta, "meta", "Metadata KEY=VALUE that is stored with the drain. May be given several times.")
			fs.BoolVar(&d.detach, "detach", false, "Returns at once instead of monitoring the drain.")
			fs.BoolVar(&d.monitorOnly, "monitor", false, "Monitors a drain that is already in progress.")
			fs.BoolVar(&d.yes, "yes", false, "Answers yes to the prompt that confirms a node given by prefix.")
			return func(ctx context.Context, s *session, args []string) error {
				d.deadlineGiven = given(fs, "deadline")
				if err := d.check(); err != nil {
					return err
				}
				n, err := s.nodeOrSelf(ctx, args, d.self)
				if err != nil {
					return err
				}
				return d.run(ctx, s, n, d.self || args[0] == n.ID)
			}
		},
	}
}

func (d *drain) check() error {
	modes := 0
	for _, on := range []bool{d.enable, d.disable, d.monitorOnly} {
		if on {
			modes++
		}
	}
	switch {
	case modes == 2 && d.enable && d.monitorOnly, modes == 1: // -enable monitors the drain anyway, so -monitor is redundant
	default:
		return errors.New("give one of -enable, -disable and -monitor")
	}
	switch {
	case d.deadlineGiven && d.noDeadline, d.force && d.noDeadline, d.force && d.deadlineGiven:
		return errors.New("give one of -deadline, -no-deadline and -force")
	case !d.enable && (d.deadlineGiven || d.noDeadline || d.force || d.ignoreSystem):
		return errors.New("-deadline, -no-deadline, -force and -ignore-system need -enable")
	case d.keepOff && !d.disable:
		return errors.New("-keep-ineligible needs -disable")
	case d.deadlineGiven && d.deadline <= 0:
		return errors.New("-deadline must be longer than 0; use -no-deadline to wait without a deadline, -force to stop everything at once")
	}
	return nil
}

// request builds the request from the flags.
func (d *drain) request(nodeID string) *api.NodeDrainRequest {
	if d.message != "" {
		d.meta["message"] = d.message
	}
	req := &api.NodeDrainRequest{NodeID: nodeID, MarkEligible: d.disable && !d.keepOff, Meta: d.meta}
	if d.enable {
		req.DrainSpec = &api.DrainSpec{Deadline: d.deadline, IgnoreSystemJobs: d.ignoreSystem}
		switch {
		case d.force:
			req.DrainSpec.Deadline = -1
		case d.noDeadline:
			req.DrainSpec.Deadline = 0
		}
	}
	return req
}

func (d *drain) run(ctx context.Context, s *session, n *model.Node, exact bool) error {
	if d.monitorOnly && !d.enable {
		return s.watchDrain(ctx, n.ID, d.ignoreSystem)
	}
	verb := map[bool]string{true: "enable", false: "disable"}[d.enable]
	if sure, err := s.confirm(d.yes || exact, "Are you sure you want to %s drain mode for node %q (%s)?", verb, s.id(n.ID), n.Name); !sure {
		return err
	}
	if _, err := s.client.DrainNode(ctx, d.request(n.ID)); err != nil {
		return err
	}
	if d.disable {
		s.printf("Node %q drain strategy unset", n.ID)
		return nil
	}
	s.printf("Node %q drain strategy set", n.ID)
	if d.detach {
		return nil
	}
	return s.watchDrain(ctx, n.ID, d.ignoreSystem)
}

// watchDrain prints the changes of a node's allocs until the drain is complete.
func (s *session) watchDrain(ctx context.Context, nodeID string, ignoreSystem bool) error {
	s.step("Monitoring the drain of node %q: Ctrl-C ends the monitoring, not the drain", s.id(nodeID))
	said, ended := map[string]string{}, 0
	q := &client.Query{}
	for {
		n, _, err := s.client.Node(ctx, nodeID, nil)
		if err != nil {
			return err
		}
		allocs, meta, err := s.client.NodeAllocations(ctx, nodeID, q)
		if err != nil {
			return err
		}
		left := s.sayDrained(allocs, said)
		switch {
		case n.DrainStrategy == nil && left > 0 && !ignoreSystem && !drainedWell(n):
			s.step("The drain of node %q was ended; %d allocations are still there", s.id(nodeID), left)
			return nil
		case n.DrainStrategy == nil:
			s.step("The drain of node %q is complete", s.id(nodeID))
			return nil
		case left > 0 || len(allocs) == 0:
			ended = 0
		case ended == 1: // at first, servers may be about to end the drain
			s.step("All allocations have ended. The drain goes on until their replacements have the data that moves to them, or to its deadline")
			fallthrough
		default:
			ended++
		}
		q.WaitIndex, q.WaitTime = meta.Index, time.Second
	}
}

// drainedWell reports whether the last drain completed.
func drainedWell(n *model.Node) bool {
	return n.LastDrain != nil && n.LastDrain.Status == "complete"
}

// sayDrained prints the changes and returns the number of allocs that still run.
func (s *session) sayDrained(allocs []*client.AllocDetail, said map[string]string) int {
	left := 0
	for _, a := range allocs {
		now := a.ClientStatus
		switch {
		case a.ClientTerminalStatus():
		case a.DesiredStatus == model.AllocDesiredStatusStop:
			now, left = "draining", left+1
		case a.DesiredTransition.ShouldMigrate():
			now, left = "marked for migration", left+1
		default:
			left++
		}
		before, known := said[a.ID]
		said[a.ID] = now
		if before != now && (known || !a.ClientTerminalStatus()) {
			s.step("Alloc %q (%s): %s", s.id(a.ID), a.Name, now)
		}
	}
	return left
}
