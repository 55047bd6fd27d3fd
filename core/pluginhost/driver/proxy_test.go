// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// process is a driver's process as scripted by a test.
type process struct {
	driver.Driver

	mu        sync.Mutex
	known     map[string]bool
	recovered int
	recover   func(n int) error // the outcome of recovery n, from 1
	wait      func(ctx context.Context, n int) (driver.ExitResult, error)
	waits     int
}

func newProcess() *process { return &process{known: map[string]bool{}} }

func (p *process) Info() driver.Info { return driver.Info{Name: "fake"} }

func (p *process) StartTask(_ context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[c.ID] = true
	return &driver.Handle{TaskID: c.ID, Version: 1}, nil, nil
}

func (p *process) RecoverTask(_ context.Context, h *driver.Handle) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recovered++
	if p.recover != nil {
		if err := p.recover(p.recovered); err != nil {
			return err
		}
	}
	p.known[h.TaskID] = true
	return nil
}

func (p *process) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known[id] {
		return nil, errdefs.NotFoundf("task %q", id)
	}
	return &driver.TaskStatus{ID: id, State: driver.TaskRunning}, nil
}

func (p *process) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	p.mu.Lock()
	if !p.known[id] {
		p.mu.Unlock()
		return driver.ExitResult{}, errdefs.NotFoundf("task %q", id)
	}
	p.waits++
	n := p.waits
	p.mu.Unlock()
	return p.wait(ctx, n)
}

func (p *process) DestroyTask(_ context.Context, ref driver.TaskRef, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, ref.ID)
	return nil
}

func (p *process) recoveries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recovered
}

// started returns a proxy with a task "t" started in the first process.
func started(t *testing.T, first *process) *driver.Proxy {
	t.Helper()
	p := driver.NewProxy(first.Info(), driver.DefaultLimits(), driver.Hooks{})
	p.Attach(t.Context(), first)
	if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	return p
}

var errGone = errors.New("killed by the test")

func TestTasksAreRecoveredOnceInEachNewProcess(t *testing.T) {
	p := started(t, newProcess())
	second := newProcess()
	p.Detach(errGone)
	p.Attach(t.Context(), second)
	for range 3 {
		if _, err := p.InspectTask(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	if n := second.recoveries(); n != 1 {
		t.Fatalf("%d recoveries, want 1", n)
	}
}

func TestATaskThatIsGoneAfterARestartIsNotFound(t *testing.T) {
	p := started(t, newProcess())
	second := newProcess()
	second.recover = func(int) error { return errdefs.NotFoundf("no trace of it") }
	p.Detach(errGone)
	p.Attach(t.Context(), second)
	for range 2 {
		if _, err := p.WaitTask(t.Context(), "t"); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "no trace of it") {
			t.Fatalf("WaitTask: %v; want why it could not be recovered", err)
		}
	}
	if err := p.DestroyTask(t.Context(), driver.TaskRef{ID: "t"}, true); err != nil {
		t.Fatalf("DestroyTask: %v", err)
	}
}

func TestARecoveryThatCannotBeDecidedYetIsTriedAgainAndNeverTakenAsDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, newProcess())
		second := newProcess()
		second.recover = func(n int) error {
			if n < 4 {
				return errdefs.Unavailablef("the daemon is away")
			}
			return nil
		}
		second.wait = func(context.Context, int) (driver.ExitResult, error) { return driver.ExitResult{ExitCode: 3}, nil }
		p.Detach(errGone)
		p.Attach(t.Context(), second)
		if _, err := p.InspectTask(t.Context(), "t"); !errdefs.IsUnavailable(err) {
			t.Fatalf("InspectTask meanwhile: %v", err)
		}
		if r, err := p.WaitTask(t.Context(), "t"); err != nil || r.ExitCode != 3 {
			t.Fatalf("WaitTask: %+v, %v", r, err)
		}
	})
}

func TestAWaitThatTheDriverCannotAnswerNowIsRepeatedAfterARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newProcess()
		first.wait = func(_ context.Context, n int) (driver.ExitResult, error) {
			if n == 1 {
				return driver.ExitResult{}, errdefs.Unavailablef("the supervisor is being restarted")
			}
			return driver.ExitResult{ExitCode: 4}, nil
		}
		p := started(t, first)
		if r, err := p.WaitTask(t.Context(), "t"); err != nil || r.ExitCode != 4 {
			t.Fatalf("WaitTask: %+v, %v", r, err)
		}
		if first.recoveries() != 1 {
			t.Fatalf("%d recoveries, want 1", first.recoveries())
		}
	})
}

func TestCallsWaitALittleForAPluginThatIsBeingRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := started(t, newProcess())
		p.Detach(errGone)
		done := make(chan error, 1)
		go func() {
			_, err := p.InspectTask(t.Context(), "t")
			done <- err
		}()
		synctest.Wait()
		p.Attach(t.Context(), newProcess())
		if err := <-done; err != nil {
			t.Fatal(err)
		}

		p.Detach(errGone)
		begin := time.Now()
		_, err := p.InspectTask(t.Context(), "t")
		if !errdefs.IsUnavailable(err) || !errors.Is(err, errGone) {
			t.Fatalf("with no plugin: %v", err)
		}
		if waited := time.Since(begin); waited != driver.DefaultLimits().Ready {
			t.Fatalf("gave up after %s", waited)
		}
	})
}

func TestAClosedConnectionIsUnavailableAndNotCanceled(t *testing.T) {
	first := newProcess()
	first.wait = func(context.Context, int) (driver.ExitResult, error) {
		return driver.ExitResult{}, errdefs.Canceledf("grpc: the client connection is closing")
	}
	p := started(t, first)
	go p.Close()
	if _, err := p.WaitTask(t.Context(), "t"); !errdefs.IsUnavailable(err) {
		t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	first := newProcess()
	first.wait = func(ctx context.Context, _ int) (driver.ExitResult, error) {
		<-ctx.Done()
		return driver.ExitResult{}, ctx.Err()
	}
	p := started(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.WaitTask(ctx, "t"); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
}
