// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpsertNamespaces stores namespaces.
type UpsertNamespaces struct{ Namespaces []*model.Namespace }

func (*UpsertNamespaces) kind() byte { return kindUpsertNamespaces }

// needs implements needing: servers of level 1 know no queues and no preemption of
// namespaces and node pools.
func (c *UpsertNamespaces) needs() int {
	for _, n := range c.Namespaces {
		if n != nil && n.SchedulerConfiguration != nil {
			return 2
		}
	}
	return 1
}

func (c *UpsertNamespaces) apply(tx *state.Tx) error {
	for _, n := range c.Namespaces {
		if n != nil {
			tx.UpsertNamespace(n)
		}
	}
	return nil
}

// DeleteNamespaces removes namespaces without jobs that may run.
type DeleteNamespaces struct{ Names []string }

func (*DeleteNamespaces) kind() byte { return kindDeleteNamespaces }

func (c *DeleteNamespaces) apply(tx *state.Tx) error {
	return all(c.Names, tx.CheckDeleteNamespace, tx.DeleteNamespace)
}

// UpsertNodePools stores node pools.
type UpsertNodePools struct{ Pools []*model.NodePool }

func (*UpsertNodePools) kind() byte { return kindUpsertNodePools }

// needs implements needing; see UpsertNamespaces.
func (c *UpsertNodePools) needs() int {
	for _, p := range c.Pools {
		if p != nil && p.SchedulerConfiguration != nil && (p.SchedulerConfiguration.PreemptionConfig != nil || p.SchedulerConfiguration.Queue != nil) {
			return 2
		}
	}
	return 1
}

func (c *UpsertNodePools) apply(tx *state.Tx) error {
	for _, p := range c.Pools {
		if p != nil {
			tx.UpsertNodePool(p)
		}
	}
	return nil
}

// DeleteNodePools removes node pools that are not in use.
type DeleteNodePools struct{ Names []string }

func (*DeleteNodePools) kind() byte { return kindDeleteNodePools }

func (c *DeleteNodePools) apply(tx *state.Tx) error {
	return all(c.Names, tx.CheckDeleteNodePool, tx.DeleteNodePool)
}

// all calls do for every name, or for none if check fails for one of them.
func all(names []string, check, do func(string) error) error {
	for _, name := range names {
		if err := check(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// SetSchedulerConfig replaces the scheduler configuration. With CAS its ModifyIndex
// must match.
type SetSchedulerConfig struct {
	Config      *model.SchedulerConfiguration
	CAS         bool
	ModifyIndex uint64
}

func (*SetSchedulerConfig) kind() byte { return kindSetSchedulerConfig }

// needs implements needing; see UpsertNamespaces.
func (c *SetSchedulerConfig) needs() int {
	if c.Config != nil && (c.Config.QueueOrder != "" || c.Config.QueueMaxDepth != 0) {
		return 2
	}
	return 1
}

func (c *SetSchedulerConfig) apply(tx *state.Tx) error {
	if c.Config == nil {
		return errdefs.InvalidArgumentf("a scheduler configuration is missing")
	}
	if cur := tx.View().SchedulerConfig(); c.CAS && cur != nil && cur.ModifyIndex != c.ModifyIndex {
		return errdefs.Conflictf("the scheduler configuration has modify index %d, not %d; read it again", cur.ModifyIndex, c.ModifyIndex)
	}
	tx.SetSchedulerConfig(c.Config)
	return nil
}

// BeginTerm is the first command of a leader: see model.Cluster. ClusterID becomes the
// cluster's id if it has none.
type BeginTerm struct{ ClusterID, TermID string }

func (*BeginTerm) kind() byte { return kindBeginTerm }

func (c *BeginTerm) apply(tx *state.Tx) error {
	if c.ClusterID == "" || c.TermID == "" {
		return errdefs.InvalidArgumentf("a term without an id, or without one for its cluster")
	}
	tx.BeginTerm(c.ClusterID, c.TermID)
	return nil
}
