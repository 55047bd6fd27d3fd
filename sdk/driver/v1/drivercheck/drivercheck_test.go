// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
		Script:  func(s string) map[string]any { return map[string]any{"script": s} }, Timeout: 5 * time.Second,
	}
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
	return s, err
}

func (d defective) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	if d.prints != nil {
		return d.prints(ctx)
	}
	return d.Driver.Fingerprint(ctx)
}

func (d defective) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
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
	var boots atomic.Int64
	for name, d := range map[string]defective{
		"info": {info: func(i driver.Info) driver.Info { i.Name = fmt.Sprint("shell", boots.Add(1)); return i }},
		"fingerprint": {prints: func(context.Context) (<-chan driver.Fingerprint, error) {
			out := make(chan driver.Fingerprint, 1) // never closed
			out <- driver.Fingerprint{Health: driver.HealthHealthy}
			return out, nil
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
			// One driver behind all processes: what the defect cannot recover is ended all the same.
			behind := shelldriver.New("shell")
			bad := check(t, name, subject(func(driver.Driver) driver.Driver { d.Driver = behind; return d }))
			if bad.Outcome != conformance.Failed || len(bad.Problems) == 0 || bad.Rule == "" {
				t.Errorf("the check of the defect said %+v", bad)
			}
			if good := check(t, name, subject(func(good driver.Driver) driver.Driver { return good })); good.Outcome != conformance.Passed {
				t.Errorf("without the defect it said %+v", good)
			}
		})
	}
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
