// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// subject is a driver whose defect, if it has one, lies in the methods that wrap overrides.
func subject(wrap func(driver.Driver) driver.Driver) drivercheck.Subject {
	return drivercheck.Subject{
		Connect: func(*conformance.T) (driver.Driver, func()) { return wrap(shelldriver.New("shell")), func() {} },
		Script:  func(s string) map[string]any { return map[string]any{"script": s} }, InProcess: true,
	}
}

// defect is a subject that has one: checks of it may wait for what never comes.
func defect(wrap func(driver.Driver) driver.Driver) drivercheck.Subject {
	s := subject(wrap)
	s.Timeout = 5 * time.Second
	return s
}

func check(t *testing.T, name string, s drivercheck.Subject) conformance.Result {
	t.Helper()
	all := drivercheck.Checks()
	i := slices.IndexFunc(all, func(c drivercheck.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	return all[i].Run(t.Context(), s)
}

type start func(context.Context, *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error)

// defective overrides some methods of a driver that keeps the contract.
type defective struct {
	driver.Driver
	info    func(driver.Info) driver.Info
	start   func(start, context.Context, *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error)
	recover func(context.Context, *driver.Handle) error
	wait    func(driver.ExitResult) driver.ExitResult
	unknown func(string) (*driver.TaskStatus, error)
	stats   func([]driver.TaskStats) []driver.TaskStats
	prints  func(context.Context) (<-chan driver.Fingerprint, error)
	inspect func(*driver.TaskStatus)
	every   func(time.Duration) time.Duration
	grace   func(time.Duration) time.Duration
	destroy func(context.Context, driver.TaskRef) error
	exec    func(exec, context.Context, driver.ExecStream) (driver.ExitResult, error)
	with    func(*driver.ExecOptions)
	pids    func(map[string]driver.PidStats)
	found   func(context.Context, []driver.Diagnostic) []driver.Diagnostic
	update  func(next func() error, id string, memoryMB int64) error
	pause   func(next func() error) error
	resume  func(next func() error) error
}

func (d defective) PauseTask(ctx context.Context, id string) error {
	next := func() error { return d.Driver.(driver.Pauser).PauseTask(ctx, id) }
	if d.pause != nil {
		return d.pause(next)
	}
	return next()
}

func (d defective) ResumeTask(ctx context.Context, id string) error {
	next := func() error { return d.Driver.(driver.Pauser).ResumeTask(ctx, id) }
	if d.resume != nil {
		return d.resume(next)
	}
	return next()
}

func (d defective) ValidateTask(ctx context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	out, err := d.Driver.(driver.Validator).ValidateTask(ctx, task)
	if d.found != nil {
		out = d.found(ctx, out)
	}
	return out, err
}

func (d defective) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	if d.grace != nil {
		timeout = d.grace(timeout)
	}
	return d.Driver.StopTask(ctx, id, timeout, signal)
}

func (d defective) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	if d.destroy != nil {
		return d.destroy(ctx, ref)
	}
	return d.Driver.DestroyTask(ctx, ref, force)
}

type exec func(context.Context, driver.ExecStream) (driver.ExitResult, error)

func (d defective) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	if d.with != nil {
		d.with(&opts)
	}
	next := func(ctx context.Context, stream driver.ExecStream) (driver.ExitResult, error) {
		return d.Driver.ExecTask(ctx, id, opts, stream)
	}
	if d.exec != nil {
		return d.exec(next, ctx, stream)
	}
	return next(ctx, stream)
}

