// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// bodies caches the decoded schemas of drivers by hash, so its entries never become
// outdated.
type bodies struct {
	mu     sync.Mutex
	byHash map[string]*driverschema.Body
}

// maxBodies limits the cache, which may contain schemas that state has removed.
const maxBodies = 256

// read returns the decoded body of a row, nil if it cannot be decoded.
func (b *bodies) read(row *model.DriverSchema) *driverschema.Body {
	b.mu.Lock()
	defer b.mu.Unlock()
	if body, ok := b.byHash[row.Hash]; ok {
		return body
	}
	body, err := driverschema.Decode(row.Body)
	if err != nil {
		body = nil // a newer version of dispatch has accepted it: do not check against it
	}
	if b.byHash == nil || len(b.byHash) >= maxBodies {
		b.byHash = map[string]*driverschema.Body{}
	}
	b.byHash[row.Hash] = body
	return body
}

// find returns what is known about a driver for a job.
func (b *bodies) find(view *state.View, job *model.Job, driver string) driverschema.Found {
	uses := view.DriverUses(driver)
	out := driverschema.Found{Absent: view.NodeCount() > 0}
	for _, u := range uses {
		out.Absent = out.Absent && !u.Detected
	}
	var all []driverschema.Known
	for _, row := range view.DriverSchemasOf(driver) {
		body := b.read(row)
		if body == nil {
			continue
		}
		k := driverschema.Known{Body: body, CreateIndex: row.CreateIndex}
		for _, u := range uses {
			if u.Hash == row.Hash {
				k.Uses = append(k.Uses, *u)
			}
		}
		all = append(all, k)
	}
	out.Bodies = driverschema.Choose(all, job)
	return out
}

// maxFindings limits the number of findings about one job.
const maxFindings = 200

// checked is the result of the checks of a job that can be registered.
type checked struct {
	warnings []string
	findings []*api.JobFinding
}

// check validates a job: its own values, the cluster's limits, and the configs of its tasks
// against their drivers: their schemas, and on nodes their rules. Warnings are features
// that drivers ignore, warnings of the drivers, and unknown fields in the request. A job
// with Stop set is not rejected because of its drivers.
func (e *Endpoint) check(ctx context.Context, job *model.Job, sent []byte) (out checked, err error) {
	err = e.Jobs.validate(job)
	for i, field := range jobspec.UnreadJSON(sent) {
		if i == maxFindings {
			break
		}
		out.warnings = append(out.warnings, fmt.Sprintf("the field %s is not one of a job and is not acted on; is it misspelt?", field))
	}
	if job.Stop {
		return out, err
	}
	view := e.Store.View()
	report := driverschema.Check(job, func(driver string) driverschema.Found { return e.bodies.find(view, job, driver) })
	problems, warnings := e.verdicts(ctx, view, job, report.Asks)
	problems, warnings = append(report.Problems, problems...), append(report.Warnings, warnings...)
	if len(problems) > 0 {
		err = withProblems(err, texts(problems))
	}
	out.warnings = slices.Concat(out.warnings, texts(warnings), memoryMaxIgnored(view, job), neverInPlace(view, job), unknownProviders(view, job))
	out.findings = append(findings(problems, api.FindingError), findings(warnings, api.FindingWarning)...)
	return out, err
}

// findings returns findings as the API has them.
func findings(in []driverschema.Finding, severity string) (out []*api.JobFinding) {
	for _, f := range in[:min(len(in), maxFindings)] {
		out = append(out, &api.JobFinding{TaskGroup: f.Group, Task: f.Task, Driver: f.Driver, Path: f.Path, Severity: severity, Message: f.String()})
	}
	return out
}

// memoryMaxIgnored returns warnings for tasks whose memory_max has no effect.
func memoryMaxIgnored(view *state.View, job *model.Job) (warnings []string) {
	if model.SchedulingOf(view.SchedulerConfig(), view.NodePoolByName(job.NodePool), view.NamespaceByName(job.Namespace)).MemoryOversubscription {
		return nil
	}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if t.Resources != nil && t.Resources.MemoryMaxMB != 0 {
				warnings = append(warnings, fmt.Sprintf("memory oversubscription is not enabled, so memory_max of task %q of group %q is ignored; enable it with operator scheduler set-config -memory-oversubscription=true, or in the node pool", t.Name, g.Name))
			}
		}
	}
	return warnings
}

// unknownProviders returns warnings for services whose provider is a registry that no node
// reaches: the name may be misspelt, or a node with it may still come.
func unknownProviders(view *state.View, job *model.Job) (warnings []string) {
	known := map[string]bool{"": true, "nomad": true}
	for _, g := range job.TaskGroups {
		services := slices.Clone(g.Services)
		for _, t := range g.Tasks {
			services = append(services, t.Services...)
		}
		for _, s := range services {
			if known[s.Provider] || view.NodeCount() == 0 {
				continue
			}
			known[s.Provider] = true
			if offered(view, s.Provider) {
				continue
			}
			cure := ""
			if s.Provider == "consul" { // the default, which most people did not choose
				cure = `: give nodes a consul block (docs/consul.md), or write provider = "nomad"`
			}
			warnings = append(warnings, fmt.Sprintf("no node of the cluster reaches a registry %q, the provider of service %q of group %q, so the group is not placed until one does%s", s.Provider, s.Name, g.Name, cure))
		}
	}
	return warnings
}

// offered reports whether a node reaches a cluster of a registry: it then has an attribute
// with the version (see sdk/registry/v1).
func offered(view *state.View, registry string) bool {
	for n := range view.Nodes() {
		for name := range n.Attributes {
			if strings.HasPrefix(name, registry+".") && strings.HasSuffix(name, ".version") {
				return true
			}
		}
	}
	return false
}

// neverInPlace returns warnings for tasks with in-place updates of resources whose driver
// supports them on no node.
func neverInPlace(view *state.View, job *model.Job) (warnings []string) {
	var here, able map[string]bool // drivers
	for _, g := range job.TaskGroups {
		if g.Update == nil || g.Update.Resources != model.UpdateInPlace {
			continue
		}
		if here == nil {
			here, able = driversThatResize(view)
		}
		for _, t := range g.Tasks {
			if here[t.Driver] && !able[t.Driver] {
				warnings = append(warnings, fmt.Sprintf("update.resources of group %q has no effect: driver %q of task %q cannot change the resources of a running task, so such a change replaces the allocations", g.Name, t.Driver, t.Name))
			}
		}
	}
	return warnings
}

// driversThatResize returns the drivers that nodes have, and which of them can change the
// resources of a running task on some node.
func driversThatResize(view *state.View) (here, able map[string]bool) {
	here, able = map[string]bool{}, map[string]bool{}
	for n := range view.Nodes() {
		for name, d := range n.Drivers {
			if d != nil && d.Detected {
				here[name] = true
				able[name] = able[name] || n.UpdatesResources(name)
			}
		}
	}
	return here, able
}

func texts(findings []driverschema.Finding) []string {
	var out []string
	for i, f := range findings {
		if i == maxFindings {
			out = append(out, fmt.Sprintf("and %d more like these", len(findings)-i))
			break
		}
		out = append(out, f.String())
	}
	return out
}

// withProblems adds problems to a validation error, which may be nil.
func withProblems(err error, problems []string) error {
	var all model.ValidationError
	if err != nil && !errors.As(err, &all) {
		all = model.ValidationError{err}
	}
	all = append(model.ValidationError{}, all...)
	for _, p := range problems {
		all = append(all, errors.New(p))
	}
	return all
}
