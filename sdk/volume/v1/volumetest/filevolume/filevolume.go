// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package filevolume is an example of a storage plugin that mounts nothing, so that anybody
// can run it: a volume is a folder of a directory, and is published as a symbolic link to
// it. What is published is written down before, as every plugin must. Tests of hosts use it
// too.
package filevolume

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// Volume keeps volumes in a directory.
type Volume struct {
	name, dir string
	mu        sync.Mutex
}

var (
	_ volume.Volume    = (*Volume)(nil)
	_ volume.Creator   = (*Volume)(nil)
	_ volume.Validator = (*Volume)(nil)
	_ volume.Lister    = (*Volume)(nil)
	_ volume.Getter    = (*Volume)(nil)
)

// New returns a plugin with the given name, whose volumes are in dir.
func New(name, dir string) *Volume { return &Volume{name: name, dir: dir} }

// meta is what is stored about a volume, in a file beside its folder. The file is removed last.
type meta struct {
	ID       string
	Capacity int64
	Targets  []string `json:",omitempty"` // paths
}

// Info implements volume.Volume.
func (v *Volume) Info() volume.Info { return volume.Info{Name: v.name} }

// SetConfig implements volume.Volume.
func (v *Volume) SetConfig(context.Context, []byte) error { return nil }

// Fingerprint implements volume.Volume.
func (v *Volume) Fingerprint(ctx context.Context) (<-chan volume.Fingerprint, error) {
	out := make(chan volume.Fingerprint, 1)
	out <- volume.Fingerprint{Node: &volume.Node{ID: "here"}}
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

func (v *Volume) file(id string) string { return filepath.Join(v.dir, id+".json") }

// get returns a volume. NotFound: there is none.
func (v *Volume) get(id string) (*meta, error) {
	if _, err := hex.DecodeString(id); err != nil {
		return nil, errdefs.WithReason(errdefs.NotFoundf("there is no volume %q", id), volume.ReasonNoVolume)
	}
	body, err := os.ReadFile(v.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.WithReason(errdefs.NotFoundf("there is no volume %q", id), volume.ReasonNoVolume)
	}
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", id, err)
	}
	m := &meta{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, errdefs.Internalf("decode volume %q: %w", id, err)
	}
	return m, nil
}

func (v *Volume) put(m *meta) error {
	body, err := json.Marshal(m)
	if err != nil {
		return errdefs.Internalf("encode volume %q: %w", m.ID, err)
	}
	tmp := v.file(m.ID) + ".new"
	err = os.MkdirAll(filepath.Join(v.dir, m.ID), 0o700)
	if err == nil {
		err = os.WriteFile(tmp, body, 0o600)
	}
	if err == nil {
		err = os.Rename(tmp, v.file(m.ID))
	}
	if err != nil {
		return fmt.Errorf("keep volume %q: %w", m.ID, err)
	}
	return nil
}

// ids returns the ids of all volumes, in order.
func (v *Volume) ids() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(v.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the volumes: %w", err)
	}
	var out []string
	for _, path := range found {
		base := filepath.Base(path)
		out = append(out, base[:len(base)-len(".json")])
	}
	slices.Sort(out)
	return out, nil
}

// Create implements volume.Creator.
func (v *Volume) Create(ctx context.Context, r volume.CreateRequest) (*volume.Description, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := hex.EncodeToString([]byte(r.Name))
	m, err := v.get(id)
	switch {
	case r.SourceSnapshot != "" || r.SourceVolume != "":
		return nil, errdefs.InvalidArgumentf("volumes begin empty")
	case err == nil && m.Capacity < r.Capacity.RequiredBytes:
		return nil, errdefs.AlreadyExistsf("volume %q has %d bytes", r.Name, m.Capacity)
	case err == nil:
		return v.describe(m), nil
	case !errdefs.IsNotFound(err):
		return nil, err
	case ctx.Err() != nil:
		return nil, errdefs.Canceledf("make volume %q: %w", r.Name, ctx.Err())
	}
	m = &meta{ID: id, Capacity: r.Capacity.RequiredBytes}
	return v.describe(m), v.put(m)
}

