// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Canonical returns the job that the draft describes, with all defaults filled in and
// implied constraints added. It does not change the draft. The job may be invalid;
// model.Job.Validate checks it.
func (j *Draft) Canonical() (*model.Job, error) {
	copied, err := j.Canonicalized()
	if err != nil {
		return nil, err
	}
	job := &model.Job{}
	assign(reflect.ValueOf(job).Elem(), reflect.ValueOf(copied).Elem())
	if job.NodePool == "" {
		job.NodePool = "default"
	}
	if len(job.Datacenters) == 0 { // a parsed job has none, as with the reference
		job.Datacenters = []string{"*"}
	}
	// Roll-outs are configured per group; of the job's own block only the two fields
	// that older clients know are kept.
	job.Update = model.UpdateStrategy{Stagger: job.Update.Stagger, MaxParallel: job.Update.MaxParallel}
	for _, g := range job.TaskGroups {
		canonicalGroup(job, g)
	}
	return job, nil
}

// Canonicalized returns a copy of the draft with every default filled in.
func (j *Draft) Canonicalized() (*Draft, error) {
	out, err := j.copy()
	if err != nil {
		return nil, err
	}
	out.FillDefaults()
	return out, nil
}

// copy copies the draft through JSON, so that nothing is shared.
func (j *Draft) copy() (*Draft, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("the job cannot be written as JSON: %w", err)
	}
	out := &Draft{}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		return nil, errdefs.InvalidArgumentf("the job cannot be read back from JSON: %w", err)
	}
	if err := model.NoNulls("Job", out); err != nil {
		return nil, err
	}
	plainNumbers(reflect.ValueOf(out))
	return out, nil
}

// plainNumbers converts json.Number in free content to int or float64.
func plainNumbers(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plainNumbers(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			plainNumbers(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			plainNumbers(v.Index(i))
		}
	case reflect.Map:
		if m, ok := v.Interface().(map[string]any); ok {
			for k, e := range m {
				m[k] = plainNumber(e)
			}
			return
		}
		for it := v.MapRange(); it.Next(); {
			plainNumbers(it.Value())
		}
	}
}

func plainNumber(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = plainNumber(v[i])
		}
	case map[string]any:
		for k, e := range v {
			v[k] = plainNumber(e)
		}
	}
	return v
}

func canonicalGroup(job *model.Job, g *model.TaskGroup) {
	canonicalNetworks(g.Networks)
	for _, s := range g.Services {
		canonicalService(job, g, nil, s)
	}
	if g.Scaling != nil {
		g.Scaling.Target = map[string]string{"Namespace": job.Namespace, "Job": job.ID, "Group": g.Name}
	}
	for _, t := range g.Tasks {
		canonicalTask(job, g, t)
	}
	addImplied(g)
}

func canonicalTask(job *model.Job, g *model.TaskGroup, t *model.Task) {
	for _, s := range t.Services {
		canonicalService(job, g, t, s)
	}
	if t.Resources != nil {
		canonicalNetworks(t.Resources.Networks)
	}
	for _, s := range t.ScalingPolicies {
		s.Target = map[string]string{"Namespace": job.Namespace, "Job": job.ID, "Group": g.Name, "Task": t.Name}
	}
	if t.Identity == nil {
		t.Identity = &model.WorkloadIdentity{}
	}
	t.Identity.Name = "default"
	if len(t.Identity.Audience) == 0 {
		t.Identity.Audience = []string{model.DefaultAudience}
	}
	if len(t.Identities) == 0 {
		t.Identities = nil
	}
}

func canonicalNetworks(networks []*model.NetworkResource) {
	for _, n := range networks {
		for _, ports := range [][]model.Port{n.ReservedPorts, n.DynamicPorts} {
			for i := range ports {
				setIfBlank(&ports[i].HostNetwork, "default")
			}
		}
	}
}

