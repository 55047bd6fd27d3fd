// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package recur_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/recur"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit"
)

func change(t *testing.T, s *state.Store, name string) {
	t.Helper()
	if err := s.Update(s.View().Index()+1, func(tx *state.Tx) error {
		tx.UpsertNamespace(&model.Namespace{Name: name})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestItRunsAtOnceAtEachChangeAndEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ctx := state.New(), t.Context()
		var runs atomic.Int32
		go recur.Loop{Period: time.Minute, Store: store, Tables: []string{state.TableNamespaces}, Logger: hclog.NewNullLogger()}.Run(ctx, func(context.Context) error {
			runs.Add(1)
			return nil
		})
		for i, then := range []func(){
			func() {},
			func() { change(t, store, "a") },
			func() { time.Sleep(time.Minute) },
			func() { change(t, store, "b") },
		} {
			then()
			synctest.Wait()
			if n := runs.Load(); int(n) != i+1 {
				t.Fatalf("%d runs after step %d", n, i)
			}
		}
	})
}

func TestAFailureIsLoggedOnceAndAPatientLoopWaitsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			log     testkit.Journal
			runs    atomic.Int32
			succeed atomic.Bool
		)
		store := state.New()
		go recur.Loop{Period: time.Minute, Store: store, Tables: []string{state.TableNamespaces}, Patient: true, Trouble: "cannot", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}.
			Run(t.Context(), func(context.Context) error {
				if runs.Add(1) == 4 {
					panic("broken")
				}
				if succeed.Load() {
					return nil
				}
				return errors.New("no")
			})
		synctest.Wait()
		change(t, store, "a")
		synctest.Wait()
		if runs := runs.Load(); runs != 1 {
			t.Errorf("%d runs: a change counts after a failure", runs)
		}
		time.Sleep(2*time.Minute + time.Second)
		if said := strings.Count(log.String(), "cannot"); runs.Load() != 3 || said != 1 {
			t.Errorf("%d runs, logged %d times", runs.Load(), said)
		}
		time.Sleep(time.Minute)
		if !strings.Contains(log.String(), "defect of drover: broken") {
			t.Errorf("a panic is not logged: %s", log.String())
		}
		succeed.Store(true)
		time.Sleep(time.Minute)
		change(t, store, "b")
		synctest.Wait()
		if runs := runs.Load(); runs != 6 {
			t.Errorf("%d runs: after a success changes count again", runs)
		}
	})
}

func TestALaterLoopLetsAPeriodPassFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		go recur.Loop{Period: time.Minute, Later: true, Logger: hclog.NewNullLogger()}.Run(t.Context(), func(context.Context) error { runs.Add(1); return nil })
		time.Sleep(time.Minute - time.Second)
		if runs := runs.Load(); runs != 0 {
			t.Errorf("%d runs before the period is over", runs)
		}
		time.Sleep(2 * time.Second)
		if runs := runs.Load(); runs != 1 {
			t.Errorf("%d runs after it", runs)
		}
	})
}
