// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import "math"

// The score of a node is the mean of its parts. A part that does not apply (no alloc
// of the same group, no affinity, no penalty) is left out of the mean, so that it does
// not dilute the others. Spread always counts if the job has it.

// Names of the parts in AllocMetric.ScoreMetaData.
const (
	PartBinpack      = "binpack"
	PartAntiAffinity = "job-anti-affinity"
	PartPenalty      = "node-reschedule-penalty"
	PartAffinity     = "node-affinity"
	PartSpread       = "allocation-spread"
)

const maxFit = 18.0

// fit returns 0..1: how full (or, when spreading, how empty) a node would be. The sum
// of 10^free over processor and memory is 2 for a full and 20 for an empty node.
func fit(usedCPU, capCPU, usedMem, capMem int64, spreading bool) float64 {
	sum := pow10(free(usedCPU, capCPU)) + pow10(free(usedMem, capMem))
	s := 20 - sum
	if spreading {
		s = sum - 2
	}
	return min(max(s, 0), maxFit) / maxFit
}

// fitted remembers the newest fit: nodes of one size with one usage often follow each other,
// and the powers cost more than the rest of a score.
type fitted struct {
	usedCPU, capCPU, usedMem, capMem int64
	spreading, known                 bool
	fits                             float64
}

func (f *fitted) fit(usedCPU, capCPU, usedMem, capMem int64, spreading bool) float64 {
	if !f.known || f.usedCPU != usedCPU || f.usedMem != usedMem || f.capCPU != capCPU || f.capMem != capMem || f.spreading != spreading {
		*f = fitted{usedCPU, capCPU, usedMem, capMem, spreading, true, fit(usedCPU, capCPU, usedMem, capMem, spreading)}
	}
	return f.fits
}

func free(used, capacity int64) float64 {
	if capacity <= 0 {
		return 0
	}
	return 1 - float64(used)/float64(capacity)
}

func pow10(x float64) float64 { return math.Exp(x * math.Ln10) }

// antiAffinity is negative for nodes that already run allocs of the same group.
func antiAffinity(collisions int32, desired int) float64 {
	if collisions == 0 {
		return 0
	}
	return -float64(collisions+1) / float64(max(desired, 1))
}
