// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// packedPlan is the stored form of an ApplyPlan: values that its allocs have in common
// are stored once and referred to by number, beginning with 1. Fields of an alloc that
// nodes own are not stored: a new alloc is pending.
type packedPlan struct {
	EvalID            string
	Namespace         string
	JobID             string
	SnapshotIndex     uint64
	VerifiedIndex     uint64
	AllAtOnce         bool
	UpdatedAt         int64
	Change            []model.AllocChange
	Deployment        *model.Deployment
	DeploymentUpdates []*model.DeploymentStatusUpdate
	Texts             []string
	Resources         []*model.AllocatedResources
	Metrics           []*model.AllocMetric // without scores and time
	Place             []packedAlloc
	PreemptionEvals   []*model.Evaluation
}

// packedAlloc is a new alloc. Fields marked "text" are numbers of Texts.
type packedAlloc struct {
	ID             string // see packID
	Name           uint32 // text, 0: JOB.GROUP[Index]
	Index          int
	Group          uint32 // text
	NodeID         uint32 // text
	NodeName       uint32 // text
	JobVersion     uint64
	Resources      uint32
	Metrics        uint32
	Scores         []packedScore
	AllocationTime time.Duration
	Deployment     uint32 // text
	Canary         bool
	Previous       string // see packID
	Tracker        *model.RescheduleTracker
}

type packedScore struct {
	NodeID uint32   // text
	Rules  []uint32 // text
	Values []float64
	Norm   float64
}

func (c *ApplyPlan) packedForm() any { return &packedPlan{} }

// planPacker assigns numbers to the common values of a plan's allocs.
type planPacker struct {
	form      *packedPlan
	texts     numbering[string, string]
	resources numbering[*model.AllocatedResources, *model.AllocatedResources]
	metrics   numbering[metricKey, *model.AllocMetric]
}

// numbering is a list of distinct rows, numbered from 1. 0 means no row.
type numbering[K comparable, R any] struct {
	rows    []R
	numbers map[K]uint32
}

// number returns the number of the row with a key. If it is new, it calls row to
// create it.
func (n *numbering[K, R]) number(key K, row func() R) uint32 {
	if at, known := n.numbers[key]; known {
		return at
	}
	if n.numbers == nil {
		n.numbers = map[K]uint32{}
	}
	n.rows = append(n.rows, row())
	n.numbers[key] = uint32(len(n.rows))
	return n.numbers[key]
}

// metricKey identifies metrics that are equal except for scores and time: the
// scheduler shares the maps within a group.
type metricKey struct {
	evaluated, filtered, inPool, exhausted, coalesced                       int
	pool                                                                    string
	available, classFiltered, constraints, classes, dimensions, quota, asks uintptr
	scores                                                                  uintptr
}

func keyOf(m *model.AllocMetric) metricKey {
	at := func(v any) uintptr { return reflect.ValueOf(v).Pointer() }
	return metricKey{
		m.NodesEvaluated, m.NodesFiltered, m.NodesInPool, m.NodesExhausted, m.CoalescedFailures, m.NodePool,
		at(m.NodesAvailable), at(m.ClassFiltered), at(m.ConstraintFiltered), at(m.ClassExhausted),
		at(m.DimensionExhausted), at(m.QuotaExhausted), at(m.ResourcesExhausted), at(m.Scores),
	}
}

func (c *ApplyPlan) pack() (any, error) {
	if c.Plan == nil {
		return nil, errdefs.InvalidArgumentf("a plan without content")
	}
	p := c.Plan
	k := &planPacker{
		form: &packedPlan{
			EvalID: p.EvalID, Namespace: p.Namespace, JobID: p.JobID, SnapshotIndex: p.SnapshotIndex,
			VerifiedIndex: c.VerifiedIndex, AllAtOnce: p.AllAtOnce, UpdatedAt: c.UpdatedAt, Change: p.Change,
			Deployment: p.Deployment, DeploymentUpdates: p.DeploymentUpdates, Place: make([]packedAlloc, 0, len(p.Place)),
			PreemptionEvals: p.PreemptionEvals,
		},
	}
	for _, a := range p.Place {
		k.form.Place = append(k.form.Place, k.alloc(a))
	}
	k.form.Texts, k.form.Resources, k.form.Metrics = k.texts.rows, k.resources.rows, k.metrics.rows
	return k.form, nil
}

func (k *planPacker) alloc(a *model.Allocation) packedAlloc {
	out := packedAlloc{
		ID: packID(a.ID), Index: a.Index(), Group: k.text(a.TaskGroup), NodeID: k.text(a.NodeID), NodeName: k.text(a.NodeName),
		JobVersion: a.JobVersion, Resources: k.resource(a.AllocatedResources), Deployment: k.text(a.DeploymentID),
		Canary: a.DeploymentStatus.IsCanary(), Previous: packID(a.PreviousAllocation), Tracker: a.RescheduleTracker,
	}
	if a.Name != model.AllocName(k.form.JobID, a.TaskGroup, out.Index) {
		out.Name = k.text(a.Name)
	}
	if m := a.Metrics; m != nil {
		out.Metrics, out.AllocationTime = k.metric(m), m.AllocationTime
		for _, s := range m.ScoreMetaData {
			out.Scores = append(out.Scores, k.score(s))
		}
	}
	return out
}

