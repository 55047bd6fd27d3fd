// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
)

func TestWhatIsOfOneDeviceIsStoredOnceEveryServerReadsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, _ context.Context) {
		const id = "4f0c3a1e-0000-4000-8000-000000000001"
		one := 1
		register := func() *model.NodeDevice {
			n := node(id)
			n.NodeResources = &model.NodeResources{Devices: []*model.NodeDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", Instances: []*model.NodeDevice{
				{ID: "d", Healthy: true, Locality: &model.NodeDeviceLocality{NUMANode: &one}, Attributes: map[string]*model.Attribute{"link": {IntVal: new(int64)}}},
			}}}}
			if _, err := s.Register(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			return s.store.View().NodeByID(id).NodeResources.Devices[0].Instances[0]
		}
		s.log.write(t, &fsm.BeginTerm{ClusterID: "c", TermID: "t"})
		if d := register(); d.Attributes != nil || !d.Healthy {
			t.Errorf("at level 1: %+v", d)
		}
		s.log.write(t, &fsm.RaiseLevel{Level: 2, Release: "v2"})
		d := register()
		if at, ok := d.NUMANode(); !ok || at != 1 || d.Attributes["link"] == nil {
			t.Errorf("at level 2: %+v", d)
		}
		if index := s.store.View().Index(); register() == nil || s.store.View().Index() != index {
			t.Error("the same registration was written again")
		}
	})
}
