// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

func jobInspect() spec {
	return spec{
		usage: "job inspect [options] <job>", synopsis: "Prints a registered job, or its job file", min: 1, max: 1, output: true, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			version := fs.String("version", "", "Version or tag of the job; the newest version by default.")
			hcl := fs.Bool("hcl", false, "Prints the job file that was registered.")
			withVars := fs.Bool("with-vars", false, "With -hcl: also prints the values of its variables.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if *version != "" {
					var err error
					if job, err = s.jobVersion(ctx, job.ID, *version); err != nil {
						return err
					}
				}
				switch {
				case *hcl:
					return s.printSource(ctx, job, *withVars)
				case *withVars:
					return errors.New("-with-vars needs -hcl")
				case s.template != "":
					_, err := s.formatted(job)
					return err
				}
				return s.printJSON(map[string]any{"Job": job})
			})
		},
	}
}

func (s *session) printSource(ctx context.Context, job *model.Job, withVars bool) error {
	sub, _, err := s.client.JobSubmission(ctx, job.ID, job.Version, nil)
	if err != nil {
		return err
	}
	if withVars {
		for _, k := range slices.Sorted(maps.Keys(sub.VariableFlags)) {
			s.printf("# -var %s=%s", k, sub.VariableFlags[k])
		}
		if sub.Variables != "" {
			s.printf("# variables:\n%s\n# job:", sub.Variables)
		}
	}
	s.printf("%s", sub.Source)
	return nil
}

// jobVersion finds a version by its number or its tag.
func (s *session) jobVersion(ctx context.Context, id, version string) (*model.Job, error) {
	res, err := s.client.JobVersions(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	for _, j := range res.Versions {
		if isVersion(j, version) {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %q has no version %q; see: drover job history %s", id, version, id)
}

func isVersion(j *model.Job, version string) bool {
	return strconv.FormatUint(j.Version, 10) == version || j.VersionTag != nil && j.VersionTag.Name == version
}

func jobHistory() spec {
	return spec{
		usage: "job history [options] <job>", synopsis: "Lists the versions of a job", min: 1, max: 1, output: true, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			diffs := fs.Bool("p", false, "Shows the changes of each version.")
			only := fs.String("version", "", "Only this version or tag.")
			full := fs.Bool("full", false, "Prints the full specification of each version as JSON.")
			baseVersion := fs.String("diff-version", "", "With -p: shows the differences to this version.")
			baseTag := fs.String("diff-tag", "", "With -p: shows the differences to the version with this tag.")
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				diff, err := diffParams(*diffs, *full, *baseVersion, *baseTag)
				if err != nil {
					return err
				}
				res, err := s.client.JobVersions(ctx, job.ID, diff)
				if err != nil {
					return err
				}
				base := *baseVersion + *baseTag
				shown := pickVersions(res, *only, base)
				if len(shown) == 0 {
					return fmt.Errorf("job %q has no version %q; see: drover job history %s", job.ID, *only, job.ID)
				}
				if done, err := s.formatted(jobsOf(shown)); done {
					return err
				}
				for _, v := range shown {
					if err := s.printVersion(v, *full); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// diffParams returns the query parameters that request diffs between versions, or
// nil if no diffs are wanted.
func diffParams(diffs, full bool, version, tag string) (url.Values, error) {
	switch {
	case version != "" && tag != "":
		return nil, errors.New("give either -diff-version or -diff-tag")
	case (version != "" || tag != "") && !diffs:
		return nil, errors.New("-diff-version and -diff-tag need -p")
	case diffs && full:
		return nil, errors.New("give either -p or -full")
	case !diffs:
		return nil, nil
	case version != "":
		return url.Values{"diff_version": {version}}, nil
	case tag != "":
		return url.Values{"diff_tag": {tag}}, nil
	}
	return url.Values{}, nil
}

// versionDiff is a version and, if requested, its diff.
type versionDiff struct {
	job  *model.Job
	diff *model.JobDiff
}

// pickVersions pairs each version with its diff. A diff is against the previous
// version, or against base. The base itself has no diff.
func pickVersions(res *client.JobVersions, only, base string) []versionDiff {
	var out []versionDiff
	next := 0
	for _, j := range res.Versions {
		v := versionDiff{job: j}
		if base == "" || !isVersion(j, base) {
			if next < len(res.Diffs) {
				v.diff = res.Diffs[next]
			}
			next++
		}
		if only == "" || isVersion(j, only) {
			out = append(out, v)
		}
	}
	return out
}

func jobsOf(list []versionDiff) []*model.Job {
	var out []*model.Job
	for _, v := range list {
		out = append(out, v.job)
	}
	return out
}

func (s *session) printVersion(v versionDiff, full bool) error {
	j := v.job
	kv := []string{"Version", strconv.FormatUint(j.Version, 10), "Stable", strconv.FormatBool(j.Stable), "Submit Date", date(j.SubmitTime)}
	if j.VersionTag != nil {
		kv = append(kv, "Tag Name", j.VersionTag.Name, "Tag Description", j.VersionTag.Description)
	}
	s.pairs(kv...)
	if v.diff != nil {
		s.printf("Diff\n%s", s.jobDiff(v.diff))
	}
	if full {
		if err := s.printJSON(j); err != nil {
			return err
		}
	}
	s.printf("")
	return nil
}
