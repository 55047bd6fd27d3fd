// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"strings"
	"time"

	"github.com/drover-project/drover/core/cron"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a job.
const (
	maxNameLength = 128 // of jobs, groups and tasks
	maxGroupCount = 1_000_000
)

// DefaultMaxCount is the default limit of the number of allocs in all groups of a job.
const DefaultMaxCount = 50_000

// CheckCount returns an error of class InvalidArgument if a job requests more allocs
// than limit, or more in a group than any job may. It ignores groups of system jobs,
// which run once on each node.
func (j *Job) CheckCount(limit int) error {
	if j.Type == JobTypeSystem || j.Type == JobTypeSysBatch {
		return nil
	}
	total := 0
	for _, tg := range j.TaskGroups {
		var p ValidationError
		if tg.validateCount(&p); len(p) > 0 {
			return errdefs.InvalidArgumentf("Task group %s: %w", tg.Name, p[0])
		}
		total += tg.Count // no overflow: each count is at most maxGroupCount, and no job in memory has 10^12 groups
	}
	if total > limit {
		return errdefs.InvalidArgumentf("total count was greater than configured job_max_count: %d > %d", total, limit)
	}
	return nil
}

// Validate returns all problems of the job as a ValidationError, or nil.
func (j *Job) Validate() error { return j.ValidateUpTo(JobMaxPriority) }

// ValidateUpTo is Validate with another maximum priority.
func (j *Job) ValidateUpTo(maxPriority int) error {
	var p ValidationError
	if err := j.checkSize(); err != nil {
		return ValidationError{err}
	}
	if j.Region == "" {
		p.addf("Missing job region")
	}
	j.validateNames(&p)
	j.validateType(&p)
	if j.Priority < JobMinPriority || j.Priority > maxPriority {
		p.addf("Job priority must be between [%d, %d]", JobMinPriority, maxPriority)
	}
	if len(j.Datacenters) == 0 && !j.multiregionHasDatacenters() {
		p.addf("Missing job datacenters")
	}
	for _, dc := range j.Datacenters {
		if dc == "" {
			p.addf("Job datacenter must be non-empty string")
		}
	}
	validateConstraints(&p, j.Constraints)
	validateAffinities(&p, j.Affinities)
	validateSpreads(&p, j.Spreads)
	j.validateRules(&p)
	j.validateGroups(&p)
	j.validateHolds(&p)
	j.validateFields(&p)
	return p.err()
}

func (j *Job) multiregionHasDatacenters() bool {
	if j.Multiregion == nil || len(j.Multiregion.Regions) == 0 {
		return false
	}
	for _, r := range j.Multiregion.Regions {
		if len(r.Datacenters) == 0 {
			return false
		}
	}
	return true
}

func (j *Job) validateNames(p *ValidationError) {
	switch {
	case j.ID == "":
		p.addf("Missing job ID")
	case strings.Contains(j.ID, " "):
		p.addf("Job ID contains a space")
	case strings.Contains(j.ID, "\000"):
		p.addf("Job ID contains a null character")
	}
	switch {
	case j.Name == "":
		p.addf("Missing job name")
	case strings.Contains(j.Name, "\000"):
		p.addf("Job Name contains a null character")
	}
	if len(j.ID) > maxNameLength*2 {
		p.addf("Job ID is longer than %d bytes", maxNameLength*2)
	}
	if j.Namespace == "" {
		p.addf("Job must be in a namespace")
	}
}

func (j *Job) validateType(p *ValidationError) {
	switch j.Type {
	case JobTypeService, JobTypeBatch, JobTypeSystem, JobTypeSysBatch, JobTypeCore:
	case "":
		p.addf("Missing job type")
	default:
		p.addf("Invalid job type: %q", j.Type)
	}
	if j.Type == JobTypeSystem || j.Type == JobTypeSysBatch {
		if len(j.Affinities) > 0 {
			p.addf("System jobs may not have an affinity block")
		}
		if len(j.Spreads) > 0 {
			p.addf("System jobs may not have a spread block")
		}
	}
}

func (j *Job) validateRules(p *ValidationError) {
	batch := j.Completes()
	if c := j.Periodic; c != nil {
		if !batch {
			p.addf("Periodic can only be used with %q or %q scheduler", JobTypeBatch, JobTypeSysBatch)
		}
		if c.Enabled && c.Spec == "" && len(c.Specs) == 0 {
			p.addf("Must specify a spec")
		}
		if c.Spec != "" && len(c.Specs) > 0 {
			p.addf("Only cron or crons may be used")
		}
		if c.SpecType != "" && c.SpecType != "cron" {
			p.addf("Unknown periodic specification type %q", c.SpecType)
		}
		c.validateTimes(p)
	}
	if c := j.ParameterizedJob; c != nil {
		if !batch {
			p.addf("Parameterized job can only be used with %q or %q scheduler", JobTypeBatch, JobTypeSysBatch)
		}
		switch c.Payload {
		case "", "optional", "required", "forbidden":
		default:
			p.addf("Unknown payload requirement: %q", c.Payload)
		}
		for _, key := range c.MetaRequired {
			for _, other := range c.MetaOptional {
				if key == other {
					p.addf("Required and optional meta keys should be disjoint. Following keys exist in both: %s", key)
				}
			}
		}
	}
}

// validateTimes checks the cron expressions and their time zone.
func (c *PeriodicConfig) validateTimes(p *ValidationError) {
	if !c.Enabled && c.Spec == "" && len(c.Specs) == 0 {
		return
	}
	zone := c.TimeZone
	if _, err := cron.Zone(zone); err != nil {
		p.addf("Invalid time zone %q: %w", zone, err)
		zone = ""
	}
	specs := c.Specs
	if c.Spec != "" {
		specs = append([]string{c.Spec}, specs...)
	}
	if len(specs) > cron.MaxExpressions {
		p.addf("Job has %d cron specs; at most %d are allowed", len(specs), cron.MaxExpressions)
		return
	}
	for _, spec := range specs {
		if s, err := cron.New([]string{spec}, zone); err != nil {
			p.addf("Invalid cron spec %q: %w", spec, err)
		} else if s.Next(time.Unix(0, 0)).IsZero() {
			p.addf("Invalid cron spec %q: it never fires; there is no such date", spec)
		}
	}
}

func (j *Job) validateGroups(p *ValidationError) {
	if len(j.TaskGroups) == 0 {
		p.addf("Missing job task groups")
	}
	seen := map[string]int{}
	for i, g := range j.TaskGroups {
		switch first, ok := seen[g.Name]; {
		case g.Name == "":
			p.addf("Job task group %d missing name", i+1)
		case ok:
			p.addf("Job task group %d redefines '%s' from group %d", i+1, g.Name, first)
		default:
			seen[g.Name] = i + 1
		}
		if g.Count > 1 && (j.Type == JobTypeSystem || j.Type == JobTypeSysBatch) {
			p.addf("Job task group %s has count %d. Count cannot exceed 1 with system scheduler", g.Name, g.Count)
		}
	}
	for _, g := range j.TaskGroups {
		p.under("Task group "+g.Name+" validation failed", g.validate(j))
	}
}