// firstBytes passes on so many bytes and drops the rest.
type firstBytes struct {
	w    io.Writer
	left int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if _, err := f.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (d defective) ProcessStats(ctx context.Context, id string) (map[string]driver.PidStats, error) {
	out, err := d.Driver.(driver.ProcessMeter).ProcessStats(ctx, id)
	if d.pids != nil {
		d.pids(out)
	}
	return out, err
}

func (d defective) UpdateTask(ctx context.Context, id string, r driver.Resources) error {
	next := func() error { return d.Driver.(driver.Updater).UpdateTask(ctx, id, r) }
	if d.update != nil {
		return d.update(next, id, r.MemoryMB)
	}
	return next()
}

func (d defective) Info() driver.Info {
	if d.info != nil {
		return d.info(d.Driver.Info())
	}
	return d.Driver.Info()
}

func (d defective) StartTask(ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	if d.start != nil {
		return d.start(d.Driver.StartTask, ctx, c)
	}
	return d.Driver.StartTask(ctx, c)
}

func (d defective) RecoverTask(ctx context.Context, h *driver.Handle) error {
	if d.recover != nil {
		return d.recover(ctx, h)
	}
	return d.Driver.RecoverTask(ctx, h)
}

func (d defective) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	r, err := d.Driver.WaitTask(ctx, id)
	if d.wait != nil {
		r = d.wait(r)
	}
	return r, err
}

func (d defective) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	s, err := d.Driver.InspectTask(ctx, id)
	if d.unknown != nil && err != nil {
		return d.unknown(id)
	}
	if d.inspect != nil && err == nil {
		d.inspect(s)
	}
	return s, err
}

func (d defective) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	if d.prints != nil {
		return d.prints(ctx)
	}
	return d.Driver.Fingerprint(ctx)
}

