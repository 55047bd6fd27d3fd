// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

// checked is a runner's state of the checks of its alloc.
type checked struct {
	set    *checks.Alloc // nil until the alloc has checks
	key    string        // key of the inputs from which the wanted checks were made
	stored map[string]checks.State
	keys   map[string]string // of services, by the ids of their checks
	// missing are the texts about services without an address that were told, and missed what
	// they were made from.
	missing map[string]bool
	missed  string
}

// place is a check of the job with its service and task.
type place struct {
	service *model.Service
	check   *model.ServiceCheck
	task    string // "" if the check belongs to the whole group
	key     string // of the service
}

// checksOf returns the checks of a group, of which there are model.MaxChecks at most.
func checksOf(tg *model.TaskGroup) (out []place) {
	add := func(list []*model.Service, t *model.Task) {
		enclosing := ""
		if t != nil {
			enclosing = t.Name
		}
		for _, s := range list {
			for _, c := range s.Checks {
				out = append(out, place{s, c, cmp.Or(c.TaskName, s.TaskName, enclosing), services.Key(t, s)})
			}
		}
	}
	add(tg.Services, nil)
	for _, t := range tg.Tasks {
		add(t.Services, t)
	}
	return out
}

// id is the id of a check on its alloc. A change of the check gives it another.
func (p place) id(allocID, group string, nth int) string {
	body, err := json.Marshal([]any{allocID, group, p.task, p.service.Name, p.check, nth})
	if err != nil { // a check is plain data
		return fmt.Sprintf("%s/%s/%d", allocID, p.service.Name, nth)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// followChecks makes the node run the checks of running tasks and pause the others.
func (r *Runner) followChecks() {
	places := checksOf(r.group)
	if r.cfg.Checks == nil || r.ended || len(places) == 0 && r.checked.set == nil {
		return
	}
	key := r.checkKey()
	if key == r.checked.key {
		return
	}
	if r.checked.set == nil {
		r.checked.set = r.cfg.Checks.Open(r)
	}
	r.checked.key = key
	ids := r.checkIDs(places)
	specs := make([]checks.Spec, 0, len(places))
	r.checked.keys = map[string]string{}
	for i, p := range places {
		id := ids[i]
		r.checked.keys[id] = p.key
		spec := checks.Spec{ID: id, Service: p.service.Name, Check: p.check, Task: p.task, Port: cmp.Or(p.check.PortLabel, p.service.PortLabel)}
		spec.Run, spec.Began = r.checkedRun(p.task)
		at := spec.Run
		spec.Resolve = func() (checks.Target, error) { return r.checkTarget(p, at) }
		specs = append(specs, spec)
	}
	r.checked.set.Want(specs, r.checked.stored)
}

// checkIDs returns the ids of checks.
func (r *Runner) checkIDs(places []place) []string {
	same := map[string]int{}
	out := make([]string, len(places))
	for i, p := range places {
		id := p.id(r.id, r.group.Name, 0)
		if same[id]++; same[id] > 1 { // written twice
			id = p.id(r.id, r.group.Name, same[id])
		}
		out[i] = id
	}
	return out
}

// failingServices returns the services of which a check fails or has not passed yet. A
// restarted agent begins with what it has stored.
func (r *Runner) failingServices() (out []string) {
	places := checksOf(r.group)
	if r.cfg.Checks == nil || len(places) == 0 {
		return nil
	}
	bad := func(s checks.State) bool { return s.Status != checks.Success && s.Status != checks.Warning }
	if r.checked.set != nil {
		for _, x := range r.checked.set.Results() {
			if bad(x.State) {
				out = append(out, r.checked.keys[x.Spec.ID])
			}
		}
	} else {
		for i, id := range r.checkIDs(places) {
			if bad(r.checked.stored[id]) {
				out = append(out, places[i].key)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkKey changes with everything that the wanted checks are made from.
func (r *Runner) checkKey() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%p %p", r.alloc, r.attached)
	for _, t := range r.group.Tasks {
		run, began := r.checkedRun(t.Name)
		fmt.Fprintf(&b, " %s@%d %p", run, began.UnixNano(), r.tasks[t.Name].address)
	}
	return b.String()
}

// checkedRun names the run of a task that a check is about, and says when it began. It is
// "" while the task does not run, is frozen, or is not known to its driver again yet.
// Without a task it is about all tasks that are there for as long as the group.
func (r *Runner) checkedRun(name string) (run string, began time.Time) {
	if name != "" {
		t := r.tasks[name]
		if t == nil || t.state.Phase != task.Running || t.state.Paused || t.unseen {
			return "", time.Time{}
		}
		began = *t.state.Report.StartedAt
		if t.state.ResumedAt.After(began) {
			began = t.state.ResumedAt
		}
		return fmt.Sprintf("%s/%d", name, t.state.Run), began
	}
	var runs []string
	for _, t := range r.group.Tasks {
		if task.Hook(t) != "" && !task.Sidecar(t) {
			continue
		}
		if one, at := r.checkedRun(t.Name); one != "" {
			runs = append(runs, one)
			if at.After(began) {
				began = at
			}
		}
	}
	return strings.Join(runs, " "), began
}

// endChecks ends the checks of the alloc for good.
func (r *Runner) endChecks() {
	if r.checked.set != nil {
		r.checked.set.Close()
	}
}

// CheckChanged implements checks.Owner.
func (r *Runner) CheckChanged() { r.reconsider() }

// CheckFailed implements checks.Owner: it restarts the tasks that the check covers, as far
// as their restart policies allow.
func (r *Runner) CheckFailed(s checks.Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || task.Ending(r.group, r.states(), r.wanted(r.cfg.Now())) {
		return
	}
	var e effects
	for _, run := range strings.Fields(s.Run) {
		name := run[:strings.LastIndexByte(run, '/')]
		t := r.tasks[name]
		if now, _ := r.checkedRun(name); t == nil || now != run {
			continue // the check belongs to another run
		}
		r.step(name, task.Unhealthy{Run: t.state.Run, Reason: fmt.Sprintf("healthcheck: check %q unhealthy", checkName(s.Service, s.Check.Name))}, &e)
	}
	r.settle(&e)
}

// checkName is the name under which a check is shown.
func checkName(service, check string) string {
	if check == "" {
		return fmt.Sprintf("service: %q check", service)
	}
	return check
}

// changedChecks returns the states of all checks if one of them has a change that must
// survive a restart of the agent.
func (r *Runner) changedChecks() map[string]checks.State {
	if r.checked.set == nil || r.ended {
		return nil
	}
	out, changed := map[string]checks.State{}, false
	for _, x := range r.checked.set.Results() {
		out[x.Spec.ID] = x.State
		old, known := r.checked.stored[x.Spec.ID]
		changed = changed || !known || old.Status != x.State.Status || old.Run != x.State.Run || !old.GoodSince.Equal(x.State.GoodSince)
	}
	if !changed && len(out) == len(r.checked.stored) {
		return nil
	}
	r.checked.stored = out
	return out
}

// checkHealth is the verdict of the checks about the health of an alloc.
type checkHealth struct {
	unknown bool      // after a restart of the agent, a check that counts has not run again yet
	since   time.Time // from which all have passed; zero if there are none
	failing string    // text about a check that has not passed; "" if all have
	task    string    // task to which the failing check belongs
}

// checkHealth returns it as far as the rule asks for it.
func (r *Runner) checkHealth(rule healthRule) (h checkHealth) {
	if !rule.checks {
		return h
	}
	if r.checked.set == nil {
		if r.cfg.Checks == nil && len(checksOf(r.group)) > 0 {
			h.failing = "this node runs no checks"
		}
		return h
	}
	results := r.checked.set.Results()
	slices.SortFunc(results, func(a, b checks.Result) int { return strings.Compare(a.Spec.ID, b.Spec.ID) })
	for _, x := range results {
		s := x.State
		switch {
		case x.Spec.Check.OnUpdate == model.OnUpdateIgnore || r.off(x.Spec.Task):
		case x.Spec.Run == "" || s.GoodSince.IsZero():
			why := s.Output
			if s.Status == checks.Pending {
				why = "it has not run yet"
			}
			h.task, h.failing = x.Spec.Task, fmt.Sprintf("check %q of service %q: %s", checkName(x.Spec.Service, x.Spec.Check.Name), x.Spec.Service, why)
		case s.GoodSince.After(h.since):
			h.since, h.task = s.GoodSince, cmp.Or(h.task, x.Spec.Task)
		}
		h.unknown = h.unknown || x.Restored && x.Spec.Run != "" && x.Spec.Check.OnUpdate != model.OnUpdateIgnore
	}
	return h
}

// lateness says why the checks keep the alloc from being healthy by its deadline; "" if
// they do not.
func (h checkHealth) lateness(rule healthRule) string {
	switch {
	case h.failing != "":
		return fmt.Sprintf("Unhealthy because of checks that have not passed by healthy_deadline of %s: %s", rule.window, h.failing)
	case h.since.Add(rule.minHealthy).After(rule.deadline):
		return fmt.Sprintf("Unhealthy because of checks that have not passed for min_healthy_time of %s by healthy_deadline of %s", rule.minHealthy, rule.window)
	}
	return ""
}

// blame returns the task whose events tell of the checks. Jobs of earlier releases may name a
// task that the group does not have.
func (h checkHealth) blame(tg *model.TaskGroup) string {
	for _, t := range tg.Tasks {
		if t.Name == h.task {
			return h.task
		}
	}
	return tg.Tasks[0].Name
}

// CheckResults returns the last results of the alloc's checks, unordered.
func (r *Runner) CheckResults() []CheckResult {
	r.mu.Lock()
	set := r.checked.set
	r.mu.Unlock()
	if set == nil {
		return nil
	}
	var out []CheckResult
	for _, x := range set.Results() {
		service, name := x.Spec.Service, x.Spec.Check.Name
		if x.Target != nil { // with ${...} replaced
			service, name = x.Target.Service, x.Target.Check.Name
		}
		mode := "healthiness"
		if x.Spec.Check.OnUpdate == model.OnUpdateIgnore {
			mode = "readiness"
		}
		out = append(out, CheckResult{x.Spec.ID, service, checkName(service, name), x.Spec.Task, mode, x.State})
	}
	return out
}

// CheckResult is the last result of a check.
type CheckResult struct {
	ID, Service, Name, Task string
	Mode                    string // whether the health of the alloc depends on it
	checks.State
}
