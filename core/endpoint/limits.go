// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// JobLimits are the operator's limits of jobs. Zero values mean the defaults.
type JobLimits struct {
	DefaultPriority int   // for jobs that set none; 50
	MaxPriority     int   // 100
	MaxCount        int   // allocs of a job in all its groups; 50,000
	MaxSource       int64 // bytes of a stored job file, including variables; 1 MiB
}

func (l JobLimits) maxPriority() int {
	if l.MaxPriority <= 0 {
		return model.JobMaxPriority
	}
	return l.MaxPriority
}

func (l JobLimits) maxSource() int64 {
	if l.MaxSource <= 0 {
		return 1 << 20
	}
	return l.MaxSource
}

// validate validates a job's own values and the cluster's limits.
func (l JobLimits) validate(job *model.Job) error {
	if err := job.ValidateUpTo(l.maxPriority()); err != nil {
		return err
	}
	return l.checkCount(job)
}

// checkEvalPriority checks the priority that a request wants for its evaluation; 0 is the
// job's.
func (l JobLimits) checkEvalPriority(priority int) error {
	if priority < 0 || priority > l.maxPriority() {
		return errdefs.InvalidArgumentf("Eval priority must be between %d and %d inclusively", model.JobMinPriority, l.maxPriority())
	}
	return nil
}

// checkCount is called on every path by which a count gets into state, even if the job
// was validated under other limits before.
func (l JobLimits) checkCount(job *model.Job) error {
	if l.MaxCount <= 0 {
		return job.CheckCount(model.DefaultMaxCount)
	}
	return job.CheckCount(l.MaxCount)
}

// keepSource drops a job file that is too large to be stored and returns a warning:
// the job does not depend on it.
func (l JobLimits) keepSource(req *api.JobRegisterRequest) []string {
	s := req.Submission
	if s == nil {
		return nil
	}
	size := int64(len(s.Source) + len(s.Variables))
	for k, v := range s.VariableFlags {
		size += int64(len(k) + len(v))
	}
	if size <= l.maxSource() {
		return nil
	}
	req.Submission = nil
	return []string{fmt.Sprintf("job source size of %s exceeds maximum of %s and will be discarded", humanize.Bytes(uint64(size)), humanize.Bytes(uint64(l.maxSource())))}
}
