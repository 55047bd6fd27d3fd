// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// failing fails every start and says what else it is asked.
type failing struct {
	*process
	err error
	log *[]string
}

func (f *failing) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	if f.err == nil {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return nil, nil, f.err
}

func (f *failing) StopTask(_ context.Context, id string, _ time.Duration, signal string) error {
	*f.log = append(*f.log, "stop "+id+" "+signal)
	return nil
}

func (f *failing) DestroyTask(_ context.Context, ref driver.TaskRef, _ bool) error {
	*f.log = append(*f.log, "destroy "+ref.ID)
	return nil
}

func TestAStartThatFailedIsUndone(t *testing.T) {
	once := []string{"stop t SIGKILL", "destroy t", "end what t left"}
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"it failed":                 {errors.New("no"), once},
		"it existed":                {errdefs.AlreadyExistsf("t"), nil},
		"it was interrupted":        {nil, slices.Concat(once, once, once)},
		"the driver did not answer": {errdefs.DeadlineExceededf("slow"), slices.Concat(once, once, once)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				d := &failing{newProcess(), c.err, &log}
				p := driver.NewProxy(d.Info(), driver.DefaultLimits(), driver.Hooks{EndLeftovers: func(_ context.Context, task *driver.TaskConfig, begun time.Time) int {
					if time.Since(begun) > 5*time.Second {
						t.Errorf("it is said to have begun at %s", begun)
					}
					log = append(log, "end what "+task.ID+" left")
					return 0
				}})
				p.Attach(t.Context(), d)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, _, err := p.StartTask(ctx, &driver.TaskConfig{ID: "t"}); err == nil {
					t.Fatal("it started")
				}
				if !slices.Equal(log, c.want) {
					t.Errorf("it was told %q, not %q", log, c.want)
				}
				p.Close()
			})
		})
	}
}

// mistaken gives the handle of another task, or none.
type mistaken struct {
	*failing
	handle *driver.Handle
}

func (m *mistaken) StartTask(context.Context, *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	return m.handle, nil, nil
}

// RecoverTask says which handle it is given.
func (m *mistaken) RecoverTask(_ context.Context, h *driver.Handle) error {
	*m.log = append(*m.log, "recover "+h.TaskID+" "+string(h.State))
	return nil
}

func TestAHandleOfAnotherTaskIsRefusedAndItsOwnerKeepsIts(t *testing.T) {
	for what, handle := range map[string]*driver.Handle{"none": nil, "without an id": {State: []byte("stolen")}, "another's": {TaskID: "victim", State: []byte("stolen")}} {
		var log []string
		d := &mistaken{&failing{newProcess(), nil, &log}, handle}
		p := driver.NewProxy(d.Info(), driver.DefaultLimits(), driver.Hooks{})
		p.Attach(t.Context(), d)
		if err := p.RecoverTask(t.Context(), &driver.Handle{TaskID: "victim", State: []byte("own")}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); !errdefs.IsInternal(err) {
			t.Errorf("%s: class %s, %v", what, errdefs.ClassOf(err), err)
		}
		next := &mistaken{&failing{newProcess(), nil, &log}, nil}
		p.Attach(t.Context(), next)
		_, _ = p.InspectTask(t.Context(), "victim") // which has it recovered
		if want := []string{"recover victim own", "stop t SIGKILL", "destroy t", "recover victim own"}; !slices.Equal(log, want) {
			t.Errorf("%s: the driver was told %q, not %q", what, log, want)
		}
		p.Close()
	}
}

// gone is a process that ended during a start: nothing is answered any more.
type gone struct{ *failing }

func (g *gone) StopTask(context.Context, string, time.Duration, string) error {
	return errdefs.Unavailablef("connection refused")
}

func TestAStartThatItsProcessDidNotSurviveIsToldFromOneThatFailed(t *testing.T) {
	var log []string
	for name, c := range map[string]struct {
		d    driver.Driver
		want bool
	}{
		"the process is gone":   {&gone{&failing{newProcess(), errdefs.Unavailablef("connection closed"), &log}}, true},
		"what it needs is away": {&failing{newProcess(), errdefs.Unavailablef("no registry"), &log}, false},
		"the task is at fault":  {&failing{newProcess(), errdefs.InvalidArgumentf("no image"), &log}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := driver.NewProxy(c.d.Info(), driver.DefaultLimits(), driver.Hooks{})
				p.Attach(t.Context(), c.d)
				defer p.Close()
				_, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
				if errors.Is(err, driver.ErrInterrupted) != c.want || err == nil {
					t.Errorf("%v", err)
				}
				if c.want && !errdefs.IsUnavailable(err) {
					t.Errorf("class %s", errdefs.ClassOf(err))
				}
			})
		})
	}
}

