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

func (m *metered) ReadLogs(_ context.Context, _ string, _ driver.LogQuery, send func(driver.LogPiece) error) error {
	m.asked++
	return send(driver.LogPiece{Data: []byte("x")})
}

func TestOutputIsReadOnlyFromADriverThatAnnouncesIt(t *testing.T) {
	for _, c := range []struct {
		features []v1.Feature
		want     int
	}{{nil, 0}, {[]v1.Feature{v1.FeaturePause}, 0}, {[]v1.Feature{v1.FeatureReadLogs}, 1}} {
		m := &metered{features: c.features}
		p := driver.NewProxy(m.Info(), driver.Limits{Ready: time.Minute, Call: time.Minute}, driver.Hooks{})
		p.Attach(t.Context(), m)
		got := 0
		err := p.ReadLogs(t.Context(), "task", driver.LogQuery{Stream: v1.LogStdout}, func(driver.LogPiece) error { got++; return nil })
		if m.asked != c.want || got != c.want || errdefs.IsUnimplemented(err) != (c.want == 0) {
			t.Errorf("a driver with the features %q was asked %d times and sent %d pieces: %v", c.features, m.asked, got, err)
		}
		p.Close()
	}
}
