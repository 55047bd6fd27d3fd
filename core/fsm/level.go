// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"fmt"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Level is the newest capability level of this build. It grows with a command that earlier
// builds do not know, and with a field without which a command means something else. Level 3
// has the times of reports in milliseconds (ADR 0134). The level of a cluster is in its
// state. It is the level of its oldest server, so no server receives an entry that it cannot
// read.
const Level = 3

// LevelError means that an entry or a snapshot needs a newer release. Its class is
// FailedPrecondition.
type LevelError struct {
	Needs   int    // the level of the entry or snapshot
	Reads   int    // the newest level of this server
	Release string // the release that raised the cluster to the level; "" if that is unknown
}

func (e *LevelError) Error() string {
	which := "the release of the other servers"
	if e.Release != "" {
		which = "release " + e.Release
	}
	return fmt.Sprintf("it needs capability level %d, and this release reads up to level %d; run %s or a newer one here", e.Needs, e.Reads, which)
}

// Unwrap gives the error its class.
func (e *LevelError) Unwrap() error {
	return errdefs.FailedPreconditionf("level %d is newer than %d", e.Needs, e.Reads)
}

// RaiseLevel raises the capability level of the cluster. The leader proposes it when every
// server reads the level. The level never becomes lower. Release is the leader's release:
// a server that cannot read the level names it.
//
// Every server from level 2 on must be able to read this command, so its fields never
// change.
type RaiseLevel struct {
	Level   int
	Release string
}

func (*RaiseLevel) kind() byte { return kindRaiseLevel }

// maxLevel is the highest level that the head of an entry can hold.
const maxLevel = 255

func (c *RaiseLevel) apply(tx *state.Tx) error {
	if c.Level > maxLevel {
		return errdefs.InvalidArgumentf("there is no capability level %d", c.Level)
	}
	if tx.View().Cluster() == nil {
		return errdefs.FailedPreconditionf("the level of a cluster can be raised only after its first leader has begun")
	}
	tx.RaiseLevel(c.Level, c.Release)
	return nil
}

// allowed refuses a command above the cluster's level. core/propose has checked it already;
// this check is for a command that was proposed before a snapshot of a lower level was
// restored.
func allowed(tx *state.Tx, c Command) error {
	need := levelOf(c)
	if need == 1 || c.kind() == kindRaiseLevel {
		return nil
	}
	if at := tx.View().Level(); need > at {
		return errdefs.FailedPreconditionf("%T needs capability level %d, and the cluster has level %d; try again when the leader has raised it", c, need, at)
	}
	return nil
}
