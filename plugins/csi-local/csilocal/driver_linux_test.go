// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/plugins/csi-local/csilocal"
)

// client is what a node and a controller ask a driver.
type client struct {
	csi.ControllerClient
	csi.NodeClient
}

func dial(t *testing.T, socket string) *client {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is sent any more
	return &client{csi.NewControllerClient(conn), csi.NewNodeClient(conn)}
}

func mount(mode csi.VolumeCapability_AccessMode_Mode, fsType, group string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, VolumeMountGroup: group, MountFlags: flags}},
	}
}

var writer = mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, "", "")

// use is a volume that a test publishes.
type use struct {
	t               *testing.T
	c               *client
	id              string
	staging, target string
	cap             *csi.VolumeCapability
}

func create(t *testing.T, c *client, r *csi.CreateVolumeRequest) *use {
	t.Helper()
	if r.VolumeCapabilities == nil {
		r.VolumeCapabilities = []*csi.VolumeCapability{writer}
	}
	v, err := c.CreateVolume(t.Context(), r)
	if err != nil {
		t.Fatalf("create %s: %v", r.GetName(), err)
	}
	dir := t.TempDir()
	u := &use{t: t, c: c, id: v.GetVolume().GetVolumeId(), staging: filepath.Join(dir, "staging"), target: filepath.Join(dir, "target"), cap: r.VolumeCapabilities[0]}
	t.Cleanup(func() { u.back(context.Background()) })
	return u
}

func (u *use) stage() error {
	_, err := u.c.NodeStageVolume(u.t.Context(), &csi.NodeStageVolumeRequest{VolumeId: u.id, StagingTargetPath: u.staging, VolumeCapability: u.cap})
	return err
}

func (u *use) publish(path string, readOnly bool) error {
	_, err := u.c.NodePublishVolume(u.t.Context(), &csi.NodePublishVolumeRequest{VolumeId: u.id, StagingTargetPath: u.staging, TargetPath: path, VolumeCapability: u.cap, Readonly: readOnly})
	return err
}

// forth brings the volume to its target.
func (u *use) forth() *use {
	u.t.Helper()
	if err := errors.Join(u.stage(), u.publish(u.target, false)); err != nil {
		u.t.Fatal(err)
	}
	return u
}

// takeAway takes it from its target and from the node.
func (u *use) takeAway() {
	u.t.Helper()
	_, a := u.c.NodeUnpublishVolume(u.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: u.id, TargetPath: u.target})
	_, b := u.c.NodeUnstageVolume(u.t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: u.id, StagingTargetPath: u.staging})
	if err := errors.Join(a, b); err != nil {
		u.t.Fatal(err)
	}
}

// back takes it away and deletes it.
func (u *use) back(ctx context.Context) {
	_, a := u.c.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.id, TargetPath: u.target})
	_, b := u.c.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: u.id, StagingTargetPath: u.staging})
	_, c := u.c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: u.id})
	if err := errors.Join(a, b, c); err != nil {
		u.t.Errorf("take volume %s back: %v", u.id, err)
	}
}

func (u *use) write(text string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.target, "file"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *use) read() string {
	body, err := os.ReadFile(filepath.Join(u.target, "file"))
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func fresh(t *testing.T) *client {
	t.Helper()
	needs(t, "mkfs.ext4", "resize2fs", "e2fsck")
	return dial(t, serve(t, csilocal.Config{Dir: filepath.Join(t.TempDir(), "data"), NodeID: "n1", MaxVolumes: 3}))
}

func TestTheSizeOfAVolumeIsALimit(t *testing.T) {
	u := create(t, fresh(t), &csi.CreateVolumeRequest{Name: "v", CapacityRange: &csi.CapacityRange{RequiredBytes: 8 << 20}}).forth()
	err := os.WriteFile(filepath.Join(u.target, "big"), make([]byte, 9<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("9 MiB in a volume of 8: %v, want that there is no space", err)
	}
}

func TestAVolumeThatIsExpandedIsLargerWhenItIsStagedNext(t *testing.T) {
	c := fresh(t)
	u := create(t, c, &csi.CreateVolumeRequest{Name: "v", CapacityRange: &csi.CapacityRange{RequiredBytes: 8 << 20}}).forth()
	u.write("kept")
	if _, err := c.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: u.id, TargetPath: u.target}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: u.id, StagingTargetPath: u.staging}); err != nil {
		t.Fatal(err)
	}
	got, err := c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: u.id, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20}})
	if err != nil || got.GetCapacityBytes() < 64<<20 {
		t.Fatalf("%v, %v", got, err)
	}
	u.forth()
	var st unix.Statfs_t
	if err := unix.Statfs(u.target, &st); err != nil || int64(st.Blocks)*st.Bsize < 50<<20 || u.read() != "kept" {
		t.Errorf("%d bytes, %q, %v", int64(st.Blocks)*st.Bsize, u.read(), err)
	}
}

