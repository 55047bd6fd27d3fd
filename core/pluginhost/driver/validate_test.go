// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	v1 "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// validating is a driver in another process: its Go type has every ability.
type validating struct {
	driver.Driver
	features []v1.Feature
	hangs    bool
	asked    int
}

func (v *validating) Info() driver.Info { return driver.Info{Name: "x", Features: v.features} }

func (v *validating) ValidateTask(ctx context.Context, _ *driver.TaskDraft) ([]driver.Diagnostic, error) {
	v.asked++
	if v.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []driver.Diagnostic{{Path: "config"}}, nil
}

func TestOnlyADriverThatAnnouncesItIsAskedToValidate(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{"other"}, 0}, {[]v1.Feature{v1.FeatureValidateTask}, 1}} {
		v := &validating{features: c.features}
		p := driver.NewProxy(v.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), v)
		found, err := p.ValidateTask(t.Context(), &driver.TaskDraft{})
		if v.asked != c.want || len(found) != c.want || errdefs.IsUnimplemented(err) != (c.want == 0) {
			t.Errorf("a driver with the features %q was asked %d times: %v, %v", c.features, v.asked, found, err)
		}
		p.Close()
	}
}

func TestAValidationThatHangsEndsAndHarmsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &validating{features: []v1.Feature{v1.FeatureValidateTask}, hangs: true}
		p := driver.NewProxy(v.Info(), driver.DefaultLimits(), driver.Hooks{})
		defer p.Close()
		p.Attach(t.Context(), v)
		for range 20 {
			begun := time.Now()
			if _, err := p.ValidateTask(t.Context(), &driver.TaskDraft{}); !errdefs.IsDeadlineExceeded(err) || time.Since(begun) > 10*time.Second {
				t.Fatalf("after %s: %v", time.Since(begun), err)
			}
		}
		v.hangs = false
		if found, err := p.ValidateTask(t.Context(), &driver.TaskDraft{}); err != nil || len(found) != 1 {
			t.Errorf("later: %v, %v", found, err)
		}
	})
}
