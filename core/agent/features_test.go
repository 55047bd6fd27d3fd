// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

func TestServersLearnWhichDriversChangeResourcesInPlace(t *testing.T) {
	said := map[string]string{"driver.d": "1", model.UpdatesResourcesAttribute("d"): "true"}
	for name, c := range map[string]struct {
		print pluginhost.DriverFingerprint
		want  bool
	}{
		"announced":    {pluginhost.DriverFingerprint{Features: []driver.Feature{driver.FeatureUpdateResources}}, true},
		"undetected":   {pluginhost.DriverFingerprint{Features: []driver.Feature{driver.FeatureUpdateResources}, Health: driver.HealthUndetected}, false},
		"downgraded":   {pluginhost.DriverFingerprint{Features: []driver.Feature{"list_tasks"}}, false},
		"only claimed": {pluginhost.DriverFingerprint{Attributes: said}, false},
	} {
		n := &model.Node{Attributes: map[string]string{}}
		c.print.Name = "d"
		addDrivers(n, []pluginhost.DriverFingerprint{c.print})
		if n.UpdatesResources("d") != c.want || n.Drivers["d"].Attributes[model.UpdatesResourcesAttribute("d")] != "" {
			t.Errorf("%s: %v, %v", name, n.Attributes, n.Drivers["d"].Attributes)
		}
	}
}
