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
)

// checked is what a runner knows of the checks of its alloc.
type checked struct {
	set    *checks.Alloc // nil until the alloc has checks
	key    string        // what the wanted checks were made from
	stored map[string]checks.State
}

// maxChecks is how many checks of one alloc run.
const maxChecks = 500

// place is a check of the job with what is around it.
type place struct {
	service *model.Service
	check   *model.ServiceCheck
	task    string // "" if the check is one of the whole group
}

// checksOf returns the checks of a group, at most maxChecks of them.
func checksOf(tg *model.TaskGroup) (out []place) {
	add := func(list []*model.Service, enclosing string) {
		for _, s := range list {
			for _, c := range s.Checks {
				out = append(out, place{s, c, cmp.Or(c.TaskName, s.TaskName, enclosing)})
			}
		}
	}
	add(tg.Services, "")
	for _, t := range tg.Tasks {
		add(t.Services, t.Name)
	}
	return out[:min(len(out), maxChecks)]
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

// followChecks has the node run the checks of the tasks that run now, and pauses others.
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
	same := map[string]int{}
	specs := make([]checks.Spec, 0, len(places))
	for _, p := range places {
		id := p.id(r.id, r.group.Name, 0)
		if same[id]++; same[id] > 1 { // written twice
			id = p.id(r.id, r.group.Name, same[id])
		}
		spec := checks.Spec{ID: id, Service: p.service.Name, Check: p.check, Task: p.task}
		spec.Run, spec.Began = r.checkedRun(p.task)
		at := spec.Run
		spec.Resolve = func() (checks.Target, error) { return r.checkTarget(p, at) }
		specs = append(specs, spec)
	}
	r.checked.set.Want(specs, r.checked.stored)
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

// CheckFailed implements checks.Owner: it restarts the tasks that the check is about, as
// far as their restart policies allow.
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
			continue // another run is none of this check's business
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

// changedChecks returns the states of all checks if one of them has changed so much that a
// restarted agent should know.
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

// checkHealth is what the checks of an alloc say about its health.
type checkHealth struct {
	unknown bool      // after a restart of the agent, one that counts has not run again yet
	since   time.Time // from which all have passed; zero if there are none
	failing string    // what one of them says that has not passed; otherwise ""
	task    string    // that it is about
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
		case x.Spec.Check.OnUpdate == model.OnUpdateIgnore:
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

// blame returns the task whose events tell of the checks.
func (h checkHealth) blame(tg *model.TaskGroup) string { return cmp.Or(h.task, tg.Tasks[0].Name) }

// CheckResults returns what is known of the alloc's checks, in no order.
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
		if x.Target != nil { // with what ${...} stands for
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

// CheckResult is what is known of a check.
type CheckResult struct {
	ID, Service, Name, Task string
	Mode                    string // whether the health of the alloc depends on it
	checks.State
}
