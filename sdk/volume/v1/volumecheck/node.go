// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumecheck

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// use is a volume on its way to a path.
type use struct {
	id, node, staging, target string
	context, published        map[string]string
	access                    volume.Access
	can                       func(volume.Capability) bool
}

// used returns a volume for a check of the node's part.
func (b *bench) used() *use {
	f := b.print()
	if f.Node == nil {
		b.t.Skipf("the plugin publishes no volumes on this machine")
	}
	u := &use{id: b.subject.Existing, node: f.Node.ID, target: b.path("target"), access: b.subject.Access, can: f.Can}
	if f.Can(volume.CanStage) {
		u.staging = b.path("staging")
	}
	switch {
	case f.Can(volume.CanCreate):
		d := create(b, needs[volume.Creator](b, volume.CanCreate), b.wanted("used"))
		u.id, u.context = d.ID, d.Context
	case u.id == "":
		b.t.Skipf("the plugin makes no volumes, and there is none to check with")
	}
	if err := os.MkdirAll(filepath.Dir(u.target), 0o700); err != nil {
		b.t.Fatalf("make a directory: %v", err)
	}
	b.atEnd(func() { // before the volume is deleted
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
		defer cancel()
		if err := u.release(ctx, b); err != nil {
			b.t.Errorf("%v", err)
		}
	})
	return u
}

// claim brings the volume to the path.
func (u *use) claim(ctx context.Context, b *bench) (err error) {
	s := b.subject.Secrets
	if u.can(volume.CanAttach) {
		a := needs[volume.Attacher](b, volume.CanAttach)
		if u.published, err = a.Attach(ctx, volume.AttachRequest{ID: u.id, NodeID: u.node, Access: u.access, Context: u.context, Secrets: s}); err != nil {
			return err
		}
	}
	if u.can(volume.CanStage) {
		r := volume.StageRequest{ID: u.id, StagingPath: u.staging, Access: u.access, Context: u.context, PublishContext: u.published, Secrets: s}
		if err := needs[volume.Stager](b, volume.CanStage).Stage(ctx, r); err != nil {
			return err
		}
	}
	return b.v.Publish(ctx, u.request(b))
}

func (u *use) request(b *bench) volume.PublishRequest {
	return volume.PublishRequest{ID: u.id, StagingPath: u.staging, TargetPath: u.target, Access: u.access, Context: u.context, PublishContext: u.published, Secrets: b.subject.Secrets}
}

// release takes it back.
func (u *use) release(ctx context.Context, b *bench) error {
	if err := b.v.Unpublish(ctx, u.id, u.target); err != nil {
		return errdefs.New(errdefs.ClassOf(err), errors.Join(errors.New("Unpublish"), err))
	}
	if s, ok := b.v.(volume.Stager); ok && u.can(volume.CanStage) {
		if err := s.Unstage(ctx, u.id, u.staging); err != nil {
			return errdefs.New(errdefs.ClassOf(err), errors.Join(errors.New("Unstage"), err))
		}
	}
	if a, ok := b.v.(volume.Attacher); ok && u.can(volume.CanAttach) {
		if err := a.Detach(ctx, volume.DetachRequest{ID: u.id, NodeID: u.node, Secrets: b.subject.Secrets}); err != nil {
			return errdefs.New(errdefs.ClassOf(err), errors.Join(errors.New("Detach"), err))
		}
	}
	return nil
}

// must runs one of the two and ends the check if it fails.
func (u *use) must(b *bench, do func(context.Context, *bench) error) {
	if err := do(b.ctx, b); err != nil {
		b.t.Fatalf("%v", err)
	}
}

