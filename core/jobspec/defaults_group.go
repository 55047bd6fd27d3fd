// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"path"

	"github.com/drover-project/drover/core/model"
)

func (g *TaskGroup) fillDefaults(j *Draft) {
	setIfNil(&g.Name, "")
	g.fillScaling()
	if g.Count == nil {
		g.Count = ptr(1)
		if g.Scaling != nil && g.Scaling.Min != nil {
			g.Count = ptr(int(*g.Scaling.Min))
		}
	}
	if g.Scaling != nil {
		setIfNil(&g.Scaling.Min, int64(*g.Count))
	}
	g.fillRules(j)
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &EphemeralDisk{}
	}
	setIfNil(&g.EphemeralDisk.SizeMB, 300)
	setIfNil(&g.EphemeralDisk.Sticky, false)
	setIfNil(&g.EphemeralDisk.Migrate, false)
	if d := g.Disconnect; d != nil {
		setIfNil(&d.Replace, true)
		setIfEmpty(&d.Reconcile, "best_score")
	}
	if g.Consul != nil && g.Consul.Cluster == "" {
		g.Consul.Cluster = "default"
	}
	weigh(g.Affinities, g.Spreads)
	for _, s := range g.Services {
		s.fillDefaults()
	}
	for name, v := range g.Volumes {
		if v != nil && v.Name == "" {
			v.Name = name
		}
	}
	fillDependencies(g.DependsOn)
	for _, t := range g.Tasks {
		t.fillDefaults(j, g)
	}
}

func fillDependencies(list []*Dependency) {
	for _, d := range list {
		if d.Condition == "" {
			d.Condition = model.DependencyStarted
		}
	}
}

func (g *TaskGroup) fillScaling() {
	if s := g.Scaling; s != nil {
		setIfNil(&s.Enabled, true)
	}
}

// fillRules fills in restart, reschedule, update and migrate, by job type.
func (g *TaskGroup) fillRules(j *Draft) {
	jobType := *j.Type
	if g.RestartPolicy == nil {
		g.RestartPolicy = &RestartPolicy{}
	}
	g.RestartPolicy.fillDefaults(jobType)

	switch jobType {
	case model.JobTypeService, model.JobTypeBatch:
		if g.ReschedulePolicy == nil {
			g.ReschedulePolicy = &ReschedulePolicy{}
		}
		if j.Reschedule != nil {
			g.ReschedulePolicy.inherit(j.Reschedule)
		}
		g.ReschedulePolicy.fillDefaults(jobType)
	}
	if j.Update != nil && jobType != model.JobTypeBatch && jobType != model.JobTypeSysBatch || g.Update != nil {
		if g.Update == nil {
			g.Update = &UpdateStrategy{}
		}
		if j.Update != nil {
			g.Update.inherit(j.Update)
		}
		g.Update.fillDefaults()
	}
	if jobType == model.JobTypeService {
		if g.Migrate == nil {
			g.Migrate = &MigrateStrategy{}
			if j.Migrate != nil {
				*g.Migrate = *j.Migrate
			}
		}
		g.Migrate.fillDefaults()
	}
}

func (t *Task) fillDefaults(j *Draft, g *TaskGroup) {
	if t.Resources == nil {
		t.Resources = &Resources{}
	}
	t.Resources.fillDefaults()
	setIfNil(&t.KillTimeout, seconds(5))
	if t.LogConfig == nil {
		t.LogConfig = &LogConfig{}
	}
	t.LogConfig.fillDefaults()
	if t.RestartPolicy == nil {
		t.RestartPolicy = &RestartPolicy{}
	}
	t.RestartPolicy.inherit(g.RestartPolicy)
	t.RestartPolicy.fillDefaults(*j.Type)
	fillDependencies(t.DependsOn)
	for _, a := range t.Artifacts {
		a.fillDefaults()
	}
	for _, tmpl := range t.Templates {
		tmpl.fillDefaults()
	}
	for _, m := range t.VolumeMounts {
		setIfNil(&m.Volume, "")
		setIfNil(&m.Destination, "")
		setIfNil(&m.ReadOnly, false)
		setIfEmpty(&m.PropagationMode, "private")
		setIfNil(&m.SELinuxLabel, "")
	}
	for _, s := range t.ScalingPolicies {
		setIfNil(&s.Enabled, true)
		setIfNil(&s.Min, 0)
	}
	for _, s := range t.Services {
		s.fillDefaults()
	}
	if t.Consul != nil && t.Consul.Cluster == "" {
		t.Consul.Cluster = "default"
	}
	t.fillVault()
	if c := t.CSIPluginConfig; c != nil {
		if c.MountDir == "" {
			c.MountDir = "/csi"
		}
		if c.StagePublishBaseDir == "" {
			c.StagePublishBaseDir = "/local/csi"
		}
		if c.HealthTimeout == 0 {
			c.HealthTimeout = seconds(30)
		}
	}
	weigh(t.Affinities, nil)
}

