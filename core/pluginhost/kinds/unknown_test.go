// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
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
