// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxJobVersions is the number of versions that are kept per job, besides tagged
// versions and those to which allocs refer.
const maxJobVersions = 6

// jobRow is a job with its versions. After a purge current is nil, and versions are
// kept until the last alloc that refers to them is gone. A job that is registered
// after a purge is a new job whose versions start at 0; its CreateIndex distinguishes
// it from earlier jobs with the same name.
type jobRow struct {
	Namespace   string
	ID          string
	Parent      string
	Purged      bool
	Versions    []*model.Job // newest first, so the first is the current version; versions of earlier jobs are last
	Submissions []*model.JobSubmission
	Scaling     map[string][]*model.ScalingEvent // by group, newest first
}

// JobKey returns the id of a job, and of its summary, in watch keys.
func JobKey(ns, id string) string { return ns + "\x00" + id }

const (
	jobsByParent = iota
	jobsByToken
	jobsOnNodes
)

// TableJobs is the name of the table of jobs.
const TableJobs = "jobs"

// Changes are recorded not for the row but for the current job, and for its versions
// as a table of their own.
var jobTable = &kind[jobRow]{
	heading: heading{name: TableJobs},
	schema: schema[jobRow]{
		id: func(r *jobRow) string { return JobKey(r.Namespace, r.ID) },
		secondaries: []secondary[jobRow]{
			jobsByParent: {name: "parent", key: (*jobRow).parentKey},
			jobsByToken:  {name: "token", key: (*jobRow).tokenKey},
			jobsOnNodes:  {name: "nodes", key: (*jobRow).nodesKey},
		},
	},
	record:  recJob,
	saveAll: (*saver).jobs,
	loadAll: map[byte]func(*loader, *table[jobRow], []byte) error{recGroup: (*loader).group, recJobShared: (*loader).job},
	watched: wakeJob,
}

// TableJobVersions is the name of the table of job versions.
const TableJobVersions = "job_versions"

var jobVersionTable = &part{heading: heading{name: TableJobVersions}, watched: wakeJob}

func wakeJob(row any, wake wakeFunc) {
	job := row.(*model.Job)
	wake("", JobKey(job.Namespace, job.ID))
}

func (r *jobRow) parentKey() string {
	if r.Parent == "" || r.Purged {
		return ""
	}
	return JobKey(r.Namespace, r.Parent)
}

func (r *jobRow) tokenKey() string {
	if j := r.current(); j != nil && j.DispatchIdempotencyToken != "" {
		return tokenKey(r.Namespace, r.Parent, j.DispatchIdempotencyToken)
	}
	return ""
}

// onNodes is the key of system and sysbatch jobs, which run on every node.
const onNodes = "every"

func (r *jobRow) nodesKey() string {
	if j := r.current(); j != nil && (j.Type == model.JobTypeSystem || j.Type == model.JobTypeSysBatch) {
		return onNodes
	}
	return ""
}

func (r *jobRow) current() *model.Job {
	if r == nil || r.Purged {
		return nil
	}
	return r.Versions[0]
}

// version returns a version of the newest job of the row.
func (r *jobRow) version(version uint64) *model.Job {
	if r == nil {
		return nil
	}
	for _, j := range r.Versions {
		if j.Version == version && !r.former(j) {
			return j
		}
	}
	return nil
}

// former reports whether j is a version of an earlier job with the same name, which
// was purged.
func (r *jobRow) former(j *model.Job) bool { return j.CreateIndex != r.Versions[0].CreateIndex }

// of returns the version of the job that an alloc runs.
func (r *jobRow) of(a *model.Allocation) *model.Job {
	if r == nil {
		return nil
	}
	for _, j := range r.Versions {
		if j.Version == a.JobVersion && j.Owns(a) {
			return j
		}
	}
	return nil
}

// JobByID returns the newest version of a job.
func (v *View) JobByID(ns, id string) *model.Job {
	return jobTable.in(v.t).get(JobKey(ns, id)).current()
}

// JobByKey is JobByID for a key returned by JobKey.
func (v *View) JobByKey(key string) *model.Job { return jobTable.in(v.t).get(key).current() }

// JobOf returns the version of its job that an alloc runs, even if the job was purged
// or another job with its name was registered.
func (v *View) JobOf(a *model.Allocation) *model.Job {
	return jobTable.in(v.t).get(JobKey(a.Namespace, a.JobID)).of(a)
}

