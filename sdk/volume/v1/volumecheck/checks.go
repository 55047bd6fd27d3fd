// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumecheck

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

var checks = []Check{
	{"info", "info is complete, always the same, and its schema is sound", checkInfo},
	{"config-again", "the same config may be set again at any time", checkConfigAgain},
	{"fingerprint", "the first fingerprint comes at once, others when something changes, and the stream ends with its context and not before", checkFingerprint},
	{"capabilities", "each capability that is listed is known and has its calls", checkCapabilities},
	{"create", "a volume has an id and a size as asked for, is the same when it is asked for again, and another one of its name is refused", checkCreate},
	{"delete", "a volume can be deleted again, and though there was none", checkDelete},
	{"validate", "a volume that exists can be used as it was made, and an unknown one is not found", checkValidate},
	{"list", "pages of one volume each lead through all volumes and end", checkList},
	{"get", "a volume is described as it was made, and an unknown one is not found", checkGet},
	{"expand", "a volume grows, has the size then, and does not shrink", checkExpand},
	{"snapshot", "a snapshot is the same when it is asked for again, is listed, and can be deleted again", checkSnapshot},
	{"sources", "a volume begins with a snapshot or a volume, and an unknown source is not found", checkSources},
	{"publish", "a volume comes to a path and goes, each step may be repeated, and nothing is left", checkPublish},
	{"read-only", "a volume that is published read-only shows what was written to it before and takes no write, or the plugin refuses it with Unimplemented", checkReadOnly},
	{"nothing", "reverse calls succeed where there is nothing", checkNothing},
	{"unknown-volume", "an unknown volume is not published, and nothing is left of the attempt after Unpublish", checkUnknown},
	{"fresh-process", "another process knows what is published after the first was killed, and can take it back", checkDeath},
	{"interrupted", "a Publish that is given up leaves nothing that the reverse calls do not remove", checkInterrupted},
}

func checkInfo(b *bench) {
	info := b.v.Info()
	conformance.CheckInfo(b.t, info.Name, info.ConfigSchema, info, b.v.Info())
}

func checkConfigAgain(b *bench) {
	if err := b.v.SetConfig(b.ctx, b.config); err != nil {
		b.t.Errorf("SetConfig a second time: %v", err)
	}
}

func checkFingerprint(b *bench) {
	b.print()
	conformance.CheckFingerprints(b.t, b.v.Fingerprint, false)
}

func checkCapabilities(b *bench) {
	f := b.print()
	has := volume.Features(b.v)
	for _, c := range f.Capabilities {
		if slices.Contains(volume.KnownFeatures(), volume.Feature(c)) && !slices.Contains(has, volume.Feature(c)) {
			b.t.Errorf("the capability %q is listed, and the plugin does not announce its calls", c)
		}
	}
	if f.Node != nil && f.Node.ID == "" {
		b.t.Errorf("the node has no id")
	}
	if f.Node != nil && f.Node.MaxVolumes < 0 {
		b.t.Errorf("the node takes %d volumes", f.Node.MaxVolumes)
	}
	if f.Can(volume.CanExpandOnline) && !f.Can(volume.CanExpand) && !f.Can(volume.CanNodeExpand) {
		b.t.Errorf("%q is listed without %q", volume.CanExpandOnline, volume.CanExpand)
	}
}

// wanted asks for a volume of a name of this check.
func (b *bench) wanted(name string) volume.CreateRequest {
	return volume.CreateRequest{
		Name: "drover-check-" + b.name + "-" + name, Capacity: volume.CapacityRange{RequiredBytes: b.subject.Size}, Access: []volume.Access{b.subject.Access},
		Parameters: b.subject.Parameters, Secrets: b.subject.Secrets,
	}
}

// create makes a volume that is removed at the end of the check.
func create(b *bench, c volume.Creator, r volume.CreateRequest) *volume.Description {
	d, err := c.Create(b.ctx, r)
	if err != nil {
		b.t.Fatalf("Create(%s): %v", r.Name, err)
	}
	id := d.ID
	b.atEnd(func() {
		if err := deleted(b, id); err != nil {
			b.t.Errorf("Delete(%s): %v", id, err)
		}
	})
	return d
}

// deleted deletes a volume, also after the check has failed or its process has died.
func deleted(b *bench, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
	defer cancel()
	c, ok := b.v.(volume.Creator)
	if !ok {
		return errdefs.Unimplementedf("the plugin does not delete volumes any more")
	}
	return c.Delete(ctx, id, b.subject.Secrets)
}

