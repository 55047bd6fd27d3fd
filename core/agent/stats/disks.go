// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/telemetry"
)

// Disk is what an alloc takes of its ephemeral disk, in bytes.
type Disk struct {
	Alloc      *model.Allocation
	Used, Size int64
}

// DiskSamples returns the metrics of the disks of allocs.
func DiskSamples(disks []Disk, labels map[string]string) []telemetry.Sample {
	s := &samples{labels: labels, out: make([]telemetry.Sample, 0, 2*len(disks))}
	for _, d := range disks {
		of := s.with("alloc_id", d.Alloc.ID, "task_group", d.Alloc.TaskGroup, "namespace", d.Alloc.Namespace, "job", d.Alloc.JobID)
		s.gauge(of, "drover.client.allocs.disk.used_bytes", float64(d.Used))
		s.gauge(of, "drover.client.allocs.disk.size_bytes", float64(d.Size))
	}
	return s.out
}
