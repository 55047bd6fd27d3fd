// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/schedule/rank"
)

// cluster holds the nodes that match a job's pool and datacenters and are ready, with
// their resources as columns.
type cluster struct {
	view      View
	nodes     []*model.Node // ordered by id
	kinds     []int32       // by row: the kind of the node in the fleet
	fleet     *model.Fleet
	cols      *rank.Columns
	inPool    int
	available map[string]int // ready nodes by datacenter; shared by all metrics
	gone      map[string]map[string]bool
	placed    [][]*model.Allocation // by row
}

func newCluster(v View, job *model.Job) *cluster {
	c := &cluster{view: v, available: map[string]int{}, gone: map[string]map[string]bool{}}
	if job == nil || job.Stop {
		c.nodes, c.cols, c.fleet = nodeList(0), rank.NewColumns(0), &model.Fleet{}
		return c
	}
	c.fleet = v.Fleet()
	size := len(c.fleet.Nodes)
	c.nodes, c.kinds, c.cols = nodeList(size), rank.Indexes(size)[:0], rank.NewColumns(size)
	takes, row := c.takes(job), -1
	for n, use := range v.NodesWithUse() {
		row++
		if kind := c.fleet.Kind[row]; takes[kind] {
			capacity := &c.fleet.Capacity[row]
			c.nodes, c.kinds = append(c.nodes, n), append(c.kinds, kind)
			c.cols.Append(rank.Ask{CPU: capacity.CPU, Memory: capacity.MemoryMB, Disk: capacity.DiskMB}, rank.Ask{CPU: use.CPU, Memory: use.MemoryMB, Disk: use.DiskMB})
		}
	}
	c.placed = placedRows(len(c.nodes))
	return c
}

// takes returns which kinds of nodes a job may use, and counts the nodes.
func (c *cluster) takes(job *model.Job) []bool {
	out := make([]bool, len(c.fleet.Kinds))
	for i := range out {
		kind, count := &c.fleet.Kinds[i], c.fleet.Count[i]
		if count == 0 || !kind.Ready || !feasible.InPool(kind.Pool, job.NodePool) {
			continue
		}
		c.inPool += count
		if out[i] = feasible.InDatacenters(kind.Datacenter, job.Datacenters); out[i] {
			c.available[kind.Datacenter] += count
		}
	}
	return out
}

// rowsOfPlaced keeps lists by row of finished decisions for later ones: see rank.Columns.
var rowsOfPlaced sync.Pool

func placedRows(n int) [][]*model.Allocation {
	if b, ok := rowsOfPlaced.Get().(*[][]*model.Allocation); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([][]*model.Allocation, n)
}

// lists keeps lists of nodes of finished decisions for later ones.
var lists sync.Pool

func nodeList(n int) []*model.Node {
	if b, ok := lists.Get().(*[]*model.Node); ok && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]*model.Node, 0, n)
}

// give gives back the arrays of the cluster, which must not be used any more.
func (c *cluster) give() {
	c.cols.Release()
	rank.GiveIndexes(c.kinds)
	clear(c.placed) // the allocs belong to the plan
	rows := c.placed
	rowsOfPlaced.Put(&rows)
	clear(c.nodes)
	nodes := c.nodes
	lists.Put(&nodes)
	c.nodes, c.kinds, c.placed = nil, nil, nil
}

// row returns the row of a node.
func (c *cluster) row(nodeID string) (row int, ok bool) {
	return slices.BinarySearchFunc(c.nodes, nodeID, func(n *model.Node, id string) int { return strings.Compare(n.ID, id) })
}

// ask returns what an alloc uses of the columns.
func ask(r *model.AllocatedResources) rank.Ask {
	if r == nil {
		return rank.Ask{}
	}
	c := r.Comparable()
	return rank.Ask{CPU: c.CPUShares, Memory: c.MemoryMB, Disk: c.DiskMB}
}

// release frees the resources of an alloc that the plan stops. ok is false if they
// cannot be used by others, because its node takes no allocs.
func (c *cluster) release(a *model.Allocation) (row int, ok bool) {
	row, ok = c.row(a.NodeID)
	if a.ClientTerminalStatus() || c.gone[a.NodeID][a.ID] {
		return row, false
	}
	if c.gone[a.NodeID] == nil {
		c.gone[a.NodeID] = map[string]bool{}
	}
	c.gone[a.NodeID][a.ID] = true
	if !ok {
		return row, false
	}
	take := ask(a.AllocatedResources)
	c.cols.Use(row, rank.Ask{CPU: -take.CPU, Memory: -take.Memory, Disk: -take.Disk})
	return row, true
}

// restore reserves the resources of a released alloc again, because it is not stopped
// after all.
func (c *cluster) restore(a *model.Allocation) {
	if c.gone[a.NodeID][a.ID] {
		delete(c.gone[a.NodeID], a.ID)
		if row, ok := c.row(a.NodeID); ok {
			c.cols.Use(row, ask(a.AllocatedResources))
		}
	}
}

// assign chooses ports, cores and devices on a row, given the state and the plan so
// far.
func (c *cluster) assign(row int, chk *feasible.Checker, tg *model.TaskGroup, id string, oversubscribe bool) (*model.AllocatedResources, string) {
	return feasible.Assign(chk, c.usage(row), tg, c.nodes[row], id, oversubscribe)
}

// usage returns what the allocs of a row use, with those that are placed there now.
func (c *cluster) usage(row int) *feasible.Usage {
	n := c.nodes[row]
	return feasible.UsageOf(n, append(feasible.Holders(c.view, n.ID, c.gone[n.ID]), c.placed[row]...))
}
