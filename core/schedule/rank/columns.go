// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rank

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// Ask is the resources that one alloc uses of a node.
type Ask struct{ CPU, Memory, Disk int64 }

// Columns holds the capacity and usage of nodes as arrays; a node is a row.
type Columns struct {
	CapCPU, CapMemory, CapDisk    []int64
	UsedCPU, UsedMemory, UsedDisk []int64

	all []int64 // of which the columns are parts, unless a row too many was appended
}

// NewColumns returns columns with capacity for n rows.
func NewColumns(n int) *Columns {
	buf := columns.get(6 * n)
	col := func(i int) []int64 { return buf[i*n : i*n : (i+1)*n] }
	return &Columns{CapCPU: col(0), CapMemory: col(1), CapDisk: col(2), UsedCPU: col(3), UsedMemory: col(4), UsedDisk: col(5), all: buf}
}

// Append adds a row.
func (c *Columns) Append(capacity, used Ask) {
	c.CapCPU = append(c.CapCPU, capacity.CPU)
	c.CapMemory = append(c.CapMemory, capacity.Memory)
	c.CapDisk = append(c.CapDisk, capacity.Disk)
	c.UsedCPU = append(c.UsedCPU, used.CPU)
	c.UsedMemory = append(c.UsedMemory, used.Memory)
	c.UsedDisk = append(c.UsedDisk, used.Disk)
}

// Use adds a to the usage of a row; negative values subtract.
func (c *Columns) Use(row int, a Ask) {
	c.UsedCPU[row] += a.CPU
	c.UsedMemory[row] += a.Memory
	c.UsedDisk[row] += a.Disk
}

// Lacking returns the first dimension in which a does not fit on a row, or "": the
// rule of feasible.Fits, on columns.
func (c *Columns) Lacking(row int, a Ask) string {
	return feasible.Lacking(
		model.NodeUse{CPU: c.CapCPU[row], MemoryMB: c.CapMemory[row], DiskMB: c.CapDisk[row]},
		model.NodeUse{CPU: c.UsedCPU[row] + a.CPU, MemoryMB: c.UsedMemory[row] + a.Memory, DiskMB: c.UsedDisk[row] + a.Disk})
}
