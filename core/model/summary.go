// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// JobSummary counts the allocs of a job by group and status. It is derived from
// allocs, queued counts of evals and children.
//
// Invariant: except for Queued, the counts follow from the job's rows in the state. The
// allocs of a purged job of the same name do not count.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary
	CreateIndex uint64
	ModifyIndex uint64
}

// TaskGroupSummary counts the allocs of one group.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// JobChildrenSummary counts the children of a periodic or parameterized job.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}
