// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Facts are what dependencies depend on beside the states of tasks.
type Facts struct {
	Now     time.Time
	Healthy map[string]bool // tasks that run and whose checks pass; see Awaited
}

// Awaited returns the tasks whose health must be known, because one that waits depends on it.
func Awaited(tg *model.TaskGroup, states map[string]State) map[string]bool {
	var out map[string]bool
	for _, t := range tg.Tasks {
		if len(t.DependsOn) == 0 || states[t.Name].Phase != Waiting {
			continue
		}
		for _, d := range t.DependsOn {
			if d.Condition == model.DependencyHealthy {
				if out == nil {
					out = map[string]bool{}
				}
				out[d.Name] = true
			}
		}
	}
	return out
}

// next returns the event of a waiting task whose turn has come, nil if it goes on waiting.
func (g group) next(t *model.Task) Event {
	unmet := g.unmet(t)
	since := g.states[t.Name].HeldSince
	switch {
	case len(unmet) == 0:
		return Begin{}
	case since.IsZero():
		return Hold{On: inWords(unmet)}
	}
	for _, d := range unmet {
		if d.Timeout > 0 && !g.facts.Now.Before(since.Add(d.Timeout)) {
			return Kill{Reason: model.EventDependencyTimeout(d)}
		}
	}
	return nil
}

// unmet returns the dependencies that hold a task back.
func (g group) unmet(t *model.Task) (out []*model.Dependency) {
	for _, d := range t.DependsOn {
		if !g.met(d) {
			out = append(out, d)
		}
	}
	return out
}

// met reports whether a dependency is fulfilled. A task that no longer exists holds nobody
// back: its version of the job has been replaced.
func (g group) met(d *model.Dependency) bool {
	s, known := g.states[d.Name]
	endedWell := s.Phase == Dead && !s.Report.Failed
	switch {
	case !known:
		return true
	case d.Condition == model.DependencyComplete:
		return endedWell
	case d.Condition == model.DependencyHealthy:
		return endedWell || g.facts.Healthy[d.Name]
	}
	return endedWell || s.HasStarted()
}

func inWords(list []*model.Dependency) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = d.String()
		if d.Timeout > 0 {
			words[i] += ", for at most " + d.Timeout.String()
		}
	}
	return strings.Join(words, "; ")
}

// HeldBack returns what each waiting task whose turn has come waits for, in words.
func HeldBack(tg *model.TaskGroup, states map[string]State, facts Facts) map[string]string {
	g := group{tg: tg, states: states, facts: facts}
	out := map[string]string{}
	for _, t := range tg.Tasks {
		if s := states[t.Name]; s.Phase == Waiting && !s.HeldSince.IsZero() {
			if unmet := g.unmet(t); len(unmet) > 0 {
				out[t.Name] = inWords(unmet)
			}
		}
	}
	return out
}

// NextTimeout returns when the first task that waits will have waited too long; zero means
// never.
func NextTimeout(tg *model.TaskGroup, states map[string]State) (first time.Time) {
	for _, t := range tg.Tasks {
		s := states[t.Name]
		if s.Phase != Waiting || s.HeldSince.IsZero() {
			continue
		}
		for _, d := range t.DependsOn {
			if at := s.HeldSince.Add(d.Timeout); d.Timeout > 0 && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

func (m *machine) hold(ev Hold) {
	if m.s.Phase != Waiting || !m.s.HeldSince.IsZero() {
		return
	}
	m.s.HeldSince = m.now.UTC()
	m.s.note(m.now, model.EventAwaitsDependency(ev.On))
}
