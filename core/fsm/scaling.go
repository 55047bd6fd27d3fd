// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ScaleJob registers a job with another count of a group and records a scaling event,
// or records only a message about the group. A rejected scaling records no event.
type ScaleJob struct {
	Namespace string
	JobID     string
	Group     string
	Event     *model.ScalingEvent
	Register  *UpsertJob // nil for a message
}

// answer returns the answer of Register.
func (c *ScaleJob) answer() any {
	if c.Register == nil {
		return nil
	}
	return c.Register.answer()
}

func (*ScaleJob) kind() byte { return kindScaleJob }

func (c *ScaleJob) apply(tx *state.Tx) error {
	if c.Event == nil {
		return errdefs.InvalidArgumentf("a scaling without an event")
	}
	if c.Register != nil {
		if err := c.Register.apply(tx); err != nil {
			return err
		}
	}
	return tx.AddScalingEvent(c.Namespace, c.JobID, c.Group, c.Event)
}