// Each process that starts in a mount namespace of its own has copies of all mounts for a while,
// and a file system goes on until the last one is gone.
func TestAVolumeWhoseMountIsCopiedElsewhereIsStagedAgainWithWhatWasWritten(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			size := int64(32 << 20)
			if fsType == "xfs" {
				size = 512 << 20
			}
			u := create(t, fresh(t), &csi.CreateVolumeRequest{
				Name: "copied", CapacityRange: &csi.CapacityRange{RequiredBytes: size}, Parameters: map[string]string{"fs_type": fsType},
				VolumeCapabilities: []*csi.VolumeCapability{mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, fsType, "")},
			})
			u.forth().write("here")
			other := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 600")
			said, err := other.StdoutPipe()
			if err == nil {
				err = other.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = other.Process.Kill() // it sleeps until then
				_ = other.Wait()
			}()
			if _, err := said.Read(make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				u.takeAway()
				if got := u.forth().read(); got != "here" {
					t.Fatalf("staged again, it has %q", got)
				}
			}
			u.write("there")
			u.takeAway()
			if _, err := u.c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: u.id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * size}}); err != nil {
				t.Fatal(err)
			}
			var st unix.Statfs_t
			if err := unix.Statfs(u.forth().target, &st); err != nil || fsType == "xfs" && int64(st.Blocks)*st.Bsize < size*3/2 {
				t.Errorf("expanded to %d and staged again, it has %d bytes, %v", 2*size, int64(st.Blocks)*st.Bsize, err)
			}
			u.takeAway()
			_ = other.Process.Kill() // the last user of the file system
			_ = other.Wait()
			if got := u.forth().read(); got != "there" {
				t.Errorf("after the copy is gone, it has %q", got)
			}
		})
	}
}

func TestSnapshotsAndClonesHaveWhatTheVolumeHadThen(t *testing.T) {
	for _, kind := range []string{"loop", "directory"} {
		t.Run(kind, func(t *testing.T) {
			c, parameters := fresh(t), map[string]string{"kind": kind}
			size := &csi.CapacityRange{RequiredBytes: 8 << 20}
			u := create(t, c, &csi.CreateVolumeRequest{Name: "v", CapacityRange: size, Parameters: parameters}).forth()
			u.write("before") // not synced: the snapshot has it all the same
			snap, err := c.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: u.id})
			if err != nil {
				t.Fatal(err)
			}
			u.write("after")
			of := func(name string, s *csi.VolumeContentSource) *use {
				return create(t, c, &csi.CreateVolumeRequest{Name: name, CapacityRange: size, Parameters: parameters, VolumeContentSource: s}).forth()
			}
			restored := of("restored", &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snap.GetSnapshot().GetSnapshotId()},
			}})
			cloned := of("cloned", &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: u.id}}})
			if restored.read() != "before" || cloned.read() != "after" {
				t.Errorf("the snapshot has %q, the clone %q", restored.read(), cloned.read())
			}
			u.write("later") // it goes on after it stood still
			if cloned.read() != "after" {
				t.Errorf("the clone follows its source: %q", cloned.read())
			}
		})
	}
}

func TestOneWriterAndTheMaximumOfANodeAreKept(t *testing.T) {
	c := fresh(t)
	u := create(t, c, &csi.CreateVolumeRequest{Name: "v0", CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}}).forth()
	if err := u.publish(u.target+"2", false); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second path of a volume with one writer: %v", err)
	}
	if err := u.publish(u.target, true); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same path in another way: %v", err)
	}
	if _, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: u.id}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("deletion in use: %v", err)
	}
	for i := 1; i < 3; i++ {
		create(t, c, &csi.CreateVolumeRequest{Name: fmt.Sprintf("v%d", i), CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}}).forth()
	}
	if err := create(t, c, &csi.CreateVolumeRequest{Name: "v3", CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}}).stage(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fourth volume of three: %v", err)
	}
}

func TestAGroupMayWrite(t *testing.T) {
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	u := create(t, fresh(t), &csi.CreateVolumeRequest{Name: "v", CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}, VolumeCapabilities: []*csi.VolumeCapability{mount(mode, "", "4711", "noatime")}}).forth()
	u.write("text")
	var top, file unix.Stat_t
	if err := errors.Join(unix.Stat(u.target, &top), unix.Stat(filepath.Join(u.target, "file"), &file)); err != nil {
		t.Fatal(err)
	}
	if top.Gid != 4711 || file.Gid != 4711 || top.Mode&0o2070 != 0o2070 {
		t.Errorf("the top has group %d and mode %o, a new file group %d", top.Gid, top.Mode, file.Gid)
	}
	all, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(u.staging))
	if err != nil || len(all) != 1 || !strings.Contains(all[0].Options, "noatime") {
		t.Errorf("mounted as %+v, %v", all, err)
	}
}

func TestEveryUserMayWriteIntoANewVolumeAndAModeThatWasChosenStays(t *testing.T) {
	cap := mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, "", "")
	u := create(t, fresh(t), &csi.CreateVolumeRequest{Name: "v", CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}, VolumeCapabilities: []*csi.VolumeCapability{cap}}).forth()
	mode := func() os.FileMode {
		t.Helper()
		info, err := os.Stat(u.target)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if got := mode(); got != 0o777 {
		t.Errorf("the directory of a new volume has the mode %o", got)
	}
	u.write("text")
	if err := os.Chmod(u.target, 0o755); err != nil {
		t.Fatal(err)
	}
	u.takeAway()
	u.forth()
	if got := mode(); got != 0o755 {
		t.Errorf("the mode of a volume with files became %o", got)
	}
}

