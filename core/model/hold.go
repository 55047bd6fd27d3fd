// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Hold says why a group gets no allocs yet: it, or its job, depends on others. It is how
// things were when the scheduler looked; what is true now is derived from the state.
type Hold struct {
	Allocs int       // how many are held back: those to be placed, and those to be replaced by the new version
	On     []string  // what is waited for, and how far that is
	Until  time.Time `json:",omitzero"` // when it fails unless that is so; zero: it waits for any time
	Over   bool      // Until has passed: it has failed
}

// String says what a group waits for, or that it has waited for too long.
func (h *Hold) String() string {
	if h.Over {
		return "has waited too long for " + strings.Join(h.On, "; ")
	}
	return "waits for " + strings.Join(h.On, "; ")
}

// Say is String with the time that is left.
func (h *Hold) Say(now time.Time) string {
	switch {
	case h.Over:
		return fmt.Sprintf("%s; the limit was %s", h, h.Until.UTC().Format(time.RFC3339))
	case h.Until.IsZero():
		return h.String() + "; without limit"
	}
	return fmt.Sprintf("%s; limit in %s", h, h.Until.Sub(now).Round(time.Second))
}

// Past is String for what was so.
func (h *Hold) Past() string {
	if h.Over {
		return "had waited too long for " + strings.Join(h.On, "; ")
	}
	return "waited for " + strings.Join(h.On, "; ")
}

// HasHolds reports whether the placements of a group of the job may be held back.
func (j *Job) HasHolds() bool {
	return len(j.DependsOn) > 0 || slices.ContainsFunc(j.TaskGroups, func(tg *TaskGroup) bool { return len(tg.DependsOn) > 0 })
}

// WaitsForRoom reports whether a blocked evaluation waits for resources, alone or beside
// dependencies.
func (e *Evaluation) WaitsForRoom() bool { return len(e.Held) == 0 || len(e.FailedTGAllocs) > 0 }

// Holds returns the groups that an evaluation holds back, in words, in order.
func (e *Evaluation) Holds(now time.Time) (out []string) {
	for group, h := range e.Held {
		out = append(out, fmt.Sprintf("Group %q %s.", group, h.Say(now)))
	}
	slices.Sort(out)
	return out
}

// validateHolds checks the dependencies of the job, and of its groups on each other. What
// depends on other jobs is checked where those are known: see CheckDependencies.
func (j *Job) validateHolds(p *ValidationError) {
	var part ValidationError
	seen := map[string]bool{}
	for _, d := range j.DependsOn {
		switch {
		case d.Name == "":
			part.addf("a job that comes first has no name")
		case d.Name == j.ID:
			part.addf("the job depends on itself, so that it can never start: %s -> %s", j.ID, j.ID)
		case seen[d.Name]:
			part.addf("job %q is named twice", d.Name)
		default:
			d.checkForm(&part, "job")
		}
		seen[d.Name] = true
	}
	p.under("depends_on of the job", part)
	grouped := false
	for _, tg := range j.TaskGroups {
		var part ValidationError
		j.validateHoldsOf(&part, tg)
		p.under("depends_on of group "+tg.Name, part)
		grouped = grouped || len(tg.DependsOn) > 0
	}
	if j.AllAtOnce && grouped {
		p.addf("all_at_once places all groups together, and depends_on one after the other; use one of them")
	}
	if cycle := j.groupCycle(); cycle != nil {
		p.addf("depends_on makes a cycle, so that none of its groups can start: %s", strings.Join(cycle, " -> "))
	}
}

func (j *Job) validateHoldsOf(p *ValidationError, tg *TaskGroup) {
	seen := map[string]bool{}
	for _, d := range tg.DependsOn {
		switch {
		case d.Name == tg.Name: // a cycle, which is refused as one
		case j.LookupTaskGroup(d.Name) == nil:
			p.addf("the job has no group %q", d.Name)
		case seen[d.Name]:
			p.addf("group %q is named twice", d.Name)
		default:
			d.checkForm(p, "group")
			if d.Condition == DependencyComplete && !j.Completes() {
				p.addf("group %q never completes: what ends in a job of type %s is started again", d.Name, j.Type)
			}
		}
		seen[d.Name] = true
	}
}

// Completes reports whether the allocs of the job end by themselves.
func (j *Job) Completes() bool { return j.Type == JobTypeBatch || j.Type == JobTypeSysBatch }

func (j *Job) groupCycle() []string {
	on := make(map[string][]*Dependency, len(j.TaskGroups))
	names := make([]string, len(j.TaskGroups))
	for i, tg := range j.TaskGroups {
		names[i], on[tg.Name] = tg.Name, tg.DependsOn
	}
	return cycleOf(names, func(name string) []*Dependency { return on[name] })
}

// CheckDependencies returns an error if the job depends on jobs in a way that can never be
// met, as these are now: in a cycle, on a template of children, or on the completion of a job
// that runs for ever. A job that does not exist yet is waited for. jobs returns a job of the
// namespace by its id, or nil.
func (j *Job) CheckDependencies(jobs func(id string) *Job) error {
	if len(j.DependsOn) == 0 || j.Stop {
		return nil
	}
	var p ValidationError
	for _, d := range j.DependsOn {
		switch on := jobs(d.Name); {
		case on.Stopped() || d.Name == j.ID:
		case on.IsPeriodic() || on.IsParameterized():
			p.addf("depends_on: job %q is a template, of which only children run; name one of its children", d.Name)
		case d.Condition == DependencyComplete && !on.Completes():
			p.addf("depends_on: job %q never completes: it is of type %s", d.Name, on.Type)
		}
	}
	if err := j.CheckCycle(jobs); err != nil {
		p.addf("%w", err)
	}
	return p.err()
}

// CheckCycle returns an error with the path if jobs that are not stopped depend on each other
// in a cycle that the job can reach.
func (j *Job) CheckCycle(jobs func(id string) *Job) error {
	if len(j.DependsOn) == 0 || j.Stop {
		return nil
	}
	cycle := cycleOf([]string{j.ID}, func(id string) []*Dependency {
		if id == j.ID {
			return j.DependsOn
		}
		if on := jobs(id); !on.Stopped() {
			return on.DependsOn
		}
		return nil
	})
	if cycle == nil {
		return nil
	}
	return errdefs.FailedPreconditionf("depends_on makes a cycle of jobs, so that none of them can start: %s", strings.Join(cycle, " -> "))
}

// MissingDependencies returns warnings about jobs that are not there, for which this one
// waits.
func (j *Job) MissingDependencies(jobs func(id string) *Job) (out []string) {
	for _, d := range j.DependsOn {
		switch on := jobs(d.Name); {
		case on == nil:
			out = append(out, fmt.Sprintf("depends_on: there is no job %q in namespace %q yet; this one waits until it is registered and %s", d.Name, cmp.Or(j.Namespace, DefaultNamespace), d.Condition))
		case on.Stop:
			out = append(out, fmt.Sprintf("depends_on: job %q is stopped; this one waits until it is started again and %s", d.Name, d.Condition))
		}
	}
	return out
}
