// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// Descriptions of what is done to allocs, as the reference words them.
const (
	DescNotNeeded    = "alloc not needed due to job update"
	DescUpdating     = "alloc is being updated due to job update"
	DescMigrating    = "alloc is being migrated"
	DescLost         = "alloc is lost since its node is down"
	DescUnknown      = "alloc is unknown since its node is disconnected"
	DescRescheduled  = "alloc was rescheduled because it failed"
	DescReconnected  = "alloc not needed due to disconnected client reconnect"
	DescFollowUp     = "created for delayed rescheduling"
	DescDisconnected = "created for delayed disconnect timeout"
)

// MaxPlacements is how many missing allocs and canaries one reconciliation asks for.
// A job in state may have any count: it was registered under other limits.
const MaxPlacements = model.DefaultMaxCount

// Input is everything that a reconciliation depends on.
type Input struct {
	Job        *model.Job // nil: purged
	Allocs     []*model.Allocation
	Deployment *model.Deployment // the job's latest, or nil
	Now        time.Time
	NewID      func() string
	Version    func(version uint64) *model.Job // of Job; nil: not kept any more
	Node       func(id string) *model.Node     // nil: gone
	Feasible   func(tg *model.TaskGroup, n *model.Node) bool
}

// Placement asks for one new alloc.
type Placement struct {
	Job        *model.Job // the version to place: an older one while canaries are tried
	Group      *model.TaskGroup
	Name       string
	Previous   *model.Allocation
	Canary     bool
	Reschedule bool // Previous failed: its node is avoided and the history is kept
	Deployment string
	Update     bool        // destructive: Previous is stopped if and only if this is placed
	Node       *model.Node // system jobs: the node to place on
}

// Stop ends one alloc.
type Stop struct {
	Alloc        *model.Allocation
	Description  string
	ClientStatus string // lost, or "": left to the node
}

// FollowUp is an evaluation to come.
type FollowUp struct {
	ID        string
	WaitUntil time.Time
	Trigger   string
	Desc      string
}

// Result is what to do.
type Result struct {
	Place             []Placement
	Deferred          map[string]int // by group: allocs that are missing and that another evaluation places
	Stop              []Stop
	Changed           []model.AllocChange // of allocs that go on
	Deployment        *model.Deployment
	DeploymentUpdates []*model.DeploymentStatusUpdate
	FollowUps         []FollowUp
	Updates           map[string]*model.DesiredUpdates
}