func (t *Task) fillVault() {
	if v := t.Vault; v != nil {
		setIfNil(&v.Env, true)
		setIfNil(&v.DisableFile, false)
		setIfNil(&v.Namespace, "")
		setIfEmpty(&v.ChangeMode, "restart")
		setIfNil(&v.ChangeSignal, "SIGHUP")
		setIfNil(&v.AllowTokenExpiration, false)
		if v.Cluster == "" {
			v.Cluster = "default"
		}
	}
}

// fillDefaults fills in the resources of a task: whole cores exclude CPU shares.
func (r *Resources) fillDefaults() {
	setIfNil(&r.Cores, 0)
	if r.CPU == nil {
		r.CPU = ptr(0)
		if *r.Cores == 0 {
			r.CPU = ptr(100)
		}
	}
	setIfNil(&r.MemoryMB, 300)
	for _, d := range r.Devices {
		setIfNil(&d.Count, 1)
		weigh(d.Affinities, nil)
	}
}

func (l *LogConfig) fillDefaults() {
	setIfNil(&l.MaxFiles, 10)
	setIfNil(&l.MaxFileSizeMB, 10)
	if l.Disabled == nil {
		l.Disabled = ptr(l.Enabled != nil && !*l.Enabled)
	}
}

func (a *TaskArtifact) fillDefaults() {
	setIfNil(&a.GetterSource, "")
	setIfEmpty(&a.GetterMode, "any")
	setIfNil(&a.GetterInsecure, false)
	if a.RelativeDest == nil {
		dest := "local/"
		if *a.GetterMode == "file" {
			dest = path.Join("local", path.Base(*a.GetterSource))
		}
		a.RelativeDest = &dest
	}
}

func (t *Template) fillDefaults() {
	for _, s := range []**string{&t.SourcePath, &t.DestPath, &t.EmbeddedTmpl, &t.ChangeSignal} {
		setIfNil(s, "")
	}
	setIfEmpty(&t.ChangeMode, "restart")
	setIfNil(&t.Splay, seconds(5))
	setIfEmpty(&t.Perms, "0644")
	setIfNil(&t.LeftDelim, "{{")
	setIfNil(&t.RightDelim, "}}")
	setIfNil(&t.Envvars, false)
	setIfNil(&t.Once, false)
	setIfNil(&t.ErrMissingKey, false)
	setIfNil(&t.VaultGrace, 0)
	if c := t.ChangeScript; c != nil {
		setIfNil(&c.Command, "")
		setIfNil(&c.Timeout, seconds(5))
		setIfNil(&c.FailOnError, false)
		setIfNil(&c.RunOnFirstRender, false)
	}
	if w := t.Wait; w != nil {
		setIfNil(&w.Min, seconds(5))
		setIfNil(&w.Max, minutes(4))
	}
}

func (s *Service) fillDefaults() {
	setIfBlank(&s.Provider, "consul")
	setIfBlank(&s.AddressMode, "auto")
	setIfBlank(&s.OnUpdate, "require_healthy")
	setIfBlank(&s.Cluster, "default")
	for i := range s.Checks {
		c := &s.Checks[i]
		setIfBlank(&c.OnUpdate, s.OnUpdate)
		if c.CheckRestart == nil && s.CheckRestart != nil {
			copied := *s.CheckRestart
			c.CheckRestart = &copied
		}
		if c.CheckRestart != nil {
			setIfNil(&c.CheckRestart.Grace, seconds(1))
		}
	}
	if s.CheckRestart != nil {
		setIfNil(&s.CheckRestart.Grace, seconds(1))
	}
}

func setIfBlank(p *string, v string) {
	if *p == "" {
		*p = v
	}
}