// TestAStartSaysWhyItsProcessEnded: the reason comes a moment later than the end of the
// connection, whose words say nothing.
func TestAStartSaysWhyItsProcessEnded(t *testing.T) {
	for what, c := range map[string]struct {
		after func(*driver.Proxy)
		want  string
	}{
		"it is told":   {func(p *driver.Proxy) { p.Detach(errdefs.Unavailablef("it wrote: panic: a bug")) }, "panic: a bug"},
		"nobody tells": {func(*driver.Proxy) {}, "EOF"},
		"the next runs now": {func(p *driver.Proxy) {
			p.Detach(errdefs.Unavailablef("it wrote: panic: a bug"))
			p.Attach(context.Background(), newProcess())
		}, "panic: a bug"},
		"it was replaced": {func(p *driver.Proxy) { p.Attach(context.Background(), newProcess()) }, "EOF"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				d := &gone{&failing{newProcess(), errdefs.Unavailablef("EOF"), &log}}
				p := driver.NewProxy(d.Info(), driver.DefaultLimits(), driver.Hooks{})
				p.Attach(t.Context(), d)
				defer p.Close()
				time.AfterFunc(time.Second, func() { c.after(p) })
				begun := time.Now()
				_, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"})
				if !errors.Is(err, driver.ErrInterrupted) || !errdefs.IsUnavailable(err) || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("the error is %v, want %s", err, c.want)
				}
				if took := time.Since(begun); took > 3*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestACallOfAUserSaysWhyItsProcessEnded: whoever runs a command or sends a signal reads more
// than the end of a connection.
func TestACallOfAUserSaysWhyItsProcessEnded(t *testing.T) {
	for what, call := range map[string]func(context.Context, *driver.Proxy) error{
		"a command": func(ctx context.Context, p *driver.Proxy) error {
			_, err := p.ExecTask(ctx, "t", driver.ExecOptions{Command: []string{"ls"}}, driver.ExecStream{})
			return err
		},
		"a signal": func(ctx context.Context, p *driver.Proxy) error { return p.SignalTask(ctx, "t", "SIGHUP") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dying{newProcess()}
				p := driver.NewProxy(d.Info(), driver.DefaultLimits(), driver.Hooks{})
				p.Attach(t.Context(), d)
				defer p.Close()
				if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() { p.Detach(errdefs.Unavailablef("it wrote: panic: a bug")) })
				if err := call(t.Context(), p); !errdefs.IsUnavailable(err) || !strings.HasSuffix(err.Error(), "went away in the middle of the call: it wrote: panic: a bug") {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// dying is a process that ends when a user calls.
type dying struct{ *process }

func (d *dying) ExecTask(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	return driver.ExitResult{}, errdefs.Unavailablef("EOF")
}

func (d *dying) SignalTask(context.Context, string, string) error { return errdefs.Unavailablef("EOF") }

// commanded runs commands, and says so.
type commanded struct {
	*process
	log *[]string
}

func (c *commanded) ExecTask(context.Context, string, driver.ExecOptions, driver.ExecStream) (driver.ExitResult, error) {
	*c.log = append(*c.log, "runs")
	return driver.ExitResult{}, nil
}

func TestTheHostKnowsWhileACommandRunsInATask(t *testing.T) {
	var log []string
	d := &commanded{newProcess(), &log}
	p := driver.NewProxy(d.Info(), driver.DefaultLimits(), driver.Hooks{Starting: func() func() {
		log = append(log, "begins")
		return func() { log = append(log, "has ended") }
	}})
	defer p.Close()
	p.Attach(t.Context(), d)
	if _, err := p.ExecTask(t.Context(), "t", driver.ExecOptions{Command: []string{"ls"}}, driver.ExecStream{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"begins", "runs", "has ended"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}
