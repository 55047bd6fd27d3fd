// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// array is the nodes of a cluster with the controllers of drivers. They answer with a volume.
type array struct {
	mu    sync.Mutex
	id    string // of the volume
	size  int    // of the volume
	fails error
	at    string // the method that fails; "" if all do
	calls []string
	body  []byte // of the last call
}

type arrayNode struct {
	*array
	id string
}

func (n arrayNode) Call(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls, n.body = append(n.calls, n.id+" "+call.Method), call.Body
	if n.fails != nil && (n.at == "" || n.at == call.Method) {
		return n.fails
	}
	return send([]byte(fmt.Sprintf(`{"ID":%q,"CapacityBytes":%d,"NodeExpansion":true}`, n.array.id, n.size)))
}

// newArray has the nodes of a server run drivers with the id "p", by the names that these give
// themselves.
func newArray(t *testing.T, s *server, drivers map[string]string) *array {
	t.Helper()
	for _, cmd := range []fsm.Command{&fsm.BeginTerm{ClusterID: "c", TermID: "t"}, &fsm.RaiseLevel{Level: fsm.Level}, &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "default"}}}} {
		if _, _, err := s.Raft.Propose(s.ctx, encode(t, cmd)); err != nil {
			t.Fatal(err)
		}
	}
	for node, driver := range drivers {
		s.runsDriver(t, node, driver)
	}
	a := &array{id: "x1", size: 5}
	s.Nodes = func(id string) (rpc.Node, error) { return arrayNode{a, id}, nil }
	return a
}

func (s *server) runsDriver(t *testing.T, node, driver string) {
	t.Helper()
	info := func() map[string]*model.CSIInfo {
		return map[string]*model.CSIInfo{"p": {PluginID: "p", Provider: driver, Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &model.CSIControllerInfo{SupportsCreateDelete: true, SupportsCreateDeleteSnapshot: true, SupportsExpand: true}, NodeInfo: &model.CSINodeInfo{ID: node}}}
	}
	if _, _, err := s.Raft.Propose(s.ctx, encode(t, &fsm.RegisterNode{Node: &model.Node{ID: node, Status: model.NodeStatusReady, CSIControllerPlugins: info(), CSINodePlugins: info()}})); err != nil {
		t.Fatal(err)
	}
}

func arrayVolume(id string) *model.CSIVolume {
	return &model.CSIVolume{ID: id, Namespace: "default", PluginID: "p", RequestedCapabilities: []*model.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}}}
}

func TestAVolumeBelongsToTheDriverThatHasMadeItAndNoOtherIsAskedAboutIt(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a", "n2": "org.b"})
	_, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil)
	if want := `nodes run different drivers with the id "p": "org.a" on node n1, "org.b" on node n2; give the csi_plugin block of one of their jobs another id`; !errdefs.IsFailedPrecondition(err) || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := s.ExternalCSIVolumes(s.ctx, "p", 0, ""); err == nil || !strings.Contains(err.Error(), "different drivers") {
		t.Errorf("a list of the volumes of nobody knows whom: %v", err)
	}
	s.runsDriver(t, "n2", "org.a")
	if v, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil || v.Driver != "org.a" {
		t.Fatal(v, err)
	}
	s.runsDriver(t, "n2", "org.b")
	s.runsDriver(t, "n3", "org.b")
	if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
		t.Errorf("a volume whose driver is known cannot be changed: %v", err)
	}
	a.calls = nil
	if _, err := s.DeleteCSIVolume(s.ctx, "default", "db", nil); err != nil {
		t.Error(err)
	}
	if want := []string{"n1 " + rpc.MethodCSIDelete}; !slices.Equal(a.calls, want) {
		t.Errorf("asked were %v, want %v", a.calls, want)
	}

	s.runsDriver(t, "n2", "org.a")
	s.runsDriver(t, "n3", "org.a")
	if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		s.runsDriver(t, n, "org.b")
	}
	if _, err := s.DeleteCSIVolume(s.ctx, "default", "db", nil); err == nil || !strings.Contains(err.Error(), `the volume is one of the CSI driver "org.a"`) {
		t.Errorf("another driver was asked: %v", err)
	}
	again := arrayVolume("db")
	again.ExternalID = "x1"
	if v, _, err := s.RegisterCSIVolume(s.ctx, again, nil); err != nil || v.Driver != "org.b" {
		t.Errorf("a driver with a new name: %+v, %v", v, err)
	}
}

