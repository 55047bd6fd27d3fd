// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// interrupted fails the first starts as a plugin that is killed in the middle does.
func interrupted(times int) func(context.Context, *driver.TaskConfig) error {
	return func(context.Context, *driver.TaskConfig) error {
		if times--; times < 0 {
			return nil
		}
		return errdefs.New(errdefs.Unavailable, fmt.Errorf("%w: connection closed", driver.ErrInterrupted))
	}
}

func TestAStartThatWasInterruptedIsBegunAgainWhenNothingOfItIsLeft(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = interrupted(2)
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"} // no failure is forgiven
		b.run(newAlloc(task))
		synctest.Wait()
		b.wants("web", "running")
		want := []string{"start web", "start web", "start web"}
		if got := b.driver.log; !slices.Equal(got, want) {
			t.Errorf("the driver was told %q", got)
		}
		if n := len(b.driver.destroyed); n != 2 {
			t.Errorf("it was destroyed %d times between three starts", n)
		}
		if id := b.driver.configs[2].ID; id != b.driver.configs[0].ID {
			t.Errorf("it is another run, %s", id)
		}
	})
}

func TestATaskThatEndsItsPluginAtEveryStartFails(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = interrupted(100)
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		b.run(newAlloc(task))
		synctest.Wait()
		b.wants("", "failed")
		if n := len(b.driver.configs); n != 3 {
			t.Errorf("it was started %d times", n)
		}
	})
}

func TestAStartWhoseAnswerWasLostIsTakenOverAndRunsOnce(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.lists = true
		b.driver.onStart = func(_ context.Context, c *driver.TaskConfig) error {
			b.driver.with(func() { b.driver.tasks[c.ID] = &fakeTask{config: c, ended: make(chan struct{})} })
			return errdefs.New(errdefs.Unavailable, fmt.Errorf("%w: connection closed", driver.ErrInterrupted))
		}
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("web", "running")
		if len(b.driver.configs) != 1 || len(b.driver.destroyed) != 0 {
			t.Errorf("%d starts, destroyed %v", len(b.driver.configs), b.driver.destroyed)
		}
		b.driver.end(t, "web", 0)
		synctest.Wait()
	})
}

func TestAStartThatAnAgentDidNotSeeTheEndOfIsTakenOverByTheNext(t *testing.T) {
	for name, happened := range map[string]bool{"it happened": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				b.driver.lists = true
				b.driver.onStart = func(ctx context.Context, c *driver.TaskConfig) error {
					if happened {
						b.driver.with(func() { b.driver.tasks[c.ID] = &fakeTask{config: c, ended: make(chan struct{})} })
					}
					<-ctx.Done() // the agent ends before it is answered
					return errdefs.Unavailablef("%w", ctx.Err())
				}
				b.run(newAlloc(newTask("web")))
				synctest.Wait()
				b.driver.with(func() { b.driver.onStart = nil })
				b.driver.lists, b.driver.away = true, errdefs.Unavailablef("the agent is gone") // it cannot undo it
				b.restart(func() { b.driver.with(func() { b.driver.away = nil }) })
				synctest.Wait()
				b.wants("web", "running")
				want := 2
				if happened {
					want = 1
				}
				if n := len(b.driver.configs); n != want || b.driver.configs[n-1].ID != b.driver.configs[0].ID {
					t.Errorf("%d starts, want %d of one run", n, want)
				}
			})
		})
	}
}
