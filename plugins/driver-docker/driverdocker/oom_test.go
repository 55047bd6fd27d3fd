// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"testing"
	"testing/synctest"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestAnEndForWantOfMemoryIsSaidToBeOneAlsoWhenTheDaemonTellsThatLater(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		asked  bool
		before bool // the event arrives before the end
		oom    bool
		waits  time.Duration
	}{
		"told before":              {code: killed, before: true, oom: true},
		"told after":               {code: killed, oom: true, waits: time.Second},
		"it was stopped":           {code: killed, asked: true},
		"it has ended with a code": {code: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newTask("a", nil, handleState{})
				if c.asked {
					one.wasAsked()
				}
				if c.before {
					one.blame()
				}
				begin := time.Now()
				one.end(begin, driver.ExitResult{ExitCode: c.code})
				late := time.AfterFunc(time.Second, func() {
					if c.oom {
						one.blame()
					}
				})
				defer late.Stop()
				one.explain(t.Context())
				if took := time.Since(begin); took != c.waits {
					t.Errorf("it is told after %s, want %s", took, c.waits)
				}
				if r := one.result(); r.OOMKilled != c.oom || (r.Err == "OOM Killed") != c.oom || r.ExitCode != c.code {
					t.Errorf("it ended with %+v", r)
				}
			})
		})
	}
}