func (k *planPacker) text(s string) uint32 {
	if s == "" {
		return 0
	}
	return k.texts.number(s, func() string { return s })
}

func (k *planPacker) resource(r *model.AllocatedResources) uint32 {
	if r == nil {
		return 0
	}
	return k.resources.number(r, func() *model.AllocatedResources { return r })
}

func (k *planPacker) metric(m *model.AllocMetric) uint32 {
	return k.metrics.number(keyOf(m), func() *model.AllocMetric {
		c := *m
		c.ScoreMetaData, c.AllocationTime = nil, 0
		return &c
	})
}

func (k *planPacker) score(s *model.NodeScoreMeta) packedScore {
	out := packedScore{NodeID: k.text(s.NodeID), Norm: s.NormScore}
	for _, rule := range slices.Sorted(maps.Keys(s.Scores)) {
		out.Rules = append(out.Rules, k.text(rule))
		out.Values = append(out.Values, s.Scores[rule])
	}
	return out
}

func (c *ApplyPlan) unpack(form any) error {
	f := form.(*packedPlan)
	c.VerifiedIndex, c.UpdatedAt = f.VerifiedIndex, f.UpdatedAt
	c.Plan = &model.Plan{
		EvalID: f.EvalID, Namespace: f.Namespace, JobID: f.JobID, SnapshotIndex: f.SnapshotIndex, AllAtOnce: f.AllAtOnce,
		Change: f.Change, Deployment: f.Deployment, DeploymentUpdates: f.DeploymentUpdates, PreemptionEvals: f.PreemptionEvals,
	}
	u := &planUnpacker{form: f, seen: interner{}}
	model.ShareResources(f.Resources)
	for i := range f.Place {
		c.Plan.Place = append(c.Plan.Place, u.alloc(&f.Place[i]))
	}
	if u.damaged {
		return errdefs.InvalidArgumentf("a plan refers to an object that it does not contain; the log entry is damaged")
	}
	return nil
}

// planUnpacker creates the allocs of a stored plan.
type planUnpacker struct {
	form    *packedPlan
	seen    interner
	damaged bool
}

func (u *planUnpacker) alloc(p *packedAlloc) *model.Allocation {
	f := u.form
	a := &model.Allocation{
		ID: unpackID(p.ID), Namespace: f.Namespace, EvalID: f.EvalID, Name: u.text(p.Name), NodeID: u.text(p.NodeID), NodeName: u.text(p.NodeName),
		JobID: f.JobID, JobVersion: p.JobVersion, TaskGroup: u.text(p.Group), DeploymentID: u.text(p.Deployment),
		DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending,
		PreviousAllocation: unpackID(p.Previous), RescheduleTracker: p.Tracker,
	}
	if p.Name == 0 {
		a.Name = model.AllocName(a.JobID, a.TaskGroup, p.Index)
	}
	if p.Canary {
		a.DeploymentStatus = &model.AllocDeploymentStatus{Canary: true}
	}
	a.AllocatedResources = numbered(u, f.Resources, p.Resources)
	if shared := numbered(u, f.Metrics, p.Metrics); shared != nil {
		a.Metrics = u.metric(shared, p)
	}
	state.Intern(a, u.seen.intern)
	return a
}

// metric returns the metrics of an alloc: the shared ones if it has nothing of its own.
func (u *planUnpacker) metric(shared *model.AllocMetric, p *packedAlloc) *model.AllocMetric {
	if p.AllocationTime == shared.AllocationTime && len(p.Scores) == 0 {
		return shared
	}
	m := *shared
	m.AllocationTime = p.AllocationTime
	for i := range p.Scores {
		m.ScoreMetaData = append(m.ScoreMetaData, u.score(&p.Scores[i]))
	}
	return &m
}

func (u *planUnpacker) score(p *packedScore) *model.NodeScoreMeta {
	s := &model.NodeScoreMeta{NodeID: u.text(p.NodeID), NormScore: p.Norm}
	if len(p.Rules) != len(p.Values) {
		u.damaged = true
		return s
	}
	if len(p.Rules) > 0 {
		s.Scores = make(map[string]float64, len(p.Rules))
	}
	for i, rule := range p.Rules {
		s.Scores[u.text(rule)] = p.Values[i]
	}
	return s
}

func (u *planUnpacker) text(n uint32) string {
	if n == 0 {
		return ""
	}
	if int(n) > len(u.form.Texts) {
		u.damaged = true
		return ""
	}
	return u.form.Texts[n-1]
}

// numbered returns the n-th row, counted from 1; 0 means none.
func numbered[R any](u *planUnpacker, rows []*R, n uint32) *R {
	if n == 0 {
		return nil
	}
	if int(n) > len(rows) {
		u.damaged = true
		return nil
	}
	return rows[n-1]
}

// packID encodes a UUID as a zero byte and its 16 bytes; other ids are unchanged.
func packID(id string) string {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return id
	}
	raw, err := hex.DecodeString(id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:])
	if err != nil || unpackID("\x00"+string(raw)) != id { // not in lower case
		return id
	}
	return "\x00" + string(raw)
}

// unpackID is the reverse of packID.
func unpackID(id string) string {
	if len(id) != 17 || id[0] != 0 {
		return id
	}
	h := hex.EncodeToString([]byte(id[1:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
