// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// Positions of the alloc statuses in groupCounts.
const (
	countStarting = iota
	countRunning
	countComplete
	countFailed
	countLost
	countUnknown
	numCounts
)

// groupCounts counts the allocs of a group by client status.
type groupCounts [numCounts]int

// summaryRow holds a job's counts: enough to answer summaries and to derive the job's
// status without reading its allocs.
type summaryRow struct {
	Namespace   string
	JobID       string
	Groups      map[string]groupCounts
	Queued      map[string]int // by group: allocs that the newest eval could not place
	Allocs      int            // includes allocs of earlier jobs with the same name, which count in no other field
	LiveAllocs  int            // not terminal
	Evals       int
	LiveEvals   int // pending or blocked
	Blocked     int
	CreateIndex uint64 // CreateIndex of the job, or an index before it
	ModifyIndex uint64
	Children    model.JobChildrenSummary
	// Bare leaves out the groups of a periodic or parameterized job, which have no
	// allocs. It is set by a recount until the job is registered again, as clients of
	// the reference expect.
	Bare bool
}

// TableJobSummaries is the name of the table of job summaries.
const TableJobSummaries = "job_summaries"

// Changes are recorded not for the row but for the summary that is shown.
var summaryTable = &kind[summaryRow]{
	heading: heading{name: TableJobSummaries},
	schema:  schema[summaryRow]{id: func(r *summaryRow) string { return JobKey(r.Namespace, r.JobID) }},
	record:  8,
	watched: func(row any, wake wakeFunc) {
		s := row.(*model.JobSummary)
		wake("", JobKey(s.Namespace, s.JobID))
	},
}

// startAnew resets the counts after a purged job of the same name.
func (r *summaryRow) startAnew(index uint64) {
	r.Groups, r.Queued, r.LiveAllocs, r.CreateIndex = nil, nil, 0, index
}

// former reports whether a is an alloc of a purged job of the same name.
func (r *summaryRow) former(a *model.Allocation) bool {
	return a.CreateIndex != 0 && a.CreateIndex < r.CreateIndex
}

// JobSummary counts the allocs of a job by group and status, and its children.
func (v *View) JobSummary(ns, id string) *model.JobSummary {
	job := v.JobByID(ns, id)
	row := summaryTable.in(v.t).get(JobKey(ns, id))
	if job == nil || row == nil {
		return nil
	}
	s := row.summary()
	for _, tg := range job.TaskGroups {
		if _, ok := s.Summary[tg.Name]; !ok && !row.Bare {
			s.Summary[tg.Name] = model.TaskGroupSummary{Queued: row.Queued[tg.Name]}
		}
	}
	return s
}

// summary converts the row to the model, without what other rows contribute.
func (r *summaryRow) summary() *model.JobSummary {
	children := r.Children
	s := &model.JobSummary{
		JobID: r.JobID, Namespace: r.Namespace,
		Summary:     make(map[string]model.TaskGroupSummary, len(r.Groups)),
		Children:    &children,
		CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex,
	}
	for group, c := range r.Groups {
		s.Summary[group] = model.TaskGroupSummary{
			Queued:   r.Queued[group],
			Starting: c[countStarting], Running: c[countRunning], Complete: c[countComplete],
			Failed: c[countFailed], Lost: c[countLost], Unknown: c[countUnknown],
		}
	}
	return s
}

func countOf(clientStatus string) int {
	switch clientStatus {
	case model.AllocClientStatusRunning:
		return countRunning
	case model.AllocClientStatusComplete:
		return countComplete
	case model.AllocClientStatusFailed:
		return countFailed
	case model.AllocClientStatusLost:
		return countLost
	case model.AllocClientStatusUnknown:
		return countUnknown
	}
	return countStarting
}
