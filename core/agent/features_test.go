// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/agent/alloc"
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
		addDrivers(n, []pluginhost.DriverFingerprint{c.print}, &alloc.Rules{})
		if n.UpdatesResources("d") != c.want || n.Drivers["d"].Attributes[model.UpdatesResourcesAttribute("d")] != "" {
			t.Errorf("%s: %v, %v", name, n.Attributes, n.Drivers["d"].Attributes)
		}
	}
}

func TestADriverThatTheOperatorDeniesIsNotOffered(t *testing.T) {
	prints := []pluginhost.DriverFingerprint{
		{Name: "exec", Health: driver.HealthHealthy, Attributes: map[string]string{"driver.exec": "1"}},
		{Name: "raw_exec", Health: driver.HealthHealthy, Attributes: map[string]string{"driver.raw_exec": "1"}},
	}
	for _, rules := range []alloc.Rules{{DeniedDrivers: []string{"raw_exec"}}, {AllowedDrivers: []string{"exec"}}} {
		n := &model.Node{Attributes: map[string]string{}}
		addDrivers(n, prints, &rules)
		if d := n.Drivers["exec"]; !d.Healthy || !d.Detected || n.Attributes["driver.exec"] == "" {
			t.Errorf("%+v: exec is %+v", rules, d)
		}
		if d := n.Drivers["raw_exec"]; d.Healthy || d.Detected || n.Attributes["driver.raw_exec"] != "" || !strings.Contains(d.HealthDescription, "client.options") {
			t.Errorf("%+v: raw_exec is %+v", rules, d)
		}
	}
}
