// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// stuck pauses what it stops, instead of letting it act on the signal.
type stuck struct{ defective }

func (s stuck) StopTask(ctx context.Context, id string, _ time.Duration, signal string) error {
	return s.defective.StopTask(ctx, id, 0, "SIGKILL")
}

func TestEachDefectOfAPauserIsFound(t *testing.T) {
	behind := shelldriver.New("shell")
	once := false
	for what, c := range map[string]struct {
		check string
		d     driver.Driver
	}{
		"runs on":  {"pause-holds", defective{pause: func(func() error) error { return nil }}},
		"not seen": {"pause-holds", defective{inspect: func(s *driver.TaskStatus) { s.Paused = false }}},
		"stays":    {"pause-holds", defective{resume: func(func() error) error { return nil }}},
		"not again": {"pause-holds", defective{pause: func(next func() error) error {
			defer func() { once = true }()
			if once {
				return errdefs.Conflictf("paused")
			}
			return next()
		}}},
		"resumed twice": {"pause-holds", defective{resume: func(next func() error) error {
			if err := next(); err != nil {
				return err
			}
			return errdefs.Conflictf("it runs")
		}}},
		"killed": {"pause-ends", stuck{}},
		"no class": {"pause-ends", defective{resume: func(next func() error) error {
			if err := next(); err != nil {
				return errdefs.Internalf("%w", err)
			}
			return nil
		}}},
	} {
		d := c.d
		switch x := d.(type) {
		case defective:
			x.Driver = behind
			d = x
		case stuck:
			x.Driver = behind
			d = x
		}
		bad := check(t, c.check, defect(func(driver.Driver) driver.Driver { return d }))
		if bad.Outcome == conformance.Skipped {
			t.Skip(bad.Reason)
		}
		if bad.Outcome != conformance.Failed {
			t.Errorf("%s: %+v", what, bad)
		}
	}
	for _, name := range []string{"pause-holds", "pause-ends"} {
		if r := check(t, name, subject(func(d driver.Driver) driver.Driver { return d })); r.Outcome != conformance.Passed {
			t.Errorf("without a defect %s said %+v", name, r)
		}
	}
}
