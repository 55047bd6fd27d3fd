// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"strconv"

	"github.com/drover-project/drover/core/cron"
)

// PeriodicLaunch is the last launch of a periodic job. A new leader, or a server that
// was down, continues from it.
type PeriodicLaunch struct {
	Namespace   string
	ID          string // id of the periodic job
	Launch      int64  // Unix ns of the last scheduled time that was handled, launched or skipped
	Skipped     string // why that time was skipped; empty if it was launched
	CreateIndex uint64
	ModifyIndex uint64
}

// PeriodicChildID returns the id of the child that a periodic job launches at a time
// (Unix s).
func PeriodicChildID(parentID string, at int64) string {
	return parentID + "/periodic-" + strconv.FormatInt(at, 10)
}

// DispatchedChildID returns the id of a child that is dispatched at a time (Unix s).
// prefix may be empty; suffix makes the id unique.
func DispatchedChildID(parentID, prefix string, at int64, suffix string) string {
	id := parentID + "/dispatch-"
	if prefix != "" {
		id += prefix + "-"
	}
	return id + strconv.FormatInt(at, 10) + "-" + suffix
}

// Child returns a child of a periodic or parameterized job: a copy of the parent with
// its own id. It shares unchanged parts with the parent; neither may be changed once
// it is stored.
func (j *Job) Child(id string) *Job {
	c := *j
	c.ID, c.Name, c.ParentID = id, id, j.ID
	c.Periodic = nil
	c.Version, c.CreateIndex, c.ModifyIndex, c.JobModifyIndex = 0, 0, 0, 0
	c.Stable, c.Stop, c.Status, c.StatusDescription = false, false, "", ""
	c.VersionTag = nil
	return &c
}

// Schedule returns the times at which children are launched.
func (p *PeriodicConfig) Schedule() (*cron.Schedule, error) {
	specs := p.Specs
	if p.Spec != "" {
		specs = []string{p.Spec}
	}
	return cron.New(specs, p.TimeZone)
}
