// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// keeper answers a node's calls about volumes.
type keeper struct {
	mu    sync.Mutex
	made  map[string]*model.HostVolume
	fails error
	calls []string
}

func (k *keeper) call(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, call.Method)
	if k.fails != nil {
		return k.fails
	}
	switch call.Method {
	case rpc.MethodMakeVolume, rpc.MethodAdoptVolume:
		v := &model.HostVolume{}
		if err := json.Unmarshal(call.Body, v); err != nil {
			return err
		}
		k.made[v.ID] = v
		return send([]byte(`{"HostPath":"/srv/` + v.ID + `","CapacityBytes":15}`))
	case rpc.MethodRemoveVolume:
		var q rpc.HostVolumeRequest
		if err := json.Unmarshal(call.Body, &q); err != nil {
			return err
		}
		delete(k.made, q.ID)
		return nil
	}
	return errdefs.Unimplementedf("no %s", call.Method)
}

func (k *keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = err
}

func (k *keeper) has() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.made)
}

// offer has the node report the volumes that it has made.
func offer(t *testing.T, c *testkit.Cluster, id string, vs ...*model.HostVolume) {
	t.Helper()
	n := c.View().NodeByID(id).Copy()
	n.HostVolumes = map[string]*model.HostVolumeConfig{}
	for _, v := range vs {
		n.HostVolumes[v.Name] = &model.HostVolumeConfig{Name: v.Name, ID: v.ID, Path: v.HostPath}
	}
	n.ComputedClass = n.ComputeClass()
	if _, err := propose.Bounded(t.Context(), c.Raft, &fsm.RegisterNode{Node: n}); err != nil {
		t.Fatal(err)
	}
}

func hostVolume(name string) map[string]any {
	return map[string]any{
		"Name": name, "PluginID": "mkdir", "NodePool": "default", "RequestedCapacityMinBytes": 10, "RequestedCapacityMaxBytes": 20, "Parameters": map[string]string{"mode": "0750"},
		"RequestedCapabilities": []map[string]string{{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}},
	}
}

func TestAHostVolumeIsMadeByANodeUsedAndDeleted(t *testing.T) {
	c, k := testkit.Start(t), &keeper{made: map[string]*model.HostVolume{}}
	n := c.Node(k.call)
	var made api.HostVolumeResponse
	c.Must("PUT", "/v1/volume/host/create", map[string]any{"Volume": hostVolume("data")}, &made)
	v := made.Volume
	if v.State != model.HostVolumePending || v.NodeID != n.ID || v.HostPath != "/srv/"+v.ID || v.CapacityBytes != 15 || made.Index == 0 || k.made[v.ID] == nil {
		t.Fatalf("made %+v", v)
	}
	offer(t, c, n.ID, v)
	var list []api.HostVolumeStub
	c.Must("GET", "/v1/volumes?type=host&node_id="+n.ID[:6], nil, &list)
	if len(list) != 1 || list[0].State != model.HostVolumeReady || list[0].Name != "data" {
		t.Errorf("list %+v", list)
	}
	c.Must("GET", "/v1/volumes?type=host&node_pool=other", nil, &list)
	if len(list) != 0 {
		t.Errorf("of another pool: %+v", list)
	}
	var csi []any
	if c.Must("GET", "/v1/volumes?type=csi", nil, &csi); csi == nil || len(csi) != 0 {
		t.Errorf("volumes of type csi: %v", csi)
	}
	job := testkit.Job("web", 1)
	job["TaskGroups"].([]any)[0].(map[string]any)["Volumes"] = map[string]any{"v": map[string]any{"Name": "v", "Type": "host", "Source": "data", "Sticky": true}}
	c.Must("PUT", "/v1/jobs", map[string]any{"Job": job}, nil)
	c.Eventually("the job runs", func() bool {
		as := c.View().AllocsByJob("default", "web")
		return len(as) == 1 && as[0].ClientStatus == "running"
	})
	alloc := c.View().AllocsByJob("default", "web")[0].ID
	var one api.HostVolume
	c.Must("GET", "/v1/volume/host/"+v.ID, nil, &one)
	if len(one.Allocations) != 1 || one.Allocations[0].ID != alloc {
		t.Errorf("the volume is used by %+v", one.Allocations)
	}
	if resp, body := c.Ask("DELETE", "/v1/volume/host/"+v.ID+"/delete", nil); resp.StatusCode != 500 || body != "volume "+v.ID+" in use by allocations: ["+alloc+"]" {
		t.Errorf("in use: %s %q", resp.Status, body)
	}
	var claims []model.VolumeClaim
	c.Must("GET", "/v1/volumes/claims?job_id=web&task_group=g&volume_name=data", nil, &claims)
	if len(claims) != 1 || claims[0].AllocID != alloc || claims[0].VolumeID != v.ID {
		t.Fatalf("claims %+v", claims)
	}
	c.Must("DELETE", "/v1/volumes/claim/"+claims[0].ID, nil, nil)
	if resp, _ := c.Ask("DELETE", "/v1/volumes/claim/"+claims[0].ID, nil); resp.StatusCode != 404 {
		t.Errorf("a claim is deleted twice: %s", resp.Status)
	}
	c.Must("DELETE", "/v1/job/web?purge=true", nil, nil)
	c.Eventually("the volume is deleted", func() bool {
		resp, _ := c.Ask("DELETE", "/v1/volume/host/"+v.ID+"/delete", nil)
		return resp.StatusCode == 200
	})
	if resp, body := c.Ask("GET", "/v1/volume/host/"+v.ID, nil); resp.StatusCode != 404 || body != "volume not found" || k.has() != 0 {
		t.Errorf("it is not gone: %s %q, %v", resp.Status, body, k.made)
	}
}