func (v *Volume) describe(m *meta) *volume.Description {
	return &volume.Description{ID: m.ID, CapacityBytes: m.Capacity, Context: map[string]string{"plugin": v.name}}
}

// Delete implements volume.Creator.
func (v *Volume) Delete(_ context.Context, id string, _ volume.Secrets) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, err := v.get(id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(m.Targets) > 0 {
		return errdefs.WithReason(errdefs.FailedPreconditionf("volume %q is in use", id), volume.ReasonInUse)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(v.dir, id)), os.Remove(v.file(id))); err != nil {
		return fmt.Errorf("remove volume %q: %w", id, err)
	}
	return nil
}

// Validate implements volume.Validator.
func (v *Volume) Validate(ctx context.Context, r volume.ValidateRequest) error {
	_, err := v.Get(ctx, r.ID)
	for _, a := range r.Access {
		if a.Attachment == volume.AttachmentBlockDevice && err == nil {
			err = errdefs.InvalidArgumentf("a folder is no block device")
		}
	}
	return err
}

// Get implements volume.Getter.
func (v *Volume) Get(_ context.Context, id string) (*volume.Description, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, err := v.get(id)
	if err != nil {
		return nil, err
	}
	return v.describe(m), nil
}

// List implements volume.Lister. A page is called by the last id of the one before.
func (v *Volume) List(_ context.Context, r volume.PageRequest) (*volume.VolumePage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	at, found := slices.BinarySearch(ids, r.After)
	if found {
		at++
	}
	out := &volume.VolumePage{}
	for _, id := range ids[at:] {
		if r.Limit > 0 && len(out.Volumes) == r.Limit {
			out.Next = out.Volumes[r.Limit-1].ID
			break
		}
		m, err := v.get(id)
		if err != nil {
			return nil, err
		}
		out.Volumes = append(out.Volumes, *v.describe(m))
	}
	return out, nil
}

// Publish implements volume.Volume.
func (v *Volume) Publish(ctx context.Context, r volume.PublishRequest) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, err := v.get(r.ID)
	if err != nil {
		return err
	}
	there := slices.Contains(m.Targets, r.TargetPath)
	switch {
	case r.ReadOnly && there:
		return errdefs.AlreadyExistsf("volume %q is at %s in another way", r.ID, r.TargetPath)
	case r.ReadOnly:
		return errdefs.Unimplementedf("publish volume %q read-only: a link to a directory can be written through", r.ID)
	}
	if err := ctx.Err(); err != nil {
		return errdefs.Canceledf("publish volume %q: %w", r.ID, err)
	}
	if !there {
		m.Targets = append(m.Targets, r.TargetPath)
	}
	if err := v.put(m); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(v.dir, r.ID), r.TargetPath); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("publish volume %q: %w", r.ID, err)
	}
	return nil
}

// Unpublish implements volume.Volume.
func (v *Volume) Unpublish(_ context.Context, id, targetPath string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, err := v.get(id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.Contains(m.Targets, targetPath) {
		return nil
	}
	if err := os.Remove(targetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take volume %q back: %w", id, err)
	}
	m.Targets = slices.DeleteFunc(m.Targets, func(path string) bool { return path == targetPath })
	return v.put(m)
}

// Published implements volume.Volume.
func (v *Volume) Published(context.Context) ([]volume.Publication, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	var out []volume.Publication
	for _, id := range ids {
		m, err := v.get(id)
		if err != nil {
			return nil, err
		}
		if len(m.Targets) == 0 {
			continue
		}
		out = append(out, volume.Publication{ID: id, TargetPaths: slices.Sorted(slices.Values(m.Targets))})
	}
	return out, nil
}
