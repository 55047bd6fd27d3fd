// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestNullsAreNamedAsTheirSenderKnowsThem(t *testing.T) {

	type body struct {
		Volumes []*struct{ model.CSIVolume }
	}
	var b body
	b.Volumes = append(b.Volumes, &struct{ model.CSIVolume }{model.CSIVolume{RequestedCapabilities: []*model.VolumeCapability{nil}}})
	if err := model.NoNulls("", &b); err == nil || err.Error() != "Volumes[0].RequestedCapabilities[0] is null; remove it" {
		t.Errorf("got %v", err)
	}
	if err := model.NoNulls("Job", []*model.Job{nil}); err == nil || err.Error() != "Job[0] is null; remove it" {
		t.Errorf("got %v", err)
	}
	if err := model.NoNulls("", []*model.Job{nil}); err == nil || err.Error() != "[0] is null; remove it" {
		t.Errorf("got %v", err)
	}
}