// canonicalService sets the default names of the service and its checks.
func canonicalService(job *model.Job, g *model.TaskGroup, t *model.Task, s *model.Service) {
	task := ""
	base := job.Name + "-" + g.Name
	if t != nil {
		task = t.Name
		base += "-" + task
		setIfBlank(&s.TaskName, task)
	}
	setIfBlank(&s.Name, base)
	s.Name = strings.NewReplacer("${JOB}", job.Name, "${TASKGROUP}", g.Name, "${TASK}", task, "${BASE}", base).Replace(s.Name)
	setIfBlank(&s.Namespace, "default")
	if s.Provider == "nomad" {
		s.Namespace = job.Namespace
	}
	s.NameIdentity(task)
	for _, c := range s.Checks {
		setIfBlank(&c.Name, fmt.Sprintf("service: %q check", s.Name))
	}
}

// addImplied adds the constraints that follow from the features that a group uses:
// only nodes with these features can run the group.
func addImplied(g *model.TaskGroup) {
	uses := map[string]bool{}
	services := g.Services
	for _, t := range g.Tasks {
		services = append(services[:len(services):len(services)], t.Services...)
		if t.Vault != nil {
			uses["vault"] = true
		}
	}
	var registries []model.Constraint // of clusters that have no row below
	for _, s := range services {
		if c, ok := reaches(g, s); ok {
			registries = append(registries, c)
			continue
		}
		uses[s.Provider] = true
	}
	for _, n := range g.Networks {
		if n.Mode == "bridge" {
			uses["bridge"] = true
		}
	}
	for _, implied := range []struct {
		use string
		c   model.Constraint
	}{
		{"nomad", model.Constraint{LTarget: "${attr.nomad.service_discovery}", RTarget: "true", Operand: "="}},
		{"nomad", model.Constraint{LTarget: "${attr.nomad.version}", RTarget: ">= 1.4.0", Operand: model.ConstraintSemver}},
		{"consul", model.Constraint{LTarget: "${attr.consul.version}", RTarget: ">= 1.8.0", Operand: model.ConstraintSemver}},
		{"vault", model.Constraint{LTarget: "${attr.vault.version}", RTarget: ">= 0.6.1", Operand: model.ConstraintSemver}},
		{"bridge", model.Constraint{LTarget: "${attr.plugins.cni.version.bridge}", RTarget: ">= 0.4.0", Operand: model.ConstraintSemver}},
	} {
		if uses[implied.use] && !hasConstraint(g.Constraints, implied.c) {
			c := implied.c
			g.Constraints = append(g.Constraints, &c)
		}
	}
	slices.SortFunc(registries, func(a, b model.Constraint) int { return strings.Compare(a.LTarget, b.LTarget) })
	for _, c := range registries {
		if !hasConstraint(g.Constraints, c) {
			g.Constraints = append(g.Constraints, &c)
		}
	}
}

// reaches returns the constraint on the nodes from which a service of a group can be
// registered in another cluster than Consul's default one. A node that reaches a cluster of a
// registry has an attribute with its version; of what another registry than Consul counts as
// a version, nothing is known.
func reaches(g *model.TaskGroup, s *model.Service) (model.Constraint, bool) {
	of := func(cluster string) string {
		if cluster == "" || cluster == "default" {
			return "${attr." + s.Provider + ".version}"
		}
		return "${attr." + s.Provider + "." + cluster + ".version}"
	}
	switch s.Provider {
	case "", "nomad":
		return model.Constraint{}, false
	case "consul":
		c := clusterOf(g, s)
		return model.Constraint{LTarget: of(c), RTarget: ">= 1.8.0", Operand: model.ConstraintSemver}, c != "" && c != "default"
	}
	return model.Constraint{LTarget: of(s.Cluster), Operand: model.ConstraintAttributeIsSet}, true
}

// clusterOf returns the Consul cluster of a service of a group: its own, or else that of its
// task or group.
func clusterOf(g *model.TaskGroup, s *model.Service) string {
	if s.Cluster != "" && s.Cluster != "default" {
		return s.Cluster
	}
	own := g.Consul
	for _, t := range g.Tasks {
		if t.Consul != nil && slices.Contains(t.Services, s) {
			own = t.Consul
		}
	}
	if own != nil {
		return own.Cluster
	}
	return s.Cluster
}

func hasConstraint(cs []*model.Constraint, want model.Constraint) bool {
	for _, c := range cs {
		if c != nil && *c == want {
			return true
		}
	}
	return false
}