func TestADriverThatAnswersWithAnotherVolumeMakesNoSecondRowForIt(t *testing.T) {
	s := newServer(t)
	newArray(t, s, map[string]string{"n1": "org.a"})
	const volumes = 8
	errs := make([]error, volumes)
	var wg sync.WaitGroup
	for i := range volumes {
		wg.Go(func() { _, _, errs[i] = s.CreateCSIVolume(s.ctx, arrayVolume(fmt.Sprint("db", i)), nil) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errdefs.IsAlreadyExists(err) || !strings.Contains(err.Error(), `the driver answers with "x1", which is volume "db`):
			t.Errorf("got %v", err)
		}
	}
	if rows := s.state().CSIVolumesByPlugin("p"); made != 1 || len(rows) != 1 {
		t.Errorf("%d of them were made, and there are %d", made, len(rows))
	}
}

func TestVolumesOfTypeCSIAreRefusedInTheWordsOfTheRecords(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a"})
	unknown := arrayVolume("x")
	unknown.RequestedCapabilities[0].AccessMode = "zz"
	for want, do := range map[string]func() error{
		"1 error occurred:\n\t* controller create volume: CSI.ControllerCreateVolume: unknown volume access mode: zz\n\n": func() error { _, _, err := s.CreateCSIVolume(s.ctx, unknown, nil); return err },
		"Unknown allocation": func() error {
			if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
				return err
			}
			_, err := s.DetachCSIVolume(s.ctx, "default", "db", "n1")
			return err
		},
		`controller validate volume: CSI.ControllerValidateVolume: volume "db3" could not be found: there is none`: func() error {
			a.fails = errdefs.NotFoundf("there is none")
			defer func() { a.fails = nil }()
			_, _, err := s.RegisterCSIVolume(s.ctx, arrayVolume("db3"), nil)
			return err
		},
	} {
		if err := do(); err == nil || err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	sent := arrayVolume("db4")
	sent.Topologies = []*model.CSITopology{nil, {Segments: map[string]string{"zone": "a"}}}
	if v, _, err := s.RegisterCSIVolume(s.ctx, sent, nil); err != nil || v.ExternalID != "db4" || len(v.Topologies) != 1 {
		t.Errorf("a volume without an id of the storage system: %+v, %v", v, err)
	}
}

func TestAVolumeKnowsWhetherAControllerAttachesIt(t *testing.T) {
	s := newServer(t)
	newArray(t, s, nil)
	attaches := func(yes bool) {
		t.Helper()
		info := map[string]*model.CSIInfo{"p": {PluginID: "p", Provider: "disk", Healthy: true, ControllerInfo: &model.CSIControllerInfo{SupportsCreateDelete: true, SupportsAttachDetach: yes}}}
		if _, _, err := s.Raft.Propose(s.ctx, encode(t, &fsm.RegisterNode{Node: &model.Node{ID: "n", Status: model.NodeStatusReady, CSIControllerPlugins: info}})); err != nil {
			t.Fatal(err)
		}
	}
	for _, yes := range []bool{true, false, true} { // a new release of the driver may be otherwise
		attaches(yes)
		if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
			t.Fatal(err)
		}
		if v := s.Store.View().CSIVolumeByID("default", "db"); v.Attaches != yes {
			t.Errorf("attaches: %v, known of the volume: %v", yes, v.Attaches)
		}
	}
}

