// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheProgressOfAStartIsToldAndNeitherKeptNorReported(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		begin := make(chan struct{})
		b.driver.onStart = func(ctx context.Context, _ *driver.TaskConfig) error { <-begin; return nil }
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		tell := func(p driver.Progress, message string) {
			t.Helper()
			if !b.r.NoteDriverEvent("fake", driver.TaskEvent{TaskID: "a1/web/1", Message: message, Progress: &p}) {
				t.Fatal("the alloc does not know its task")
			}
		}
		says := func(want string) {
			t.Helper()
			s := b.r.Steps()[0]
			if s.Detail != want || (s.Progress != nil) != (want != "") {
				t.Errorf("%q with %+v, want %q", s.Detail, s.Progress, want)
			}
		}
		says("")
		before := b.events("web")
		for percent := range int64(101) {
			tell(driver.Progress{Phase: "Downloading image", Done: percent << 20, Total: 100 << 20, Unit: driver.UnitBytes}, "")
		}
		says("Downloading image: 100 % (100.0 MiB of 100.0 MiB)")
		if got := b.events("web"); got != before {
			t.Errorf("progress became events: %s", got)
		}
		tell(driver.Progress{Phase: "Unpacking", Done: 9, Total: 3, Unit: "layers"}, "unpacks")
		says("Unpacking: 100 % (3 of 3 layers)")
		b.hasEvent("web", "unpacks")
		tell(driver.Progress{Phase: "Unpacking", Done: 2, Unit: "layers"}, "")
		says("Unpacking: 2 layers so far")
		if b.r.NoteDriverEvent("fake", driver.TaskEvent{TaskID: "a1/web/7", Progress: &driver.Progress{Phase: "of another run"}}) {
			t.Error("an event of another run was taken")
		}
		if b.r.NoteDriverEvent("other", driver.TaskEvent{TaskID: "a1/web/1", Message: "is broken", Progress: &driver.Progress{Phase: "of another driver"}}) {
			t.Error("an event of another driver was taken")
		}
		says("Unpacking: 2 layers so far")
		time.Sleep(b.cfg.Limits.Slow)
		synctest.Wait()
		b.hasEvent("web", `step "driver start" has taken 30s; it ends at the latest after 31m0s: Unpacking: 2 layers so far`)
		tell(driver.Progress{}, "")
		says("")
		tell(driver.Progress{Phase: strings.Repeat("x", 1000)}, "")
		if s := b.r.Steps()[0]; len(s.Detail) > 200 {
			t.Errorf("a phase of %d bytes was kept", len(s.Detail))
		}
		close(begin)
		synctest.Wait()
		b.wants("web", "running")
		says("")
		tell(driver.Progress{Phase: "late"}, "")
		says("")
	})
}

func TestAStartThatBeginsAgainHasNoOldProgress(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		tries := 0
		b.driver.onStart = func(ctx context.Context, c *driver.TaskConfig) error {
			if tries++; tries == 1 {
				b.r.NoteDriverEvent("fake", driver.TaskEvent{TaskID: c.ID, Progress: &driver.Progress{Phase: "first"}})
				if got := b.r.Steps()[0].Detail; got != "first" {
					t.Errorf("the first try says %q", got)
				}
				return errdefs.Unavailablef("the plugin died: %w", driver.ErrInterrupted)
			}
			if s := b.r.Steps()[0]; s.Progress != nil || s.Detail != "" {
				t.Errorf("the second try begins with %+v", s.Progress)
			}
			return nil
		}
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("web", "running")
		if tries != 2 {
			t.Errorf("%d tries", tries)
		}
	})
}
