// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import "time"

func ptr[T any](v T) *T { return &v }

// setIfNil sets *p to v if it is nil.
func setIfNil[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

func seconds(n int64) Duration { return Duration(n * int64(time.Second)) }
func minutes(n int64) Duration { return Duration(n * int64(time.Minute)) }

// normalize converts the author's notation to the form of the API, and sets the few
// defaults that belong to the language and not to the job.
func (j *Draft) normalize() {
	for _, t := range j.Tasks {
		name := t.Name
		j.TaskGroups = append(j.TaskGroups, &TaskGroup{Name: &name, Tasks: []*Task{t}})
	}
	j.Tasks = nil
	normalizeConstraints(j.Constraints, j.Affinities)
	if j.Periodic != nil {
		setIfNil(&j.Periodic.SpecType, "cron")
	}
	for _, g := range j.TaskGroups {
		if g.VaultBlock == nil {
			g.VaultBlock = j.VaultBlock
		}
		g.normalize()
	}
	j.VaultBlock = nil
}

func (g *TaskGroup) normalize() {
	normalizeConstraints(g.Constraints, g.Affinities)
	normalizeNetworks(g.Networks)
	if g.Scaling != nil && g.Scaling.Type == "" {
		g.Scaling.Type = "horizontal"
	}
	for _, t := range g.Tasks {
		if t.Vault == nil && g.VaultBlock != nil {
			v := *g.VaultBlock
			t.Vault = &v
		}
		t.normalize()
	}
	g.VaultBlock = nil
}

func (t *Task) normalize() {
	normalizeConstraints(t.Constraints, t.Affinities)
	if r := t.Resources; r != nil {
		normalizeNetworks(r.Networks)
		for _, dev := range r.Devices {
			normalizeConstraints(dev.Constraints, dev.Affinities)
		}
	}
	for _, tmpl := range t.Templates {
		setIfNil(&tmpl.ChangeMode, "restart")
		setIfNil(&tmpl.Splay, seconds(5))
		setIfNil(&tmpl.Perms, "0644")
		setIfNil(&tmpl.ErrMissingKey, false)
	}
	if t.Vault != nil {
		setIfNil(&t.Vault.Env, true)
		setIfNil(&t.Vault.DisableFile, false)
		setIfNil(&t.Vault.ChangeMode, "restart")
	}
	t.splitIdentities()
}

// splitIdentities moves the default identity from the list to its field.
func (t *Task) splitIdentities() {
	if len(t.Identities) == 0 {
		return
	}
	rest := []*WorkloadIdentity{}
	for _, id := range t.Identities {
		if id.Name == "" || id.Name == "default" {
			t.Identity = id
			continue
		}
		rest = append(rest, id)
	}
	t.Identities = rest
}

func normalizeConstraints(cs []*Constraint, as []*Affinity) {
	for _, c := range cs {
		if c.Operand == "" {
			c.Operand = "="
		}
	}
	for _, a := range as {
		if a.Operand == "" {
			a.Operand = "="
		}
	}
}

// normalizeNetworks moves ports with a fixed number to the reserved ports.
func normalizeNetworks(networks []*NetworkResource) {
	for _, n := range networks {
		var dynamic []Port
		for _, p := range n.DynamicPorts {
			if p.Value > 0 {
				n.ReservedPorts = append(n.ReservedPorts, p)
			} else {
				dynamic = append(dynamic, p)
			}
		}
		n.DynamicPorts = dynamic
	}
}