func checkCreate(b *bench) {
	c := needs[volume.Creator](b, volume.CanCreate)
	r := b.wanted("a")
	d := create(b, c, r)
	if d.ID == "" || d.CapacityBytes != 0 && d.CapacityBytes < r.Capacity.RequiredBytes {
		b.t.Errorf("asked for %d bytes, and got the volume %+v", r.Capacity.RequiredBytes, d)
	}
	again, err := c.Create(b.ctx, r)
	if err != nil || !reflect.DeepEqual(again, d) {
		b.t.Errorf("Create answers %+v and then %+v, %v", d, again, err)
	}
	other := create(b, c, b.wanted("b"))
	if other.ID == d.ID {
		b.t.Errorf("two volumes have the id %q", d.ID)
	}
	if d.CapacityBytes == 0 {
		return
	}
	r.Capacity.RequiredBytes = d.CapacityBytes + b.subject.Size
	if _, err := c.Create(b.ctx, r); !errdefs.IsAlreadyExists(err) {
		b.t.Errorf("Create of a larger volume of the same name: %v, want AlreadyExists", err)
	}
}

func checkDelete(b *bench) {
	c := needs[volume.Creator](b, volume.CanCreate)
	d := create(b, c, b.wanted("a"))
	for _, id := range []string{d.ID, d.ID, nobody} {
		if err := c.Delete(b.ctx, id, b.subject.Secrets); err != nil {
			b.t.Errorf("Delete(%s): %v", id, err)
		}
	}
}

func checkValidate(b *bench) {
	v := needs[volume.Validator](b, volume.CanValidate)
	err := v.Validate(b.ctx, volume.ValidateRequest{ID: nobody, Access: []volume.Access{b.subject.Access}, Secrets: b.subject.Secrets})
	if !errdefs.IsNotFound(err) {
		b.t.Errorf("Validate of an unknown volume: %v, want NotFound", err)
	}
	d := create(b, needs[volume.Creator](b, volume.CanCreate), b.wanted("a"))
	r := volume.ValidateRequest{ID: d.ID, Access: []volume.Access{b.subject.Access}, Context: d.Context, Parameters: b.subject.Parameters, Secrets: b.subject.Secrets}
	if err := v.Validate(b.ctx, r); err != nil {
		b.t.Errorf("Validate: %v", err)
	}
}

// maxPages is the largest number of pages of one volume that a list may have here.
const maxPages = 10000

