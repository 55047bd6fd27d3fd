// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// SetAutopilotConfig replaces the configuration of autopilot. With CAS the ModifyIndex of
// the present one must match; it is 0 if none was set.
type SetAutopilotConfig struct {
	Config      *model.AutopilotConfiguration
	CAS         bool
	ModifyIndex uint64
}

func (*SetAutopilotConfig) kind() byte { return kindSetAutopilotConfig }

func (c *SetAutopilotConfig) apply(tx *state.Tx) error {
	if c.Config == nil {
		return errdefs.InvalidArgumentf("an autopilot configuration is missing")
	}
	if err := c.Config.Validate(); err != nil {
		return err
	}
	now := uint64(0)
	if cur := tx.View().AutopilotConfig(); cur != nil {
		now = cur.ModifyIndex
	}
	if c.CAS && now != c.ModifyIndex {
		return errdefs.Conflictf("the autopilot configuration has modify index %d, not %d; read it again", now, c.ModifyIndex)
	}
	tx.SetAutopilotConfig(c.Config)
	return nil
}
