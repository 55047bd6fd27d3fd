// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// AutopilotConfig returns the configuration of autopilot that acts. It must not be changed.
func (e *Endpoint) AutopilotConfig() *model.AutopilotConfiguration { return e.Autopilot() }

// SetAutopilotConfig replaces the configuration of autopilot. If cas is set, the
// ModifyIndex of the present one must match; updated is false if it does not.
func (e *Endpoint) SetAutopilotConfig(ctx context.Context, cfg *model.AutopilotConfiguration, cas *uint64) (updated bool, err error) {
	if err := cfg.Validate(); err != nil {
		return false, err
	}
	cmd := &fsm.SetAutopilotConfig{Config: cfg}
	if cas != nil {
		cmd.CAS, cmd.ModifyIndex = true, *cas
	}
	_, err = e.propose(ctx, cmd)
	if cas != nil && errdefs.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}