// What a volume is cannot be changed by creating it again, and a request that wants it is not
// answered as if it were done.
func TestAVolumeThatIsCreatedAgainChangesOnlyWhatCanChange(t *testing.T) {
	s := newServer(t)
	newArray(t, s, map[string]string{"n1": "org.a"})
	first := arrayVolume("db")
	first.Parameters, first.SnapshotID = map[string]string{"kind": "fast"}, "s1"
	if _, _, err := s.CreateCSIVolume(s.ctx, first, nil); err != nil {
		t.Fatal(err)
	}
	row := s.Store.View().CSIVolumeByID("default", "db").Copy()
	zone := func(z string) []*model.CSITopology {
		return []*model.CSITopology{{Segments: map[string]string{"zone": z}}}
	}
	row.Topologies = zone("a")
	if _, _, err := s.Raft.Propose(s.ctx, encode(t, &fsm.PutCSIVolume{Volume: row})); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*model.CSIVolume)
		want   string
	}{
		"nothing":       {func(*model.CSIVolume) {}, ""},
		"what it was":   {func(v *model.CSIVolume) { v.Parameters, v.SnapshotID = first.Parameters, "s1" }, ""},
		"mount options": {func(v *model.CSIVolume) { v.MountOptions = &model.CSIMountOptions{FSType: "xfs"} }, ""},
		"a zone where it is": {func(v *model.CSIVolume) {
			v.RequestedTopologies = &model.CSITopologyRequest{Required: append(zone("b"), zone("a")...)}
		}, ""},
		"another zone":     {func(v *model.CSIVolume) { v.RequestedTopologies = &model.CSITopologyRequest{Required: zone("b")} }, "volumes do not move"},
		"another snapshot": {func(v *model.CSIVolume) { v.SnapshotID = "s2" }, "the snapshot_id of volume \"db\" cannot change"},
		"a clone":          {func(v *model.CSIVolume) { v.CloneID = "x" }, "the clone_id of volume \"db\" cannot change"},
		"parameters":       {func(v *model.CSIVolume) { v.Parameters = map[string]string{"kind": "slow"} }, "the parameters of volume \"db\" cannot change"},
		"less":             {func(v *model.CSIVolume) { v.RequestedCapacityMax = 4 }, "volumes do not shrink"},
	} {
		v := arrayVolume("db")
		c.change(v)
		_, _, err := s.CreateCSIVolume(s.ctx, v, nil)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
		if now := s.Store.View().CSIVolumeByID("default", "db"); now.Parameters["kind"] != "fast" || now.SnapshotID != "s1" {
			t.Errorf("%s: now %+v", name, now)
		}
	}
	s.usesVolume(t, "db", "n1")
	v := arrayVolume("db")
	v.RequestedCapabilities[0].AccessMode = "multi-node-multi-writer"
	if _, _, err := s.CreateCSIVolume(s.ctx, v, nil); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "alloc a1 (j.g[0]) uses db with access mode single-node-writer") {
		t.Errorf("the mode of an alloc that runs is taken away: %v", err)
	}
}

