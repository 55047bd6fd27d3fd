// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// FillDefaults sets every unset value of the draft that has a default, except for those that
// only Canonical sets. /v1/jobs/parse returns the result if a canonical draft is requested.
func (j *Draft) FillDefaults() {
	j.normalize()
	setIfNil(&j.ID, "")
	setIfNil(&j.Name, *j.ID)
	setIfNil(&j.ParentID, "")
	setIfEmpty(&j.Namespace, model.DefaultNamespace)
	setIfEmpty(&j.Region, model.DefaultRegion)
	setIfEmpty(&j.Type, model.JobTypeService)
	setIfNil(&j.NodePool, "")
	if j.Priority == nil || *j.Priority == 0 {
		j.Priority = ptr(model.JobDefaultPriority)
	}
	setIfNil(&j.AllAtOnce, false)
	for _, s := range []**string{&j.ConsulNamespace, &j.VaultNamespace, &j.NomadTokenID, &j.Status, &j.StatusDescription} {
		setIfNil(s, "")
	}
	setIfNil(&j.Stop, false)
	setIfNil(&j.Stable, false)
	for _, n := range []**uint64{&j.Version, &j.CreateIndex, &j.ModifyIndex, &j.JobModifyIndex} {
		setIfNil(n, 0)
	}
	j.fillRules()
	weigh(j.Affinities, j.Spreads)
	fillDependencies(j.DependsOn)
	for _, g := range j.TaskGroups {
		g.fillDefaults(j)
	}
}

func setIfEmpty(p **string, v string) {
	if *p == nil || **p == "" {
		*p = &v
	}
}

// fillRules fills in the blocks that control when and how a job runs.
func (j *Draft) fillRules() {
	if p := j.Periodic; p != nil {
		setIfNil(&p.Enabled, true)
		setIfNil(&p.Spec, "")
		setIfNil(&p.SpecType, "cron")
		setIfNil(&p.ProhibitOverlap, false)
		setIfEmpty(&p.TimeZone, "UTC")
		if p.Specs == nil {
			p.Specs = []string{}
		}
	}
	if p := j.ParameterizedJob; p != nil && p.Payload == "" {
		p.Payload = "optional"
	}
	if m := j.Multiregion; m != nil && m.Strategy != nil {
		setIfNil(&m.Strategy.MaxParallel, 0)
		setIfNil(&m.Strategy.OnFailure, "")
	}
	if j.Update != nil {
		j.Update.fillDefaults()
	} else if *j.Type == model.JobTypeService {
		j.Update = &UpdateStrategy{}
		j.Update.fillDefaults()
	}
}

func (u *UpdateStrategy) fillDefaults() {
	setIfNil(&u.MaxParallel, 1)
	setIfNil(&u.Stagger, seconds(30))
	setIfNil(&u.HealthCheck, "checks")
	setIfNil(&u.MinHealthyTime, seconds(10))
	setIfNil(&u.HealthyDeadline, minutes(5))
	setIfNil(&u.ProgressDeadline, minutes(10))
	setIfNil(&u.AutoRevert, false)
	setIfNil(&u.AutoPromote, false)
	setIfNil(&u.Canary, 0)
}

// inherit sets unset fields of u from parent.
func (u *UpdateStrategy) inherit(parent *UpdateStrategy) {
	inherit(&u.MaxParallel, parent.MaxParallel)
	inherit(&u.Stagger, parent.Stagger)
	inherit(&u.HealthCheck, parent.HealthCheck)
	inherit(&u.MinHealthyTime, parent.MinHealthyTime)
	inherit(&u.HealthyDeadline, parent.HealthyDeadline)
	inherit(&u.ProgressDeadline, parent.ProgressDeadline)
	inherit(&u.AutoRevert, parent.AutoRevert)
	inherit(&u.AutoPromote, parent.AutoPromote)
	inherit(&u.Canary, parent.Canary)
	inherit(&u.Resources, parent.Resources)
}

func inherit[T any](p **T, parent *T) {
	if *p == nil && parent != nil {
		*p = ptr(*parent)
	}
}

func (m *MigrateStrategy) fillDefaults() {
	setIfNil(&m.MaxParallel, 1)
	setIfNil(&m.HealthCheck, "checks")
	setIfNil(&m.MinHealthyTime, seconds(10))
	setIfNil(&m.HealthyDeadline, minutes(5))
}

// fillDefaults fills in a restart policy; the defaults depend on the job's type.
func (r *RestartPolicy) fillDefaults(jobType string) {
	attempts, interval := 2, minutes(30)
	if jobType == model.JobTypeBatch || jobType == model.JobTypeSysBatch {
		attempts, interval = 3, minutes(24*60)
	}
	setIfNil(&r.Attempts, attempts)
	setIfNil(&r.Interval, interval)
	setIfNil(&r.Delay, seconds(15))
	setIfEmpty(&r.Mode, model.RestartPolicyModeFail)
	setIfNil(&r.RenderTemplates, false)
}

func (r *RestartPolicy) inherit(parent *RestartPolicy) {
	inherit(&r.Attempts, parent.Attempts)
	inherit(&r.Interval, parent.Interval)
	inherit(&r.Delay, parent.Delay)
	inherit(&r.Mode, parent.Mode)
	inherit(&r.RenderTemplates, parent.RenderTemplates)
}

// defaultReschedule returns the reschedule policy of a job that has none.
func defaultReschedule(jobType string) *ReschedulePolicy {
	if jobType == model.JobTypeBatch {
		return &ReschedulePolicy{
			Attempts: ptr(1), Interval: ptr(minutes(24 * 60)), Unlimited: ptr(false),
			Delay: ptr(seconds(5)), DelayFunction: ptr(model.DelayFunctionConstant), MaxDelay: ptr(Duration(0)),
		}
	}
	return &ReschedulePolicy{
		Attempts: ptr(0), Interval: ptr(Duration(0)), Unlimited: ptr(true),
		Delay: ptr(seconds(30)), DelayFunction: ptr(model.DelayFunctionExponential), MaxDelay: ptr(Duration(time.Hour)),
	}
}

// fillDefaults fills in a reschedule policy; the defaults depend on the job's type. Limited
// and unlimited attempts exclude each other: of what is written, the other half follows.
func (r *ReschedulePolicy) fillDefaults(jobType string) {
	switch {
	case r.Unlimited != nil && *r.Unlimited:
		setIfNil(&r.Attempts, 0)
		setIfNil(&r.Interval, 0)
	case r.Attempts != nil && *r.Attempts > 0:
		setIfNil(&r.Unlimited, false)
	}
	d := defaultReschedule(jobType)
	setIfEmpty(&r.DelayFunction, *d.DelayFunction)
	r.inherit(d)
}

func (r *ReschedulePolicy) inherit(parent *ReschedulePolicy) {
	inherit(&r.Attempts, parent.Attempts)
	inherit(&r.Interval, parent.Interval)
	inherit(&r.Delay, parent.Delay)
	inherit(&r.DelayFunction, parent.DelayFunction)
	inherit(&r.MaxDelay, parent.MaxDelay)
	inherit(&r.Unlimited, parent.Unlimited)
}

// weigh sets the default weights of affinities and spreads.
func weigh(affinities []*Affinity, spreads []*Spread) {
	for _, a := range affinities {
		setIfNil(&a.Weight, 50)
	}
	for _, s := range spreads {
		setIfNil(&s.Weight, 50)
	}
}
