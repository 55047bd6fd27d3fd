// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxPluginSpecs limits the number of registered plugins, since each node receives all
// that target it.
const maxPluginSpecs = 256

// RegisterPlugin stores a plugin of the registry, and starts a roll-out if its release
// has changed. With CAS the stored modify index must be Index (0: it must not exist).
type RegisterPlugin struct {
	Spec  *model.PluginSpec
	CAS   bool
	Index uint64
}

func (*RegisterPlugin) kind() byte { return kindRegisterPlugin }

func (c *RegisterPlugin) apply(tx *state.Tx) error {
	if c.Spec == nil || c.Spec.Release == nil {
		return errdefs.InvalidArgumentf("a plugin or its release is missing")
	}
	cur := tx.View().PluginSpecByName(c.Spec.Name)
	if err := samePluginIndex(cur, c.CAS, c.Index); err != nil {
		return err
	}
	if cur == nil && tx.View().PluginSpecCount() >= maxPluginSpecs {
		return errdefs.ResourceExhaustedf("the registry has %d plugins, which is all it holds; deregister one first", maxPluginSpecs)
	}
	tx.UpsertPluginSpec(cur.Register(c.Spec, tx.Index()))
	return nil
}

func samePluginIndex(cur *model.PluginSpec, cas bool, index uint64) error {
	have := uint64(0)
	if cur != nil {
		have = cur.ModifyIndex
	}
	if cas && have != index {
		return errdefs.Conflictf("the plugin has modify index %d, not %d; read it again", have, index)
	}
	return nil
}

// DeletePlugin removes a plugin from the registry; nodes then remove it.
type DeletePlugin struct {
	Name  string
	CAS   bool
	Index uint64
}

func (*DeletePlugin) kind() byte { return kindDeletePlugin }

func (c *DeletePlugin) apply(tx *state.Tx) error {
	cur := tx.View().PluginSpecByName(c.Name)
	if cur == nil {
		return pluginNotFound(c.Name)
	}
	if err := samePluginIndex(cur, c.CAS, c.Index); err != nil {
		return err
	}
	tx.DeletePluginSpec(c.Name)
	return nil
}

func pluginNotFound(name string) error {
	return errdefs.NotFoundf("the registry has no plugin %q", name)
}

// SteerPluginRollout applies an operator's action to a roll-out.
type SteerPluginRollout struct {
	Name string
	Act  string // one of model.PluginRolloutPause, Resume and Revert
}

func (*SteerPluginRollout) kind() byte { return kindSteerPluginRollout }

func (c *SteerPluginRollout) apply(tx *state.Tx) error {
	cur := tx.View().PluginSpecByName(c.Name)
	if cur == nil {
		return pluginNotFound(c.Name)
	}
	next, err := cur.Steer(c.Act, tx.Index())
	if err != nil {
		return err
	}
	tx.UpsertPluginSpec(next)
	return nil
}

// StepPluginRollout stores the next step of a roll-out, or reverts it, unless the
// plugin has changed since the step was decided: it is then decided again.
type StepPluginRollout struct {
	Name    string
	Index   uint64 // modify index that the step is based on
	Rollout *model.PluginRollout
	Revert  string // reason for reverting the release; Rollout is nil then
}

func (*StepPluginRollout) kind() byte { return kindStepPluginRollout }

func (c *StepPluginRollout) apply(tx *state.Tx) error {
	cur := tx.View().PluginSpecByName(c.Name)
	switch {
	case cur == nil || cur.ModifyIndex != c.Index:
		return nil
	case c.Revert != "":
		next, err := cur.Revert(c.Revert)
		if err != nil {
			return err
		}
		tx.UpsertPluginSpec(next)
		return nil
	case c.Rollout == nil:
		return errdefs.InvalidArgumentf("the step of a roll-out is empty")
	}
	next := *cur
	next.Rollout = c.Rollout
	tx.UpsertPluginSpec(&next)
	return nil
}
