// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"math"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

func TestAHealthThatIsNewerThanTheHostIsUnhealthyAndSaidSo(t *testing.T) {
	got := sound(driver.Fingerprint{Health: "degraded", HealthDescription: "half of it"})
	if got.Health != driver.HealthUnhealthy || got.HealthDescription == "half of it" {
		t.Errorf("%+v", got)
	}
}

func TestAnAttributeOfATypeThatIsNewerThanTheHostIsLeftOut(t *testing.T) {
	one := int64(1)
	got := soundDevices(device.Fingerprint{Groups: []device.Group{{Attributes: map[string]device.Attribute{"new": {Unit: "x"}, "memory": {Int: &one}}}}})
	if attributes := got.Groups[0].Attributes; len(attributes) != 1 || attributes["memory"].Int == nil {
		t.Errorf("%+v", attributes)
	}
}

// TestNoDevicePluginKeepsItsNodeFromRegistering gives a plugin's fingerprint to the check with
// which servers take registrations.
func TestNoDevicePluginKeepsItsNodeFromRegistering(t *testing.T) {
	nan, inf, long, far, below := math.NaN(), math.Inf(1), strings.Repeat("x", 1000), 4_000_000_000, -1
	evil := func() map[string]device.Attribute {
		return map[string]device.Attribute{"nan": {Float: &nan}, "inf": {Float: &inf}, long: {Float: &nan}, "zero\x00": {}, "new": {}}
	}
	print := soundDevices(device.Fingerprint{Groups: []device.Group{{Vendor: "acme", Type: "x", Name: "y", Attributes: evil(), Instances: []device.Instance{
		{ID: "a", Attributes: evil(), NUMANode: &far}, {ID: "b", NUMANode: &below},
	}}}})
	g := print.Groups[0]
	if len(g.Instances) != 2 || len(g.Attributes)+len(g.Instances[0].Attributes) != 0 || g.Instances[0].NUMANode != nil || g.Instances[1].NUMANode != nil {
		t.Errorf("%+v", g)
	}
	hot := device.Group{}
	for range 4000 {
		hot.Instances = append(hot.Instances, device.Instance{HealthDescription: long + long})
	}
	if print := soundDevices(device.Fingerprint{Groups: []device.Group{hot}}); len(print.Groups) != 0 || !strings.Contains(print.Problem, "defective") {
		t.Errorf("8 MB about 4,000 devices: %d groups, %q", len(print.Groups), print.Problem)
	}
	own, others := ownAttributes("d", map[string]string{"driver.d": "1", "driver.d." + long: "1", "driver.d.\x00": "1"})
	if len(own) != 1 || len(others) != 2 {
		t.Errorf("%v, left out %q", own, others)
	}
}