// JobByVersion returns a version of a job, or of the job that was purged last. For the
// version that an alloc runs use JobOf.
func (v *View) JobByVersion(ns, id string, version uint64) *model.Job {
	return jobTable.in(v.t).get(JobKey(ns, id)).version(version)
}

// JobVersions returns the versions of a job, newest first, without those that are kept
// only because allocs refer to them.
func (v *View) JobVersions(ns, id string) []*model.Job {
	row := jobTable.in(v.t).get(JobKey(ns, id))
	if row.current() == nil {
		return nil
	}
	var out []*model.Job
	untagged := 0
	for _, j := range row.Versions {
		if row.former(j) {
			break
		}
		if j.VersionTag == nil {
			if untagged++; untagged > maxJobVersions {
				continue
			}
		}
		out = append(out, j)
	}
	return out
}

// Jobs yields the jobs of a namespace ("": of all) ordered by namespace and id.
func (v *View) Jobs(ns string) iter.Seq[*model.Job] { return v.jobsByPrefix(ns, "") }

// jobsByPrefix is Jobs restricted to ids that begin with prefix. A prefix requires a
// namespace.
func (v *View) jobsByPrefix(ns, prefix string) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		from := ""
		if ns != "" {
			from = JobKey(ns, prefix)
		}
		for row := range jobTable.in(v.t).all(from) {
			if ns != "" && (row.Namespace != ns || !strings.HasPrefix(row.ID, prefix)) {
				return
			}
			if j := row.current(); j != nil && !yield(j) {
				return
			}
		}
	}
}

// SystemJobs yields the system and sysbatch jobs.
func (v *View) SystemJobs() iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for row := range jobTable.in(v.t).scan(jobsOnNodes, onNodes) {
			if !yield(row.current()) {
				return
			}
		}
	}
}

// JobChildren returns the jobs whose parent is the job.
func (v *View) JobChildren(ns, parentID string) []*model.Job {
	var out []*model.Job
	for row := range jobTable.in(v.t).scan(jobsByParent, JobKey(ns, parentID)) {
		out = append(out, row.current())
	}
	return out
}

// JobSubmission returns the job file of a version.
func (v *View) JobSubmission(ns, id string, version uint64) *model.JobSubmission {
	row := jobTable.in(v.t).get(JobKey(ns, id))
	if row.current() == nil {
		return nil
	}
	for _, s := range row.Submissions {
		if s.Version == version {
			return s
		}
	}
	return nil
}

// UpsertJob stores a submitted job. If its specification equals the current version's,
// the version and its indexes are kept; otherwise it becomes the next version. The
// transaction takes ownership of job.
func (tx *Tx) UpsertJob(job *model.Job, sub *model.JobSubmission) *model.Job {
	row := jobTable.in(tx.t).get(JobKey(job.Namespace, job.ID))
	cur := row.current()
	if cur != nil && !model.SpecChanged(cur, job) {
		tx.touchJob(job.Namespace, job.ID)
		return cur
	}
	next := &jobRow{Namespace: job.Namespace, ID: job.ID, Parent: job.ParentID}
	job.Version, job.CreateIndex = 0, tx.index
	job.Stable, job.VersionTag = false, nil
	job.Status, job.StatusDescription = model.JobStatusPending, ""
	if row != nil {
		next.Versions, next.Submissions = row.Versions, row.Submissions
	}
	if cur != nil {
		next.Scaling = row.Scaling
		job.Version, job.CreateIndex, job.Status = cur.Version+1, cur.CreateIndex, cur.Status
	} else {
		tx.summaryOf(job.Namespace, job.ID).startAnew(tx.index)
	}
	job.ModifyIndex, job.JobModifyIndex = tx.index, tx.index
	next.Versions = append([]*model.Job{job}, next.Versions...)
	if sub != nil {
		s := *sub
		s.Namespace, s.JobID, s.Version, s.JobModifyIndex = job.Namespace, job.ID, job.Version, tx.index
		next.Submissions = append([]*model.JobSubmission{&s}, next.Submissions...)
	}
	tx.prune(next)
	jobTable.in(tx.t).put(next)
	record(tx, jobVersionTable, nil, job)
	record(tx, jobTable, cur, job)
	tx.accountChild(cur, job)
	tx.summaryOf(job.Namespace, job.ID).Bare = false // also makes settle derive the job's status again
	return job
}

