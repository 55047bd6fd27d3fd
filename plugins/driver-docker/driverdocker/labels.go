// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"maps"
	"path"
	"strconv"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// The labels by which the driver identifies its containers. A container belongs to
// this node only if labelOwner and labelNode match, and to a task only if labelTask
// matches.
const (
	labelOwner = "io.drover.owner"
	labelTask  = "io.drover.task_id"
	labelAlloc = "io.drover.alloc_id"
	labelName  = "io.drover.task_name"
	labelNode  = "io.drover.node_id"
	// labelMounts is the name of the directory with the container's mounts of its alloc;
	// see stages.
	labelMounts = "io.drover.mounts"
	// labelHardLimit is the memory_hard_limit of the task's config in MiB; 0 for none.
	labelHardLimit = "io.drover.memory_hard_limit"
	// labelOwnCores is the cpuset_cpus of the task's config.
	labelOwnCores = "io.drover.cpuset_cpus"
)

// compatLabels is the prefix of the reference's labels, which log shippers and
// dashboards use.
const compatLabels = "com.hashicorp.nomad."

func labelsOf(in specInput) (map[string]string, error) {
	out := map[string]string{}
	for name, value := range merged(in.config.Labels) {
		if strings.HasPrefix(name, "io.drover.") {
			return nil, invalidf("labels", "%q: labels that begin with io.drover. are the driver's own; choose another name", name)
		}
		out[name] = value
	}
	facts := labelValues(in.task)
	for _, pattern := range in.agent.ExtraLabels {
		for name, value := range facts {
			if glob(pattern, name) {
				out[compatLabels+name] = value
			}
		}
	}
	out[compatLabels+"alloc_id"] = in.task.AllocID
	maps.Copy(out, map[string]string{
		labelOwner: in.owner, labelTask: in.task.ID, labelAlloc: in.task.AllocID, labelName: in.task.Name, labelNode: in.task.NodeID,
		labelHardLimit: strconv.FormatInt(in.config.MemoryHardLimit, 10), labelOwnCores: in.config.CpusetCPUs,
	})
	return out, nil
}

func labelValues(task *driver.TaskConfig) map[string]string {
	return map[string]string{
		"job_name": task.JobName, "job_id": task.JobID, "task_group_name": task.TaskGroup, "task_name": task.Name,
		"namespace": task.Namespace, "node_name": task.NodeName, "node_id": task.NodeID,
		"short_alloc_id": task.AllocID[:min(8, len(task.AllocID))],
	}
}

func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