func (d defective) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	if d.every != nil {
		interval = d.every(interval)
	}
	in, err := d.Driver.TaskStats(ctx, interval)
	if d.stats == nil || err != nil {
		return in, err
	}
	out := make(chan []driver.TaskStats)
	go func() {
		defer close(out)
		for s := range in {
			select {
			case out <- d.stats(s):
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

func TestADefectFailsTheCheckOfItsRuleOnly(t *testing.T) {
	var boots, updated atomic.Int64
	behind := shelldriver.New("shell") // one driver behind all processes: what the defect loses is ended all the same
	lost, end := context.WithCancel(context.Background())
	var left sync.WaitGroup
	t.Cleanup(func() { end(); left.Wait() })
	for name, d := range map[string]defective{
		"info": {info: func(i driver.Info) driver.Info { i.Name = fmt.Sprint("shell", boots.Add(1)); return i }},
		"fingerprint": {prints: func(context.Context) (<-chan driver.Fingerprint, error) {
			out := make(chan driver.Fingerprint, 1) // never closed
			out <- driver.Fingerprint{Health: driver.HealthHealthy}
			return out, nil
		}},
		"wait-alone": {wait: func(r driver.ExitResult) driver.ExitResult { r.ExitCode = -1; return r }},
		"recover-gone": {recover: func(ctx context.Context, h *driver.Handle) error {
			if err := behind.RecoverTask(ctx, h); err != nil {
				return errdefs.Unavailablef("it may come back: %w", err)
			}
			return nil
		}},
		"exit-code": {wait: func(r driver.ExitResult) driver.ExitResult { r.ExitCode = 0; return r }},
		"double-start": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			h, o, err := next(ctx, c)
			if errdefs.IsAlreadyExists(err) {
				return &driver.Handle{TaskID: c.ID, Version: 1}, nil, nil
			}
			return h, o, err
		}},
		"bad-config": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			if !json.Valid(c.DriverConfig) || string(c.DriverConfig) == `{"no_driver_has_this": 1}` {
				return nil, nil, fmt.Errorf("no class")
			}
			return next(ctx, c)
		}},
		"inspect": {inspect: func(s *driver.TaskStatus) { s.ExitedAt = time.Time{} }},
		"user":    {info: func(i driver.Info) driver.Info { i.Capabilities.Ignores = nil; return i }},
		"mounts": {info: func(i driver.Info) driver.Info {
			i.Capabilities.MountConfigs, i.Capabilities.FSIsolation = true, driver.FSIsolationChroot
			return i
		}},
		"start-race": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			if h, o, err := next(ctx, c); !errdefs.IsAlreadyExists(err) {
				return h, o, err
			}
			return &driver.Handle{TaskID: c.ID}, nil, nil
		}},
		"start-cancelled": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			other := *c
			other.ID += "-lost"
			_, _, err := next(ctx, &other)
			left.Go(func() { <-lost.Done(); _ = behind.DestroyTask(context.Background(), other.Ref(), true) })
			<-ctx.Done()
			return nil, nil, errors.Join(ctx.Err(), err)
		}},
		"stop-default": {grace: func(time.Duration) time.Duration { return 0 }},
		"stop-at-once": {grace: func(d time.Duration) time.Duration { return max(d, time.Minute) }},
		"destroy-tree": {destroy: func(ctx context.Context, ref driver.TaskRef) error {
			left.Go(func() { <-lost.Done(); _ = behind.DestroyTask(context.Background(), ref, true) })
			return nil
		}},
		"exec-output": {exec: func(next exec, ctx context.Context, s driver.ExecStream) (driver.ExitResult, error) {
			s.Stdout = &firstBytes{s.Stdout, 1 << 20}
			return next(ctx, s)
		}},
		"process-stats": {pids: func(all map[string]driver.PidStats) {
			for pid := range all { // the children are missing
				if len(all) > 1 {
					delete(all, pid)
				}
			}
		}},
		"update-running": {update: func(next func() error, _ string, memoryMB int64) error {
			if updated.Swap(memoryMB) == memoryMB {
				return errdefs.Conflictf("the task has %d MiB already", memoryMB)
			}
			return next()
		}},
		"update-refused": {update: func(next func() error, id string, memoryMB int64) error {
			if memoryMB == 8 { // as an OOM killer does
				return behind.StopTask(context.Background(), id, 0, "SIGKILL")
			}
			return next()
		}},
		"exec-directory":   {with: func(o *driver.ExecOptions) { o.Directory = "" }},
		"exec-environment": {with: func(o *driver.ExecOptions) { o.Env = nil }},
		"exec-user":        {info: func(i driver.Info) driver.Info { i.Capabilities.ExecOptions = []string{driver.ExecUser}; return i }},
		"exec-context": {exec: func(next exec, ctx context.Context, s driver.ExecStream) (driver.ExitResult, error) {
			left.Go(func() { _, _ = next(lost, s) })
			<-ctx.Done()
			return driver.ExitResult{}, ctx.Err()
		}},
		"stats-interval": {every: func(time.Duration) time.Duration { return time.Second }},
		"stats-slow":     {stats: func(s []driver.TaskStats) []driver.TaskStats { return s }}, // what hands them on holds one back
		"logs-disabled": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			other := *c
			other.Logs.Disabled = false
			return next(ctx, &other)
		}},
		"logs-again": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			if err := os.WriteFile(c.Logs.StdoutPath+".0", nil, 0o600); err != nil {
				return nil, nil, err
			}
			return next(ctx, c)
		}},
		"logs-link": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			if err := os.WriteFile(c.Logs.StdoutPath+".0", []byte("began"), 0o600); err != nil {
				return nil, nil, err
			}
			return next(ctx, c)
		}},
		"unknown-task":    {unknown: func(id string) (*driver.TaskStatus, error) { return nil, errdefs.Internalf("no task %s", id) }},
		"recover-running": {recover: func(context.Context, *driver.Handle) error { return errdefs.NotFoundf("gone") }},
		"foreign-handle":  {recover: func(context.Context, *driver.Handle) error { return nil }},
		"small-handle": {start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			h, o, err := next(ctx, c)
			if err == nil {
				h.State = append(h.State, make([]byte, 1<<20)...)
			}
			return h, o, err
		}},
		"stats-units": {stats: func(s []driver.TaskStats) []driver.TaskStats {
			for i := range s {
				s[i].CPU.Measured = []string{"percent"}
			}
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of them wait for what never comes
			bad := check(t, name, defect(func(driver.Driver) driver.Driver { d.Driver = behind; return d }))
			if bad.Outcome != conformance.Failed || len(bad.Problems) == 0 || bad.Rule == "" {
				t.Errorf("the check of the defect said %+v", bad)
			}
			if good := check(t, name, subject(func(good driver.Driver) driver.Driver { return good })); good.Outcome == conformance.Failed {
				t.Errorf("without the defect it said %+v", good)
			}
		})
	}
}

