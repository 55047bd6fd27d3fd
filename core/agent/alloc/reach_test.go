// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestARequestForATaskWaitsUntilItsDriverKnowsTheTaskAgain(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.restart(func() { b.driver.with(func() { b.driver.away = errdefs.Unavailablef("its plugin starts") }) })
		exec := func() error {
			_, err := b.r.Exec(t.Context(), "web", driver.ExecOptions{Command: []string{"date"}}, driver.ExecStream{})
			return err
		}
		if err := exec(); !errdefs.IsUnavailable(err) {
			t.Errorf("exec while the plugin does not come: %v", err)
		}
		answers := make(chan error, 2)
		go func() { answers <- exec() }()
		go func() { answers <- b.r.Signal(t.Context(), "web", "SIGHUP") }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(answers) > 0 {
			t.Errorf("answered before the driver knew the task: %v", <-answers)
		}
		b.driver.with(func() { b.driver.away = nil })
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		for _, said := range []string{"exec date web", "SIGHUP web"} {
			if !slices.Contains(b.driver.log, said) {
				t.Errorf("the driver heard %q, want %q", b.driver.log, said)
			}
		}
	})
}
