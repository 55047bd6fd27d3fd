// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"hash/fnv"
	"iter"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// LevelReportAllocs is the level from which a cluster's log may contain ReportAllocs. Below
// it nodes' reports are stored as UpdateAllocsFromClient.
const LevelReportAllocs = 2

// levelMillis is the level from which ReportAllocs may store times in milliseconds, and not
// store the id of an alloc's deployment.
const levelMillis = 3

// ReportAllocs is UpdateAllocsFromClient in a third of the bytes. It stores the forms of
// reports once (reportcodec.go), and of the id of an alloc only as many bytes as no other
// alloc shared in the state of the proposer.
//
// The state may have changed when the entry is applied. Allocs with a higher CreateIndex
// than Seen were created since and are left out of the search. If one of the allocs was
// deleted since, or if an older snapshot was restored meanwhile, Check differs: then the
// command changes nothing and fails with ErrReportsOutdated, and the proposer stores the
// reports as UpdateAllocsFromClient.
type ReportAllocs struct {
	At      int64 // Unix ns, the servers' time
	Reports []*model.AllocReport
	Evals   []*model.Evaluation
	Seen    uint64 // the index of the proposer's state
	Check   uint32 // hash of the ids

	short  []shortID // what is stored of the ids
	millis bool      // times are stored in milliseconds
}

// ErrReportsOutdated means that a ReportAllocs was proposed on another state.
var ErrReportsOutdated = errdefs.Abortedf("the allocs of the reports are not those of the state in which their ids were shortened")

// NewReportAllocs returns the command that stores reports on allocs of view.
func NewReportAllocs(view *state.View, at int64, reports []*model.AllocReport, evals []*model.Evaluation) *ReportAllocs {
	c := &ReportAllocs{At: at, Reports: reports, Evals: evals, Seen: view.Index(), short: make([]shortID, len(reports))}
	c.millis = view.Level() >= levelMillis && inMillis(reports)
	width := 0
	for i, r := range reports {
		n := view.ShortAllocID(r.ID)
		if n == 0 {
			continue
		}
		c.short[i].alloc = string(uuidBytes(r.ID))
		width = max(width, n)
		if a := view.AllocByID(r.ID); c.millis && r.Health != nil && a != nil {
			c.short[i].ownDeployment = a.DeploymentID == r.Health.DeploymentID
		}
	}
	for i := range c.short {
		id := &c.short[i].alloc
		*id = (*id)[:min(width, len(*id))]
	}
	c.Check = c.sum()
	return c
}

func (*ReportAllocs) kind() byte { return kindReportAllocs }

func (c *ReportAllocs) needs() int {
	if c.millis {
		return levelMillis
	}
	return LevelReportAllocs
}

// inMillis reports whether all times in reports are whole milliseconds. Nodes of earlier
// releases send finer ones, which are stored as they are.
func inMillis(reports []*model.AllocReport) bool {
	for _, r := range reports {
		for _, t := range r.Tasks {
			for at := range timesOf(t) {
				if at%int64(time.Millisecond) != 0 {
					return false
				}
			}
		}
	}
	return true
}

// timesOf yields the times of a task's report, in Unix ns.
func timesOf(t *model.TaskReport) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if t == nil {
			return
		}
		for _, e := range t.Events {
			if e != nil && !yield(e.Time) {
				return
			}
		}
		for _, at := range []*int64{t.LastRestart, t.StartedAt, t.FinishedAt} {
			if at != nil && !yield(*at) {
				return
			}
		}
	}
}

// sum returns a hash of the ids of which not all is stored.
func (c *ReportAllocs) sum() uint32 {
	h := fnv.New32a()
	for i, r := range c.Reports {
		_, _ = h.Write([]byte(r.ID)) // a hash never fails
		if c.short[i].ownDeployment {
			_, _ = h.Write([]byte(r.Health.DeploymentID))
		}
	}
	return h.Sum32()
}

func (c *ReportAllocs) apply(tx *state.Tx) error {
	view := tx.View()
	for i, r := range c.Reports {
		if c.short[i].alloc == "" {
			continue
		}
		a := view.AllocByShortID(c.short[i].alloc, c.Seen)
		if a == nil {
			return ErrReportsOutdated
		}
		r.ID = a.ID
		if c.short[i].ownDeployment {
			r.Health.DeploymentID = a.DeploymentID
		}
	}
	if c.sum() != c.Check {
		return ErrReportsOutdated
	}
	return (&UpdateAllocsFromClient{At: c.At, Reports: c.Reports, Evals: c.Evals}).apply(tx)
}

// packedShortReports is the stored form: Reports are encoded by packSplit.
type packedShortReports struct {
	At      int64
	Reports []byte
	Evals   []*model.Evaluation
	Seen    uint64
	Check   uint32
	Millis  bool
}

func (c *ReportAllocs) packedForm() any { return &packedShortReports{} }

func (c *ReportAllocs) pack() (any, error) {
	if len(c.short) != len(c.Reports) {
		return nil, errdefs.InvalidArgumentf("reports without their short ids; use NewReportAllocs")
	}
	data, err := packSplit(c.Reports, c.short, c.At, c.millis)
	return &packedShortReports{At: c.At, Reports: data, Evals: c.Evals, Seen: c.Seen, Check: c.Check, Millis: c.millis}, err
}

func (c *ReportAllocs) unpack(form any) error {
	f := form.(*packedShortReports)
	c.At, c.Evals, c.Seen, c.Check, c.millis = f.At, f.Evals, f.Seen, f.Check, f.Millis
	var err error
	c.Reports, c.short, err = unpackSplit(f.Reports, f.At, f.Millis)
	return err
}
