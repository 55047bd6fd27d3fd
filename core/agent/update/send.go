// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package update

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Run sends until ctx ends; it then tries once more, briefly, to send waiting updates.
// While nothing is waiting, it uses no timer.
func (b *Buffer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			if b.mayDrain() {
				b.drain(ctx)
			}
		}
		if ctx.Err() != nil {
			b.flush(ctx)
			return
		}
	}
}

func (b *Buffer) mayDrain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open && len(b.waiting) > 0
}

// backoff paces attempts while sending fails.
type backoff struct {
	failures int
	pause    int       // ticks until the next try
	hastened bool      // the try before did not wait for its time
	logged   time.Time // when a failure was last logged, and of which class it was
	class    errdefs.Class
}

// logAgain is the pause between two lines of the log about servers that take no updates.
const logAgain = time.Minute

func (p *backoff) failed() {
	p.failures++
	p.pause = min(1<<min(p.failures, 5), maxPause)
}

// drain ticks until nothing is waiting.
func (b *Buffer) drain(ctx context.Context) {
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	var pace backoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if pace.pause > 0 {
				pace.pause--
				continue
			}
			if b.throttled() {
				continue
			}
			pace.hastened = false
		case <-b.again:
			// Shorten the pause only once, so that a server that keeps refusing is not
			// called in a tight loop.
			if pace.failures == 0 || pace.hastened {
				continue
			}
			pace.hastened = true
			ticker.Reset(Tick)
		case <-b.hurry:
			if time.Since(b.last) < Tick || pace.failures > 0 || b.throttled() {
				continue // the next tick has it
			}
			if sleep.For(ctx, Lead) != nil {
				return
			}
			ticker.Reset(Tick)
		}
		batch, done := b.take(pace.failures > 0)
		if done {
			return
		}
		if len(batch) == 0 {
			continue
		}
		if err := b.deliver(ctx, batch); err != nil {
			pace.failed()
			if class := errdefs.ClassOf(err); ctx.Err() == nil && (class != pace.class || time.Since(pace.logged) >= logAgain) {
				pace.logged, pace.class = time.Now(), class
				b.logger.Warn("alloc updates could not be sent; they are kept and sent again", "allocs", len(batch), "attempts", pace.failures, "error", err)
			}
			continue
		}
		pace = backoff{}
	}
}

// throttled reports whether a loaded server has asked for a pause that has not ended.
func (b *Buffer) throttled() bool { return time.Now().Before(b.notBefore) }

// flush sends the waiting updates once more when the agent ends.
func (b *Buffer) flush(ctx context.Context) {
	batch, _ := b.take(true)
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := b.deliver(ctx, batch); err != nil {
		b.logger.Warn("alloc updates could not be sent before the agent ended; they follow after its start", "allocs", len(batch), "error", err)
	}
}

// take returns the reports to send and marks them as being sent: the urgent ones, then
// those that have waited for long enough. If there are only the latter, or with all, it also
// returns those that could wait longer. done means that nothing is waiting.
func (b *Buffer) take(all bool) (batch []*model.AllocReport, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 || !b.open {
		return nil, true
	}
	b.sending = map[string]entry{}
	batch = b.choose(nil, func(e entry) bool { return e.urgent })
	urgent := len(batch)
	batch = b.choose(batch, func(e entry) bool { return time.Since(e.since) >= e.patience() })
	if all || urgent == 0 && len(batch) > 0 {
		batch = b.choose(batch, func(e entry) bool { return !e.quiet })
	}
	return batch, false
}

// patience returns for how long an update that is not urgent waits for others.
func (e entry) patience() time.Duration {
	if e.quiet {
		return Quiet
	}
	return Normal
}

// unreported is what servers say of an alloc of which no node has reported anything.
var unreported = (&model.Allocation{ClientStatus: model.AllocClientStatusPending}).ReportDigest()

// choose moves waiting reports to a batch. The lock must be held.
func (b *Buffer) choose(batch []*model.AllocReport, now func(entry) bool) []*model.AllocReport {
	for id, e := range b.waiting {
		if len(batch) == b.most {
			break // the next tick sends the rest
		}
		if !now(e) {
			continue
		}
		delete(b.waiting, id)
		if r := e.alloc.ReportSince(b.acked[id]); r != nil {
			if d := b.told[id]; b.acked[id] == nil && d != unreported {
				r.Replaces = d
			}
			b.sending[id] = e
			batch = append(batch, r)
		}
	}
	return batch
}

// deliver sends a batch. After a failure its reports wait again, unless newer ones do.
func (b *Buffer) deliver(ctx context.Context, batch []*model.AllocReport) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	answer, err := b.send(ctx, batch)
	b.last = time.Now()
	b.notBefore = b.last.Add(min(answer.Pause, MaxThrottle))
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sending // without what was removed meanwhile
	b.sending = nil
	b.adapt(len(batch), err)
	if err != nil {
		for _, e := range sent {
			b.putBack(e)
		}
		return err
	}
	for _, e := range sent {
		b.acknowledge(e.alloc)
	}
	for _, id := range answer.Whole {
		if e, ok := sent[id]; ok {
			delete(b.acked, id)
			b.putBack(e)
		}
	}
	return nil
}

// adapt reduces the batch size after a batch was rejected as invalid, so that a single
// report that is too large or invalid does not block the others.
func (b *Buffer) adapt(size int, err error) {
	switch {
	case errdefs.IsResourceExhausted(err) || errdefs.IsInvalidArgument(err):
		b.most = max(size/2, 1)
	case err == nil:
		b.most = min(2*b.most, maxBatch)
	}
}

// putBack makes an update wait again unless a newer one does.
func (b *Buffer) putBack(e entry) {
	if newer, ok := b.waiting[e.alloc.ID]; ok {
		newer.urgent = newer.urgent || e.urgent
		e = newer
	}
	b.wait(e)
}
