// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// controllerNode is a node with a controller. It notes whom it was asked about.
type controllerNode struct {
	id    string
	asked *[]string
	away  *string // the node that is out of reach
}

func (n controllerNode) Call(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	if *n.away == n.id {
		return errdefs.Unavailablef("node %s is out of reach", n.id)
	}
	*n.asked = append(*n.asked, n.id)
	return send([]byte("{}"))
}

// A call that goes on although nobody waits for it is overtaken by none, as long as all calls
// for its volume go to one controller.
func TestCallsForAVolumeGoToOneControllerOfSeveral(t *testing.T) {
	s := newServer(t)
	var asked []string
	away := ""
	for i := range 4 {
		info := map[string]*model.CSIInfo{"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &model.CSIControllerInfo{SupportsAttachDetach: true}}}
		if _, _, err := s.Raft.Propose(s.ctx, encode(t, &fsm.RegisterNode{Node: &model.Node{ID: fmt.Sprint("n", i), Status: model.NodeStatusReady, CSIControllerPlugins: info}})); err != nil {
			t.Fatal(err)
		}
	}
	s.Nodes = func(id string) (rpc.Node, error) { return controllerNode{id, &asked, &away}, nil }
	drivers := endpoint.CSIDrivers{Endpoint: s.Endpoint}
	all := map[string]int{}
	for i := range 40 {
		v, at := &model.CSIVolume{ID: "v", Namespace: "default", PluginID: "p", ExternalID: fmt.Sprint("x", i)}, &model.CSIAttachment{NodeID: "n9", ExternalNodeID: "e9"}
		asked = nil
		for range 3 {
			if _, err := drivers.Attach(s.ctx, v, at); err != nil {
				t.Fatal(err)
			}
			if err := drivers.Detach(s.ctx, v, at); err != nil {
				t.Fatal(err)
			}
		}
		if len(slices.Compact(slices.Clone(asked))) != 1 {
			t.Errorf("calls for volume %d went to %v", i, asked)
		}
		first := asked[0]
		all[first]++
		away = first
		if err := drivers.Detach(s.ctx, v, at); err != nil || asked[len(asked)-1] == first {
			t.Errorf("without its controller: %v, %v", asked, err)
		}
		away = ""
	}
	if len(all) != 4 {
		t.Errorf("not all controllers have work: %v", all)
	}
}

func encode(t *testing.T, cmd fsm.Command) []byte {
	t.Helper()
	data, err := fsm.Encode(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
