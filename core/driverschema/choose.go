// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema

import (
	"path"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// Known is a known body of a driver, with its uses.
type Known struct {
	Body        *Body
	CreateIndex uint64 // index at which it was added
	Uses        []model.DriverUse
}

// Choose returns the bodies against which a job is checked, newest first: the bodies on
// nodes where the job may run; if there are none, the bodies on all nodes; and otherwise
// unused ones that are still stored.
func Choose(all []Known, job *model.Job) []*Body {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Known) int {
		switch {
		case a.CreateIndex > b.CreateIndex:
			return -1
		case a.CreateIndex < b.CreateIndex:
			return 1
		}
		return 0
	})
	within := func(k Known) bool {
		return slices.ContainsFunc(k.Uses, func(u model.DriverUse) bool { return reaches(job, u) })
	}
	inUse := func(k Known) bool { return len(k.Uses) > 0 }
	anywhere := func(Known) bool { return true }
	for _, keep := range []func(Known) bool{within, inUse, anywhere} {
		var out []*Body
		for _, k := range all {
			if keep(k) {
				out = append(out, k.Body)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// reaches reports whether the job may run on nodes of the datacenter and pool.
func reaches(job *model.Job, u model.DriverUse) bool {
	if job.NodePool != model.NodePoolAll && job.NodePool != u.NodePool {
		return false
	}
	return slices.ContainsFunc(job.Datacenters, func(glob string) bool {
		ok, err := path.Match(glob, u.Datacenter)
		return ok && err == nil
	})
}
