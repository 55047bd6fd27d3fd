// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Descriptions of changes of allocs, with the reference's wording.
const (
	DescNotNeeded    = "alloc not needed due to job update"
	DescUpdating     = "alloc is being updated due to job update"
	DescMigrating    = "alloc is being migrated"
	DescLost         = "alloc is lost since its node is down"
	DescUnknown      = "alloc is unknown since its node is disconnected"
	DescRescheduled  = "alloc was rescheduled because it failed"
	DescUnhealthy    = "alloc was rescheduled because it is unhealthy"
	DescReconnected  = "alloc not needed due to disconnected client reconnect"
	DescFollowUp     = "created for delayed rescheduling"
	DescDisconnected = "created for delayed disconnect timeout"
)

// MaxPlacements is the maximum number of missing allocs and canaries that one
// reconciliation places. A job in state may have a larger count, since it may have
// been registered under other limits.
const MaxPlacements = model.DefaultMaxCount

// Input is everything that a reconciliation depends on.
type Input struct {
	Job        *model.Job // nil: purged
	Allocs     []*model.Allocation
	Deployment *model.Deployment // the job's latest, or nil
	Now        time.Time
	NewID      func() string
	Version    func(version uint64) *model.Job // a version of Job; nil if it is no longer kept
	Node       func(id string) *model.Node     // nil if the node no longer exists
	// Feasible says whether an alloc may be placed on a node, and MayStay whether one that runs
	// there may stay: what is out of order for the moment does not end it.
	Feasible func(tg *model.TaskGroup, n *model.Node) bool
	MayStay  func(tg *model.TaskGroup, n *model.Node) bool
	// Resize returns the resources that a running alloc has under the group's newest
	// version, and takes them on its node; nil if they do not fit there or a task cannot get
	// others while it runs.
	Resize func(tg *model.TaskGroup, a *model.Allocation) *model.AllocatedResources
	// RoomInstead says whether the node of a running alloc has room for the group's newest
	// version in its place; nil: each has.
	RoomInstead func(tg *model.TaskGroup, a *model.Allocation) bool
	// Depend shows what groups and jobs depend on; nil: nothing is held back.
	Depend DependView
}

// Placement requests one new alloc.
type Placement struct {
	Job        *model.Job // the version to place: an older one while canaries are evaluated
	Group      *model.TaskGroup
	Name       string
	Previous   *model.Allocation
	Canary     bool
	Reschedule bool // Previous failed: its node is penalised and its history is kept
	Deployment string
	Update     bool        // destructive update: Previous is stopped only if this is placed
	Node       *model.Node // system jobs: the node to place on
}

// Stop stops one alloc.
type Stop struct {
	Alloc        *model.Allocation
	Description  string
	ClientStatus string // lost, or "" if the node will report the status
}

// FollowUp is an evaluation at a later time.
type FollowUp struct {
	ID        string
	WaitUntil time.Time
	Trigger   string
	Desc      string
}

// Result lists the changes that a reconciliation requests.
type Result struct {
	Place             []Placement
	Deferred          map[string]int // by group: missing allocs that a later evaluation places
	Stop              []Stop
	Changed           []model.AllocChange // allocs that keep running
	Deployment        *model.Deployment
	DeploymentUpdates []*model.DeploymentStatusUpdate
	FollowUps         []FollowUp
	Updates           map[string]*model.DesiredUpdates
	Held              map[string]*model.Hold // by group: what is not placed, because it depends on others
}

// lists keeps lists of placements of finished decisions for later ones.
var lists sync.Pool

// grow makes room for n more placements.
func (r *Result) grow(n int) {
	if b, ok := lists.Get().(*[]Placement); ok && r.Place == nil && cap(*b) >= n {
		r.Place = (*b)[:0]
		return
	}
	r.Place = slices.Grow(r.Place, n)
}

// Release gives the list of placements back. The result must not be used any more.
func (r *Result) Release() {
	if cap(r.Place) == 0 {
		return
	}
	clear(r.Place)
	place := r.Place
	lists.Put(&place)
	r.Place = nil
}
