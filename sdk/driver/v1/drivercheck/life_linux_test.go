// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fixed is a subject that has one task only, which writes nothing.
func fixed(wrap func(driver.Driver) driver.Driver) drivercheck.Subject {
	s := subject(wrap)
	s.Script, s.Forever, s.Process, s.Timeout = nil, map[string]any{"script": "sleep 600"}, true, 30*time.Second
	return s
}

func TestARuleThatLooksForWhatIsLeftFindsTheProcessesOfAFixedTask(t *testing.T) {
	t.Parallel()
	behind := shelldriver.New("shell") // ends what the defects lose
	lost, end := context.WithCancel(context.Background())
	var left sync.WaitGroup
	t.Cleanup(func() { end(); left.Wait() })
	atEnd := func(ref driver.TaskRef) {
		left.Go(func() { <-lost.Done(); _ = behind.DestroyTask(context.Background(), ref, true) })
	}
	for name, d := range map[string]defective{
		"start-killed": {destroy: func(_ context.Context, ref driver.TaskRef) error { atEnd(ref); return nil }},
		"start-cancelled": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) > time.Second {
				return next(ctx, c)
			}
			other := *c
			other.ID = "lost-" + c.ID
			_, _, _ = next(context.Background(), &other)
			atEnd(other.Ref())
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}},
		"recover-running": {recover: func(ctx context.Context, h *driver.Handle) error { // it loses the task
			if err := behind.DestroyTask(ctx, driver.TaskRef{ID: h.TaskID}, true); err != nil {
				return err
			}
			return errdefs.NotFoundf("gone")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrap := func(next driver.Driver) driver.Driver {
				d := d
				d.Driver = next
				return d
			}
			good := fixed(func(d driver.Driver) driver.Driver { return d })
			if r := check(t, name, good); r.Outcome != conformance.Passed {
				t.Errorf("without a defect: %+v", r)
			}
			bad := fixed(wrap)
			bad.Timeout = 6 * time.Second
			if r := check(t, name, bad); r.Outcome != conformance.Failed {
				t.Errorf("with the defect: %+v", r)
			}
		})
	}
}

func TestAFixedTaskWithoutProcessesOrWithLongStartsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	elsewhere := fixed(func(d driver.Driver) driver.Driver {
		return defective{Driver: d, start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			other := *c // as if it ran in a machine of its own; its directory in its environment ends it
			other.ID, other.Env = "elsewhere", maps.Clone(c.Env)
			delete(other.Env, "DRIVERTEST_TASK")
			_, o, err := next(ctx, &other)
			return &driver.Handle{TaskID: c.ID, Version: 1}, o, err
		}}
	})
	slow := fixed(func(d driver.Driver) driver.Driver {
		return defective{Driver: d, start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			<-time.After(time.Second)
			return next(ctx, c)
		}}
	})
	slow.Timeout = 10 * time.Second
	for why, s := range map[string]drivercheck.Subject{"no process on this machine": elsewhere, "allow more time with -timeout": slow} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			if r := check(t, "start-cancelled", s); r.Outcome != conformance.Skipped || !strings.Contains(r.Reason, why) {
				t.Errorf("%+v", r)
			}
		})
	}
}
