// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// quarry is a process of a plugin that serves rocks.
func quarry(name, version string) *process.Process {
	return &process.Process{File: process.File{Name: name, Path: name}, Info: plugin.Info{Name: name, Version: version}}
}

func TestAKindIsASlotAndASpec(t *testing.T) {
	rocks := kinds.NewRocks("granite")
	first, err := rocks.Attach(t.Context(), quarry("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	first.Open(ctx, nil)
	if got := rocks.Weight("granite"); got != 1 {
		t.Errorf("the first fingerprint is %d when the process was opened", got)
	}

	if other, err := rocks.Attach(t.Context(), quarry("b", "1")); err != nil || len(other.Names()) > 0 {
		t.Errorf("another plugin gets the name, too: %v, %v", other, err)
	}
	if why := rocks.Refusals("b"); len(why) != 1 || !errdefs.IsAlreadyExists(why[0]) {
		t.Errorf("why another plugin did not get the name: %v", why)
	}

	next, err := rocks.Attach(t.Context(), quarry("a", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Prepare(t.Context(), t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := rocks.ServedBy("granite"); got != "1" {
		t.Errorf("version %q serves while version 2 is prepared", got)
	}
	end()
	first.Yield(next.Names())
	if err := next.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rocks.ServedBy("granite"); got != "2" {
		t.Errorf("version %q serves after version 2 took over", got)
	}

	rocks.Release("a", nil)
	if _, err := rocks.Attach(t.Context(), quarry("b", "1")); err != nil {
		t.Errorf("a name that was released cannot be had: %v", err)
	}
	if why := rocks.Refusals("b"); len(why) > 0 {
		t.Errorf("it has the name now and was refused: %v", why)
	}
}

// TestTheEndOfAProcessIsNoProblemOfItsConfig has a process given up while it is configured:
// users must not read that it refuses its config because a context was canceled.
func TestTheEndOfAProcessIsNoProblemOfItsConfig(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	rocks := kinds.NewRocks("granite")
	rocks.Config = func(ctx context.Context) error {
		end()
		<-ctx.Done()
		return ctx.Err()
	}
	part, err := rocks.Attach(t.Context(), quarry("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	part.Open(ctx, nil)
	if err := rocks.Problem("granite"); err != nil {
		t.Errorf("the problem of a process that was given up: %v", err)
	}
}

// TestAProcessThatTookOverNeedsNoSecondFingerprint: a fingerprint that does not change is sent
// once, and the trial has read it. Every kind with fingerprints shares this code.
func TestAProcessThatTookOverNeedsNoSecondFingerprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rocks := kinds.NewRocks("granite")
		part, err := rocks.Attach(t.Context(), quarry("a", "2"))
		if err != nil {
			t.Fatal(err)
		}
		if err := part.Prepare(t.Context(), t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := part.TakeOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if why := rocks.Silent("granite"); why != nil || rocks.Weight("granite") != 1 {
			t.Errorf("ten minutes after it took over, its fingerprint is %d: %v", rocks.Weight("granite"), why)
		}
	})
}