func TestWhatIsWrongWithAHostVolumeRequestIsAnsweredAsTheReferenceDoes(t *testing.T) {
	c, k := testkit.Start(t), &keeper{made: map[string]*model.HostVolume{}}
	n := c.Node(k.call)
	var made api.HostVolumeResponse
	c.Must("PUT", "/v1/volume/host/create", map[string]any{"Volume": hostVolume("data")}, &made)
	edit := func(name string, edits ...any) map[string]any {
		v := hostVolume(name)
		for i := 0; i < len(edits); i += 2 {
			v[edits[i].(string)] = edits[i+1]
		}
		return map[string]any{"Volume": v}
	}
	for _, q := range []struct {
		path   string
		body   any
		status int
		want   string
	}{
		{"create", edit(""), 500, "volume validation failed: missing name"},
		{"create", edit("data", "PluginID", "none"), 500, `could not place volume "data": no node meets constraints: 1 nodes had existing volume, 0 nodes filtered by node pool governance, 0 nodes were infeasible`},
		{"create", edit("more", "PluginID", "none"), 500, `could not place volume "more": no node meets constraints: 0 nodes had existing volume, 0 nodes filtered by node pool governance, 1 nodes were infeasible`},
		{"create", edit("more", "Constraints", []any{map[string]string{"LTarget": "${attr.arch}", "RTarget": "sparc", "Operand": "="}}), 500, "1 nodes were infeasible"},
		{"create", edit("more", "NodeID", "00000000-0000-4000-8000-000000000009"), 500, "no such node"},
		{"create", edit("data", "NodeID", n.ID), 500, "has a volume with the name"},
		{"create", edit("more", "NodeID", n.ID, "NodePool", "gpu"), 500, "is in pool"},
		{"create", edit("more", "ID", "00000000-0000-4000-8000-000000000009"), 500, "does not exist; leave the id out"},
		{"create", edit("other", "ID", made.Volume.ID), 500, "cannot change"},
		{"create", edit("more", "Namespace", "nowhere"), 500, "nonexistent namespace"},
		{"register", edit("more", "NodeID", n.ID), 500, "missing host path"},
		{"register", edit("more", "HostPath", "/srv"), 500, "missing node id"},
		{"register", edit("data", "ID", made.Volume.ID, "HostPath", "/srv"), 500, "was created or registered"},
		{"create", map[string]any{}, 400, "missing volume"},
		{"create", "nonsense", 400, ""},
	} {
		resp, body := c.Ask("PUT", "/v1/volume/host/"+q.path, q.body)
		if resp.StatusCode != q.status || !strings.Contains(body, q.want) {
			t.Errorf("%s %v: %s %q, want %d %q", q.path, q.body, resp.Status, body, q.status, q.want)
		}
	}
	if resp, _ := c.Ask("GET", "/v1/volumes?type=tape", nil); resp.StatusCode != 400 {
		t.Errorf("an unknown type: %s", resp.Status)
	}
	if resp, _ := c.Ask("DELETE", "/v1/volume/host/"+made.Volume.ID+"/delete?namespace=other", nil); resp.StatusCode != 500 || k.has() != 1 {
		t.Errorf("a volume of another namespace is deleted: %s", resp.Status)
	}
	var list []api.HostVolumeStub
	if c.Must("GET", "/v1/volumes?type=host&namespace=*", nil, &list); len(list) != 1 {
		t.Errorf("left are %+v", list)
	}
}

func TestAVolumeThatItsNodeCannotMakeIsNoVolumeAndOneThatItMayHaveMadeStays(t *testing.T) {
	c, k := testkit.Start(t), &keeper{made: map[string]*model.HostVolume{}}
	n := c.Node(k.call)
	count := func() (out int) {
		for range c.View().HostVolumes() {
			out++
		}
		return out
	}
	create := map[string]any{"Volume": hostVolume("data")}
	k.fail(errdefs.DeadlineExceededf("it hangs"))
	if resp, body := c.Ask("PUT", "/v1/volume/host/create", create); resp.StatusCode != 500 || !strings.Contains(body, "stays: delete it, or create it again by its id") || count() != 1 {
		t.Fatalf("%s %q, %d volumes", resp.Status, body, count())
	}
	var left *model.HostVolume
	for v := range c.View().HostVolumes() {
		left = v
	}
	k.fail(nil)
	again := hostVolume("data")
	again["ID"] = left.ID
	c.Must("PUT", "/v1/volume/host/create", map[string]any{"Volume": again}, nil)
	if k.has() != 1 || count() != 1 {
		t.Fatalf("%d made, %d volumes", k.has(), count())
	}

	// A deletion that fails gives the volume back.
	k.fail(errdefs.FailedPreconditionf("busy"))
	if resp, body := c.Ask("DELETE", "/v1/volume/host/"+left.ID+"/delete?force=true", nil); resp.StatusCode != 500 || !strings.Contains(body, "busy") || c.View().HostVolumeByID(left.ID).Deleting {
		t.Errorf("%s %q, %+v", resp.Status, body, c.View().HostVolumeByID(left.ID))
	}
	k.fail(nil)
	n.Close()
	if resp, body := c.Ask("DELETE", "/v1/volume/host/"+left.ID+"/delete", nil); resp.StatusCode != 500 || !strings.Contains(body, "with force") || c.View().HostVolumeByID(left.ID).Deleting {
		t.Errorf("%s %q", resp.Status, body)
	}
	c.Must("DELETE", "/v1/volume/host/"+left.ID+"/delete?force=true", nil, nil)
	if count() != 0 {
		t.Errorf("%d volumes are left", count())
	}
}
