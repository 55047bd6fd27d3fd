// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services

import (
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Identity returns the identity of a service of a task of the alloc, or of its group if the
// task is "", by its name; nil if there is none. Its ServiceName is the name with which the
// service is registered.
func Identity(in Input, task, name string) *model.WorkloadIdentity {
	if in.Job == nil {
		return nil
	}
	tg := in.Job.LookupTaskGroup(in.Alloc.TaskGroup)
	if tg == nil {
		return nil
	}
	list, of := tg.Services, (*model.Task)(nil)
	if task != "" {
		list = nil
		for _, t := range tg.Tasks {
			if t.Name == task {
				list, of = t.Services, t
			}
		}
	}
	for _, s := range list {
		if s == nil || s.Identity == nil || s.Identity.Name != name {
			continue
		}
		out := *s.Identity
		if out.ServiceName = s.Name; strings.Contains(s.Name, "${") {
			out.ServiceName = in.environment(of).Replace(s.Name)
		}
		return &out
	}
	return nil
}
