// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
)

// usualReports are reports whose forms every server knows. They may only be appended, and
// the form of one must never change (TestUsualFormsStayTheSame): entries of the log refer
// to them by their position.
func usualReports() []*model.AllocReport {
	const at = 1
	word := map[string]string{
		model.AllocClientStatusRunning:  "Tasks are running",
		model.AllocClientStatusComplete: "All tasks have completed",
		model.AllocClientStatusFailed:   "Failed tasks",
		model.AllocClientStatusPending:  "No tasks have started",
	}
	report := func(status string, task *model.TaskReport, events ...model.TaskEvent) *model.AllocReport {
		for i, e := range events {
			e.Time, e.Details = at+int64(i), notNil(e.Details)
			task.Events = append(task.Events, &e)
		}
		last := at + int64(len(events)) - 1
		switch task.State {
		case model.TaskStateRunning:
			task.StartedAt = &last
		case model.TaskStateDead:
			task.FinishedAt = &last
		}
		return &model.AllocReport{ClientStatus: status, ClientDescription: word[status], Tasks: map[string]*model.TaskReport{"": task}}
	}
	running := func() *model.TaskReport { return &model.TaskReport{State: model.TaskStateRunning} }
	dead := func(before uint64) *model.TaskReport {
		return &model.TaskReport{State: model.TaskStateDead, Before: before}
	}
	connected := func(r *model.AllocReport) *model.AllocReport {
		r.Network = &model.AllocNetworkStatus{}
		return r
	}
	received, setup, fetching, started := model.EventReceived(), model.EventSetup(), model.EventDownloading(), model.EventStarted()
	killing, killed, ended := model.EventKilling(5*time.Second), model.EventKilled(), model.EventTerminated(0, 0, false, "")
	term, kill := model.EventTerminated(143, 15, false, ""), model.EventTerminated(137, 9, false, "")
	const complete = model.AllocClientStatusComplete
	out := []*model.AllocReport{
		{Health: &model.HealthReport{DeploymentID: someUUID, Healthy: true}},
		report(model.AllocClientStatusRunning, running(), received, setup, started),
		connected(report(model.AllocClientStatusRunning, running(), received, setup, started)),
		report(model.AllocClientStatusRunning, running(), received, setup, fetching, started),
		connected(report(model.AllocClientStatusRunning, running(), received, setup, fetching, started)),
		{Tasks: map[string]*model.TaskReport{"": {State: model.TaskStatePending, Events: []*model.TaskEvent{
			timed(received, at), timed(setup, at+1), timed(fetching, at+2),
		}}}},
	}
	for _, before := range []uint64{3, 4} { // the events of a task before it ends
		out = append(out,
			report(complete, dead(before), ended),
			report(complete, dead(before), killing, ended, killed),
			report(complete, dead(before), killing, term, killed),
			report(complete, dead(before), killing, kill, killed),
			report(complete, dead(before+1), ended, killed),
			report(complete, dead(before+1), term, killed),
			report(complete, dead(before+1), kill, killed),
			&model.AllocReport{Tasks: map[string]*model.TaskReport{"": {State: model.TaskStateRunning, Before: before, Events: []*model.TaskEvent{timed(killing, at)}}}},
		)
	}
	return out
}

const someUUID = "00000000-0000-4000-8000-000000000000"

func timed(e model.TaskEvent, at int64) *model.TaskEvent {
	e.Time, e.Details = at, notNil(e.Details)
	return &e
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// forms are encoded forms of reports, and their numbers.
type forms struct {
	bytes   [][]byte
	numbers map[string]uint64
}

// usualForms returns the forms of usualReports.
var usualForms = sync.OnceValue(func() forms {
	f := forms{numbers: map[string]uint64{}}
	for _, r := range usualReports() {
		w := newReportWriter(true, newClock(0, false))
		if err := w.report(r, shortID{alloc: "an id"}); err != nil {
			panic(err) // they are constants
		}
		f.numbers[string(w.form)] = uint64(len(f.bytes))
		f.bytes = append(f.bytes, w.form)
	}
	return f
})
