// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"maps"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/rank"
)

// placement contains the objects of one new alloc. A plan has thousands of them, which
// are encoded and freed together, so they are allocated in blocks.
type placement struct {
	alloc  model.Allocation
	metric model.AllocMetric
	score  model.NodeScoreMeta
	scores [1]*model.NodeScoreMeta
}

// placementBlock is the maximum number of placements that are allocated at a time: as many as
// fit into 32 KiB, since Go rounds what is larger up to whole pages.
const placementBlock = 46

func (p *process) newPlacement() *placement {
	if len(p.blocks) == 0 {
		p.blocks = make([]placement, min(max(p.due, 1), placementBlock))
	}
	out := &p.blocks[0]
	p.blocks = p.blocks[1:]
	p.due--
	return out
}

// success returns a placement with the metrics that explain the choice of the row.
func (pl *placer) success(row int, score float64) *placement {
	made := pl.newPlacement()
	m := &made.metric
	*m = pl.metric
	if len(pl.exhausted) > 0 {
		pl.countExclusive(m)
	}
	parts := pl.picker.Explain(row)
	if score == 0 { // no other row competed
		score = mean(parts)
	}
	made.score = model.NodeScoreMeta{NodeID: pl.cluster.nodes[row].ID, Scores: parts, NormScore: score}
	made.scores[0] = &made.score
	m.ScoreMetaData = made.scores[:]
	return made
}

func mean(parts map[string]float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range parts {
		if v != 0 {
			sum, n = sum+v, n+1
		}
	}
	return sum / max(n, 1)
}

// fail counts a placement without a node. Only the first failure of a group is
// explained.
func (pl *placer) fail() {
	pl.out.QueuedAllocations[pl.tg.Name]++
	if pl.failed != nil {
		pl.failed.CoalescedFailures++
		return
	}
	m := pl.metric
	m.ConstraintFiltered, m.ClassFiltered = maps.Clone(m.ConstraintFiltered), maps.Clone(m.ClassFiltered)
	pl.countExhausted(&m)
	pl.failed = &m
	if earlier := pl.out.FailedTGAllocs[pl.tg.Name]; earlier != nil {
		pl.failed = earlier
		earlier.CoalescedFailures++
		return
	}
	pl.out.FailedTGAllocs[pl.tg.Name] = &m
}

// countExhausted counts, for every feasible node, why it has no room for the group.
func (pl *placer) countExhausted(m *model.AllocMetric) {
	a := ask(pl.shared)
	for row, n := range pl.cluster.nodes {
		if pl.chk.Check(n) != "" {
			continue
		}
		if why := pl.distinct.Check(n); why != "" {
			filtered(m, n.NodeClass, why, 1)
			continue
		}
		why := pl.cluster.cols.Lacking(row, a)
		if why == "" {
			why = pl.exhausted[row]
		}
		if why != "" {
			pl.countOne(m, n, why)
		}
	}
	pl.countTasks(m)
}

func (pl *placer) countExclusive(m *model.AllocMetric) {
	for row, why := range pl.exhausted {
		pl.countOne(m, pl.cluster.nodes[row], why)
	}
}

func (pl *placer) countOne(m *model.AllocMetric, n *model.Node, why string) {
	m.NodesExhausted++
	bump(&m.DimensionExhausted, why, 1)
	if n.NodeClass != "" {
		bump(&m.ClassExhausted, n.NodeClass, 1)
	}
}

// countTasks records the tasks' requests in the exhausted dimensions.
func (pl *placer) countTasks(m *model.AllocMetric) {
	cpu, mem := m.DimensionExhausted["cpu"] > 0, m.DimensionExhausted["memory"] > 0
	if !cpu && !mem {
		return
	}
	m.ResourcesExhausted = map[string]*model.Resources{}
	for _, t := range pl.tg.Tasks {
		r := &model.Resources{}
		if t.Resources != nil && cpu {
			r.CPU = t.Resources.CPU
		}
		if t.Resources != nil && mem {
			r.MemoryMB = t.Resources.MemoryMB
		}
		m.ResourcesExhausted[t.Name] = r
	}
}

// spreads converts the spread blocks to columns over the rows.
func (pl *placer) spreads(rows []int32) []*rank.Spread {
	blocks := append(append([]*model.Spread(nil), pl.tg.Spreads...), pl.job.Spreads...)
	total := 0.0
	for _, b := range blocks {
		total += float64(b.Weight)
	}
	out := make([]*rank.Spread, 0, len(blocks))
	for _, b := range blocks {
		s := pl.spread(b, rows)
		s.Weight = 1 / float64(len(blocks))
		if total > 0 {
			s.Weight = float64(b.Weight) / total
		}
		out = append(out, s)
	}
	return out
}