// listed returns what the plugin says that the node has of the volume.
func (u *use) listed(b *bench) *volume.Publication {
	all, err := b.v.Published(b.ctx)
	if err != nil {
		b.t.Fatalf("Published: %v", err)
	}
	i := slices.IndexFunc(all, func(p volume.Publication) bool { return p.ID == u.id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// gone checks that nothing is left of the volume on the node.
func (u *use) gone(b *bench, when string) {
	if p := u.listed(b); p != nil {
		b.t.Errorf("%s, the plugin still lists %+v", when, *p)
	}
	if _, err := os.Lstat(u.target); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("%s, there still is %s (%v)", when, u.target, err)
	}
}

// file is a file in the volume, "" if the volume has no file system.
func (u *use) file() string {
	if u.access.Attachment == volume.AttachmentBlockDevice || u.access.Mode == volume.SingleNodeReader || u.access.Mode == volume.MultiNodeReader {
		return ""
	}
	return filepath.Join(u.target, "drover-check")
}

func (u *use) write(b *bench) {
	if u.file() == "" {
		return
	}
	if err := os.WriteFile(u.file(), []byte("drover"), 0o600); err != nil {
		b.t.Fatalf("write to the volume: %v", err)
	}
}

func (u *use) read(b *bench, when string) {
	if u.file() == "" {
		return
	}
	if got, err := os.ReadFile(u.file()); err != nil || !bytes.Equal(got, []byte("drover")) {
		b.t.Errorf("%s, what was written to the volume is %q, %v", when, got, err)
	}
}

func checkPublish(b *bench) {
	u := b.used()
	u.must(b, u.claim)
	u.write(b)
	u.must(b, u.claim) // each step again
	u.read(b, "after all steps were repeated")
	want := volume.Publication{ID: u.id, StagingPath: u.staging, TargetPaths: []string{u.target}}
	if got := u.listed(b); got == nil || !reflect.DeepEqual(*got, want) {
		b.t.Errorf("the plugin lists %+v, want %+v", got, want)
	}
	if u.can(volume.CanStats) {
		st, err := needs[volume.Meter](b, volume.CanStats).Stats(b.ctx, volume.StatsRequest{ID: u.id, Path: u.target, StagingPath: u.staging})
		if err != nil || st.Bytes == nil && st.Inodes == nil {
			b.t.Errorf("Stats: %+v, %v", st, err)
		}
	}
	r := u.request(b)
	r.ReadOnly = true
	if err := b.v.Publish(b.ctx, r); !errdefs.IsAlreadyExists(err) {
		b.t.Errorf("Publish at the same path in another way: %v, want AlreadyExists", err)
	}
	u.must(b, u.release)
	u.gone(b, "after all was taken back")
	u.must(b, u.release)
	u.must(b, u.claim)
	u.read(b, "after it was published again")
}

func checkReadOnly(b *bench) {
	u := b.used()
	if u.file() == "" {
		b.t.Skipf("nothing can be written to the volume anyway")
	}
	u.must(b, u.claim)
	u.write(b)
	if err := b.v.Unpublish(b.ctx, u.id, u.target); err != nil {
		b.t.Fatalf("Unpublish: %v", err)
	}
	r := u.request(b)
	r.ReadOnly = true
	switch err := b.v.Publish(b.ctx, r); {
	case errdefs.IsUnimplemented(err):
		return
	case err != nil:
		b.t.Fatalf("Publish read-only: %v", err)
	}
	u.read(b, "published read-only")
	if err := os.WriteFile(u.file(), []byte("changed"), 0o600); err == nil {
		b.t.Errorf("the volume is published read-only and was written to")
	}
	if err := os.WriteFile(u.file()+"-new", nil, 0o600); err == nil {
		b.t.Errorf("the volume is published read-only and has a new file")
	}
	u.read(b, "after writes that were refused")
}

func checkNothing(b *bench) {
	u := b.used()
	u.must(b, u.release)
	never := *u
	never.id = nobody
	if err := never.release(b.ctx, b); err != nil {
		b.t.Errorf("of an unknown volume: %v", err)
	}
}

func checkUnknown(b *bench) {
	u := b.used()
	never := *u
	never.id = nobody
	if err := never.claim(b.ctx, b); err == nil {
		b.t.Errorf("an unknown volume was published")
	}
	if err := never.release(b.ctx, b); err != nil {
		b.t.Errorf("%v", err)
	}
	never.gone(b, "after an attempt with an unknown volume")
}

func checkDeath(b *bench) {
	u := b.used()
	u.must(b, u.claim)
	u.write(b)
	before := u.listed(b)
	b.die()
	b.open()
	b.print()
	if after := u.listed(b); after == nil || !reflect.DeepEqual(before, after) {
		b.t.Errorf("the next process lists %+v, want %+v", after, before)
	}
	u.must(b, u.claim)
	u.read(b, "after a new process has published it again")
	b.die()
	b.open()
	b.print()
	u.must(b, u.release)
	u.gone(b, "after another process has taken it back")
}

func checkInterrupted(b *bench) {
	u := b.used()
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(b.ctx, after)
		_ = u.claim(ctx, b) // it may have succeeded
		cancel()
		u.must(b, u.release)
		u.gone(b, "after "+after.String())
	}
}
