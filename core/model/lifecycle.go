// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "slices"

// Lifecycle says which statuses one kind of object has, and how they follow each other.
// The diagrams in docs/design/states.md are made from these tables, and tests check every
// change of the state against them (internal/testkit/lifecycles).
type Lifecycle struct {
	Kind  string
	Begin []string // the statuses of a new object
	Ways  []Way
	End   []string // final statuses: the object waits to be collected
}

// Way is a change of a status. The same way may have several reasons.
type Way struct{ From, To, Why string }

// Allows reports whether an object may go from one status to another; "" is the status
// of an object that did not exist.
func (l *Lifecycle) Allows(from, to string) bool {
	if from == "" {
		return slices.Contains(l.Begin, to)
	}
	return from == to || slices.ContainsFunc(l.Ways, func(w Way) bool { return w.From == from && w.To == to })
}

// Lifecycles returns the tables of all kinds that have a status.
func Lifecycles() []*Lifecycle {
	return []*Lifecycle{jobLifecycle(), evalLifecycle(), allocLifecycle(), deploymentLifecycle(), nodeLifecycle()}
}

func jobLifecycle() *Lifecycle {
	return &Lifecycle{
		Kind:  "job",
		Begin: []string{JobStatusPending, JobStatusRunning, JobStatusDead},
		Ways: []Way{
			{JobStatusPending, JobStatusRunning, "an alloc is placed"},
			{JobStatusPending, JobStatusDead, "it is stopped, or nothing is left to do"},
			{JobStatusRunning, JobStatusPending, "its allocs have ended and an evaluation is open"},
			{JobStatusRunning, JobStatusDead, "it is stopped, or all allocs have ended"},
			{JobStatusDead, JobStatusPending, "it is registered or evaluated again"},
			{JobStatusDead, JobStatusRunning, "it is registered again, and an alloc of it still runs"},
		},
	}
}

func evalLifecycle() *Lifecycle {
	return &Lifecycle{
		Kind:  "evaluation",
		Begin: []string{EvalStatusPending, EvalStatusBlocked, EvalStatusComplete},
		Ways: []Way{
			{EvalStatusPending, EvalStatusComplete, "a worker has carried it out"},
			{EvalStatusPending, EvalStatusFailed, "every attempt has failed"},
			{EvalStatusPending, EvalStatusCancelled, "a newer one of the job does its work"},
			{EvalStatusPending, EvalStatusBlocked, "there is no room yet"},
			{EvalStatusBlocked, EvalStatusPending, "there may be room now"},
			{EvalStatusBlocked, EvalStatusComplete, "there was room"},
			{EvalStatusBlocked, EvalStatusFailed, "every attempt has failed"},
			{EvalStatusBlocked, EvalStatusCancelled, "another one has placed everything"},
		},
		End: []string{EvalStatusComplete, EvalStatusFailed, EvalStatusCancelled},
	}
}

func allocLifecycle() *Lifecycle {
	return &Lifecycle{
		Kind:  "allocation",
		Begin: []string{AllocClientStatusPending},
		Ways: []Way{
			{AllocClientStatusPending, AllocClientStatusRunning, "a task runs"},
			{AllocClientStatusPending, AllocClientStatusComplete, "it was stopped, or has ended since the last report"},
			{AllocClientStatusPending, AllocClientStatusFailed, "a task cannot start"},
			{AllocClientStatusPending, AllocClientStatusLost, "its node is down"},
			{AllocClientStatusPending, AllocClientStatusUnknown, "its node is disconnected and the group may wait"},
			{AllocClientStatusRunning, AllocClientStatusPending, "its tasks wait to start again"},
			{AllocClientStatusRunning, AllocClientStatusComplete, "its tasks have ended"},
			{AllocClientStatusRunning, AllocClientStatusFailed, "a task has failed for good"},
			{AllocClientStatusRunning, AllocClientStatusLost, "its node is down"},
			{AllocClientStatusRunning, AllocClientStatusUnknown, "its node is disconnected and the group may wait"},
			{AllocClientStatusUnknown, AllocClientStatusPending, "its node reports again"},
			{AllocClientStatusUnknown, AllocClientStatusRunning, "its node reports again"},
			{AllocClientStatusUnknown, AllocClientStatusComplete, "its node reports again"},
			{AllocClientStatusUnknown, AllocClientStatusFailed, "its node reports again"},
			{AllocClientStatusUnknown, AllocClientStatusLost, "the group waits no longer"},
			{AllocClientStatusLost, AllocClientStatusComplete, "its node reports its end"},
			{AllocClientStatusLost, AllocClientStatusFailed, "its node reports its end"},
			{AllocClientStatusComplete, AllocClientStatusFailed, "a poststop task has failed"},
		},
		End: []string{AllocClientStatusComplete, AllocClientStatusFailed, AllocClientStatusLost},
	}
}

func deploymentLifecycle() *Lifecycle {
	return &Lifecycle{
		Kind:  "deployment",
		Begin: []string{DeploymentStatusRunning, DeploymentStatusSuccessful}, // at once: a system job without update block
		Ways: []Way{
			{DeploymentStatusRunning, DeploymentStatusPaused, "an operator pauses it"},
			{DeploymentStatusRunning, DeploymentStatusSuccessful, "all allocs are healthy and promoted"},
			{DeploymentStatusRunning, DeploymentStatusFailed, "an alloc is unhealthy, its deadline has passed, or an operator fails it"},
			{DeploymentStatusRunning, DeploymentStatusCancelled, "the job is stopped or has a newer version"},
			{DeploymentStatusPaused, DeploymentStatusRunning, "an operator resumes it"},
			{DeploymentStatusPaused, DeploymentStatusFailed, "an operator fails it"},
			{DeploymentStatusPaused, DeploymentStatusCancelled, "the job is stopped or has a newer version"},
		},
		End: []string{DeploymentStatusSuccessful, DeploymentStatusFailed, DeploymentStatusCancelled},
	}
}

func nodeLifecycle() *Lifecycle {
	return &Lifecycle{
		Kind:  "node",
		Begin: []string{NodeStatusInit, NodeStatusReady},
		Ways: []Way{
			{NodeStatusInit, NodeStatusReady, "its session is open"},
			{NodeStatusInit, NodeStatusDown, "its lease has ended"},
			{NodeStatusReady, NodeStatusDown, "its lease has ended"},
			{NodeStatusReady, NodeStatusDisconnected, "its lease has ended and a group on it may wait"},
			{NodeStatusDisconnected, NodeStatusReady, "it registers again"},
			{NodeStatusDisconnected, NodeStatusDown, "no group on it waits any longer"},
			{NodeStatusDown, NodeStatusReady, "it registers again"},
		},
	}
}