func TestSizesAndModesThatCannotBeHadAreRefused(t *testing.T) {
	c := fresh(t)
	for what, r := range map[string]*csi.CreateVolumeRequest{
		"OutOfRange a size above the limit":    {CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 20, LimitBytes: 1 << 20}},
		"OutOfRange too small a limit":         {CapacityRange: &csi.CapacityRange{LimitBytes: 1 << 20}},
		"OutOfRange a huge size":               {CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 60}},
		"ResourceExhausted more than the disk": {CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 49}},
		"ResourceExhausted another node":       {AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{"local.csi.drover/node": "n2"}}}}},
		"InvalidArgument an unknown parameter": {Parameters: map[string]string{"color": "red"}},
		"InvalidArgument many nodes":           {VolumeCapabilities: []*csi.VolumeCapability{mount(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, "", "")}},
		"InvalidArgument ntfs":                 {VolumeCapabilities: []*csi.VolumeCapability{mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, "ntfs", "")}},
	} {
		code, _, _ := strings.Cut(what, " ")
		r.Name = "v"
		if r.VolumeCapabilities == nil {
			r.VolumeCapabilities = []*csi.VolumeCapability{writer}
		}
		if _, err := c.CreateVolume(t.Context(), r); status.Code(err).String() != code {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// killedEnv is the directory of the driver that a child of TestAKilledDriverLeavesNothing is.
const killedEnv = "DROVER_CSI_LOCAL_DIR"

func TestADriverThatIsKilled(t *testing.T) {
	dir := os.Getenv(killedEnv)
	if dir == "" {
		t.Skip("it is run by TestAKilledDriverLeavesNothingHalfMade")
	}
	d, err := csilocal.Open(csilocal.Config{Dir: filepath.Join(dir, "data"), NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(d.Serve(t.Context(), filepath.Join(dir, "csi.sock")))
}

func TestAKilledDriverLeavesNothingHalfMade(t *testing.T) {
	needs(t, "mkfs.ext4", "resize2fs", "e2fsck")
	dir := t.TempDir()
	var child *exec.Cmd
	start := func() *client {
		child = exec.Command(os.Args[0], "-test.run=^TestADriverThatIsKilled$")
		child.Env = append(os.Environ(), killedEnv+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		return dial(t, filepath.Join(dir, "csi.sock"))
	}
	kill := func() {
		_ = child.Process.Kill() // it runs
		_ = child.Wait()         // it was killed
	}
	var staging, target string
	for round := range 12 {
		c := start()
		staging, target = filepath.Join(dir, "staging"), filepath.Join(dir, "target")
		// The driver is killed somewhere on the way.
		timer := time.AfterFunc(time.Duration(20+round*17)*time.Millisecond, func() { _ = child.Process.Kill() })
		wait := grpc.WaitForReady(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		v, err := c.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: "v", VolumeCapabilities: []*csi.VolumeCapability{writer}, CapacityRange: &csi.CapacityRange{RequiredBytes: 8 << 20}}, wait)
		id := v.GetVolume().GetVolumeId()
		if err == nil {
			_, _ = c.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: writer})
			_, _ = c.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: writer})
			_, _ = c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
		}
		cancel()
		timer.Stop()
		kill()
		c = start()
		if id == "" { // its answer was lost
			v, err := c.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "v", VolumeCapabilities: []*csi.VolumeCapability{writer}, CapacityRange: &csi.CapacityRange{RequiredBytes: 8 << 20}}, wait)
			if err != nil {
				t.Fatal(err)
			}
			id = v.GetVolume().GetVolumeId()
		}
		u := &use{t: t, c: c, id: id, staging: staging, target: target, cap: writer}
		ready, err := c.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{}, wait)
		if err != nil {
			t.Fatal(err)
		}
		u.forth().write("it works")
		for _, s := range ready.GetEntries() {
			if _, err := c.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshot().GetSnapshotId()}); err != nil {
				t.Error(err)
			}
		}
		u.back(t.Context())
		kill()
		for _, sub := range []string{"volumes", "snapshots", "aside"} {
			if left, err := os.ReadDir(filepath.Join(dir, "data", sub)); err != nil || len(left) > 0 {
				t.Errorf("round %d: left in %s: %v, %v", round, sub, left, err)
			}
		}
		if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: the target is left: %v", round, err)
		}
	}
	out, err := exec.Command("losetup", "-a").CombinedOutput()
	if err == nil && bytes.Contains(out, []byte(dir)) {
		t.Errorf("loop devices are left:\n%s", out)
	}
}

func TestTwoDriversCannotHaveOneDirectory(t *testing.T) {
	dir := t.TempDir()
	d, err := csilocal.Open(csilocal.Config{Dir: dir, NodeID: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := csilocal.Open(csilocal.Config{Dir: dir, NodeID: "n"}); err == nil {
		t.Error("a second driver opened the directory")
	}
}