func checkList(b *bench) {
	l := needs[volume.Lister](b, volume.CanList)
	want := map[string]bool{}
	if b.print().Can(volume.CanCreate) {
		c := needs[volume.Creator](b, volume.CanCreate)
		for i := range 3 {
			want[create(b, c, b.wanted(fmt.Sprint(i))).ID] = true
		}
	}
	seen := map[string]bool{}
	after := ""
	for n := 0; ; n++ {
		page, err := l.List(b.ctx, volume.PageRequest{Limit: 1, After: after})
		if err != nil {
			b.t.Fatalf("List after %q: %v", after, err)
		}
		if len(page.Volumes) > 1 {
			b.t.Fatalf("a page of one has %d volumes", len(page.Volumes))
		}
		for _, d := range page.Volumes {
			if seen[d.ID] {
				b.t.Fatalf("volume %q is listed twice", d.ID)
			}
			seen[d.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
		if n > maxPages {
			b.t.Fatalf("the list has more than %d pages", maxPages)
		}
	}
	for id := range want {
		if !seen[id] {
			b.t.Errorf("volume %q is not listed", id)
		}
	}
}

func checkGet(b *bench) {
	g := needs[volume.Getter](b, volume.CanGet)
	if _, err := g.Get(b.ctx, nobody); !errdefs.IsNotFound(err) {
		b.t.Errorf("Get of an unknown volume: %v, want NotFound", err)
	}
	d := create(b, needs[volume.Creator](b, volume.CanCreate), b.wanted("a"))
	got, err := g.Get(b.ctx, d.ID)
	if err != nil || got.ID != d.ID || got.CapacityBytes != d.CapacityBytes {
		b.t.Errorf("Get: %+v, %v, want %+v", got, err, d)
	}
}

func checkExpand(b *bench) {
	e := needs[volume.Expander](b, volume.CanExpand)
	c := needs[volume.Creator](b, volume.CanCreate)
	d := create(b, c, b.wanted("a"))
	r := volume.ExpandRequest{ID: d.ID, Capacity: volume.CapacityRange{RequiredBytes: max(d.CapacityBytes, b.subject.Size) * 2}, Access: b.subject.Access, Secrets: b.subject.Secrets}
	for range 2 {
		got, err := e.Expand(b.ctx, r)
		if err != nil || got.CapacityBytes < r.Capacity.RequiredBytes {
			b.t.Fatalf("Expand to %d bytes: %+v, %v", r.Capacity.RequiredBytes, got, err)
		}
	}
	large := r.Capacity.RequiredBytes
	r.Capacity.RequiredBytes = b.subject.Size
	if got, err := e.Expand(b.ctx, r); err == nil && got.CapacityBytes < large {
		b.t.Errorf("Expand to a smaller size made it %d bytes", got.CapacityBytes)
	}
	if _, err := e.Expand(b.ctx, volume.ExpandRequest{ID: nobody, Capacity: r.Capacity, Access: b.subject.Access}); !errdefs.IsNotFound(err) {
		b.t.Errorf("Expand of an unknown volume: %v, want NotFound", err)
	}
}

func checkSnapshot(b *bench) {
	s := needs[volume.Snapshotter](b, volume.CanSnapshot)
	c := needs[volume.Creator](b, volume.CanCreate)
	d, other := create(b, c, b.wanted("a")), create(b, c, b.wanted("b"))
	r := volume.SnapshotRequest{Name: "drover-check-" + b.name, VolumeID: d.ID, Secrets: b.subject.Secrets}
	snap := snapshot(b, s, r)
	if again := snapshot(b, s, r); again.ID != snap.ID || !again.CreatedAt.Equal(snap.CreatedAt) {
		b.t.Errorf("CreateSnapshot answers %+v and then %+v", snap, again)
	}
	r.VolumeID = other.ID
	if _, err := s.CreateSnapshot(b.ctx, r); !errdefs.IsAlreadyExists(err) {
		b.t.Errorf("CreateSnapshot of another volume with the same name: %v, want AlreadyExists", err)
	}
	if b.print().Can(volume.CanListSnapshots) {
		page, err := needs[volume.SnapshotLister](b, volume.CanListSnapshots).ListSnapshots(b.ctx, volume.SnapshotPageRequest{VolumeID: d.ID, Secrets: b.subject.Secrets})
		if err != nil || !slices.ContainsFunc(page.Snapshots, func(one volume.Snapshot) bool { return one.ID == snap.ID }) {
			b.t.Errorf("ListSnapshots of the volume: %+v, %v", page, err)
		}
	}
	for range 2 {
		if err := s.DeleteSnapshot(b.ctx, snap.ID, b.subject.Secrets); err != nil {
			b.t.Errorf("DeleteSnapshot: %v", err)
		}
	}
}

func snapshot(b *bench, s volume.Snapshotter, r volume.SnapshotRequest) *volume.Snapshot {
	snap, err := s.CreateSnapshot(b.ctx, r)
	if err != nil {
		b.t.Fatalf("CreateSnapshot(%s): %v", r.Name, err)
	}
	if snap.ID == "" || snap.VolumeID != r.VolumeID {
		b.t.Fatalf("CreateSnapshot of volume %q answers %+v", r.VolumeID, snap)
	}
	id := snap.ID
	b.atEnd(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
		defer cancel()
		if err := s.DeleteSnapshot(ctx, id, b.subject.Secrets); err != nil {
			b.t.Errorf("DeleteSnapshot(%s): %v", id, err)
		}
	})
	return snap
}

func checkSources(b *bench) {
	c := needs[volume.Creator](b, volume.CanCreate)
	f := b.print()
	if !f.Can(volume.CanClone) && !f.Can(volume.CanSnapshot) {
		b.t.Skipf("volumes of the plugin begin empty")
	}
	d := create(b, c, b.wanted("a"))
	if f.Can(volume.CanClone) {
		r := b.wanted("clone")
		r.SourceVolume = d.ID
		if got := create(b, c, r); got.SourceVolume != d.ID || got.ID == d.ID {
			b.t.Errorf("a clone of volume %q is %+v", d.ID, got)
		}
		r = b.wanted("clone-of-none")
		r.SourceVolume = nobody
		if _, err := c.Create(b.ctx, r); !errdefs.IsNotFound(err) {
			b.t.Errorf("a clone of an unknown volume: %v, want NotFound", err)
		}
	}
	if f.Can(volume.CanSnapshot) {
		snap := snapshot(b, needs[volume.Snapshotter](b, volume.CanSnapshot), volume.SnapshotRequest{Name: "drover-check-" + b.name, VolumeID: d.ID, Secrets: b.subject.Secrets})
		r := b.wanted("restored")
		r.SourceSnapshot = snap.ID
		if got := create(b, c, r); got.SourceSnapshot != snap.ID {
			b.t.Errorf("a volume of snapshot %q is %+v", snap.ID, got)
		}
	}
}
