// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// updateBatch is the maximum number of allocs that one Command updates, unless a
// single node sends more.
const updateBatch = 8192

// updateRequest is the report of one node.
type updateRequest struct {
	nodeID  string
	reports []*model.AllocReport
	done    chan updateResult // of size 1
}

type updateResult struct {
	answer rpc.UpdateAnswer
	err    error
}

// UpdateAllocs implements rpc.Servers: the leader takes the reports.
func (d *Dispatcher) UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	if _, err := d.known(d.cfg.Store.View(), id); err != nil {
		return rpc.UpdateAnswer{}, err
	}
	return d.leader.UpdateAllocs(ctx, id, reports)
}

// UpdateAllocs implements Leader: it commits what is new in the reports of a ready node.
func (l leading) UpdateAllocs(ctx context.Context, id rpc.Identity, reports []*model.AllocReport) (rpc.UpdateAnswer, error) {
	d := l.d
	view := d.cfg.Store.View()
	node, err := identify(view, id)
	if err != nil {
		return rpc.UpdateAnswer{}, err
	}
	if node.Status != model.NodeStatusReady {
		return rpc.UpdateAnswer{}, errdefs.FailedPreconditionf("node %q is %s: only a ready node may update its allocs; send a heartbeat first", id.NodeID, node.Status)
	}
	for _, r := range reports {
		if err := r.Validate(); err != nil {
			return rpc.UpdateAnswer{}, err
		}
	}
	if len(reports) == 0 {
		return rpc.UpdateAnswer{Index: view.Index()}, nil
	}
	req := &updateRequest{nodeID: id.NodeID, reports: reports, done: make(chan updateResult, 1)}
	select {
	case d.updates <- req:
	case <-ctx.Done():
		return rpc.UpdateAnswer{}, errdefs.DeadlineExceededf("the updates of node %q were not taken in time; send them again: %w", id.NodeID, ctx.Err())
	}
	select {
	case r := <-req.done:
		return r.answer, r.err
	case <-ctx.Done():
		return rpc.UpdateAnswer{}, errdefs.DeadlineExceededf("the updates of node %q were not committed in time; send them again: %w", id.NodeID, ctx.Err())
	}
}

// updateGap is the least time between two Commands of reports. Nodes send at most every
// 200 ms, so that the reports of several nodes share an entry, and a report after a pause
// does not wait.
const updateGap = 100 * time.Millisecond

// commitUpdates combines all reports that arrive during a commit, and until updateGap after
// the one before, into the next Command.
func (d *Dispatcher) commitUpdates(ctx context.Context) {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gap.C:
		}
		select {
		case <-ctx.Done():
			return
		case req := <-d.updates:
			gap.Reset(updateGap)
			d.commit(ctx, d.gather(req))
		}
	}
}

// Limits from which a leader asks nodes to pause: a commit that takes longer than
// easyCommit, or more than easyRate reports per second, is a sign of load.
const (
	easyCommit   = 50 * time.Millisecond
	easyRate     = 2000
	longestPause = 5 * time.Second
)

// pauseAfter returns how long nodes should wait before their next reports. took is the
// duration of the last commit, nodes the number of nodes whose reports it held. The pause
// keeps the leader's work on reports below a fifth of its time, and the rate below easyRate
// nodes per second. It is 0 if nodes need not slow down.
func pauseAfter(took time.Duration, nodes int) time.Duration {
	pause := time.Duration(nodes) * time.Second / easyRate
	if took > easyCommit {
		pause = max(pause, 4*took)
	}
	if pause <= 2*updateGap {
		return 0
	}
	return min(pause, longestPause)
}

// gather takes all requests that wait.
func (d *Dispatcher) gather(first *updateRequest) []*updateRequest {
	batch, allocs := []*updateRequest{first}, len(first.reports)
	for allocs < updateBatch {
		select {
		case req := <-d.updates:
			batch = append(batch, req)
			allocs += len(req.reports)
		default:
			return batch
		}
	}
	return batch
}

// commit proposes a Command with the news in a batch, if there are any, and answers.
// If one node's report causes a panic, only that report is rejected.
func (d *Dispatcher) commit(ctx context.Context, batch []*updateRequest) {
	begun := d.cfg.Now()
	answers, err := d.tryCommit(ctx, batch)
	pause := pauseAfter(d.cfg.Now().Sub(begun), len(batch))
	if errors.Is(err, fsm.ErrPanicked) && len(batch) > 1 {
		for _, req := range batch {
			d.commit(ctx, []*updateRequest{req})
		}
		return
	}
	for i, req := range batch {
		answers[i].Pause = pause
		req.done <- updateResult{answer: answers[i], err: err}
	}
}

func (d *Dispatcher) tryCommit(ctx context.Context, batch []*updateRequest) (answers []rpc.UpdateAnswer, err error) {
	answers = make([]rpc.UpdateAnswer, len(batch))
	defer panics.Handle(func(p *panics.Panic) {
		d.logger.Error("a node's report of its allocs cannot be taken; this is a defect of drover", p.Fields("node_id", batch[0].nodeID)...)
		err = errdefs.Internalf("taking the report %w; see the server's log", fsm.ErrPanicked)
	})
	view, now := d.cfg.Store.View(), d.cfg.Now()
	var reports []*model.AllocReport
	for i, req := range batch {
		var news []*model.AllocReport
		var foreign string
		news, answers[i].Whole, foreign = newsOf(view, req)
		if foreign != "" {
			d.sayForeign(req.nodeID, foreign, now)
		}
		reports = append(reports, news...)
	}
	index := view.Index()
	if len(reports) > 0 {
		index, err = d.store(ctx, view, reports, now)
	}
	for i := range answers {
		answers[i].Index = index
	}
	return answers, err
}

