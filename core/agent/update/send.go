// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package update

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Run sends until ctx ends; what still waits then is tried once more, briefly.
// While nothing waits, no timer runs.
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

// backoff is the pace of tries while sending fails.
type backoff struct {
	failures int
	pause    int  // ticks until the next try
	hastened bool // the try before did not wait for its time
}

func (p *backoff) failed() {
	p.failures++
	p.pause = min(1<<min(p.failures, 5), maxPause)
}

// drain ticks until nothing waits.
func (b *Buffer) drain(ctx context.Context) {
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	var pace backoff
	for tick := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			tick++
			if pace.pause > 0 {
				pace.pause--
				continue
			}
			pace.hastened = false
		case <-b.again:
			// Once, lest a server that keeps refusing is asked without a pause.
			if pace.failures == 0 || pace.hastened {
				continue
			}
			pace.hastened = true
			ticker.Reset(Tick)
		case <-b.hurry:
			if time.Since(b.last) < Tick || pace.failures > 0 {
				continue // the next tick has it
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(Lead):
			}
			ticker.Reset(Tick)
		}
		batch, done := b.take(tick%NormalTicks == 0 || pace.failures > 0)
		if done {
			return
		}
		if len(batch) == 0 {
			continue
		}
		if err := b.deliver(ctx, batch); err != nil {
			pace.failed()
			if ctx.Err() == nil {
				b.logger.Warn("alloc updates could not be sent; they are kept and sent again", "allocs", len(batch), "error", err)
			}
			continue
		}
		pace = backoff{}
	}
}

// flush gives what waits a last chance when the agent ends.
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

// take returns the reports to be sent if all is set or something urgent waits, and
// marks them as sending. done says that nothing waits at all.
func (b *Buffer) take(all bool) (batch []*model.AllocReport, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 || !b.open {
		return nil, true
	}
	for _, e := range b.waiting {
		all = all || e.urgent
	}
	if !all {
		return nil, false
	}
	b.sending = map[string]entry{}
	for id, e := range b.waiting {
		if len(batch) == b.most {
			break // the next tick sends the rest
		}
		if e.quiet && time.Since(e.since) < Quiet {
			continue
		}
		delete(b.waiting, id)
		if r := e.alloc.ReportSince(b.acked[id]); r != nil {
			b.sending[id] = e
			batch = append(batch, r)
		}
	}
	return batch, false
}

// deliver sends a batch. On failure it goes back where nothing newer waits.
func (b *Buffer) deliver(ctx context.Context, batch []*model.AllocReport) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	whole, err := b.send(ctx, batch)
	b.last = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sending // without what was forgotten meanwhile
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
	for _, id := range whole {
		if e, ok := sent[id]; ok {
			delete(b.acked, id)
			b.putBack(e)
		}
	}
	return nil
}

// adapt has smaller batches sent after one that servers do not take for what it is,
// so that one report that is too large or wrong does not hold up all others.
func (b *Buffer) adapt(size int, err error) {
	switch {
	case errdefs.IsResourceExhausted(err) || errdefs.IsInvalidArgument(err):
		b.most = max(size/2, 1)
	case err == nil:
		b.most = min(2*b.most, maxBatch)
	}
}

// putBack has an update wait again where nothing newer does.
func (b *Buffer) putBack(e entry) {
	if newer, ok := b.waiting[e.alloc.ID]; ok {
		newer.urgent = newer.urgent || e.urgent
		e = newer
	}
	b.wait(e)
}
