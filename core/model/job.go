// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// Job types: how the scheduler treats a job.
const (
	JobTypeCore     = "_core"    // internal work of the servers (garbage collection)
	JobTypeService  = "service"  // long lived; kept running and rescheduled
	JobTypeBatch    = "batch"    // runs to completion
	JobTypeSystem   = "system"   // one alloc on every feasible node
	JobTypeSysBatch = "sysbatch" // runs to completion once on every feasible node
)

// Job statuses, derived from the job's allocs and evals (see state.JobStatus).
const (
	JobStatusPending = "pending" // nothing of the job runs yet
	JobStatusRunning = "running" // has an alloc that is not terminal, or is periodic or parameterized
	JobStatusDead    = "dead"    // stopped, or all of its allocs have ended
)

// Limits and defaults of a job's priority.
const (
	JobMinPriority     = 1
	JobDefaultPriority = 50
	JobMaxPriority     = 100
)

// Names of objects that a new cluster contains.
const (
	DefaultNamespace = "default"
	DefaultRegion    = "global"
)

// Job is a user's request: groups of tasks with rules for their placement and their
// life. A job is stored once per version; allocs refer to it.
type Job struct {
	Region    string // region that runs the job
	Namespace string // namespace that owns ID
	ID        string // unique within Namespace
	ParentID  string // set on children of periodic and parameterized jobs
	Name      string // for people; defaults to ID

	Type        string   // one of the JobType constants
	Priority    int      // JobMinPriority..JobMaxPriority, higher is scheduled first
	AllAtOnce   bool     // place all or nothing
	Datacenters []string // globs; a node must match one of them
	NodePool    string

	Constraints []*Constraint
	Affinities  []*Affinity
	Spreads     []*Spread
	TaskGroups  []*TaskGroup
	Update      UpdateStrategy // template for groups without their own; kept for the API

	Multiregion      *Multiregion
	Periodic         *PeriodicConfig
	ParameterizedJob *ParameterizedJobConfig

	Dispatched               bool   // a child that was created by dispatching a parameterized job
	DispatchIdempotencyToken string // deduplicates dispatches
	Payload                  []byte // dispatch payload, not compressed

	Meta            map[string]string
	ConsulNamespace string
	VaultNamespace  string
	NomadTokenID    string

	Status            string // derived, see JobStatus constants
	StatusDescription string
	Stable            bool // this version's deployment succeeded
	Stop              bool // the user asked for the job to end
	Version           uint64
	SubmitTime        int64 // Unix ns
	VersionTag        *JobVersionTag
	UI                *JobUIConfig

	CreateIndex    uint64 // raft index of the first version
	ModifyIndex    uint64 // raft index of any change, status included
	JobModifyIndex uint64 // raft index of the last change of the specification

	DependsOn []*Dependency `json:",omitempty"` // jobs of the namespace that come first
}

// JobVersionTag is a user's name for one version of a job.
type JobVersionTag struct {
	Name        string
	Description string
	TaggedTime  int64 // Unix ns
}

// JobUIConfig is what user interfaces show about a job.
type JobUIConfig struct {
	Description string
	Links       []*JobUILink
}

// JobUILink is a link that user interfaces show on a job.
type JobUILink struct {
	Label string
	URL   string
}

// PeriodicConfig launches child jobs at the times of cron expressions.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string   // one cron expression
	Specs           []string // several cron expressions; excludes Spec
	SpecType        string   // "cron"
	ProhibitOverlap bool     // do not launch while a child is running
	TimeZone        string   // IANA name; "UTC" by default
}

// ParameterizedJobConfig makes a job a template for dispatches.
type ParameterizedJobConfig struct {
	Payload      string // "optional", "required" or "forbidden"
	MetaRequired []string
	MetaOptional []string
}

// Multiregion describes a job that is registered in several regions.
type Multiregion struct {
	Strategy *MultiregionStrategy
	Regions  []*MultiregionRegion
}

// MultiregionStrategy orders the roll-out over regions.
type MultiregionStrategy struct {
	MaxParallel int
	OnFailure   string
}

// MultiregionRegion overrides a job's values in one region.
type MultiregionRegion struct {
	Name        string
	Count       int
	Datacenters []string
	NodePool    string
	Meta        map[string]string
}

// JobKey names a job across namespaces.
type JobKey struct {
	Namespace string
	ID        string
}

// Key returns the job's key.
func (j *Job) Key() JobKey { return JobKey{j.Namespace, j.ID} }

// LookupTaskGroup returns the group called name, or nil.
func (j *Job) LookupTaskGroup(name string) *TaskGroup {
	if j == nil {
		return nil
	}
	for _, tg := range j.TaskGroups {
		if tg.Name == name {
			return tg
		}
	}
	return nil
}

// Owns reports whether a is an alloc of this job and not of one of the same name
// that was purged before this one was registered.
func (j *Job) Owns(a *Allocation) bool { return a.CreateIndex == 0 || a.CreateIndex >= j.CreateIndex }

// Stopped reports whether the job should not run: it does not exist or a user stopped
// it.
func (j *Job) Stopped() bool { return j == nil || j.Stop }

// IsPeriodic reports whether the job launches children by time.
func (j *Job) IsPeriodic() bool { return j.Periodic != nil }

// IsPeriodicActive reports whether the job currently launches children.
func (j *Job) IsPeriodicActive() bool {
	return j.IsPeriodic() && j.Periodic.Enabled && !j.Stopped() && !j.IsParameterized()
}

// IsParameterized reports whether the job is a template for dispatches.
func (j *Job) IsParameterized() bool { return j.ParameterizedJob != nil && !j.Dispatched }

// HasUpdateStrategy reports whether a change of the job rolls out as a deployment.
func (j *Job) HasUpdateStrategy() bool {
	for _, tg := range j.TaskGroups {
		if !tg.Update.IsEmpty() {
			return true
		}
	}
	return false
}