func TestEachDefectOfAValidatorIsFound(t *testing.T) {
	calls := 0
	one := func(d driver.Diagnostic) func(context.Context, []driver.Diagnostic) []driver.Diagnostic {
		return func(context.Context, []driver.Diagnostic) []driver.Diagnostic { return []driver.Diagnostic{d} }
	}
	for what, found := range map[string]func(context.Context, []driver.Diagnostic) []driver.Diagnostic{
		"no path":             one(driver.Diagnostic{Severity: driver.SeverityWarning, Summary: "x"}),
		"a path elsewhere":    one(driver.Diagnostic{Path: "resources.cores", Severity: driver.SeverityWarning, Summary: "x"}),
		"no attribute":        one(driver.Diagnostic{Path: "config.skript", Severity: driver.SeverityWarning, Summary: "x"}),
		"no summary":          one(driver.Diagnostic{Path: "config.script", Severity: driver.SeverityWarning}),
		"no severity":         one(driver.Diagnostic{Path: "config.script", Summary: "x"}),
		"refuses what starts": one(driver.Diagnostic{Path: "config.script", Severity: driver.SeverityError, Summary: "x"}),
		"a panic":             func(context.Context, []driver.Diagnostic) []driver.Diagnostic { panic("defect") },
		"another answer later": func(context.Context, []driver.Diagnostic) []driver.Diagnostic {
			calls++
			return []driver.Diagnostic{{Path: "config", Severity: driver.SeverityWarning, Summary: fmt.Sprint(calls)}}
		},
		"no end": func(ctx context.Context, _ []driver.Diagnostic) []driver.Diagnostic { <-ctx.Done(); return nil },
	} {
		if r := check(t, "validate-task", defect(func(d driver.Driver) driver.Driver { return defective{Driver: d, found: found} })); r.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, r)
		}
	}
	starts := defect(func(d driver.Driver) driver.Driver {
		return defective{Driver: d, start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			other := *c
			other.DriverConfig = []byte(`{"script": "sleep 600"}`) // starts what validation refuses
			return next(ctx, &other)
		}}
	})
	if r := check(t, "validate-task", starts); r.Outcome != conformance.Failed {
		t.Errorf("StartTask differs: %+v", r)
	}
	if r := check(t, "validate-task", subject(func(d driver.Driver) driver.Driver { return d })); r.Outcome != conformance.Passed {
		t.Errorf("without a defect: %+v", r)
	}
}

func TestATaskOutsideOfItsCgroupIsADefect(t *testing.T) {
	outside := defect(func(d driver.Driver) driver.Driver {
		return defective{Driver: d, start: func(next start, ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
			other := *c
			other.Cgroup = nil
			return next(ctx, &other)
		}}
	})
	good := check(t, "host-cgroup", subject(func(d driver.Driver) driver.Driver { return d }))
	if good.Outcome == conformance.Skipped {
		t.Skip(good.Reason)
	}
	if good.Outcome != conformance.Passed {
		t.Errorf("without the defect it said %+v", good)
	}
	if bad := check(t, "host-cgroup", outside); bad.Outcome != conformance.Failed {
		t.Errorf("the check of the defect said %+v", bad)
	}
}

// telling is a driver that tells of the progress of its starts.
type telling struct {
	driver.Driver
	list   []driver.Progress
	events chan driver.TaskEvent
}

