// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"maps"

	"github.com/drover-project/drover/core/model"
)

// maxScalingEvents is the number of events that are kept per group.
const maxScalingEvents = 20

// TableScalingEvents is the name of the table of scaling events.
const TableScalingEvents = "scaling_events"

// Scaling events are stored in the rows of jobs.
var scalingTable = &part{
	heading: heading{name: TableScalingEvents},
	watched: func(row any, wake wakeFunc) {
		e := row.(*ScalingOf)
		wake(ByJob, JobKey(e.Namespace, e.JobID))
	},
}

// ScalingEvents returns the scaling events of a job by group, newest first.
func (v *View) ScalingEvents(ns, id string) map[string][]*model.ScalingEvent {
	row := jobTable.in(v.t).get(JobKey(ns, id))
	if row.current() == nil {
		return nil
	}
	return row.Scaling
}

// AddScalingEvent adds an event to a group. The transaction takes ownership of e.
func (tx *Tx) AddScalingEvent(ns, id, group string, e *model.ScalingEvent) error {
	row := jobTable.in(tx.t).get(JobKey(ns, id))
	job := row.current()
	if job == nil {
		return jobNotFound(ns, id)
	}
	e.CreateIndex = tx.index
	next := *row
	next.Scaling = maps.Clone(row.Scaling)
	if next.Scaling == nil {
		next.Scaling = map[string][]*model.ScalingEvent{}
	}
	maps.DeleteFunc(next.Scaling, func(name string, _ []*model.ScalingEvent) bool { return job.LookupTaskGroup(name) == nil })
	events := append([]*model.ScalingEvent{e}, next.Scaling[group]...)
	next.Scaling[group] = events[:min(len(events), maxScalingEvents)]
	jobTable.in(tx.t).put(&next)
	record(tx, scalingTable, nil, &ScalingOf{Namespace: ns, JobID: id, Group: group, Event: e})
	return nil
}

// ScalingOf is the row of a Change of scaling events: it says to which group the event
// belongs.
type ScalingOf struct {
	Namespace string
	JobID     string
	Group     string
	Event     *model.ScalingEvent
}
