// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// progressBurst and progressRate bound the progress of one start: progressBurst messages,
// and progressRate more for each second that the start takes.
const (
	progressBurst = 20
	progressRate  = 10
)

func checkProgress(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	events := b.events(ctx)
	heard := make(chan []driver.Progress, 1)
	go func() {
		var all []driver.Progress
		for e := range events {
			if e.Progress != nil {
				all = append(all, *e.Progress)
			}
		}
		heard <- all
	}()
	begun := time.Now()
	b.start(forever)
	took := time.Since(begun)
	cancel()
	var all []driver.Progress
	select {
	case all = <-heard:
	case <-b.ctx.Done():
		b.t.Fatalf("the events do not end with their context")
	}
	if len(all) == 0 {
		b.t.Skipf("the driver told of no progress")
	}
	for _, p := range all {
		switch {
		case p.Phase == "" && p != (driver.Progress{}):
			b.t.Errorf("a progress has no phase: %+v", p)
		case p.Done < 0 || p.Total < 0 || p.Total > 0 && p.Done > p.Total:
			b.t.Errorf("a progress does not count from 0 up to its total: %+v", p)
		case p.Unit == "" && (p.Done > 0 || p.Total > 0):
			b.t.Errorf("a progress does not say what it counts: %+v", p)
		}
	}
	if most := progressBurst + int(took.Seconds()*progressRate); len(all) > most {
		b.t.Errorf("there were %d of them in %s, want at most %d", len(all), took, most)
	}
}