// store commits reports on allocs of view.
func (d *Dispatcher) store(ctx context.Context, view *state.View, reports []*model.AllocReport, now time.Time) (index uint64, err error) {
	at, evals := now.UnixNano(), EvalsOf(view, reports, now, d.cfg.NewID)
	if view.Level() >= fsm.LevelReportAllocs {
		index, err = d.propose(ctx, fsm.NewReportAllocs(view, at, reports, evals))
		if !errors.Is(err, fsm.ErrReportsOutdated) {
			return index, err
		}
	}
	return d.propose(ctx, &fsm.UpdateAllocsFromClient{At: at, Reports: reports, Evals: evals})
}

// foreignPause is the time between two log lines about allocs of other nodes.
const foreignPause = time.Minute

// sayForeign logs that a node reports an alloc of another node, which no node of ours does.
func (d *Dispatcher) sayForeign(nodeID, allocID string, now time.Time) {
	d.mu.Lock()
	before := d.foreign
	say := before.IsZero() || now.Sub(before) >= foreignPause
	if say {
		d.foreign = now
	}
	d.mu.Unlock()
	if say {
		d.logger.Warn("a node reports on an alloc that is on another node; the report is ignored. If two machines have copies of one data directory, delete it on the copy",
			"node_id", nodeID, "alloc_id", allocID)
	}
}

// newsOf returns the reports' news, without allocs that are not on the node. whole
// lists allocs for which the state is too old for the report; foreign is an alloc that is on
// another node.
func newsOf(view *state.View, req *updateRequest) (news []*model.AllocReport, whole []string, foreign string) {
	for _, r := range req.reports {
		known := view.AllocByID(r.ID)
		if known == nil { // it was collected meanwhile
			continue
		}
		if known.NodeID != req.nodeID {
			foreign = r.ID
			continue
		}
		n, missing := known.News(r)
		if n != nil {
			news = append(news, n)
		}
		if missing {
			whole = append(whole, r.ID)
		}
	}
	return news, whole, foreign
}

// EvalsOf returns one eval for each job of which, by the news of nodes, an alloc has
// failed, reconnected, been stopped, or become healthy so that another may be stopped. It is
// pure.
func EvalsOf(view *state.View, updates []*model.AllocReport, now time.Time, newID func() string) []*model.Evaluation {
	var evals []*model.Evaluation
	seen := map[model.JobKey]bool{}
	for _, u := range updates {
		old := view.AllocByID(u.ID)
		if old == nil || seen[old.JobKey()] {
			continue
		}
		trigger := triggerOf(view, old, u)
		if trigger == "" {
			continue
		}
		job := view.JobByID(old.Namespace, old.JobID)
		if job == nil || job.Stop && trigger != model.EvalTriggerReconnect || trigger == model.EvalTriggerAllocStop && job.Completes() {
			continue
		}
		seen[old.JobKey()] = true
		evals = append(evals, model.NewEvaluation(newID(), trigger, job, now))
	}
	return evals
}

// triggerOf returns the trigger of the eval that an update requires, "" if none.
func triggerOf(view *state.View, old *model.Allocation, u *model.AllocReport) string {
	status := cmp.Or(u.ClientStatus, old.ClientStatus)
	switch {
	case old.ClientStatus == model.AllocClientStatusUnknown && status != model.AllocClientStatusUnknown:
		return model.EvalTriggerReconnect
	case status == model.AllocClientStatusFailed && old.ClientStatus != status && !old.ServerTerminalStatus():
		return model.EvalTriggerRetryFailedAlloc
	case status == model.AllocClientStatusComplete && old.ClientStatus != status && !old.ServerTerminalStatus():
		return model.EvalTriggerAllocStop // by servers that were restored to a state of before
	case hasRival(view, old) && beginsToServe(view, old, old.WithNews(u)):
		return model.EvalTriggerReconnect
	}
	return ""
}

// hasRival reports whether another alloc may claim the same place: one of the two was
// replaced while its node was unreachable, and which one stays may depend on which is
// running.
func hasRival(view *state.View, a *model.Allocation) bool {
	if a.ServerTerminalStatus() {
		return false
	}
	for prev := view.AllocByID(a.PreviousAllocation); prev != nil; prev = view.AllocByID(prev.PreviousAllocation) {
		if !prev.TerminalStatus() {
			return true
		}
	}
	next := view.AllocByID(a.NextAllocation)
	return next != nil && !next.ServerTerminalStatus()
}

func beginsToServe(view *state.View, old, now *model.Allocation) bool {
	job := view.JobByVersion(old.Namespace, old.JobID, old.JobVersion)
	if job == nil {
		return false
	}
	tg := job.LookupTaskGroup(old.TaskGroup)
	if tg == nil {
		return false
	}
	return now.Serves(tg) && !old.Serves(tg)
}