// prune drops the oldest versions that are no longer needed.
func (tx *Tx) prune(row *jobRow) {
	untagged := 0
	for _, j := range row.Versions {
		if j.VersionTag == nil {
			untagged++
		}
	}
	if untagged <= maxJobVersions && !row.former(row.Versions[len(row.Versions)-1]) {
		return
	}
	used := map[*model.Job]bool{}
	for a := range allocTable.in(tx.t).scan(allocsByJob, JobKey(row.Namespace, row.ID)) {
		used[row.of(a)] = true
	}
	n := 0
	row.Versions = slices.DeleteFunc(slices.Clone(row.Versions), func(j *model.Job) bool {
		switch {
		case row.former(j):
			return !used[j]
		case j.VersionTag != nil:
			return false
		}
		n++
		return n > maxJobVersions && !used[j]
	})
	row.Submissions = slices.DeleteFunc(slices.Clone(row.Submissions), func(s *model.JobSubmission) bool {
		return row.version(s.Version) == nil
	})
}

// StopJob creates a new version of a job with Stop set.
func (tx *Tx) StopJob(ns, id string, submitTime int64) error {
	cur := jobTable.in(tx.t).get(JobKey(ns, id)).current()
	if cur == nil {
		return jobNotFound(ns, id)
	}
	if cur.Stop {
		tx.touchJob(ns, id)
		return nil
	}
	next := *cur
	next.Stop = true
	next.SubmitTime = submitTime
	tx.UpsertJob(&next, nil)
	return nil
}

// PurgeJob removes a job. Versions to which allocs refer stay readable until the last
// of these allocs is gone.
func (tx *Tx) PurgeJob(ns, id string) error {
	row := jobTable.in(tx.t).get(JobKey(ns, id))
	cur := row.current()
	if cur == nil {
		return jobNotFound(ns, id)
	}
	next := *row
	next.Purged, next.Submissions, next.Scaling = true, nil, nil
	jobTable.in(tx.t).put(&next)
	record(tx, jobTable, cur, nil)
	record(tx, jobVersionTable, cur, nil)
	tx.accountChild(cur, nil)
	tx.deletePeriodicLaunch(ns, id)
	tx.dropClaims(ns, id)
	for _, d := range deploymentTable.in(tx.t).list(deploymentsByJob, JobKey(ns, id)) {
		deploymentTable.in(tx.t).delete(d.ID)
		record(tx, deploymentTable, d, nil)
	}
	tx.touchJob(ns, id)
	return nil
}

func jobNotFound(ns, id string) error {
	return errdefs.NotFoundf("job %q in namespace %q does not exist; list jobs to see what does", id, ns)
}

// editVersion replaces one version of a job by an edited copy.
func (tx *Tx) editVersion(ns, id string, version uint64, edit func(*model.Job)) error {
	row := jobTable.in(tx.t).get(JobKey(ns, id))
	if row.current() == nil {
		return jobNotFound(ns, id)
	}
	i := slices.Index(row.Versions, row.version(version))
	if i < 0 {
		return errdefs.NotFoundf("job %q in namespace %q at version %d not found; list its versions to see what is kept", id, ns, version)
	}
	next := *row
	next.Versions = slices.Clone(row.Versions)
	old := row.Versions[i]
	c := *old
	edit(&c)
	c.ModifyIndex = tx.index
	next.Versions[i] = &c
	jobTable.in(tx.t).put(&next)
	record(tx, jobVersionTable, old, &c)
	if i == 0 {
		record(tx, jobTable, old, &c)
	}
	return nil
}

// SetJobStability sets whether a version of a job is stable.
func (tx *Tx) SetJobStability(ns, id string, version uint64, stable bool) error {
	return tx.editVersion(ns, id, version, func(j *model.Job) { j.Stable = stable })
}

// SetJobVersionTag sets or (nil) removes the tag of a job version. A tag name belongs
// to at most one version of a job.
func (tx *Tx) SetJobVersionTag(ns, id string, version uint64, tag *model.JobVersionTag) error {
	if tag != nil {
		if row := jobTable.in(tx.t).get(JobKey(ns, id)); row.current() != nil {
			for _, j := range row.Versions {
				if !row.former(j) && j.Version != version && j.VersionTag != nil && j.VersionTag.Name == tag.Name {
					return errdefs.InvalidArgumentf("tag %q already exists on a different version of job %q (%d); take it away there first", tag.Name, id, j.Version)
				}
			}
		}
	}
	return tx.editVersion(ns, id, version, func(j *model.Job) { j.VersionTag = tag })
}