func (d telling) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		defer close(out)
		for {
			select {
			case e := <-d.events:
				out <- e
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (d telling) StartTask(ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	for _, p := range d.list {
		d.events <- driver.TaskEvent{TaskID: c.ID, Time: time.Now(), Progress: &p}
	}
	return d.Driver.StartTask(ctx, c)
}

func TestProgressThatMeansNothingIsADefect(t *testing.T) {
	good := driver.Progress{Phase: "Downloading image", Done: 1, Total: 2, Unit: driver.UnitBytes}
	for what, c := range map[string]struct {
		list []driver.Progress
		want conformance.Outcome
	}{
		"none":       {nil, conformance.Skipped},
		"as it is":   {[]driver.Progress{good, {Phase: "Unpacking"}, {}}, conformance.Passed},
		"no phase":   {[]driver.Progress{{Done: 1, Unit: "layers"}}, conformance.Failed},
		"too much":   {[]driver.Progress{{Phase: "x", Done: 3, Total: 2, Unit: "layers"}}, conformance.Failed},
		"below zero": {[]driver.Progress{{Phase: "x", Done: -1, Unit: "layers"}}, conformance.Failed},
		"no unit":    {[]driver.Progress{{Phase: "x", Done: 1, Total: 2}}, conformance.Failed},
		"a flood":    {slices.Repeat([]driver.Progress{good}, 5000), conformance.Failed},
	} {
		r := check(t, "progress", subject(func(d driver.Driver) driver.Driver { return telling{d, c.list, make(chan driver.TaskEvent)} }))
		if r.Outcome != c.want {
			t.Errorf("%s: %+v, want %s", what, r, c.want)
		}
	}
}

func TestAStreamThatRepeatsItselfOrEndsTooSoonIsADefect(t *testing.T) {
	for what, prints := range map[string]func(context.Context) (<-chan driver.Fingerprint, error){
		"the same again": func(ctx context.Context) (<-chan driver.Fingerprint, error) {
			return every(ctx, driver.Fingerprint{Health: driver.HealthHealthy}), nil
		},
		"an attribute of the machine": func(ctx context.Context) (<-chan driver.Fingerprint, error) {
			out := make(chan driver.Fingerprint, 1)
			out <- driver.Fingerprint{Health: driver.HealthHealthy, Attributes: map[string]string{"kernel.name": "windows"}}
			context.AfterFunc(ctx, func() { close(out) })
			return out, nil
		},
		"an early end": func(context.Context) (<-chan driver.Fingerprint, error) {
			out := make(chan driver.Fingerprint, 1)
			out <- driver.Fingerprint{Health: driver.HealthHealthy}
			close(out)
			return out, nil
		},
	} {
		d := defective{Driver: shelldriver.New("shell"), prints: prints}
		if r := check(t, "fingerprint", defect(func(driver.Driver) driver.Driver { return d })); r.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// every sends the same until ctx ends.
func every[V any](ctx context.Context, v V) <-chan V {
	out := make(chan V)
	go func() {
		defer close(out)
		for {
			select {
			case out <- v:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func TestAFixedTaskIsCheckedAsFarAsItGoes(t *testing.T) {
	s := subject(func(d driver.Driver) driver.Driver { return d })
	s.Script, s.Forever = nil, map[string]any{"script": "sleep 600"}
	for name, want := range map[string]conformance.Outcome{"double-start": conformance.Passed, "fresh-process": conformance.Passed, "exit-code": conformance.Skipped} {
		if r := check(t, name, s); r.Outcome != want {
			t.Errorf("%s with a fixed task: %+v, want %s", name, r, want)
		}
	}
	s.Forever, s.NoTask = nil, "config.script is required"
	if r := check(t, "double-start", s); r.Outcome != conformance.Skipped || r.Reason != "no task is started: config.script is required" {
		t.Errorf("without any task: %+v", r)
	}
}

func TestCheckNamesAreUniqueAndSayARule(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range drivercheck.Checks() {
		if seen[c.Name] || c.Name == "" || c.Rule == "" {
			t.Errorf("check %q (%q) is there twice or says nothing", c.Name, c.Rule)
		}
		seen[c.Name] = true
	}
}
