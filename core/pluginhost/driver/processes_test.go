// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	v1 "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// metered is a driver in another process: its Go type has every ability.
type metered struct {
	driver.Driver
	features []v1.Feature
	asked    int
}

func (m *metered) Info() driver.Info { return driver.Info{Name: "x", Features: m.features} }

func (m *metered) ProcessStats(context.Context, string) (map[string]driver.PidStats, error) {
	m.asked++
	return map[string]driver.PidStats{"7": {}}, nil
}

func (m *metered) UpdateTask(context.Context, string, driver.Resources) error {
	m.asked++
	return nil
}

func TestResourcesAreChangedOnlyByADriverThatAnnouncesIt(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{v1.FeatureProcessStats}, 0}, {[]v1.Feature{v1.FeatureUpdateResources}, 1}} {
		m := &metered{features: c.features}
		p := driver.NewProxy(m.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), m)
		err := p.UpdateTask(t.Context(), "task", driver.Resources{})
		if m.asked != c.want || errdefs.IsUnimplemented(err) != (c.want == 0) || c.want > 0 && err != nil {
			t.Errorf("a driver with the features %q was asked %d times: %v", c.features, m.asked, err)
		}
		p.Close()
	}
}

func TestSingleProcessesAreAskedForOnlyOfADriverThatAnnouncesIt(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{"other"}, 0}, {[]v1.Feature{v1.FeatureProcessStats}, 1}} {
		m := &metered{features: c.features}
		p := driver.NewProxy(m.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), m)
		found, err := p.ProcessStats(t.Context(), "task")
		if m.asked != c.want || len(found) != c.want || errdefs.IsUnimplemented(err) != (c.want == 0) {
			t.Errorf("a driver with the features %q was asked %d times: %v, %v", c.features, m.asked, found, err)
		}
		p.Close()
	}
}