// usesVolume runs an alloc with a volume on a node.
func (s *server) usesVolume(t *testing.T, id, node string) {
	t.Helper()
	ask := map[string]*model.VolumeRequest{"v": {Name: "v", Type: "csi", Source: id, AccessMode: "single-node-writer", AttachmentMode: "file-system"}}
	job := &model.Job{ID: "j", Namespace: "default", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Volumes: ask, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}}}
	alloc := &model.Allocation{ID: "a1", Name: "j.g[0]", Namespace: "default", JobID: "j", TaskGroup: "g", NodeID: node, ClientStatus: model.AllocClientStatusRunning, DesiredStatus: "run"}
	at := s.Store.View().Index() + 1
	for _, cmd := range []fsm.Command{&fsm.UpsertJob{Job: job}, &fsm.ApplyPlan{VerifiedIndex: at, Plan: &model.Plan{Namespace: "default", JobID: "j", SnapshotIndex: at, Place: []*model.Allocation{alloc}}}} {
		if _, _, err := s.Raft.Propose(s.ctx, encode(t, cmd)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileSystemThatANodeCouldNotGrowGrowsWhenTheCommandIsRepeated(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a"})
	if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
		t.Fatal(err)
	}
	s.usesVolume(t, "db", "n1")
	larger := arrayVolume("db")
	larger.RequestedCapacityMin = 10
	a.size, a.fails, a.at = 10, errdefs.Internalf("busy"), rpc.MethodCSINodeExpand
	if _, _, err := s.CreateCSIVolume(s.ctx, larger, nil); err == nil || !strings.Contains(err.Error(), "repeat the command") {
		t.Errorf("the node fails: %v", err)
	}
	if _, _, err := s.CreateCSIVolume(s.ctx, larger, nil); err == nil {
		t.Error("it fails again, and the command does not say so")
	}
	a.calls, a.fails = nil, nil
	if _, _, err := s.CreateCSIVolume(s.ctx, larger, nil); err != nil || !slices.Equal(a.calls, []string{"n1 " + rpc.MethodCSINodeExpand}) {
		t.Errorf("repeated: %v, %v", err, a.calls)
	}
}

func TestMountOptionsAreForUsesWithAFileSystem(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a"})
	v := arrayVolume("db")
	v.MountOptions = &model.CSIMountOptions{FSType: "xfs", MountFlags: []string{"noatime"}}
	v.RequestedCapabilities = append(v.RequestedCapabilities, &model.VolumeCapability{AccessMode: "single-node-writer", AttachmentMode: "block-device"})
	if _, _, err := s.CreateCSIVolume(s.ctx, v, nil); err != nil {
		t.Fatal(err)
	}
	var asked rpc.StorageCall
	if err := json.Unmarshal(a.body, &asked); err != nil || len(asked.Access) != 2 || asked.Access[0].FSType != "xfs" || asked.Access[1].FSType != "" || asked.Access[1].MountFlags != nil {
		t.Errorf("%v, the driver was asked with %s", err, a.body)
	}
}

func TestADriverThatCannotValidateIsNotInTheWayOfARegistration(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a"})
	v := arrayVolume("db")
	v.ExternalID = "x"
	a.fails = errdefs.InvalidArgumentf("another size")
	if _, _, err := s.RegisterCSIVolume(s.ctx, v, nil); !errdefs.IsInvalidArgument(err) {
		t.Errorf("the driver refuses it: %v", err)
	}
	a.fails = errdefs.Unimplementedf("what is that")
	if _, _, err := s.RegisterCSIVolume(s.ctx, v, nil); err != nil {
		t.Errorf("the driver does not know the call: %v", err)
	}
}

func TestASnapshotHasAName(t *testing.T) {
	s := newServer(t)
	a := newArray(t, s, map[string]string{"n1": "org.a"})
	if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("DB.0_my-volume"), nil); err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`"Name":"s-db-0-my-volume-[0-9]{8}-[0-9]{6}-[0-9]{3}"`) // which clouds and file systems take
	for given, want := range map[string]*regexp.Regexp{"Mine.1": regexp.MustCompile(`"Name":"Mine.1"`), "": plain} {
		if _, err := s.CreateCSISnapshot(s.ctx, "default", &api.CSISnapshot{SourceVolumeID: "DB.0_my-volume", Name: given}); err != nil || !want.Match(a.body) {
			t.Errorf("%q: %v, the driver was asked with %s", given, err, a.body)
		}
	}
}

func TestAVolumeThatIsRegisteredAgainKeepsWhatTheRequestLeavesOut(t *testing.T) {
	s := newServer(t)
	newArray(t, s, map[string]string{"n1": "org.a"})
	if _, _, err := s.CreateCSIVolume(s.ctx, arrayVolume("db"), nil); err != nil {
		t.Fatal(err)
	}
	row := s.Store.View().CSIVolumeByID("default", "db").Copy()
	row.Context, row.Topologies = map[string]string{"server": "10.0.0.1"}, []*model.CSITopology{{Segments: map[string]string{"zone": "a"}}}
	if _, _, err := s.Raft.Propose(s.ctx, encode(t, &fsm.PutCSIVolume{Volume: row})); err != nil {
		t.Fatal(err)
	}
	again := arrayVolume("db")
	again.MountOptions = &model.CSIMountOptions{FSType: "xfs"}
	if _, _, err := s.RegisterCSIVolume(s.ctx, again, nil); err != nil {
		t.Fatal(err)
	}
	now := s.Store.View().CSIVolumeByID("default", "db")
	if now.ExternalID != row.ExternalID || now.Context["server"] != "10.0.0.1" || len(now.Topologies) != 1 || now.Capacity != row.Capacity || now.MountOptions.FSType != "xfs" {
		t.Errorf("now %+v", now)
	}
	other := arrayVolume("db")
	other.ExternalID = "another"
	if _, _, err := s.RegisterCSIVolume(s.ctx, other, nil); err == nil || !strings.Contains(err.Error(), "cannot change") {
		t.Errorf("another volume under its id: %v", err)
	}
}
